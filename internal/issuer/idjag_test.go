package issuer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	chat   = "https://chat.example/"
	policy = chat + " client=there resource=https://api.chat.example/ resource=https://files.chat.example scope=chat.read scope=chat.write alg=ES256"
)

// asserting returns a service whose client may get identity assertions for the chat
// application, and the tokens of a login. The session lives until *ended is set.
func asserting(t *testing.T) (s *service, tokens issuer.Tokens, ended *bool) {
	t.Helper()
	ended = new(bool)
	s = newProvider(t, func(iss *issuer.Issuer) {
		iss.SessionLives = func(_ context.Context, of string, is func([16]byte) bool) (bool, error) {
			return of == subject && is(session) && !*ended, nil
		}
	})
	s.Administer(clientID, func(c *store.Client) { c.IDJAGs = []string{policy} })
	return s, s.authenticates(authentication("openid read")), ended
}

func (s *service) asserts(r issuer.IDJAGRequest) (issuer.Tokens, error) {
	s.T.Helper()
	if r.Audience == "" {
		r.Audience = chat
	}
	return issuer.Exchanges{Issuer: s.Issuer}.IDJAG(s.T.Context(), s.Listed(clientID), r)
}

// whyNot requests an assertion and returns the reason of the refusal.
func (s *service) whyNot(r issuer.IDJAGRequest) grant.Refusal {
	s.T.Helper()
	_, err := s.asserts(r)
	var refused *grant.Refused
	if err != nil && !errors.As(err, &refused) {
		s.T.Fatal(err)
	}
	if refused == nil {
		return grant.Allowed
	}
	return refused.Why
}

func TestClaimsOfAnIdentityAssertion(t *testing.T) {
	s, tokens, _ := asserting(t)
	at := float64(testkit.Started / 1000)
	s.Clock.Advance(time.Minute)
	ids := map[grant.ID]bool{}
	for name, row := range map[string]struct {
		request  issuer.IDJAGRequest
		resource any
		scope    string
	}{
		"all":                    {issuer.IDJAGRequest{}, []any{"https://api.chat.example/", "https://files.chat.example"}, "chat.read chat.write"},
		"one resource":           {issuer.IDJAGRequest{Resource: "https://API.chat.example"}, "https://api.chat.example/", "chat.read chat.write"},
		"one scope":              {issuer.IDJAGRequest{Scope: "chat.write offline_access"}, []any{"https://api.chat.example/", "https://files.chat.example"}, "chat.write"},
		"audience without slash": {issuer.IDJAGRequest{Audience: "https://chat.example"}, []any{"https://api.chat.example/", "https://files.chat.example"}, "chat.read chat.write"},
	} {
		for subjectToken, refresh := range map[string]bool{tokens.IDToken: false, tokens.RefreshToken: true} {
			row.request.SubjectToken, row.request.Refresh = subjectToken, refresh
			got, err := s.asserts(row.request)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if ids[got.GrantID] {
				t.Errorf("%s: the jti of another one", name)
			}
			ids[got.GrantID] = true
			typ, c := s.claims(got.AccessToken)
			want := map[string]any{
				"iss": issuerID, "sub": subject, "aud": chat, "client_id": "there", "iat": at + 60, "exp": at + 360, "jti": got.GrantID.String(),
				"resource": row.resource, "scope": row.scope, "auth_time": at - 3600, "acr": "urn:mintage:1", "amr": []any{"pwd"},
			}
			if got, wanted := text(t, c), text(t, want); typ != oauth.JWTIDJAG || got != wanted {
				t.Errorf("%s: typ %s, %s\nwant %s", name, typ, got, wanted)
			}
			if got.Scope != oauth.Scope(row.scope) || got.ExpiresIn != 300 || got.RefreshToken != "" || got.IDToken != "" || got.Exchanged.For != chat {
				t.Errorf("%s: answered %+v", name, got.Exchanged)
			}
		}
	}
	bound, err := s.asserts(issuer.IDJAGRequest{SubjectToken: tokens.IDToken, JKT: oauth.JKT{1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, c := s.claims(bound.AccessToken); text(t, c["cnf"]) != text(t, issuer.ConfirmationOf(oauth.JKT{1})) {
		t.Errorf("cnf %v", c["cnf"])
	}
	// The server accepts an identity assertion neither as a hint, nor as a token, nor as a
	// subject token.
	if _, err := s.Hint(bound.AccessToken); !errors.Is(err, openid.ErrHint) {
		t.Errorf("accepted as a hint: %v", err)
	}
	if _, err := s.Read(s.View(), bound.AccessToken); !errors.Is(err, keys.ErrNotAuthentic) {
		t.Errorf("accepted as a token: %v", err)
	}
	if _, err := s.asserts(issuer.IDJAGRequest{SubjectToken: bound.AccessToken}); !errors.Is(err, oauth.ErrSubjectToken) {
		t.Errorf("accepted as a subject token: %v", err)
	}
}

func TestWhoGetsIdentityAssertions(t *testing.T) {
	s, tokens, ended := asserting(t)
	check := func(name string, r issuer.IDJAGRequest, want error, why grant.Refusal) {
		t.Helper()
		if r.SubjectToken == "" {
			r.SubjectToken = tokens.IDToken
		}
		_, err := s.asserts(r)
		var refused *grant.Refused
		if !errors.Is(err, want) || want == nil && err != nil || why != grant.Allowed && (!errors.As(err, &refused) || refused.Why != why) {
			t.Errorf("%s: %v, want %v, %v", name, err, want, why)
		}
	}
	check("registered", issuer.IDJAGRequest{}, nil, grant.Allowed)
	check("another audience", issuer.IDJAGRequest{Audience: "https://other.example"}, oauth.ErrTarget, grant.Allowed)
	check("another resource", issuer.IDJAGRequest{Resource: "https://api.other.example"}, oauth.ErrTarget, grant.Allowed)
	check("two resources", issuer.IDJAGRequest{Resource: oauth.SeveralResources + "https://api.chat.example/"}, oauth.ErrTarget, grant.Allowed)
	check("another scope", issuer.IDJAGRequest{Scope: "chat.read chat.admin"}, oauth.ErrScope, grant.Allowed)
	check("a scope of OpenID Connect", issuer.IDJAGRequest{Scope: "openid"}, oauth.ErrScope, grant.Allowed)
	check("no scope", issuer.IDJAGRequest{Scope: `"`}, oauth.ErrScope, grant.Allowed)
	check("access token", issuer.IDJAGRequest{SubjectToken: tokens.AccessToken}, oauth.ErrSubjectToken, grant.TokenUnknown)
	check("refresh token as id_token", issuer.IDJAGRequest{SubjectToken: tokens.RefreshToken}, oauth.ErrSubjectToken, grant.TokenUnknown)
	check("id_token as refresh token", issuer.IDJAGRequest{Refresh: true}, oauth.ErrSubjectToken, grant.TokenUnknown)

	s.Register(client.Registration{ID: "other", Settings: store.Settings{Name: "Other", Auth: store.AuthEither, RedirectURIs: []string{redirectURI}, Scope: "openid", IDJAGs: []string{policy}}})
	_, err := issuer.Exchanges{Issuer: s.Issuer}.IDJAG(t.Context(), s.Listed("other"), issuer.IDJAGRequest{SubjectToken: tokens.IDToken, Audience: chat})
	var refused *grant.Refused
	if !errors.Is(err, oauth.ErrSubjectToken) || !errors.As(err, &refused) || refused.Why != grant.OtherClient {
		t.Errorf("another client: %v", err)
	}

	s.Administer(clientID, func(c *store.Client) { c.IDJAGs = []string{issuerID + " client=itself"} })
	check("this server", issuer.IDJAGRequest{Audience: issuerID}, oauth.ErrTarget, grant.Allowed)
	s.Administer(clientID, func(c *store.Client) { c.IDJAGs, c.Auth = []string{policy}, store.AuthNone })
	check("public", issuer.IDJAGRequest{}, oauth.ErrClientGrantType, grant.Allowed)
	s.Administer(clientID, func(c *store.Client) { c.IDJAGs = []string{policy + " public"} })
	check("public by policy", issuer.IDJAGRequest{}, nil, grant.Allowed)
	s.Administer(clientID, func(c *store.Client) { c.IDJAGs, c.Auth = nil, store.AuthEither })
	check("not registered", issuer.IDJAGRequest{}, oauth.ErrTarget, grant.Allowed)
	s.Administer(clientID, func(c *store.Client) { c.IDJAGs = []string{policy} })

	*ended = true
	check("session ended", issuer.IDJAGRequest{}, oauth.ErrSubjectToken, grant.GrantRevoked)
	*ended = false
	anonymous := authentication("openid read")
	anonymous.Session = [16]byte{}
	check("no session", issuer.IDJAGRequest{SubjectToken: s.authenticates(anonymous).IDToken}, oauth.ErrSubjectToken, grant.GrantRevoked)
	lives := s.SessionLives
	s.SessionLives = nil
	check("nobody logs in here", issuer.IDJAGRequest{}, oauth.ErrSubjectToken, grant.GrantRevoked)
	s.SessionLives = lives
	s.Clock.Advance(5*time.Minute - time.Second)
	check("at its end", issuer.IDJAGRequest{}, nil, grant.Allowed)
	s.Clock.Advance(time.Second)
	check("expired", issuer.IDJAGRequest{}, oauth.ErrSubjectToken, grant.GrantExpired)
	check("its refresh token", issuer.IDJAGRequest{SubjectToken: tokens.RefreshToken, Refresh: true}, nil, grant.Allowed)

	tokens = s.authenticates(authentication("openid read"))
	s.Administer(clientID, func(*store.Client) {}, store.Cutoff{Realm: s.Realm, Subject: subject, ClientID: clientID, At: s.At()})
	check("cut off", issuer.IDJAGRequest{}, oauth.ErrSubjectToken, grant.CutOff)
	check("cut off, refresh token", issuer.IDJAGRequest{SubjectToken: tokens.RefreshToken, Refresh: true}, oauth.ErrSubjectToken, grant.CutOff)
}

// A request for an assertion reads the refresh token without spending it, but a replay
// ends the grant.
func TestIdentityAssertionsOfRefreshTokens(t *testing.T) {
	s, tokens, _ := asserting(t)
	ask := func(token string, key oauth.JKT) grant.Refusal {
		t.Helper()
		return s.whyNot(issuer.IDJAGRequest{SubjectToken: token, Refresh: true, JKT: key, From: testkit.Origin})
	}
	before := s.Row(tokens.GrantID)
	for range 3 {
		if why := ask(tokens.RefreshToken, oauth.JKT{}); why != grant.Allowed {
			t.Fatalf("refused: %v", why)
		}
	}
	if s.Row(tokens.GrantID) != before {
		t.Error("the row has changed")
	}
	s.Administer(clientID, func(c *store.Client) { c.GrantTypes = []string{store.GrantAuthorizationCode} })
	if why := ask(tokens.RefreshToken, oauth.JKT{}); why != grant.ClientDisabled {
		t.Errorf("of a client that may not refresh: %v", why)
	}
	s.Administer(clientID, func(c *store.Client) { c.GrantTypes = store.DefaultGrantTypes })
	second := s.Must(s.Refresh(t.Context(), s.Listed(clientID), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, From: testkit.Origin}))
	third := s.Must(s.Refresh(t.Context(), s.Listed(clientID), issuer.RefreshRequest{RefreshToken: second.RefreshToken, From: testkit.Origin}))
	if why := ask(tokens.RefreshToken, oauth.JKT{}); why != grant.RefreshReplayed {
		t.Errorf("an old generation: %v", why)
	}
	if why := ask(third.RefreshToken, oauth.JKT{}); why != grant.GrantRevoked {
		t.Errorf("the present one after a replay: %v", why)
	}
	if g := s.Row(tokens.GrantID); g.State != grant.Revoked || g.Reason != grant.ReasonRefreshReplayed {
		t.Errorf("the row after a replay: %v %v", g.State, g.Reason)
	}

	// A bound grant requires proof of its key.
	s.Administer(clientID, func(c *store.Client) { c.Auth, c.IDJAGs = store.AuthNone, []string{policy + " public"} })
	bound := s.authenticatesWith(oauth.JKT{7})
	if why := ask(bound.RefreshToken, oauth.JKT{}); why != grant.KeyMismatch {
		t.Errorf("without its key: %v", why)
	}
	if why := ask(bound.RefreshToken, oauth.JKT{7}); why != grant.Allowed {
		t.Errorf("with its key: %v", why)
	}
}

// authenticatesWith logs a public client in with proof of a key.
func (s *service) authenticatesWith(key oauth.JKT) issuer.Tokens {
	s.T.Helper()
	a := authentication("openid read")
	a.Challenge = boundChallenge
	code, err := s.Codes().Issue(s.T.Context(), a)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.Must(s.Exchange(s.T.Context(), s.Listed(clientID), issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, Verifier: boundVerifier, JKT: key, From: testkit.Origin}))
}

func TestIdentityAssertionsNeedTheStore(t *testing.T) {
	s, tokens, _ := asserting(t)
	s.Faulty.Inject(storetest.Grant, 1, storetest.Lost)
	if _, err := s.asserts(issuer.IDJAGRequest{SubjectToken: tokens.RefreshToken, Refresh: true}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a fault of the store: %v", err)
	}
}

// TestIdentityAssertionsOfALoginAfterACutoff: a cutoff is dated ahead. It ends the
// id_tokens of earlier logins, and not those of logins after the command.
func TestIdentityAssertionsOfALoginAfterACutoff(t *testing.T) {
	for name, cut := range map[string]store.Cutoff{"subject": {Subject: subject}, "client": {ClientID: clientID}, "pair": {Subject: subject, ClientID: clientID}} {
		s, before, _ := asserting(t)
		ask := func(tokens issuer.Tokens) grant.Refusal {
			t.Helper()
			return s.whyNot(issuer.IDJAGRequest{SubjectToken: tokens.IDToken})
		}
		revoke := func() {
			cut.Realm, cut.At = s.Realm, s.At().Add(directory.CutoffReach)
			s.CutOff(cut)
		}
		revoke()
		s.Clock.Advance(300 * time.Millisecond)
		after := s.authenticates(authentication("openid read"))
		for range 2 {
			if why := ask(before); why != grant.CutOff {
				t.Errorf("%s, a login before the cutoff: %v", name, why)
			}
			if why := ask(after); why != grant.Allowed {
				t.Errorf("%s, a login after the cutoff: %v", name, why)
			}
			s.Clock.Advance(12 * time.Second)
		}
		if _, c := s.claims(s.authenticates(authentication("openid read")).IDToken); c["authorized_at"] != nil {
			t.Errorf("%s: authorized_at is there after the cutoff's date: %v", name, c)
		}
		// Another cutoff ends this login, even one made in the next millisecond.
		after = s.authenticates(authentication("openid read"))
		revoke()
		again := s.authenticates(authentication("openid read"))
		s.Clock.Advance(time.Millisecond)
		revoke()
		for what, tokens := range map[string]issuer.Tokens{"before both": after, "between the two": again} {
			if why := ask(tokens); why != grant.CutOff {
				t.Errorf("%s, %s: %v", name, what, why)
			}
		}
	}
}
