package cli

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// The server's user may read /etc/mintage/kek, and write nothing beside it; root may.
func TestAKekFileThatTheServersUserCannotReplaceIsForRoot(t *testing.T) {
	denied := fmt.Errorf("write: %w", &os.PathError{Op: "open", Path: "/etc/mintage/kek.new", Err: fs.ErrPermission})
	for _, c := range []struct {
		err  error
		user int
		root bool
	}{{denied, 998, true}, {denied, 0, false}, {fs.ErrExist, 998, false}} {
		if got := asRoot(c.err, c.user); strings.Contains(got, "sudo mintage kek rotate") != c.root {
			t.Errorf("%v as user %d: %q", c.err, c.user, got)
		}
	}
}
