package issuer_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

var aKey, otherKey = oauth.JKT{0: 1, 31: 1}, oauth.JKT{0: 2, 31: 2}

// boundClients registers a client of each kind whose tokens can be bound.
func boundClients(s *service) map[string]*store.Client {
	settings := store.Settings{Name: "x", RedirectURIs: []string{redirectURI}, Scope: allScopes, GrantTypes: store.GrantTypes}
	for id, edit := range map[string]func(*store.Settings){
		"public":       func(s *store.Settings) { s.Auth, s.GrantTypes = store.AuthNone, store.DefaultGrantTypes },
		"confidential": func(s *store.Settings) { s.Auth = store.AuthPost },
		"jwt":          func(s *store.Settings) { s.Auth, s.TokenFormat = store.AuthPost, store.TokenJWT },
	} {
		of := settings
		edit(&of)
		s.Register(client.Registration{ID: id, Settings: of})
	}
	return map[string]*store.Client{"public": s.Listed("public"), "confidential": s.Listed("confidential"), "jwt": s.Listed("jwt")}
}

const boundVerifier, boundChallenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

func boundCode(t *testing.T, s *service, c *store.Client, jkt oauth.JKT) issuer.CodeRequest {
	t.Helper()
	code, err := s.Codes().IssueTo(c, issuer.Authorization{ClientID: c.ID, RedirectURI: redirectURI, Subject: "alice", Challenge: boundChallenge, JKT: jkt})
	if err != nil {
		t.Fatal(err)
	}
	return issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, Verifier: boundVerifier, From: testkit.Origin}
}

func TestBoundTokensOfEveryForm(t *testing.T) {
	s := newService(t, testkit.Named)
	for name, c := range boundClients(s) {
		r := boundCode(t, s, c, aKey)
		s.Refused(grant.KeyMismatch)(s.Exchange(t.Context(), c, r))
		r.JKT = otherKey
		s.Refused(grant.KeyMismatch)(s.Exchange(t.Context(), c, r))
		r.JKT = aKey // the code was not spent, and its grant not ended
		tokens := s.Must(s.Exchange(t.Context(), c, r))
		texts := []issuer.Tokens{tokens, s.Must(s.Refresh(t.Context(), c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, JKT: aKey, From: testkit.Origin}))}
		if c.MayUse(store.GrantClientCredentials) {
			own, err := s.ServiceToken(t.Context(), c, issuer.ServiceRequest{JKT: aKey})
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, own)
		}
		for i, of := range texts {
			got, err := s.Inspect(t.Context(), of.AccessToken)
			if err != nil || got.JKT != aKey || !of.Bound {
				t.Errorf("%s %d: bound to %q (%t), %v", name, i, got.JKT, of.Bound, err)
			}
			if c.TokenFormat == store.TokenJWT {
				payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(of.AccessToken, ".")[1])
				var claims struct {
					CNF struct{ JKT string }
				}
				if json.Unmarshal(payload, &claims) != nil || claims.CNF.JKT != aKey.String() {
					t.Errorf("%s: %s", name, payload)
				}
			}
		}
		refresh, err := s.Introspect(t.Context(), c, texts[1].RefreshToken)
		if err != nil || refresh.JKT.Bound() != c.Public() {
			t.Errorf("%s: its refresh token is bound to %q, %v", name, refresh.JKT, err)
		}
	}
}

// The refresh token of a public client is bound to its key. That of a confidential client
// is bound to the client, whose key may change (RFC 9449 section 5).
func TestRefreshTokensAndKeys(t *testing.T) {
	s := newService(t)
	for name, c := range boundClients(s) {
		r := boundCode(t, s, c, oauth.JKT{})
		r.JKT = aKey
		tokens := s.Must(s.Exchange(t.Context(), c, r))
		with := func(key oauth.JKT) (issuer.Tokens, error) {
			return s.Refresh(t.Context(), c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, JKT: key, From: testkit.Origin})
		}
		if c.Public() {
			s.Refused(grant.KeyMismatch)(with(otherKey))
			s.Refused(grant.KeyMismatch)(with(oauth.JKT{}))
			s.SamePair(s.Must(with(aKey)), s.Must(with(aKey)))
			continue
		}
		first := s.Must(with(otherKey))
		if got, err := s.Inspect(t.Context(), first.AccessToken); err != nil || got.JKT != otherKey {
			t.Errorf("%s: bound to %q, %v", name, got.JKT, err)
		}
		s.Refused(grant.KeyMismatch)(with(aKey)) // a repetition with another key
		if again := s.Must(with(otherKey)); again.RefreshToken != first.RefreshToken || !again.Repeated {
			t.Errorf("%s: the same request again gets another pair", name)
		}
		tokens = first
		if plain := s.Must(with(oauth.JKT{})); plain.Bound {
			t.Errorf("%s: bound without a proof", name)
		}
	}
}

// The grant of a public client that began without a key stays unbound.
func TestAnUnboundGrantOfAPublicClientStaysUnbound(t *testing.T) {
	s := newService(t)
	c := boundClients(s)["public"]
	tokens := s.Must(s.Exchange(t.Context(), c, boundCode(t, s, c, oauth.JKT{})))
	next := s.Must(s.Refresh(t.Context(), c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, JKT: aKey, From: testkit.Origin}))
	if got, err := s.Inspect(t.Context(), next.AccessToken); err != nil || got.JKT.Bound() || next.Bound {
		t.Errorf("bound to %q (%t), %v", got.JKT, next.Bound, err)
	}
}

// No token is bound as long as a node of an earlier version would accept it as an unbound
// one.
func TestNothingIsBoundBesideAnEarlierVersion(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		m := h.Join(t, s, "new", 0)
		s.Use(m.Directory)
		tokens := s.Login()
		h.Mu.Lock()
		h.Nodes[store.NodeID{9}] = store.Node{ID: store.NodeID{9}, Name: "old", Since: 1, Clock: grant.At(time.Now()), Forms: store.FormsBound - 1}
		h.Mu.Unlock()
		time.Sleep(2 * directory.PollInterval)
		synctest.Wait()
		bound := issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, JKT: aKey, From: testkit.Origin}
		s.Unavailable(s.Refresh(t.Context(), s.Listed(testkit.ClientID), bound))
		s.Unavailable(s.ServiceToken(t.Context(), s.Listed(testkit.ClientID), issuer.ServiceRequest{JKT: aKey}))
		if _, err := s.Codes().IssueTo(s.Listed(testkit.ClientID), issuer.Authorization{ClientID: testkit.ClientID, RedirectURI: testkit.RedirectURI, Subject: "a", JKT: aKey}); err == nil {
			t.Error("a code is bound")
		}
		s.Must(s.Renew(tokens.RefreshToken)) // requests without a key still succeed
	})
}
