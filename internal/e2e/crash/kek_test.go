//go:build e2e

package crash

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// TestKilledKEKRotationLosesNoKey kills mintage kek rotate at random moments, and then
// the server too. One of the remaining key-encryption keys always opens all keys of the
// store; the server starts with the file as it is; client, secret and refresh token stay
// valid. At the end the command completes the interrupted rotations.
func TestKilledKEKRotationLosesNoKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kek")
	s := binary.Start(t, dir)
	client := &http.Client{Transport: s.Transport(t, "")}
	code, err := s.FastCode(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	form := s.ExchangeForm(code)
	refresh := func() {
		t.Helper()
		a, err := s.Post(t.Context(), client, form)
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("%s: %d %s %q, %v", form.Get("grant_type"), a.Status, a.Error, a.Description, err)
		}
		form = s.RefreshForm(a.RefreshToken)
	}
	refresh()
	rotate := func(kill time.Duration) (took time.Duration, killed bool) {
		t.Helper()
		cmd := binary.Command(t, "kek", "rotate", "--data", dir)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if kill > 0 {
			time.AfterFunc(kill, func() { cmd.Process.Kill() })
		}
		if err := cmd.Wait(); err != nil && kill == 0 {
			t.Fatalf("kek rotate: %v", err)
		}
		return time.Since(began), !cmd.ProcessState.Exited()
	}
	whole, _ := rotate(0)
	refresh()
	kills := 0
	for round := 0; round < binary.Scaled(4, 60) || kills == 0 && round < 100; round++ {
		took, killed := rotate(1 + rand.N(whole))
		if killed {
			kills++
		} else {
			whole = took // the first rotation may have been unusually slow
		}
		s.Kill()
		oneKEK(t, s, file)
		restart(t, s)
		refresh()
	}
	if kills == 0 {
		t.Error("no command was killed before its end: nothing was tested")
	}
	rotate(0)
	refresh()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	oneKEK(t, s, file)
	if text, err := os.ReadFile(file); err != nil || len(strings.Fields(string(text))) != 1 {
		t.Errorf("the kek file has %d keys, %v", len(strings.Fields(string(text))), err)
	}
}

// TestAServerWithACopyOfTheKEKGetsTheNewOneFirst rotates a key-encryption key of which
// the server reads a copy, such as a systemd credential. The store's keys are wrapped by
// the new key only when the server has it.
func TestAServerWithACopyOfTheKEKGetsTheNewOneFirst(t *testing.T) {
	dir, original := t.TempDir(), filepath.Join(t.TempDir(), "kek")
	s := binary.Start(t, dir)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	credential := filepath.Join(t.TempDir(), "kek")
	deliver := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	deliver(filepath.Join(dir, "kek"), original)
	deliver(original, credential)
	if err := os.Remove(filepath.Join(dir, "kek")); err != nil {
		t.Fatal(err)
	}
	if out, err := binary.Command(t, "kek", "rotate", "--data", dir).CombinedOutput(); err == nil || !strings.Contains(string(out), "name it with --kek-file") {
		t.Errorf("kek rotate without the key's file: %v\n%s", err, out)
	}
	s = binary.Start(t, dir, "--kek-file", credential)
	rotate := func() string {
		t.Helper()
		out, err := binary.Command(t, "kek", "rotate", "--data", dir, "--kek-file", original).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := rotate(); strings.Contains(out, "were wrapped") || !strings.Contains(out, "give the same command again") {
		t.Fatalf("before the server has the new key:\n%s", out)
	}
	deliver(original, credential)
	if out := rotate(); !strings.Contains(out, "were wrapped") {
		t.Fatalf("after the server has the new key:\n%s", out)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	restart(t, s)
}

// oneKEK requires that at least one of the key-encryption keys in a file, and in the
// files beside it, opens all keys of the store.
func oneKEK(t *testing.T, s *binary.Server, file string) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ch, err := st.Changes(t.Context(), 0)
	if err != nil || len(ch.Keys) == 0 {
		t.Fatalf("%d keys, %v", len(ch.Keys), err)
	}
	paths, err := filepath.Glob(file + "*")
	if err != nil {
		t.Fatal(err)
	}
	opens := map[string]bool{}
	for _, path := range paths {
		s.Exempt(filepath.Base(path))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Fields(string(text)) {
			if kek, err := keys.ParseKEK(line + "\n"); err == nil {
				_, err = keys.Open(kek, ch.Keys)
				opens[line] = err == nil
			}
		}
	}
	n := 0
	for _, all := range opens {
		if all {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of %d key-encryption keys open the store's %d keys", n, len(opens), len(ch.Keys))
	}
}
