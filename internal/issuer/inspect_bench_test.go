package issuer_test

import (
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// BenchmarkInspect verifies an active access token of each form, of a grant and of the
// client itself, like introspection and verification.
func BenchmarkInspect(b *testing.B) {
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		k := testkit.New(b, func(s *testkit.Setup) {
			s.ID, s.Schedule.Algorithms = issuerID, []keys.Purpose{keys.ES256}
		})
		c, _ := k.Register(client.Registration{ID: machineID, Settings: store.Settings{
			Name: "Orders", Scope: "orders.read orders.write", RedirectURIs: []string{redirectURI}, Auth: store.AuthEither, NoPKCE: true,
			GrantTypes: []string{store.GrantAuthorizationCode, store.GrantClientCredentials}, TokenFormat: format,
		}})
		code, err := k.Codes().Issue(b.Context(), issuer.Authorization{ClientID: machineID, RedirectURI: redirectURI, Subject: subject})
		if err != nil {
			b.Fatal(err)
		}
		ofGrant, err := k.Exchange(b.Context(), &c, issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI})
		if err != nil {
			b.Fatal(err)
		}
		own, err := k.ServiceToken(b.Context(), &c, issuer.ServiceRequest{})
		if err != nil {
			b.Fatal(err)
		}
		for of, text := range map[string]string{"grant": ofGrant.AccessToken, "client": own.AccessToken} {
			b.Run(string(format)+" of a "+of, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := k.Introspect(b.Context(), &c, text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
