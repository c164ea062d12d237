package directory_test

import (
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/directory"
)

func TestTheFirstIssuerIsRememberedUntilAnotherIsAdopted(t *testing.T) {
	t.Parallel()
	s := newService(t)
	remembered := func(want string) {
		t.Helper()
		if got, err := directory.RememberedIssuer(t.Context(), s.Engine, realm); err != nil || got != want {
			t.Errorf("remembered: %q, %v, want %q", got, err, want)
		}
	}
	remembered("")
	// Several nodes start simultaneously: one wins, and all use the same issuer.
	got := make([]string, 4)
	var nodes sync.WaitGroup
	for i := range got {
		nodes.Go(func() {
			var err error
			if got[i], err = directory.RememberIssuer(t.Context(), s.Engine, realm, []string{"https://a", "https://b"}[i%2]); err != nil {
				t.Error(err)
			}
		})
	}
	nodes.Wait()
	for _, id := range got {
		if id != got[0] || id == "" {
			t.Errorf("nodes do not agree: %q", got)
		}
	}
	remembered(got[0])
	if id, err := directory.RememberIssuer(t.Context(), s.Engine, realm, "https://c"); err != nil || id != got[0] {
		t.Errorf("a later start: %q, %v", id, err)
	}
	if err := directory.AdoptIssuer(t.Context(), s.Engine, realm, "https://c"); err != nil {
		t.Fatal(err)
	}
	remembered("https://c")
}
