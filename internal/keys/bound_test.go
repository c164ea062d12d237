package keys_test

import (
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// A bound token contains the key's thumbprint under its MAC.
func TestBoundTokens(t *testing.T) {
	r := newRing(t)
	id := r.Current(keys.MAC, frozenAt)
	want := forAPIs()
	want.JKT, want.Key = oauth.JKT{0: 1, 31: 0xff}, id
	text, err := r.SealAccess(id, "/api", want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.OpenAccess("/api", text); err != nil || got != want {
		t.Errorf("read as %+v, %v", got, err)
	}
	service := keys.ServiceToken{ID: grant.ID{1}, ClientID: "batch", APIs: []uint16{1, 2}, Scope: "read", IssuedAt: frozenAt, AuthorizedAt: frozenAt, ExpiresAt: frozenAt + 1, JKT: want.JKT}
	own, err := r.SealService(id, "/api", service)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.OpenService("/api", own)
	if err != nil || got.JKT != service.JKT || got.ClientID != "batch" || got.Scope != "read" || len(got.APIs) != 2 {
		t.Errorf("read as %+v, %v", got, err)
	}
	for _, sealed := range []string{text, own} {
		if d := r.Diagnose("/api", sealed); d.Fault != keys.NoFault || d.KeyID != id {
			t.Errorf("diagnosis %+v", d)
		}
		for i := len(keys.AccessPrefix); i < len(sealed); i++ {
			altered := []byte(sealed)
			altered[i] = alphabet[(int(sealed[i])+1)%60]
			if altered[i] == sealed[i] {
				continue
			}
			_, accessErr := r.OpenAccess("/api", string(altered))
			_, serviceErr := r.OpenService("/api", string(altered))
			if accessErr == nil || serviceErr == nil {
				t.Fatalf("altered at %d and accepted", i)
			}
		}
	}
}
