package login

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// BenchmarkAuthorize answers authorization requests of a signed-in user: with a code if
// consent is remembered, otherwise with an interaction. Then it redeems the codes.
func BenchmarkAuthorize(b *testing.B) {
	const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" // of RFC 7636 appendix B
	k := testkit.New(b, func(s *testkit.Setup) { s.ID = "https://auth.example/oauth2/api" })
	a := New(k.Issuer, Documents{realm, k.Issuer.Store, k.Issuer.Directory, k.Issuer.Now})
	a.Interactions.Lifetime, a.Sessions.Lifetime, a.Idle = 10*time.Minute, 12*time.Hour, time.Hour
	who := Identity{Subject: "alice", AuthTime: a.now(), Claims: `{"tenant":"t1"}`}
	cookie, d, err := a.newSession(who)
	if err == nil {
		err = k.Engine.Commit(b.Context(), store.Change{Documents: []store.Document{d}})
	}
	if err != nil {
		b.Fatal(err)
	}
	register := func(id string, firstParty bool) oauth.AuthorizationRequest {
		k.Register(client.Registration{ID: id, Settings: store.Settings{
			Name: "Shop", Scope: "openid profile orders.read", RedirectURIs: []string{redirectURI}, Auth: store.AuthEither, FirstParty: firstParty,
		}})
		return oauth.AuthorizationRequest{ClientID: id, RedirectURI: redirectURI, State: []byte("st"), Scope: "openid profile orders.read", Nonce: "n", Challenge: challenge}
	}
	own, other := register("own", true), register("other", false)
	v := Visitor{Browser: "b", Session: cookie}
	b.Run("code", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if st, err := a.Authorize(b.Context(), own, v); err != nil || st.URL == "" {
				b.Fatal("no code", err)
			}
		}
	})
	b.Run("consent", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if st, err := a.Authorize(b.Context(), other, v); err == nil && st.Interaction == nil {
				b.Fatal("nothing is asked")
			} // keeps the number of pending interactions below its limit
		}
	})
	view, _ := k.Directory.View()
	c, _ := view.Client(realm, own.ClientID)
	b.Run("exchange", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			code, err := k.Codes().IssueTo(c, issuer.Authorization{ClientID: c.ID, RedirectURI: redirectURI, Subject: "alice", Challenge: challenge})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := k.Exchange(b.Context(), c, issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, Verifier: verifier}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
