package testkit

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// These are the same in every Service.
const (
	IssuerID    = "https://auth.example.com/oauth2/api"
	ClientID    = "billing"
	Subject     = "alice"
	RedirectURI = "https://client.example/cb"
	AllScopes   = "read write admin"
)

// A Service is a Kit with one confidential client, ClientID, and the requests that a
// server would pass to the issuer.
type Service struct {
	Kit
	Clients *client.Authenticator
	Secret  oauth.Secret // of the client
}

// NewService makes a Service that lives until the test ends.
func NewService(t *testing.T, change ...func(*issuer.Issuer)) *Service {
	t.Helper()
	s := &Service{}
	s.Kit = *New(t, func(setup *Setup) {
		setup.Policy.RetryWindow, setup.RetryWindowPublic = 2*time.Minute, 10*time.Second
		for _, f := range change {
			f(&setup.Issuer)
		}
	})
	s.Use(s.Directory)
	_, s.Secret = s.Register(client.Registration{ID: ClientID, Settings: store.Settings{Name: "Billing", RedirectURIs: []string{RedirectURI}, Scope: AllScopes, Auth: store.AuthEither, NoPKCE: true}})
	s.Faulty.Calls()
	return s
}

// NoRetryWindow switches the retry window off.
func NoRetryWindow(iss *issuer.Issuer) { iss.Policy.RetryWindow = 0 }

// Use replaces the directory of the service.
func (s *Service) Use(d *directory.Directory) {
	s.Directory = d
	s.Clients = &client.Authenticator{Realm: Realm, Store: s.Store, Directory: d, Now: s.Now, Log: s.Issuer.Log, Slow: client.NewSlowPool()}
}

// Listed returns a client as the directory has it.
func (s *Service) Listed(id string) *store.Client {
	s.T.Helper()
	c, ok := s.View().Client(Realm, id)
	if !ok {
		s.T.Fatalf("the directory does not know client %s", id)
	}
	return c
}

// NewCode issues a code of the client.
func (s *Service) NewCode() string {
	s.T.Helper()
	code, err := s.Codes().Issue(s.T.Context(), Authorization())
	if err != nil {
		s.T.Fatal(err)
	}
	return code.Code
}

// Authorization returns the authorization for which NewCode issues a code.
func Authorization() issuer.Authorization {
	return issuer.Authorization{ClientID: ClientID, RedirectURI: RedirectURI, Subject: Subject}
}

// Origin is the origin of the client's requests.
var Origin = grant.Origin{Address: netip.MustParseAddr("192.0.2.7"), RequestID: "c0ffee"}

// Redeem exchanges a code.
func (s *Service) Redeem(code string) (issuer.Tokens, error) {
	s.T.Helper()
	return s.Exchange(s.T.Context(), s.Listed(ClientID), issuer.CodeRequest{Code: code, RedirectURI: RedirectURI, From: Origin})
}

// Renew presents a refresh token.
func (s *Service) Renew(token string) (issuer.Tokens, error) {
	s.T.Helper()
	return s.RenewScope(token, "")
}

// RenewScope presents a refresh token with a scope.
func (s *Service) RenewScope(token, scope string) (issuer.Tokens, error) {
	s.T.Helper()
	return s.Refresh(s.T.Context(), s.Listed(ClientID), issuer.RefreshRequest{RefreshToken: token, Scope: scope, From: Origin})
}

// Login redeems a fresh code.
func (s *Service) Login() issuer.Tokens {
	s.T.Helper()
	return s.Must(s.Redeem(s.NewCode()))
}

// Must fails the test if err is not nil, and returns the tokens.
func (s *Service) Must(tokens issuer.Tokens, err error) issuer.Tokens {
	s.T.Helper()
	if err != nil {
		s.T.Fatalf("no tokens: %v", err)
	}
	if tokens.RefreshToken == "" || tokens.AccessToken == "" || tokens.ExpiresIn < 1 || tokens.Scope == "" {
		s.T.Fatalf("an incomplete answer: scope %q, expires in %d", tokens.Scope, tokens.ExpiresIn)
	}
	return tokens
}

// Refused returns a check that a request was refused for the reason want, and returned no
// tokens.
func (s *Service) Refused(want grant.Refusal) func(issuer.Tokens, error) {
	return func(tokens issuer.Tokens, err error) {
		s.T.Helper()
		var refused *grant.Refused
		if !errors.As(err, &refused) || refused.Why != want || errors.Is(err, store.ErrUnavailable) {
			s.T.Errorf("got %v, want refused: %s", err, want)
		}
		if tokens != (issuer.Tokens{}) {
			s.T.Error("a refused request got tokens")
		}
	}
}

// Unavailable checks that a request failed without a refusal, so that the client keeps its
// tokens.
func (s *Service) Unavailable(tokens issuer.Tokens, err error) {
	s.T.Helper()
	var refused *grant.Refused
	if !errors.Is(err, store.ErrUnavailable) || errors.As(err, &refused) {
		s.T.Errorf("got %v, want temporarily unavailable", err)
	}
	if tokens != (issuer.Tokens{}) {
		s.T.Error("a failed request got tokens")
	}
}

// SamePair checks that two answers have the same tokens.
func (s *Service) SamePair(a, b issuer.Tokens) {
	s.T.Helper()
	if a.RefreshToken != b.RefreshToken || a.AccessToken != b.AccessToken || a.Scope != b.Scope {
		s.T.Errorf("two pairs: generations %d and %d", a.Generation, b.Generation)
	}
}

// Row returns a grant as it is stored.
func (s *Service) Row(id grant.ID) grant.Grant {
	s.T.Helper()
	g, err := s.Engine.Grant(s.T.Context(), id)
	if err != nil {
		s.T.Fatal(err)
	}
	return g
}

// WantActive checks that a grant is active in a generation.
func (s *Service) WantActive(id grant.ID, generation uint32) {
	s.T.Helper()
	if g := s.Row(id); g.State != grant.Active || g.Generation != generation {
		s.T.Errorf("the grant is %s, generation %d; want active, generation %d", g.State, g.Generation, generation)
	}
}

// Authenticate authenticates a client by a secret in the form.
func (s *Service) Authenticate(id string, secret oauth.Secret) (*store.Client, error) {
	return s.Clients.Authenticate(s.T.Context(), oauth.Credentials{ClientID: id, Secret: secret, Method: oauth.AuthPost}, netip.Addr{})
}

// ShortContext returns the context of a request with a short timeout, for tests that wait
// for its end.
func (s *Service) ShortContext() context.Context {
	ctx, cancel := context.WithTimeout(s.T.Context(), 50*time.Millisecond)
	s.T.Cleanup(cancel)
	return ctx
}

// Named gives the issuer its identifier, which JWTs need.
func Named(iss *issuer.Issuer) { iss.ID = IssuerID }

// Dead returns a check that a token is refused for the reason want, and that nothing about
// it is returned.
func (s *Service) Dead(want grant.Refusal) func(issuer.Token, error) {
	return func(tok issuer.Token, err error) {
		s.T.Helper()
		var refused *grant.Refused
		if !errors.As(err, &refused) || refused.Why != want || errors.Is(err, store.ErrUnavailable) {
			s.T.Errorf("got %v, want refused: %s", err, want)
		}
		if tok.ClientID != "" || tok.Subject != "" || tok.Scope != "" || tok.Audience != nil || tok.ID() != "" || tok.Claims != "" || tok.AuthTime != 0 {
			s.T.Error("a refused token has content")
		}
	}
}

// RowAgain replaces a grant's row with an earlier one.
func (s *Service) RowAgain(old grant.Grant) {
	s.T.Helper()
	err := s.Engine.UpdateGrant(s.T.Context(), old.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
		old.Version = g.Version + 1
		return old, nil
	})
	if err != nil {
		s.T.Fatal(err)
	}
}

// Restored records a restore that has just happened.
func (s *Service) Restored() grant.Restore {
	s.T.Helper()
	s.Clock.Advance(time.Second)
	r := grant.Restore{Backup: s.At() - 1000, At: s.At(), Until: s.At().Add(31 * 24 * time.Hour)}
	if err := s.Engine.Commit(s.T.Context(), store.Change{Restores: []grant.Restore{r}}); err != nil {
		s.T.Fatal(err)
	}
	s.Poll()
	return r
}

// RefusalOf returns the reason of a refusal, or Allowed if err is nil.
func RefusalOf(t *testing.T, err error) grant.Refusal {
	t.Helper()
	var refused *grant.Refused
	if err == nil {
		return grant.Allowed
	}
	if !errors.As(err, &refused) {
		t.Fatalf("neither success nor a refusal: %v", err)
	}
	return refused.Why
}

// AddKey adds a key like another process.
func (s *Service) AddKey(key keys.Stored) {
	s.T.Helper()
	ch, err := s.Engine.Changes(s.T.Context(), 0)
	if err == nil {
		err = s.Engine.Commit(s.T.Context(), store.Change{Expect: ch.Version, Keys: []keys.Stored{key}})
	}
	if err != nil {
		s.T.Fatal(err)
	}
}
