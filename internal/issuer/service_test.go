package issuer_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
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
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/sweep"
)

const (
	realm       = "/api"
	clientID    = "billing"
	subject     = "alice"
	redirectURI = "https://client.example/cb"
	allScopes   = "read write admin"
)

// schedule has no RSA, whose keys take long to make, and rotates nothing.
var schedule = keys.Schedule{
	MaxAge: time.Hour, Retention: time.Hour + 6*time.Minute, Algorithms: []keys.Purpose{keys.ES256, keys.EdDSA},
}

// A clock stands still until it is moved.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() time.Time { return time.Unix(0, c.now.Load()) }

func (c *clock) Advance(d time.Duration) { c.now.Add(int64(d)) }

// A service is an Issuer on the real engine, with clocks that stand still and
// a store that fails on demand.
type service struct {
	*issuer.Issuer
	clients *client.Authenticator
	t       *testing.T
	faulty  *storetest.Faulty
	engine  *sqlite.Store // the same store without faults, as another process sees it
	kek     *keys.KEK
	clock   *clock // of what is decided
	uptime  *clock // monotonic, for the age of the directory
	secret  oauth.Secret
	log     *logText

	clockOff *atomic.Bool // by the other nodes' clocks
}

func newService(t *testing.T, change ...func(*issuer.Issuer)) *service {
	t.Helper()
	engine, err := sqlite.Create(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	kek, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, engine: engine, faulty: storetest.NewFaulty(engine), kek: kek, clock: &clock{}, uptime: &clock{}, log: &logText{}, clockOff: &atomic.Bool{}}
	s.clock.Advance(time.Duration(1_700_000_000_123) * time.Millisecond)
	s.uptime.Advance(time.Duration(s.clock.now.Load()))
	log := slog.New(slog.NewTextHandler(s.log, nil))
	directory, err := directory.Open(t.Context(), s.faulty, kek, schedule, log, s.uptime.Now)
	if err != nil {
		t.Fatal(err)
	}
	settings := issuer.Issuer{
		Realm: realm, Store: s.faulty, Directory: directory,
		Policy: grant.Policy{
			AccessLifetime: 5 * time.Minute, RefreshLifetime: 31 * 24 * time.Hour, RetryWindow: 2 * time.Minute,
		},
		RetryWindowPublic: 10 * time.Second, CodeLifetime: time.Minute, Now: s.clock.Now, Log: log,
	}
	for _, f := range change {
		f(&settings)
	}
	s.Issuer = issuer.New(settings)
	s.use(s.Directory)
	s.secret = s.register(client.Registration{ID: clientID, Name: "Billing", RedirectURIs: []string{redirectURI}, Scope: allScopes, Auth: store.AuthEither, NoPKCE: true})
	s.faulty.Calls()
	return s
}

func noRetryWindow(iss *issuer.Issuer) { iss.Policy.RetryWindow = 0 }

// logText keeps what is logged.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// count is how often something was logged.
func (l *logText) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

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

func (s *service) now() grant.Instant { return grant.At(s.clock.Now()) }

func (s *service) view() *directory.View {
	s.t.Helper()
	view, err := s.Directory.View()
	if err != nil {
		s.t.Fatal(err)
	}
	return view
}

func (s *service) poll() {
	s.t.Helper()
	if err := s.Directory.Poll(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// register makes a client as an administrator does, and returns its secret.
func (s *service) register(r client.Registration) oauth.Secret {
	s.t.Helper()
	c, secret, err := r.Client(realm, s.view().Ring, s.Policy, s.now())
	if err == nil {
		err = s.engine.Commit(s.t.Context(), store.Change{Entries: []store.Entry{c.Entry()}})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.poll()
	return secret
}

// stored is a client as the store has it.
func (s *service) stored(id string) store.Client {
	s.t.Helper()
	c, err := s.engine.Client(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// administer changes a client in another process, and polls.
func (s *service) administer(id string, change func(*store.Client), cutoffs ...store.Cutoff) {
	s.t.Helper()
	c := s.stored(id).Clone()
	change(&c)
	c.Version++
	if err := s.engine.Commit(s.t.Context(), store.Change{Entries: []store.Entry{c.Entry()}, Cutoffs: cutoffs}); err != nil {
		s.t.Fatal(err)
	}
	s.poll()
}

func (s *service) cutOff(c store.Cutoff) {
	s.t.Helper()
	if err := s.engine.Commit(s.t.Context(), store.Change{Cutoffs: []store.Cutoff{c}}); err != nil {
		s.t.Fatal(err)
	}
	s.poll()
}

// addKey adds a key in another process.
func (s *service) addKey(key keys.Record) {
	s.t.Helper()
	ch, err := s.engine.Changes(s.t.Context(), 0)
	if err == nil {
		err = s.engine.Commit(s.t.Context(), store.Change{Expect: ch.Version, Keys: []keys.Record{key}})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) client(id string) *store.Client {
	s.t.Helper()
	c, ok := s.view().Client(realm, id)
	if !ok {
		s.t.Fatalf("the directory does not know client %s", id)
	}
	return c
}

func (s *service) code() string {
	s.t.Helper()
	code, err := s.IssueCode(s.t.Context(), authorization())
	if err != nil {
		s.t.Fatal(err)
	}
	return code.Code
}

func authorization() issuer.Authorization {
	return issuer.Authorization{ClientID: clientID, RedirectURI: redirectURI, Subject: subject}
}

var origin = grant.Origin{Address: netip.MustParseAddr("192.0.2.7"), RequestID: "c0ffee"}

func (s *service) exchange(code string) (issuer.Tokens, error) {
	s.t.Helper()
	return s.Exchange(s.t.Context(), s.client(clientID), issuer.CodeRequest{Code: code, RedirectURI: redirectURI, From: origin})
}

func (s *service) refresh(token string) (issuer.Tokens, error) {
	s.t.Helper()
	return s.refreshScope(token, "")
}

func (s *service) refreshScope(token, scope string) (issuer.Tokens, error) {
	s.t.Helper()
	return s.Refresh(s.t.Context(), s.client(clientID), issuer.RefreshRequest{RefreshToken: token, Scope: scope, From: origin})
}

// login redeems a fresh code.
func (s *service) login() issuer.Tokens {
	s.t.Helper()
	return s.must(s.exchange(s.code()))
}

func (s *service) must(tokens issuer.Tokens, err error) issuer.Tokens {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("no tokens: %v", err)
	}
	if tokens.RefreshToken == "" || tokens.AccessToken == "" || tokens.ExpiresIn < 1 || tokens.Scope == "" {
		s.t.Fatalf("an incomplete answer: scope %q, expires in %d", tokens.Scope, tokens.ExpiresIn)
	}
	return tokens
}

// refused checks that a request was refused for one reason, and gave nothing.
func (s *service) refused(want grant.Refusal) func(issuer.Tokens, error) {
	return func(tokens issuer.Tokens, err error) {
		s.t.Helper()
		var refused *grant.Refused
		if !errors.As(err, &refused) || refused.Why != want || errors.Is(err, store.ErrUnavailable) {
			s.t.Errorf("got %v, want refused: %s", err, want)
		}
		if tokens != (issuer.Tokens{}) {
			s.t.Error("a refused request got tokens")
		}
	}
}

// unavailable checks that a request failed in a way that keeps the client's
// tokens alive.
func (s *service) unavailable(tokens issuer.Tokens, err error) {
	s.t.Helper()
	var refused *grant.Refused
	if !errors.Is(err, store.ErrUnavailable) || errors.As(err, &refused) {
		s.t.Errorf("got %v, want temporarily unavailable", err)
	}
	if tokens != (issuer.Tokens{}) {
		s.t.Error("a failed request got tokens")
	}
}

// samePair checks that two answers carry the same tokens.
func (s *service) samePair(a, b issuer.Tokens) {
	s.t.Helper()
	if a.RefreshToken != b.RefreshToken || a.AccessToken != b.AccessToken || a.Scope != b.Scope {
		s.t.Errorf("two pairs: generations %d and %d", a.Generation, b.Generation)
	}
}

func (s *service) row(id grant.ID) grant.Grant {
	s.t.Helper()
	g, err := s.engine.Grant(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

// revoked checks that a grant was ended for a reason, and that one event tells.
func (s *service) revoked(id grant.ID, why grant.Reason, name store.EventName) {
	s.t.Helper()
	if g := s.row(id); g.State != grant.Revoked || g.Reason != why {
		s.t.Errorf("the grant is %s (%s), want revoked (%s)", g.State, g.Reason, why)
	}
	events, err := s.engine.Events(s.t.Context(), id.String(), 10)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(events) != 1 || events[0].Name != name || events[0].Actor != clientID {
		s.t.Errorf("events %+v, want one %s of %s", events, name, clientID)
	} else if d := events[0].Detail; !strings.Contains(d, "192.0.2.7") || !strings.Contains(d, "c0ffee") || strings.Contains(d, "mintage_") {
		s.t.Errorf("the event tells %q, want where the request came from and no token", d)
	}
}

func (s *service) active(id grant.ID, generation uint32) {
	s.t.Helper()
	if g := s.row(id); g.State != grant.Active || g.Generation != generation {
		s.t.Errorf("the grant is %s, generation %d; want active, generation %d", g.State, g.Generation, generation)
	}
}

func (s *service) authenticate(id string, secret oauth.Secret) (*store.Client, error) {
	return s.clients.Authenticate(s.t.Context(), oauth.Credentials{ClientID: id, Secret: secret, Method: oauth.AuthPost}, netip.Addr{})
}

// deadline is a request's time, short for tests that wait for its end.
func (s *service) deadline() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), 50*time.Millisecond)
	s.t.Cleanup(cancel)
	return ctx
}
