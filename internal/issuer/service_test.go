package issuer_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/sweep"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	realm       = "/api"
	clientID    = "billing"
	subject     = "alice"
	redirectURI = "https://client.example/cb"
	allScopes   = "read write admin"
)

// A service is a kit's Issuer with one client, and what stands beside it in a
// server.
type service struct {
	testkit.Kit
	clients  *client.Authenticator
	secret   oauth.Secret
	clockOff *atomic.Bool // by the other nodes' clocks
}

func newService(t *testing.T, change ...func(*issuer.Issuer)) *service {
	t.Helper()
	s := &service{clockOff: &atomic.Bool{}}
	s.Kit = *testkit.New(t, func(setup *testkit.Setup) {
		setup.Policy.RetryWindow, setup.RetryWindowPublic = 2*time.Minute, 10*time.Second
		for _, f := range change {
			f(&setup.Issuer)
		}
	})
	s.use(s.Directory)
	s.secret = s.register(client.Registration{ID: clientID, Name: "Billing", RedirectURIs: []string{redirectURI}, Scope: allScopes, Auth: store.AuthEither, NoPKCE: true})
	s.Faulty.Calls()
	return s
}

func noRetryWindow(iss *issuer.Issuer) { iss.Policy.RetryWindow = 0 }

// use has the service use another directory.
func (s *service) use(d *directory.Directory) {
	s.Directory = d
	s.clients = &client.Authenticator{Realm: realm, Store: s.Store, Directory: d, Now: s.Now, Log: s.Issuer.Log, Slow: client.NewSlowPool()}
}

// sweeper sweeps the service's store, as a node does.
func (s *service) sweeper() *sweep.Sweeper {
	return &sweep.Sweeper{
		Store: s.Store, Restore: func() grant.Restore { return s.Directory.Latest().Restore() },
		ClockFault: func() error {
			if s.clockOff.Load() {
				return errors.New("off")
			}
			return nil
		},
		Now: s.Now, Monotonic: s.Monotonic, Log: s.Issuer.Log,
	}
}

// register makes a client, and returns its secret.
func (s *service) register(r client.Registration) oauth.Secret {
	s.T.Helper()
	_, secret := s.Register(r)
	return secret
}

// addKey adds a key in another process.
func (s *service) addKey(key keys.Record) {
	s.T.Helper()
	ch, err := s.Engine.Changes(s.T.Context(), 0)
	if err == nil {
		err = s.Engine.Commit(s.T.Context(), store.Change{Expect: ch.Version, Keys: []keys.Record{key}})
	}
	if err != nil {
		s.T.Fatal(err)
	}
}

func (s *service) client(id string) *store.Client {
	s.T.Helper()
	c, ok := s.View().Client(realm, id)
	if !ok {
		s.T.Fatalf("the directory does not know client %s", id)
	}
	return c
}

func (s *service) code() string {
	s.T.Helper()
	code, err := s.IssueCode(s.T.Context(), authorization())
	if err != nil {
		s.T.Fatal(err)
	}
	return code.Code
}

func authorization() issuer.Authorization {
	return issuer.Authorization{ClientID: clientID, RedirectURI: redirectURI, Subject: subject}
}

var origin = grant.Origin{Address: netip.MustParseAddr("192.0.2.7"), RequestID: "c0ffee"}

func (s *service) exchange(code string) (issuer.Tokens, error) {
	s.T.Helper()
	return s.Exchange(s.T.Context(), s.client(clientID), issuer.CodeRequest{Code: code, RedirectURI: redirectURI, From: origin})
}

func (s *service) refresh(token string) (issuer.Tokens, error) {
	s.T.Helper()
	return s.refreshScope(token, "")
}

func (s *service) refreshScope(token, scope string) (issuer.Tokens, error) {
	s.T.Helper()
	return s.Refresh(s.T.Context(), s.client(clientID), issuer.RefreshRequest{RefreshToken: token, Scope: scope, From: origin})
}

// login redeems a fresh code.
func (s *service) login() issuer.Tokens {
	s.T.Helper()
	return s.must(s.exchange(s.code()))
}

func (s *service) must(tokens issuer.Tokens, err error) issuer.Tokens {
	s.T.Helper()
	if err != nil {
		s.T.Fatalf("no tokens: %v", err)
	}
	if tokens.RefreshToken == "" || tokens.AccessToken == "" || tokens.ExpiresIn < 1 || tokens.Scope == "" {
		s.T.Fatalf("an incomplete answer: scope %q, expires in %d", tokens.Scope, tokens.ExpiresIn)
	}
	return tokens
}

// refused checks that a request was refused for one reason, and gave nothing.
func (s *service) refused(want grant.Refusal) func(issuer.Tokens, error) {
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

// unavailable checks that a request failed in a way that keeps the client's
// tokens alive.
func (s *service) unavailable(tokens issuer.Tokens, err error) {
	s.T.Helper()
	var refused *grant.Refused
	if !errors.Is(err, store.ErrUnavailable) || errors.As(err, &refused) {
		s.T.Errorf("got %v, want temporarily unavailable", err)
	}
	if tokens != (issuer.Tokens{}) {
		s.T.Error("a failed request got tokens")
	}
}

// samePair checks that two answers carry the same tokens.
func (s *service) samePair(a, b issuer.Tokens) {
	s.T.Helper()
	if a.RefreshToken != b.RefreshToken || a.AccessToken != b.AccessToken || a.Scope != b.Scope {
		s.T.Errorf("two pairs: generations %d and %d", a.Generation, b.Generation)
	}
}

func (s *service) row(id grant.ID) grant.Grant {
	s.T.Helper()
	g, err := s.Engine.Grant(s.T.Context(), id)
	if err != nil {
		s.T.Fatal(err)
	}
	return g
}

// revoked checks that a grant was ended for a reason, and that one event tells.
func (s *service) revoked(id grant.ID, why grant.Reason, name store.EventName) {
	s.T.Helper()
	if g := s.row(id); g.State != grant.Revoked || g.Reason != why {
		s.T.Errorf("the grant is %s (%s), want revoked (%s)", g.State, g.Reason, why)
	}
	events, err := s.Engine.Events(s.T.Context(), id.String(), 10)
	if err != nil {
		s.T.Fatal(err)
	}
	if len(events) != 1 || events[0].Name != name || events[0].Actor != clientID {
		s.T.Errorf("events %+v, want one %s of %s", events, name, clientID)
	} else if d := events[0].Detail; !strings.Contains(d, "192.0.2.7") || !strings.Contains(d, "c0ffee") || strings.Contains(d, "mintage_") {
		s.T.Errorf("the event tells %q, want where the request came from and no token", d)
	}
}

func (s *service) active(id grant.ID, generation uint32) {
	s.T.Helper()
	if g := s.row(id); g.State != grant.Active || g.Generation != generation {
		s.T.Errorf("the grant is %s, generation %d; want active, generation %d", g.State, g.Generation, generation)
	}
}

func (s *service) authenticate(id string, secret oauth.Secret) (*store.Client, error) {
	return s.clients.Authenticate(s.T.Context(), oauth.Credentials{ClientID: id, Secret: secret, Method: oauth.AuthPost}, netip.Addr{})
}

// deadline is a request's time, short for tests that wait for its end.
func (s *service) deadline() context.Context {
	ctx, cancel := context.WithTimeout(s.T.Context(), 50*time.Millisecond)
	s.T.Cleanup(cancel)
	return ctx
}
