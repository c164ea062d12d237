package node

import (
	"slices"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// The commit that ends a session stores a document for the outbox if a client receives
// logouts, and one for the issuer's worker if grants of a client end with the session.
func TestTheEndOfASessionIsStored(t *testing.T) {
	for _, c := range []struct {
		name        string
		told, ended bool
		want        []store.DocumentKind
	}{
		{"neither", false, false, nil},
		{"told", true, false, []store.DocumentKind{store.DocumentLogout}},
		{"ended", false, true, []store.DocumentKind{store.DocumentSessionEnd}},
		{"both", true, true, []store.DocumentKind{store.DocumentLogout, store.DocumentSessionEnd}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := testkit.New(t)
			r := client.Registration{ID: "shop", Settings: store.Settings{
				Name: "Shop", RedirectURIs: []string{"https://client.example/cb"}, Scope: "openid", Auth: store.AuthEither, LogoutEndsGrants: c.ended,
			}}
			if c.told {
				r.LogoutURI = "https://client.example/logout"
			}
			k.Register(r)
			end := login.End{SessionEnd: issuer.SessionEnd{Subject: "alice", Reference: [16]byte{1}}, At: k.At()}
			var change store.Change
			if err := endLogouts(testkit.Realm, k.Directory)(t.Context(), end, &change); err != nil {
				t.Fatal(err)
			}
			var got []store.DocumentKind
			for _, d := range change.Documents {
				got = append(got, d.Kind)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("stored: %v, not %v", got, c.want)
			}
		})
	}
}
