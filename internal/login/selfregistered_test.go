package login

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const agentID = "https://agent.example/client.json"

// described is the metadata document of an agent, with a count of its reads.
type described struct {
	c     store.Client
	err   error
	reads int
}

// agents lets an agent with the given redirect URI register itself.
func (h *fixture) agents(redirectURI string) *described {
	h.t.Helper()
	d := &described{c: store.Client{
		ID: agentID, Realm: realm, State: store.ClientEnabled, Settings: store.Settings{Name: "Agent", Auth: store.AuthNone, Native: true, NoPKCE: false,
			GrantTypes: store.GrantTypes, RedirectURIs: []string{redirectURI}}, RegisteredBy: store.ByDocument, Secrets: []store.Secret{},
	}}
	h.Issuer.Directory.AdmitSelfRegistered(func(_, id string) bool { return id == agentID })
	h.SelfRegistered = func(_ context.Context, r oauth.AuthorizationRequest, _ netip.Prefix) (*store.Client, error) {
		d.reads++
		if d.err == nil && !oauth.MatchRedirectURI(d.c.RedirectURIs, r.RedirectURI) {
			return nil, oauth.ErrRedirectMismatch
		}
		c := d.c.Clone()
		h.kit.View().Offer(&c)
		return &c, d.err
	}
	return d
}

// api registers an API, which is open to agents if open is true.
func (h *fixture) api(id string, number uint16, open bool, standard oauth.Scope, scopes ...string) {
	h.t.Helper()
	a := store.API{ID: id, Realm: realm, Name: id, Number: number, Open: open, DefaultScope: standard, Version: 1}
	for i, name := range scopes {
		a.Scopes = append(a.Scopes, store.APIScope{Name: name, Number: uint16(i + 1)})
	}
	if err := h.kit.Engine.Commit(h.t.Context(), store.Change{Entries: []store.Entry{a.Entry()}}); err != nil {
		h.t.Fatal(err)
	}
	h.kit.Poll()
}

func asAgent(redirectURI string, choose ...func(*oauth.AuthorizationRequest)) oauth.AuthorizationRequest {
	r := oauth.AuthorizationRequest{ClientID: agentID, RedirectURI: redirectURI, State: []byte("st"), Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}
	for _, f := range choose {
		f(&r)
	}
	return r
}

func TestOnlyASignedInBrowserHasADocumentRead(t *testing.T) {
	h := newFixture(t)
	d := h.agents(redirectURI)
	h.api("https://mcp.example", 1, true, "use", "use")
	v := someone()
	it := h.begin(asAgent("https://evil.example/cb"), v, StepLogin)
	if d.reads != 0 {
		t.Fatal("read for a stranger")
	}
	// No error redirects a guest to an address that has not been checked.
	for name, change := range map[string]func(*oauth.AuthorizationRequest){
		"nobody may be asked": func(r *oauth.AuthorizationRequest) { r.Prompt.None = true },
		"a defect":            func(r *oauth.AuthorizationRequest) { r.Defect = oauth.ErrResponseType },
		"a long state":        func(r *oauth.AuthorizationRequest) { r.State = []byte(strings.Repeat("x", MaxGuestState+1)) },
	} {
		var clientErrorCode *ClientError
		st, err := h.Authorize(t.Context(), asAgent("https://evil.example/cb", change), someone())
		if err == nil || errors.As(err, &clientErrorCode) || st.URL != "" {
			t.Errorf("%s: %q, %v", name, st.URL, err)
		}
	}
	h.kit.Directory.AdmitSelfRegistered(func(_, _ string) bool { return false })
	if _, err := h.Authorize(t.Context(), asAgent(redirectURI), h.signedIn("alice")); !errors.Is(err, oauth.ErrUnknownClient) {
		t.Errorf("one that is not admitted: %v", err)
	}
	h.kit.Directory.AdmitSelfRegistered(func(_, _ string) bool { return true })
	if d.reads != 0 {
		t.Fatal("the document was read for a guest, or for a client that is not admitted")
	}
	// After the login the document is read, and the redirect URI compared.
	cookie, err := h.SignIn(t.Context(), it, h.identity("alice"), v)
	if err != nil {
		t.Fatal(err)
	}
	v.Session = cookie
	if _, err := h.Proceed(t.Context(), h.again(it, v), v); !errors.Is(err, oauth.ErrRedirectMismatch) || d.reads != 1 {
		t.Errorf("%v after %d reads", err, d.reads)
	}
	d.err = ErrDescription
	if _, err := h.Authorize(t.Context(), asAgent(redirectURI), h.signedIn("alice")); !errors.Is(err, ErrDescription) {
		t.Errorf("a document that cannot be read: %v", err)
	}
}

func TestAClientOfADocumentIsRecordedAtTheFirstConsent(t *testing.T) {
	h := newFixture(t)
	d := h.agents(redirectURI)
	h.api("https://mcp.example", 1, true, "use", "use")
	v := someone()
	it := h.begin(asAgent(redirectURI), v, StepLogin)
	var err error
	if v.Session, err = h.SignIn(t.Context(), it, h.identity("alice"), v); err != nil {
		t.Fatal(err)
	}
	st, err := h.Proceed(t.Context(), h.again(it, v), v)
	if err != nil || st.Interaction.Step != StepConsent || st.Client.Name != "Agent" || st.Interaction.Request.Scope != "use" {
		t.Fatalf("%+v, %v", st.Client, err)
	}
	record := func() *store.Client {
		t.Helper()
		c, err := h.kit.Directory.Record(t.Context(), realm, agentID)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if record() != nil {
		t.Error("a record before anybody has agreed")
	}
	// The decision applies to the client as shown, whatever the document now contains.
	d.c.Name = "Bank"
	if st, err = h.allow(t.Context(), h.again(it, v), v, true); err != nil || !strings.HasPrefix(st.URL, redirectURI+"?code=") {
		t.Fatalf("%q, %v", st.URL, err)
	}
	if c := record(); c == nil || c.Name != "Agent" || d.reads != 1 || c.RecordedUntil != h.Issuer.RecordUntil(h.now()) {
		t.Errorf("%+v after %d reads", c, d.reads)
	}
	if events, err := h.kit.Engine.Events(t.Context(), agentID, 9); err != nil || len(events) != 1 || events[0].Name != store.EventClientRecorded || !strings.Contains(events[0].Detail, `"Agent"`) {
		t.Errorf("%+v, %v", events, err)
	}

	// The user is asked again after a change of the name, of the redirect URI's host or of
	// jwks_uri, and if there is no record. Otherwise not.
	d.c.Name = "Agent"
	asks := func(what, redirect string, want bool) {
		t.Helper()
		d.c.RedirectURIs = []string{redirect}
		st, err := h.Authorize(t.Context(), asAgent(redirect), v)
		if err != nil || (st.Interaction != nil) != want {
			t.Errorf("%s: asked %t, want %t; %v", what, st.Interaction != nil, want, err)
		}
	}
	asks("nothing has changed", redirectURI, false)
	asks("another path", "https://client.example/other", false)
	asks("another host", "https://other.example/cb", true)
	d.c.Name = "Bank"
	asks("another name", redirectURI, true)
	d.c.Name, d.c.Assertion.KeysURI = "Agent", "https://agent.example/keys"
	asks("another jwks_uri", redirectURI, true)
	d.c.Assertion.KeysURI = ""
	asks("as it was", redirectURI, false)
	if err := h.kit.Engine.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{store.ClientKey(realm, agentID)}}); err != nil {
		t.Fatal(err)
	}
	asks("without a record", redirectURI, true)
}

func TestAProgramOfTheDeviceIsNeverRemembered(t *testing.T) {
	for registered, sent := range map[string]string{
		"http://localhost/callback": "http://localhost:3118/callback", "http://127.0.0.1/cb": "http://127.0.0.1:9/cb", "cursor://a/cb": "cursor://a/cb",
	} {
		h := newFixture(t)
		h.agents(registered)
		h.api("https://mcp.example", 1, true, "use", "use")
		v := h.signedIn("alice")
		for range 2 {
			it := h.begin(asAgent(sent), v, StepConsent)
			if _, err := h.Proceed(t.Context(), it, v); err != nil || it.MayRemember() {
				t.Errorf("%s: offered to remember: %v", sent, err)
			}
			if st, err := h.allow(t.Context(), it, v, true); err != nil || !strings.HasPrefix(st.URL, sent+"?code=") {
				t.Fatalf("%s: %q, %v", sent, st.URL, err)
			}
		}
	}
}

// A request of a typical agent gets the scopes that the open APIs cover.
func TestAnAgentGetsTheCoveredScopes(t *testing.T) {
	h := newFixture(t)
	h.agents(redirectURI)
	const mcp, files, closed = "https://mcp.example/mcp", "https://files.example", "https://bank.example"
	h.api(mcp, 1, true, "tools:read", "tools:read", "tools:write")
	h.api(closed, 2, false, "", "pay")
	v := h.signedIn("alice")
	ask := func(scope oauth.Scope, resources ...string) (oauth.Scope, []string, error) {
		st, err := h.Authorize(t.Context(), asAgent(redirectURI, func(r *oauth.AuthorizationRequest) { r.Scope, r.Resources = scope, resources }), v)
		if err != nil {
			return "", nil, err
		}
		if st, err = h.Proceed(t.Context(), h.again(st.Interaction, v), v); err != nil {
			return "", nil, err
		}
		return st.Interaction.Request.Scope, st.Interaction.Request.Resources, nil
	}
	for name, c := range map[string]struct {
		scope           oauth.Scope
		resources       []string
		want            oauth.Scope
		clientErrorCode *oauth.Error
	}{
		"no scope":                    {"", []string{mcp}, "tools:read", nil},
		"nothing at all":              {"", nil, "tools:read", nil},
		"a slash behind the resource": {"tools:write", []string{mcp + "/"}, "tools:write", nil},
		"OpenID unasked":              {"openid email profile", []string{mcp}, "tools:read", nil},
		"every scope of the metadata": {"openid tools:read tools:write profile", []string{mcp}, "tools:read tools:write", nil},
		"more than is open":           {"pay tools:write", nil, "tools:write", nil},
		"a closed API":                {"pay", []string{closed}, "", oauth.ErrTarget},
		"a closed one beside another": {"", []string{mcp, closed}, "", oauth.ErrTarget},
		"an unknown one":              {"", []string{"https://other.example"}, "", oauth.ErrTarget},
	} {
		scope, resources, err := ask(c.scope, c.resources...)
		var clientErrorCode *ClientError
		if c.clientErrorCode != nil && (!errors.As(err, &clientErrorCode) || clientErrorCode.Public != c.clientErrorCode) || c.clientErrorCode == nil && (err != nil || scope != c.want || len(resources) != 1) {
			t.Errorf("%s: %q for %q, %v", name, scope, resources, err)
		}
	}
	// With two open APIs, the request must name one, by resource or by scope.
	h.api(files, 3, true, "", "files:read")
	var clientErrorCode *ClientError
	for _, scope := range []oauth.Scope{"", "pay", "openid other"} {
		if _, _, err := ask(scope); !errors.As(err, &clientErrorCode) || clientErrorCode.Public != oauth.ErrTarget {
			t.Errorf("%q names none of two: %v", scope, err)
		}
	}
	for scope, want := range map[oauth.Scope][]string{"tools:read pay": {mcp}, "files:read": {files}, "tools:read openid files:read": {files, mcp}} {
		if got, resources, err := ask(scope); err != nil || !slices.Equal(resources, want) || got != scope.Without("pay openid") {
			t.Errorf("%q: %q for %q, %v", scope, got, resources, err)
		}
	}
	if scope, _, err := ask("tools:read files:read", files); err != nil || scope != "files:read" {
		t.Errorf("another API's scope: %q, %v", scope, err)
	}
	if _, _, err := ask("openid", files); !errors.As(err, &clientErrorCode) || clientErrorCode.Public != oauth.ErrScope {
		t.Errorf("nothing is left: %v", err)
	}
}

// The log contains the refused scope and redirect URI as they were sent, also for a
// self-registered client, and after a login.
func TestARefusalLogsWhatWasSent(t *testing.T) {
	const files = "https://files.example"
	wish := func(r *oauth.AuthorizationRequest) { r.Scope, r.Resources = "openid secret pay", []string{files} }
	for name, c := range map[string]struct {
		request oauth.AuthorizationRequest
		want    string
	}{
		"scope":        {asAgent(redirectURI, wish), `invalid_scope: scope not allowed: it was "openid ? pay"`},
		"redirect URI": {asAgent("com.example.app:/cb?code=secret"), `invalid_request: redirect_uri not registered: it was "com.example.app:/cb?..."`},
		"malformed":    {asAgent("https://u:secret@client.example/cb"), `invalid_request: redirect_uri not registered: it was "https://...@client.example/cb"`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			h.agents(redirectURI)
			h.api(files, 1, true, "", "files:read")
			h.api("https://bank.example", 2, false, "", "pay")
			if _, err := h.Authorize(t.Context(), c.request, h.signedIn("alice")); err == nil || err.Error() != c.want {
				t.Errorf("signed in: %v", err)
			}
			v := someone()
			st, err := h.Authorize(t.Context(), c.request, v)
			if name == "malformed" {
				if err == nil || err.Error() != c.want {
					t.Errorf("signed out: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if v.Session, err = h.SignIn(t.Context(), st.Interaction, h.identity("alice"), v); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time, the error is from the recorded interaction
				if _, err := h.Proceed(t.Context(), h.again(st.Interaction, v), v); err == nil || !strings.HasSuffix(err.Error(), c.want) {
					t.Errorf("after the login: %v", err)
				}
			}
		})
	}
	// A scope with invalid syntax.
	h := newFixture(t)
	r, _, err := oauth.ParseAuthorization("", "client_id=shop&response_type=code&redirect_uri="+url.QueryEscape(redirectURI)+"&scope=a%22+b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Authorize(t.Context(), r, h.signedIn("alice")); err == nil || err.Error() != `invalid_scope: scope not allowed: it was "? b"` {
		t.Errorf("no scope: %v", err)
	}
	// An operator's client that loses its redirect URI during the login.
	v := someone()
	it := h.begin(asking(h.c), v, StepLogin)
	h.kit.Administer(h.c.ID, func(c *store.Client) { c.RedirectURIs = []string{"https://client.example/new"} })
	if _, err := h.Proceed(t.Context(), h.again(it, v), v); !errors.Is(err, ErrClientChanged) || !strings.HasSuffix(err.Error(), `redirect_uri not registered: it was "`+redirectURI+`"`) {
		t.Errorf("changed meanwhile: %v", err)
	}
}

func TestAnOperatorsRegistrationOfAnAddressIsNotRead(t *testing.T) {
	h := newFixture(t)
	d := h.agents(redirectURI)
	own := d.c
	own.RegisteredBy, own.Scope, own.Version, own.NoPKCE = store.ByOperator, "a b c", 1, true
	if err := h.kit.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{own.Entry()}}); err != nil {
		t.Fatal(err)
	}
	h.kit.Poll()
	it := h.begin(asAgent(redirectURI), h.signedIn("alice"), StepConsent)
	if it.Client != nil || d.reads != 0 || it.Request.Scope != "a b c" {
		t.Errorf("read %d times; %+v", d.reads, it.Client)
	}
	h.kit.Administer(agentID, func(c *store.Client) { c.State = store.ClientDisabled })
	if _, err := h.Authorize(t.Context(), asAgent(redirectURI), h.signedIn("alice")); !errors.Is(err, oauth.ErrUnknownClient) || d.reads != 0 {
		t.Errorf("disabled: %v after %d reads", err, d.reads)
	}
}

func TestARestartedInteractionKeepsTheDescriptionOfItsAgent(t *testing.T) {
	h := newFixture(t)
	h.agents(redirectURI)
	h.api("https://mcp.example", 1, true, "use", "use")
	v := h.signedIn("alice")
	it := h.begin(asAgent(redirectURI), v, StepConsent)
	next, err := h.restart(t.Context(), it, v, true)
	if err != nil || next.Client == nil || next.Client.Name != "Agent" {
		t.Errorf("%+v, %v", next, err)
	}
	h.step(time.Second)
	if _, c, err := h.Login(t.Context(), next.ID); err != nil || c.ID != agentID || ShownName(c) != "agent.example" {
		t.Errorf("%+v, %v", c, err)
	}
	it = h.begin(asAgent(redirectURI), someone(), StepLogin)
	if _, c, err := h.Login(t.Context(), it.ID); err != nil || ShownName(c) != "agent.example" {
		t.Errorf("%+v, %v", c, err)
	}
	if u, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "alice"}); err != nil || u == "" {
		t.Errorf("the portal's answer: %v", err)
	}
}

// If no code can hold a handed-over login, the system that hands it over gets the error,
// although the client's document is read only afterwards.
func TestALoginThatNoCodeCanHoldIsRefusedBeforeTheDescriptionIsRead(t *testing.T) {
	h := newFixture(t)
	h.Issuer.IDTokenLifetime = 5 * time.Minute
	h.agents(redirectURI)
	h.api("https://mcp.example", 1, true, "use", "use")
	accept := func(subject string, choose ...func(*oauth.AuthorizationRequest)) error {
		t.Helper()
		it := h.begin(asAgent(redirectURI, choose...), someone(), StepLogin)
		_, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: subject})
		return err
	}
	both := func(r *oauth.AuthorizationRequest) {
		r.Scope, r.Resources = "openid use", []string{"https://mcp.example"}
	}
	// The client does not get openid, so there is no id_token that would have to name the
	// user.
	if err := accept("jürgen", both); err != nil {
		t.Errorf("openid is not open to it: %v", err)
	}
	h.api(h.Issuer.ID, 2, true, "")
	var invalid *oauth.Invalid
	if err := accept("jürgen", both); !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("a sub that is not ASCII: %v", err)
	}
	if err := accept(strings.Repeat("j", oauth.MaxSubject), both); err != nil {
		t.Errorf("ASCII: %v", err)
	}
	if err := accept("jürgen", func(r *oauth.AuthorizationRequest) { r.Scope, r.Resources = "use", []string{"https://mcp.example"} }); err != nil {
		t.Errorf("without openid: %v", err)
	}
	// Defects of the request are reported to the client, not to the portal.
	for name, choose := range map[string]func(*oauth.AuthorizationRequest){
		"no challenge": func(r *oauth.AuthorizationRequest) { r.Challenge = "" },
		"another API":  func(r *oauth.AuthorizationRequest) { r.Resources = []string{"https://other.example"} },
	} {
		if err := accept("alice", choose); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A user whose subject is not ASCII is not asked for consent to an id_token, which cannot
// contain the subject. The client gets the error at once.
func TestNoConsentPageForACodeThatCannotBeMade(t *testing.T) {
	h := newFixture(t)
	h.Issuer.IDTokenLifetime = 5 * time.Minute
	shop := h.client(client.Registration{ID: "openid", Settings: store.Settings{Name: "OpenID", Scope: "openid a"}})
	v := h.signedIn("jürgen")
	_, err := h.Authorize(t.Context(), asking(shop), v)
	var invalid *oauth.Invalid
	if clientErrorCode(t, err) != oauth.ServerError || !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("%v", err)
	}
	h.begin(asking(shop, scope("a")), v, StepConsent)
	// The same applies to an agent, once its document is read.
	h.agents(redirectURI)
	h.api("https://mcp.example", 1, true, "use", "use")
	h.api(h.Issuer.ID, 2, true, "")
	_, err = h.Authorize(t.Context(), asAgent(redirectURI, func(r *oauth.AuthorizationRequest) {
		r.Scope, r.Resources = "openid use", []string{"https://mcp.example"}
	}), v)
	if clientErrorCode(t, err) != oauth.ServerError || !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("an agent: %v", err)
	}
}

// Two users consent to a new client at the same time: there is one record, and one event.
func TestConcurrentFirstConsentsRecordOneEvent(t *testing.T) {
	h := newFixture(t)
	h.agents(redirectURI)
	h.api("https://mcp.example", 1, true, "use", "use")
	one, two := h.signedIn("alice"), h.signedIn("bob")
	first, second := h.begin(asAgent(redirectURI), one, StepConsent), h.begin(asAgent(redirectURI), two, StepConsent)
	h.Interactions.Store = &overtaken{h.kit.Engine, func() {
		h.code(h.allow(t.Context(), h.again(second, two), two, true))
	}}
	h.code(h.allow(t.Context(), h.again(first, one), one, true))
	if events, err := h.kit.Engine.Events(t.Context(), agentID, 9); err != nil || len(events) != 1 {
		t.Errorf("%+v, %v", events, err)
	}
}

// overtaken is a store that makes another commit before its first commit.
type overtaken struct {
	store.Store
	first func()
}

func (s *overtaken) Commit(ctx context.Context, c store.Change) error {
	if f := s.first; f != nil {
		s.first = nil
		f()
	}
	return s.Store.Commit(ctx, c)
}

// TestADocumentWithoutCodesGetsNone: RFC 6749 section 4.1.2.1. A document whose grant
// types are all unknown here is not an unread document.
func TestADocumentWithoutCodesGetsNone(t *testing.T) {
	h := newFixture(t)
	d := h.agents(redirectURI)
	h.api("https://mcp.example", 1, true, "use", "use")
	for _, types := range [][]string{{store.GrantRefreshToken, store.GrantDeviceCode}, {store.GrantRefreshToken}, {}} {
		d.c.GrantTypes = types
		var clientErrorCode *ClientError
		if st, err := h.Authorize(t.Context(), asAgent(redirectURI), h.signedIn("alice")); !errors.As(err, &clientErrorCode) || clientErrorCode.Public.Code != oauth.UnauthorizedClient || st.Interaction != nil {
			t.Errorf("%q: %v", types, err)
		}
		// The same applies to a user who signs in first.
		v := someone()
		it := h.begin(asAgent(redirectURI), v, StepLogin)
		var err error
		if v.Session, err = h.SignIn(t.Context(), it, h.identity("alice"), v); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Proceed(t.Context(), h.again(it, v), v); !errors.As(err, &clientErrorCode) || clientErrorCode.Public.Code != oauth.UnauthorizedClient {
			t.Errorf("%q, after the sign-in: %v", types, err)
		}
	}
}
