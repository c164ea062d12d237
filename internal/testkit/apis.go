package testkit

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// Orders and Invoices are the ids of the APIs of WithAPIs.
const (
	Orders   = "https://api.example/orders"
	Invoices = "https://api.example/invoices"
)

// AgentID is the id of the client that Agent registers.
const AgentID = "https://agent.example/client.json"

func minutes(n int) *store.Milliseconds {
	ms := store.Milliseconds((time.Duration(n) * time.Minute).Milliseconds())
	return &ms
}

// PutAPI stores an API as its next version.
func (s *Service) PutAPI(a store.API) {
	s.T.Helper()
	ch, err := s.Engine.Changes(s.T.Context(), 0)
	if err != nil {
		s.T.Fatal(err)
	}
	a.Realm, a.Version, a.UpdatedAt = Realm, ch.APIRow(a.ID).Version+1, grant.At(s.Now())
	if err := s.Engine.Commit(s.T.Context(), store.Change{Entries: []store.Entry{a.Entry()}}); err != nil {
		s.T.Fatal(err)
	}
	if err := s.Directory.Poll(s.T.Context()); err != nil {
		s.T.Fatal(err)
	}
}

// OrdersAPI returns a registration of Orders.
func OrdersAPI() store.API {
	return store.API{ID: Orders, Number: 1, Scopes: []store.APIScope{{Name: "orders:read", Number: 1}, {Name: "orders:write", Number: 2}}}
}

// InvoicesAPI returns a registration of Invoices, whose tokens are JWTs.
func InvoicesAPI() store.API {
	return store.API{ID: Invoices, Number: 2, Scopes: []store.APIScope{{Name: "invoices", Number: 1}},
		TokenFormat: store.TokenJWT, AccessLifetime: minutes(10), LongestLifetime: *minutes(10)}
}

// WithAPIs makes a Service that has two APIs, and a client that may have tokens for both.
func WithAPIs(t *testing.T, change ...func(*issuer.Issuer)) *Service {
	s := NewService(t, change...)
	s.PutAPI(OrdersAPI())
	s.PutAPI(InvoicesAPI())
	s.Register(client.Registration{ID: "shop", Settings: store.Settings{Name: "Shop", RedirectURIs: []string{RedirectURI}, Scope: "openid free", APIs: []string{Orders, Invoices}, Auth: store.AuthEither, NoPKCE: true}})
	return s
}

// AuthorizeAt issues a code of the client of WithAPIs for resources.
func (s *Service) AuthorizeAt(scope string, resources ...string) (issuer.IssuedCode, error) {
	s.T.Helper()
	return s.Codes().Issue(s.T.Context(), issuer.Authorization{ClientID: "shop", RedirectURI: RedirectURI, Subject: Subject, Scope: scope, Resources: resources})
}

// RefreshAt refreshes a token of the client of WithAPIs, with a scope and one resource.
func (s *Service) RefreshAt(token, scope, resource string) (issuer.Tokens, error) {
	s.T.Helper()
	return s.Refresh(s.T.Context(), s.Listed("shop"), issuer.RefreshRequest{RefreshToken: token, Scope: scope, Resource: resource, From: Origin})
}

// Agent stores the record of a self-registered client to which a user has consented.
func (s *Service) Agent() *store.Client {
	s.T.Helper()
	c := store.Client{
		ID: AgentID, Realm: Realm, State: store.ClientEnabled, Settings: store.Settings{Name: "Agent", Auth: store.AuthNone, Native: true, NoPKCE: false,
			GrantTypes: store.GrantTypes, RedirectURIs: []string{RedirectURI}, Scope: "a b"}, RegisteredBy: store.ByDocument, Secrets: []store.Secret{},
	}
	if err := s.Engine.Commit(s.T.Context(), store.Change{Documents: []store.Document{c.Record(s.At(), s.RecordUntil(s.At()))}}); err != nil {
		s.T.Fatal(err)
	}
	return s.FoundAgent()
}

// FoundAgent returns the agent as the token endpoint finds it, or nil.
func (s *Service) FoundAgent() *store.Client {
	s.T.Helper()
	c, err := s.Directory.Client(s.T.Context(), s.View(), Realm, AgentID)
	if err != nil {
		s.T.Fatal(err)
	}
	return c
}

// LoginOfAgent redeems a code for the agent.
func (s *Service) LoginOfAgent(c *store.Client) issuer.Tokens {
	s.T.Helper()
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	code, err := s.Codes().IssueTo(c, issuer.Authorization{
		ClientID: AgentID, RedirectURI: RedirectURI, Subject: Subject, Scope: "a", Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return s.Must(s.Exchange(s.T.Context(), c, issuer.CodeRequest{Code: code.Code, RedirectURI: RedirectURI, Verifier: verifier}))
}

// Put stores a trust as its next version.
func (k *Kit) Put(t store.Trust) store.Trust {
	k.T.Helper()
	t.Realm, t.ID, t.Version, t.UpdatedAt = Realm, store.TrustID(t.Issuer, t.Kind, t.ClientID), 1, k.At()
	if row := k.View().TrustRow(Realm, t.ID); row != nil {
		t.Version = row.Version + 1
	}
	k.commit(store.Change{Entries: []store.Entry{t.Entry()}})
	return t
}
