package cli

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// The server's user may read /etc/mintage/kek, but not write beside it; root may.
func TestAKekFileThatTheServersUserCannotReplaceIsForRoot(t *testing.T) {
	denied := fmt.Errorf("write: %w", &os.PathError{Op: "open", Path: "/etc/mintage/kek.new", Err: fs.ErrPermission})
	for _, c := range []struct {
		err  error
		user int
		root bool
	}{{denied, 998, true}, {denied, 0, false}, {fs.ErrExist, 998, false}} {
		if got := kekAdvice(c.err, c.user, "write it yourself"); strings.Contains(got, "sudo mintage kek rotate") != c.root {
			t.Errorf("%v as user %d: %q", c.err, c.user, got)
		}
	}
	// On a full disk, an editor would replace the key by an empty file.
	full := fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "/etc/mintage/kek.new", Err: syscall.ENOSPC})
	if got := kekAdvice(full, 998, "write it yourself"); strings.Contains(got, "write it yourself") || !strings.Contains(got, "make room") {
		t.Errorf("on a full disk: %q", got)
	}
}
