package issuer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

// TestSelfRegisteredClientsGetNoTokensForThemselves: no operator vouches for such a
// client. It acts for users only, with their consent.
func TestSelfRegisteredClientsGetNoTokensForThemselves(t *testing.T) {
	s := newService(t)
	s.Directory.AdmitSelfRegistered(func(_, id string) bool { return id == agentID })
	s.Agent() // its record names every grant type
	c := s.FoundAgent()
	if c.MayUse(store.GrantClientCredentials) || !c.MayUse(store.GrantAuthorizationCode) || !c.MayUse(store.GrantRefreshToken) {
		t.Errorf("the client may use %q", c.GrantTypes)
	}
	c.Auth = store.AuthPrivateKeyJWT
	if c.MayUse(store.GrantClientCredentials) {
		t.Error("a client that registered itself with keys may use client_credentials")
	}
	c.RegisteredBy = store.ByOperator
	if !c.MayUse(store.GrantClientCredentials) {
		t.Error("a confidential client of an operator may not use client_credentials")
	}
	c.Auth = store.AuthNone
	if c.MayUse(store.GrantClientCredentials) {
		t.Error("a public client may use client_credentials")
	}
}

func TestAClientThatRegisteredItselfIsFoundByItsRecord(t *testing.T) {
	s := newService(t)
	if c := s.Agent(); c != nil {
		t.Fatal("found, although no self-registered client is admitted")
	}
	admitted := true
	s.Directory.AdmitSelfRegistered(func(_, id string) bool { return admitted && id == agentID })
	c := s.FoundAgent()
	if c == nil || !c.SelfRegistered() || c.Name != "Agent" || s.Listed(clientID).SelfRegistered() {
		t.Fatalf("%+v", c)
	}
	tokens := s.LoginOfAgent(c)
	tokens = s.Must(s.Refresh(t.Context(), c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken}))
	active := func(want grant.Refusal) {
		t.Helper()
		var refused *grant.Refused
		got, err := s.Inspect(t.Context(), tokens.AccessToken)
		if want == grant.Allowed && (err != nil || got.ClientID != agentID) || want != grant.Allowed && (!errors.As(err, &refused) || refused.Why != want) {
			t.Errorf("%+v, %v; want %v", got, err, want)
		}
	}
	active(grant.Allowed)
	admitted = false // the operator allows it no longer
	active(grant.ClientDisabled)
	if s.FoundAgent() != nil {
		t.Error("found, although the operator no longer admits the client")
	}
	admitted = true
	active(grant.Allowed)

	// A failed read is not a refusal, and the lookup of an operator's client reads no
	// document.
	s.Faulty.Calls()
	s.Faulty.Inject(storetest.Document, 1, storetest.Lost)
	if _, err := s.Directory.Client(t.Context(), s.View(), realm, agentID); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a fault: %v", err)
	}
	if c, err := s.Directory.Client(t.Context(), s.View(), realm, clientID); c == nil || err != nil {
		t.Errorf("an operator's client: %v", err)
	}
	s.Faulty.Heal()

	// A disabled entry with RegisteredBy set to the client's own document bars the client.
	barred := *c
	barred.Version, barred.State = 1, store.ClientDisabled
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{barred.Entry()}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	active(grant.ClientDisabled)
	if s.FoundAgent() != nil {
		t.Error("found although it is disabled")
	}
	barred.Version, barred.State, barred.Name = 2, store.ClientEnabled, "Of the entry"
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{barred.Entry()}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	active(grant.Allowed)
	if c := s.FoundAgent(); c == nil || c.Name == barred.Name {
		t.Errorf("enabled again: %+v", c)
	}

	// An operator's registration of the same id takes precedence, even if it is disabled.
	own := *c
	own.RegisteredBy, own.Version, own.State = store.ByOperator, 3, store.ClientDisabled
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{own.Entry()}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	active(grant.ClientDisabled)
	s.Administer(agentID, func(c *store.Client) { c.State, c.Name = store.ClientEnabled, "Ours" })
	if c := s.FoundAgent(); c == nil || c.Name != "Ours" {
		t.Errorf("%+v", c)
	}
}

func TestTheRecordOfAClientOutlivesItsLastGrantByAMonth(t *testing.T) {
	s := newService(t)
	s.Directory.AdmitSelfRegistered(func(_, _ string) bool { return true })
	c := s.Agent()
	first := s.At()
	tokens := s.LoginOfAgent(c)
	if s.FoundAgent().Version != 1 {
		t.Error("the record was written again at once")
	}
	refresh := func() {
		t.Helper()
		tokens = s.Must(s.Refresh(t.Context(), s.FoundAgent(), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken}))
	}
	for range 23 {
		s.Clock.Advance(time.Hour)
		refresh()
	}
	if v := s.FoundAgent().Version; v != 1 {
		t.Errorf("version %d on the first day", v)
	}
	s.Clock.Advance(time.Hour)
	refresh()
	if c := s.FoundAgent(); c.Version != 2 || c.RecordedUntil != s.RecordUntil(first.Add(24*time.Hour)) {
		t.Errorf("a day later: version %d, until %s", c.Version, c.RecordedUntil.Time())
	}
	// The record outlives the refresh token by at least a month.
	if got := s.FoundAgent().RecordedUntil.Since(s.Row(tokens.GrantID).ExpiresAt); got < 31*24*time.Hour {
		t.Errorf("the record ends %s after the grant", got)
	}
	// A record that cannot be written does not prevent the refresh.
	s.Clock.Advance(48 * time.Hour)
	c = s.FoundAgent()
	s.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
	tokens = s.Must(s.Refresh(t.Context(), c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken}))
	s.Faulty.Heal()
	if s.Logged.Count("cannot extend the record") != 1 {
		t.Error("the fault was not logged")
	}
}

// The processes of a self-registered client share a token file, so it gets a reuse grace
// unless its registration sets another one.
func TestAClientThatRegisteredItselfHasAReuseGrace(t *testing.T) {
	s := newService(t)
	iss := *s.Issuer
	iss.OwnReuseGrace = 3 * time.Hour
	own := *s.Listed(clientID)
	if p := iss.PolicyOf(&own); p.ReuseGrace != 0 {
		t.Errorf("an operator's client has a grace of %s", p.ReuseGrace)
	}
	own.RegisteredBy = store.ByDocument
	if p := iss.PolicyOf(&own); p.ReuseGrace != 3*time.Hour {
		t.Errorf("a grace of %s", p.ReuseGrace)
	}
	none := store.Milliseconds(0)
	own.ReuseGrace = &none
	if p := iss.PolicyOf(&own); p.ReuseGrace != 0 {
		t.Errorf("a grace of %s, although it is switched off", p.ReuseGrace)
	}
}

// Agents request every scope that they have found in metadata, even at a refresh.
func TestAClientThatRegisteredItselfGetsTheCoveredPartAtARefresh(t *testing.T) {
	s := newService(t)
	s.Directory.AdmitSelfRegistered(func(_, _ string) bool { return true })
	for _, a := range []store.API{testkit.OrdersAPI(), testkit.InvoicesAPI()} {
		a.Open = true
		s.PutAPI(a)
	}
	c := s.Agent()
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	code, err := s.Codes().IssueTo(c, issuer.Authorization{
		ClientID: agentID, RedirectURI: redirectURI, Subject: subject, Scope: "orders:read invoices", Resources: []string{orders, invoices},
		Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens := s.Must(s.Exchange(t.Context(), c, issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, Verifier: verifier}))
	refresh := func(scope, resource string) (issuer.Tokens, error) {
		return s.Refresh(t.Context(), c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, Scope: scope, Resource: resource})
	}
	for _, tt := range []struct {
		scope, resource string
		want            oauth.Scope
	}{
		{"orders:write orders:read mcp:all offline_access", "", "orders:read"},
		{"mcp:all", "", "orders:read invoices"}, // no scope is left, as if the request named none
		{"invoices orders:read", orders + "/", "orders:read"},
		{"orders:read", invoices, "invoices"},
		{"invoices", "", "invoices"},
	} {
		tokens = s.Must(refresh(tt.scope, tt.resource))
		if got, err := s.Inspect(t.Context(), tokens.AccessToken); err != nil || tokens.Scope != tt.want || got.Scope != tt.want {
			t.Errorf("%q at %q: scope %q and %q, %v; want %q", tt.scope, tt.resource, tokens.Scope, got.Scope, err, tt.want)
		}
	}
	s.Refused(grant.ScopeTooWide)(refresh("no\"scope", ""))
	s.Refused(grant.TargetUnknown)(refresh("orders:read", "https://api.example/other"))
}

// TestADocumentWithoutRefreshGetsNoRefreshToken: RFC 7591 section 2.
func TestADocumentWithoutRefreshGetsNoRefreshToken(t *testing.T) {
	s := newService(t)
	s.Directory.AdmitSelfRegistered(func(_, id string) bool { return id == agentID })
	c := s.Agent()
	if tokens := s.LoginOfAgent(c); tokens.RefreshToken == "" || tokens.AccessToken == "" {
		t.Errorf("registered for it: %+v", tokens.Scope)
	}
	c.GrantTypes = []string{store.GrantAuthorizationCode}
	code, err := s.Codes().IssueTo(c, issuer.Authorization{
		ClientID: agentID, RedirectURI: redirectURI, Subject: subject, Scope: "a", Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := s.Exchange(t.Context(), c, issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, Verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"})
	if err != nil || tokens.RefreshToken != "" || tokens.AccessToken == "" {
		t.Errorf("not registered for it: a refresh token is there: %t; %v", tokens.RefreshToken != "", err)
	}
}
