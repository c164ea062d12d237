package deployment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mintage/mintage/internal/testkit"
)

func TestReplaceFileFollowsNoLinkAndSetsTheMode(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir()
	path, target := filepath.Join(dir, "f"), filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	// A link under the temporary name may be an attack, even if its target does not exist
	// yet.
	for _, leads := range []string{target, filepath.Join(dir, "absent")} {
		if err := os.Symlink(leads, path+".new"); err != nil {
			t.Fatal(err)
		}
		if err := ReplaceFile(path, []byte("secret"), 0o600); err == nil {
			t.Errorf("a link to %s was accepted", leads)
		}
		if err := os.Remove(path + ".new"); err != nil {
			t.Error(err)
		}
	}
	if read(target) != "kept" {
		t.Error("the link was followed")
	}

	// A file that a crash has left is replaced, together with its mode.
	if err := os.WriteFile(path+".new", []byte("half of an earlier and longer one"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o600, 0o644} {
		if err := ReplaceFile(path, []byte("new"), mode); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != mode || read(path) != "new" {
			t.Errorf("mode %v, %v, text %q", info.Mode(), err, read(path))
		}
	}
	// A link in place of the file itself is replaced, not followed.
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceFile(link, []byte("new"), 0o600); err != nil || read(target) != "kept" || read(link) != "new" {
		t.Errorf("a link as the file: %v", err)
	}
}

func TestSecretFilesMustNotBeOpenToEverybody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, good := range map[fs.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o640: true, 0o660: true, 0o604: false, 0o644: false, 0o602: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		text, err := ReadSecretFile(path)
		if good && (err != nil || text != "text") {
			t.Errorf("mode %04o: %q, %v", mode, text, err)
		}
		if !good && (err == nil || text != "" || !strings.Contains(err.Error(), "everybody on this machine")) {
			t.Errorf("mode %04o: %q, %v", mode, text, err)
		}
	}
}

func TestASecretThatTheUserMayNotReadComesWithAdvice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("text"), 0); err != nil {
		t.Fatal(err)
	}
	err := testkit.AsNobody(func() error {
		_, err := ReadSecretFile(path)
		return err
	})
	if h, ok := errors.AsType[*Hinted](err); !ok || !strings.HasPrefix(h.Hint, "let the server's user or its group read it") {
		t.Errorf("%v", err)
	}
}

// A file that root writes beside a file of the server's user, such as a previous
// key-encryption key, belongs to that user.
func TestReplaceFileGivesWhatRootWritesToTheServersUser(t *testing.T) {
	owner := [2]int{os.Getuid(), os.Getgid()} // any other user owns the files anyway
	if owner[0] == 0 {
		owner = [2]int{12345, 23456}
	}
	dir := t.TempDir()
	kek, old := filepath.Join(dir, "kek"), filepath.Join(dir, "kek.01234567")
	if err := os.WriteFile(kek, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(kek, owner[0], owner[1]); err != nil {
		t.Fatal(err)
	}
	for _, like := range []string{kek, dir} { // the second time, the owner is already set
		if err := ReplaceFile(old, []byte("old"), 0o600, like); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(old)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); [2]int{int(s.Uid), int(s.Gid)} != owner || info.Mode() != 0o600 {
			t.Errorf("it belongs to %d:%d, mode %v", s.Uid, s.Gid, info.Mode())
		}
	}
}
