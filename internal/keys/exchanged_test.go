package keys_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// The contents of an exchanged token are read as they were sealed, bound or not, and no
// altered text is accepted.
func TestExchangedTokens(t *testing.T) {
	r := newRing(t)
	id := r.Current(keys.MAC, frozenAt)
	token := keys.ServiceToken{
		ID: grant.ID{1}, ClientID: "gateway", APIs: []uint16{3}, Scope: "read write", IssuedAt: frozenAt, AuthorizedAt: frozenAt + 1, ExpiresAt: frozenAt + 2, Key: id,
		GrantID: grant.ID{2}, Generation: 7, Actors: []grant.Actor{{Subject: "gateway"}, {Issuer: "https://idp.example", Subject: "agent"}},
	}
	bound, impersonates := token, token
	bound.JKT, impersonates.Actors = oauth.JKT{0: 1}, nil
	for _, want := range []keys.ServiceToken{token, bound, impersonates} {
		text, err := r.SealService(id, "/api", want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.OpenService("/api", text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read as %+v, %v", got, err)
		}
		if d := r.Diagnose("/api", text); d.Fault != keys.NoFault || d.KeyID != id {
			t.Errorf("diagnosis %+v", d)
		}
		if _, err := r.OpenService("/other", text); err == nil {
			t.Error("it is valid in another realm")
		}
		for i := len(keys.ServicePrefix); i < len(text); i++ {
			altered := []byte(text)
			if altered[i] = alphabet[(int(text[i])+1)%60]; altered[i] == text[i] {
				continue
			}
			if _, err := r.OpenService("/api", string(altered)); err == nil {
				t.Fatalf("altered at %d and accepted", i)
			}
		}
	}
	token.Scope = oauth.Scope(strings.Repeat("s", 2048))
	if _, err := r.SealService(id, "/api", token); err == nil {
		t.Error("a token was sealed that cannot be opened")
	}
}
