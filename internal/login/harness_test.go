package login

import (
	"context"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	realm       = "/api"
	redirectURI = "https://client.example/cb"
	started     = testkit.Started
)

// A fixture has the Authorizer of a kit's issuer, with one client. Another system
// authenticates its users, unless the test calls users.
type fixture struct {
	*Authorizer
	t   *testing.T
	kit *testkit.Kit
	c   store.Client
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	h := &fixture{t: t}
	h.kit = testkit.New(t, func(s *testkit.Setup) {
		s.ID, s.Policy.RefreshLifetime = "https://auth.example/oauth2/api", 24*time.Hour
		s.Schedule.Retention, s.Schedule.Algorithms = 2*time.Hour, []keys.Purpose{keys.ES256}
	})
	h.Authorizer = New(h.kit.Issuer, Documents{realm, h.kit.Issuer.Store, h.kit.Issuer.Directory, h.kit.Issuer.Now})
	h.Interactions.Lifetime, h.Sessions.Lifetime, h.Idle = 10*time.Minute, 12*time.Hour, time.Hour
	h.ContinueURL = "https://auth.example/oauth2/interaction?id="
	h.c = h.client(client.Registration{ID: "shop", Settings: store.Settings{Name: "Shop"}})
	return h
}

func (h *fixture) step(d time.Duration) { h.kit.Clock.Advance(d) }

func (h *fixture) client(r client.Registration) store.Client {
	h.t.Helper()
	r.Auth, r.NoPKCE = store.AuthEither, true
	if r.Scope == "" {
		r.Scope = "a b c"
	}
	if r.RedirectURIs == nil {
		r.RedirectURIs = []string{redirectURI}
	}
	c, _ := h.kit.Register(r)
	return c
}

func (h *fixture) cutOff(c store.Cutoff) {
	h.t.Helper()
	c.Realm, c.At = realm, h.now()
	h.kit.CutOff(c)
}

// asking returns a valid request of a client.
func asking(c store.Client, choose ...func(*oauth.AuthorizationRequest)) oauth.AuthorizationRequest {
	r := oauth.AuthorizationRequest{ClientID: c.ID, RedirectURI: c.RedirectURIs[0], State: []byte("st"), Scope: c.Scope}
	for _, f := range choose {
		f(&r)
	}
	return r
}

func scope(s oauth.Scope) func(*oauth.AuthorizationRequest) {
	return func(r *oauth.AuthorizationRequest) { r.Scope = s }
}

func maxAge(seconds int) func(*oauth.AuthorizationRequest) {
	return func(r *oauth.AuthorizationRequest) { r.MaxAge = &seconds }
}

func login(r *oauth.AuthorizationRequest) { r.Prompt.Login = true }

// someone returns the visitor of a new browser, without a session.
func someone() Visitor { return Visitor{Browser: NewBrowser()} }

// signedIn returns the visitor of a new browser with a session of the subject.
func (h *fixture) signedIn(subject string) Visitor {
	h.t.Helper()
	v := someone()
	v.Session = h.session(h.identity(subject))
	return v
}

// session stores a session, and returns its cookie.
func (h *fixture) session(who Identity) string {
	h.t.Helper()
	cookie, d, err := h.newSession(who)
	if err == nil {
		err = h.kit.Engine.Commit(h.t.Context(), store.Change{Documents: []store.Document{d}})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return cookie
}

func (h *fixture) identity(subject string) Identity {
	who := Identity{Subject: subject, AuthTime: h.now()}
	if h.Alive != nil {
		who.Username = subject
	}
	return who
}

// begin sends a request that starts an interaction at the step want.
func (h *fixture) begin(r oauth.AuthorizationRequest, v Visitor, want Step) *Interaction {
	h.t.Helper()
	st, err := h.Authorize(h.t.Context(), r, v)
	if err != nil {
		h.t.Fatal(err)
	}
	if st.Interaction == nil || st.Interaction.Step != want {
		h.t.Fatalf("answered %.60q at once, or asked for another step than %s", st.URL, want)
	}
	return st.Interaction
}

// again reads an interaction like another request.
func (h *fixture) again(it *Interaction, v Visitor) *Interaction {
	h.t.Helper()
	found, err := h.Interaction(h.t.Context(), it.ID, v)
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// Proceed resumes an interaction, and stores the step that follows.
func (h *fixture) Proceed(ctx ctx, it *Interaction, v Visitor) (Stage, error) {
	st, err := h.resume(ctx, it, v)
	if err != nil {
		return st, err
	}
	return h.proceed(ctx, st)
}

// code returns the code of a stage that redirects to the client.
func (h *fixture) code(st Stage, err error) string {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	u, err := url.Parse(st.URL)
	if err != nil || !strings.HasPrefix(st.URL, redirectURI+"?") || u.Query().Get("code") == "" {
		h.t.Fatalf("no code: %.60q", st.URL)
	}
	return u.Query().Get("code")
}

// redeem redeems a code of the fixture's client.
func (h *fixture) redeem(code string) (issuer.Tokens, error) {
	return h.Issuer.Exchange(h.t.Context(), &h.c, issuer.CodeRequest{Code: code, RedirectURI: redirectURI})
}

// users switches to built-in users. The listed users have signed out everywhere.
func (h *fixture) users(signedOut ...string) {
	h.Alive = func(_ context.Context, username string, _ int64) (bool, error) {
		return !slices.Contains(signedOut, username), nil
	}
}

// clientErrorCode returns the code of the error that the client receives.
func clientErrorCode(t *testing.T, err error) oauth.ErrorCode {
	t.Helper()
	var client *ClientError
	if !errors.As(err, &client) {
		t.Fatalf("%v is no error for the client", err)
	}
	return client.Public.Code
}

type ctx = context.Context

// fuzzKEK opens the key ring of the fuzz targets: it must be the same in all their
// processes.
const fuzzKEK = "M8jJ+nvL8emcy/6Jc4l7Vf52OHJbr51p3ffew/ZN8EY=\n"

func fuzzRing(t testing.TB, kek *keys.KEK) *keys.Ring {
	t.Helper()
	record := func(id grant.KeyID, p keys.Purpose, wrapped string) keys.Stored {
		b, err := hex.DecodeString(wrapped)
		if err != nil {
			t.Fatal(err)
		}
		return keys.Stored{ID: id, Purpose: p, CreatedAt: 1_800_000_000_000, ActiveAt: 1_800_000_000_000, Wrapped: b}
	}
	ring, err := keys.Open(kek, []keys.Stored{
		record(0x7d492396, keys.MAC, "013415ac879706182a9ad3f222818f586c004ca4a6707c167107cb541c4203f30e0b13dfa3336a1a139f92a4596a72740660dd40366ff125df47293f17ba6bdb88"),
		record(0x42305e7f, keys.Seal, "013415ac87982096ccfe529a7694f5a250ed0dbb8fd9d947026bb31e1a8ed1499f23864ad314ee40984c225cefb13e8e72af5178446d605f78f5db18b511c05ca3"),
		record(0xd0e114fb, keys.Pepper, "013415ac87625179d50cee1207c108b6d47d62076156ce8ead777570f558b6a1d2284080fcdf2b9a770016093702daad96aae1bd55f692c1cc1b8b2ce5084d7d1e"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ring
}
