package issuer_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	orders   = "https://api.example/orders"
	invoices = "https://api.example/invoices"
)

func minutes(n int) *store.Milliseconds {
	ms := store.Milliseconds((time.Duration(n) * time.Minute).Milliseconds())
	return &ms
}

// putAPI stores an API as its next version.
func (s *service) putAPI(a store.API) {
	s.T.Helper()
	ch, err := s.Engine.Changes(s.T.Context(), 0)
	if err != nil {
		s.T.Fatal(err)
	}
	a.Realm, a.Version, a.UpdatedAt = realm, ch.APIRow(a.ID).Version+1, grant.At(s.Now())
	if err := s.Engine.Commit(s.T.Context(), store.Change{Entries: []store.Entry{a.Entry()}}); err != nil {
		s.T.Fatal(err)
	}
	if err := s.Directory.Poll(s.T.Context()); err != nil {
		s.T.Fatal(err)
	}
}

func apiOrders() store.API {
	return store.API{ID: orders, Number: 1, Scopes: []store.APIScope{{Name: "orders:read", Number: 1}, {Name: "orders:write", Number: 2}}}
}

func apiInvoices() store.API {
	return store.API{ID: invoices, Number: 2, Scopes: []store.APIScope{{Name: "invoices", Number: 1}},
		TokenFormat: store.TokenJWT, AccessLifetime: minutes(10), LongestLifetime: *minutes(10)}
}

// withAPIs has two APIs, and a client that may have tokens for both.
func withAPIs(t *testing.T, change ...func(*issuer.Issuer)) *service {
	s := newService(t, change...)
	s.putAPI(apiOrders())
	s.putAPI(apiInvoices())
	s.register(client.Registration{ID: "shop", Name: "Shop", RedirectURIs: []string{redirectURI}, Scope: "openid free", APIs: []string{orders, invoices}, Auth: store.AuthEither, NoPKCE: true})
	return s
}

func (s *service) authorize(scope string, resources ...string) (issuer.IssuedCode, error) {
	s.T.Helper()
	return s.IssueCode(s.T.Context(), issuer.Authorization{ClientID: "shop", RedirectURI: redirectURI, Subject: subject, Scope: scope, Resources: resources})
}

func (s *service) loginFor(scope string, resources ...string) issuer.Tokens {
	s.T.Helper()
	code, err := s.authorize(scope, resources...)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.must(s.Exchange(s.T.Context(), s.client("shop"), issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, From: origin}))
}

func (s *service) refreshFor(token, scope, resource string) (issuer.Tokens, error) {
	s.T.Helper()
	return s.Refresh(s.T.Context(), s.client("shop"), issuer.RefreshRequest{RefreshToken: token, Scope: scope, Resource: resource, From: origin})
}

// names checks what an access token is for, in every form.
func (s *service) names(tokens issuer.Tokens, format store.TokenFormat, expiresIn int64, scope oauth.Scope, audience ...string) {
	s.T.Helper()
	got, err := s.Inspect(s.T.Context(), tokens.AccessToken)
	if err != nil {
		s.T.Fatal(err)
	}
	isJWT := !strings.HasPrefix(tokens.AccessToken, keys.AccessPrefix)
	if tokens.Scope != scope || got.Scope != scope || !slices.Equal(got.Audience, audience) || tokens.ExpiresIn != expiresIn || isJWT != (format == store.TokenJWT) || tokens.Format != format && tokens.Format+format != store.TokenOpaque {
		s.T.Errorf("%s for %v, scope %q and %q, expires in %d, format %q", tokens.AccessToken[:12], got.Audience, tokens.Scope, got.Scope, tokens.ExpiresIn, tokens.Format)
	}
}

func TestATokenIsForOneAPIOfItsGrantOrForAll(t *testing.T) {
	s := withAPIs(t)
	// A slash behind an id, and the case of its host, do not matter, and aud is the
	// id as it is registered.
	t1 := s.loginFor("", "HTTPS://API.example/orders/", invoices)
	all := oauth.Scope("openid orders:read orders:write invoices")
	s.names(t1, store.TokenOpaque, 300, all, orders, invoices) // the shortest lifetime, and no JWT unless both are
	t2 := s.must(s.refreshFor(t1.RefreshToken, "", orders+"/"))
	s.names(t2, store.TokenOpaque, 300, "openid orders:read orders:write", orders)
	t3 := s.must(s.refreshFor(t2.RefreshToken, "", invoices))
	s.names(t3, store.TokenJWT, 600, "openid invoices", invoices)
	t4 := s.must(s.refreshFor(t3.RefreshToken, "orders:read invoices", ""))
	s.names(t4, store.TokenOpaque, 300, "orders:read invoices", orders, invoices)
	// Nothing that is refused costs the token.
	s.refused(grant.TargetUnknown)(s.refreshFor(t4.RefreshToken, "", "https://api.example/other"))
	s.refused(grant.TargetUnknown)(s.refreshFor(t4.RefreshToken, "", oauth.SeveralResources+orders))
	s.refused(grant.ScopeTooWide)(s.refreshFor(t4.RefreshToken, "invoices", orders))
	s.refused(grant.ScopeTooWide)(s.refreshFor(t4.RefreshToken, "free", ""))
	t5 := s.must(s.refreshFor(t4.RefreshToken, "", ""))
	s.names(t5, store.TokenOpaque, 300, all, orders, invoices)
}

func TestNothingLeftForAnAPIIsAnUnknownTarget(t *testing.T) {
	s := withAPIs(t)
	t1 := s.loginFor("orders:read", orders, invoices)
	s.refused(grant.TargetUnknown)(s.refreshFor(t1.RefreshToken, "", invoices))
	s.names(s.must(s.refreshFor(t1.RefreshToken, "", orders)), store.TokenOpaque, 300, "orders:read", orders)
	// An API that the user has not agreed to is none of the grant.
	t2 := s.loginFor("orders:read", orders)
	s.refused(grant.TargetUnknown)(s.refreshFor(t2.RefreshToken, "", invoices))
}

func TestARepeatedRequestMayNameAnotherAPI(t *testing.T) {
	s := withAPIs(t)
	t1 := s.loginFor("", orders, invoices)
	t2 := s.must(s.refreshFor(t1.RefreshToken, "", orders))
	s.Clock.Advance(time.Second)
	again := s.must(s.refreshFor(t1.RefreshToken, "", orders))
	if !again.Repeated || again.AccessToken != t2.AccessToken || again.RefreshToken != t2.RefreshToken {
		t.Error("the same request has another answer")
	}
	other := s.must(s.refreshFor(t1.RefreshToken, "", invoices))
	if !other.Repeated || other.RefreshToken != t2.RefreshToken || other.ExpiresIn != 599 {
		t.Errorf("another resource: %+v", other)
	}
	s.names(other, store.TokenJWT, 599, "openid invoices", invoices)
}

func TestWithoutAResourceAllIsAsItWas(t *testing.T) {
	s := withAPIs(t)
	t1 := s.loginFor("")
	s.names(t1, store.TokenOpaque, 300, "openid free orders:read orders:write invoices", s.ID)
	if before := s.login(); len(before.AccessToken) != len(t1.AccessToken) {
		t.Error("the access token has another form")
	}
	// The grant has no APIs, whatever its client names later.
	s.refused(grant.TargetUnknown)(s.refreshFor(t1.RefreshToken, "", orders))
	s.must(s.refreshFor(t1.RefreshToken, "", s.ID)) // its audience
	// Clients without APIs may send what they like.
	if _, err := s.Refresh(t.Context(), s.client(clientID), issuer.RefreshRequest{RefreshToken: s.login().RefreshToken, Resource: "anything", From: origin}); err != nil {
		t.Error(err)
	}
}

func TestAnAuthorizationNamesOneToFiveAPIsOfTheClient(t *testing.T) {
	s := withAPIs(t)
	six := []string{}
	for i, name := range []string{"a", "b", "c", "d"} {
		id := "https://api.example/" + name
		s.putAPI(store.API{ID: id, Number: uint16(10 + i), Scopes: []store.APIScope{{Name: name, Number: 1}}})
		six = append(six, id)
	}
	s.register(client.Registration{ID: "six", Name: "Six", RedirectURIs: []string{redirectURI}, APIs: append([]string{orders + " orders:read", invoices}, six...), Auth: store.AuthEither, NoPKCE: true})
	of := func(id, scope string, resources ...string) error {
		_, err := s.IssueCode(t.Context(), issuer.Authorization{ClientID: id, RedirectURI: redirectURI, Subject: subject, Scope: scope, Resources: resources})
		return err
	}
	for _, c := range []struct {
		name, client, scope string
		resources           []string
		field               string
	}{
		{"five", "six", "", append(six, invoices), ""},
		{"six", "six", "", append(six, invoices, orders), "resource"},
		{"the same twice", "six", "", append(six, invoices, invoices+"/"), ""},
		{"none that is registered", "shop", "", []string{"https://api.example/none"}, "resource"},
		{"another path", "shop", "", []string{orders + "/x"}, "resource"},
		{"one of others", "shop", "", []string{six[0]}, "resource"},
		{"a scope that is not allowed", "six", "orders:write", []string{orders}, "scope"},
		{"a scope of another API", "shop", "invoices", []string{orders}, "scope"},
		{"a scope of no API", "shop", "free", []string{orders}, "scope"},
		{"the issuer, with its scopes", "shop", "openid", []string{s.ID}, ""},
		{"the issuer, of a client without any", "six", "", []string{s.ID, orders}, "resource"},
	} {
		err := of(c.client, c.scope, c.resources...)
		var invalid *oauth.Invalid
		if errors.As(err, &invalid); c.field == "" && err != nil || c.field != "" && (invalid == nil || invalid.Field != c.field) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestADeletedAPIEndsItsTokens(t *testing.T) {
	s := withAPIs(t)
	t1 := s.loginFor("", orders, invoices)
	t2 := s.must(s.refreshFor(t1.RefreshToken, "", orders))
	t3 := s.must(s.refreshFor(t2.RefreshToken, "", invoices))
	gone := apiInvoices()
	gone.Deleted, gone.Scopes = true, nil
	s.putAPI(gone)
	check := func(when string) {
		t.Helper()
		for name, token := range map[string]string{"all": t1.AccessToken, "the API": t3.AccessToken} {
			if _, err := s.Inspect(t.Context(), token); refusalOf(t, err) != grant.TargetGone {
				t.Errorf("%s, a token for %s: %v", when, name, err)
			}
		}
		s.names(t2, store.TokenOpaque, 300, "openid orders:read orders:write", orders)
	}
	check("deleted")
	// A new API of that id is another one.
	anew := apiInvoices()
	anew.Number, anew.Scopes = 3, []store.APIScope{{Name: "invoices", Number: 2}}
	s.putAPI(anew)
	check("registered again")
	s.refused(grant.TargetUnknown)(s.refreshFor(t3.RefreshToken, "", invoices))
	t4 := s.must(s.refreshFor(t3.RefreshToken, "", ""))
	if got, err := s.Inspect(t.Context(), t4.AccessToken); err != nil || !slices.Equal(got.Audience, []string{orders}) {
		t.Errorf("%+v, %v", got, err)
	}
	last := apiOrders()
	last.Deleted, last.Scopes = true, nil
	s.putAPI(last)
	s.refused(grant.TargetGone)(s.refreshFor(t4.RefreshToken, "", ""))
}

func TestKeysAndTheFeedOutliveTheLongestTokenOfAnAPI(t *testing.T) {
	s := withAPIs(t)
	s.open(keys.Schedule{Lifetime: 2 * time.Hour, Lead: time.Hour, MaxAge: time.Minute, Retention: 10 * time.Minute, Algorithms: keys.SigningAlgorithms})
	a := apiInvoices()
	a.AccessLifetime, a.LongestLifetime = minutes(20*60), *minutes(20 * 60)
	s.putAPI(a)
	token := s.must(s.refreshFor(s.loginFor("", invoices).RefreshToken, "", ""))
	s.names(token, store.TokenJWT, 20*3600, "openid invoices", invoices)
	// Shorter now, and a token from before lives on.
	a.AccessLifetime = minutes(5)
	s.putAPI(a)
	for range 19 {
		s.rotate()
		s.Clock.Advance(time.Hour)
	}
	s.Poll()
	if got, err := s.Inspect(t.Context(), token.AccessToken); err != nil || s.ExpiresIn(got) != 3600 {
		t.Errorf("%v, expires in %d", err, s.ExpiresIn(got))
	}
	header, _ := base64.RawURLEncoding.DecodeString(strings.Split(token.AccessToken, ".")[0])
	published, err := s.PublicKeys()
	if err != nil || !slices.ContainsFunc(published, func(k jose.JSONWebKey) bool { return strings.Contains(string(header), k.KeyID) }) {
		t.Errorf("its key is not published: %s, %v", header, err)
	}
	s.RevocationsMaxAge = time.Minute
	text, err := s.Revocations(t.Context())
	if typ, claims := s.claims(text); err != nil || claims["covers_ms"].(float64) < 20*3600*1000 {
		t.Errorf("%s covers %v ms, %v", typ, claims["covers_ms"], err)
	}
}

func TestOfflineAccessIsNoScope(t *testing.T) {
	s := withAPIs(t)
	t1 := s.loginFor("offline_access orders:read", orders)
	if t1.Scope != "orders:read" {
		t.Errorf("scope %q", t1.Scope)
	}
	t2 := s.must(s.refreshFor(t1.RefreshToken, "orders:read offline_access", ""))
	if t3 := s.must(s.refreshFor(t2.RefreshToken, "offline_access", "")); t3.Scope != "orders:read" {
		t.Errorf("scope %q", t3.Scope)
	}
	s.register(client.Registration{ID: "old", Name: "Old", RedirectURIs: []string{redirectURI}, Scope: "read offline_access", Auth: store.AuthEither})
	if c := s.client("old"); c.Scope != "read" {
		t.Errorf("registered for %q", c.Scope)
	}
}

func TestClientsThatRegisteredThemselvesGetOpenAPIs(t *testing.T) {
	s := withAPIs(t)
	agent := &store.Client{ID: "agent", Realm: realm, RegisteredBy: store.ByDocument}
	ask := func(want string, scope oauth.Scope, def oauth.Scope, uris ...string) {
		t.Helper()
		r, err := s.Resources(s.View(), agent, uris)
		got := ""
		for _, number := range r.APIs {
			if api, ok := s.View().APIByNumber(realm, number); ok {
				got += api.ID
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != want || err == nil && (r.Scope != scope || r.Default != def) {
			t.Errorf("%v: %q, scope %q, default %q", uris, got, r.Scope, r.Default)
		}
	}
	refused := oauth.ErrTarget.Error()
	ask(refused, "", "")
	ask(refused, "", "", orders)
	a := apiOrders()
	a.Open, a.DefaultScope = true, "orders:read"
	s.putAPI(a)
	ask(orders, a.Scope(), "orders:read")
	ask(orders, a.Scope(), "orders:read", orders+"/")
	ask(refused, "", "", invoices)
	ask(refused, "", "", s.ID)
	b := apiInvoices()
	b.Open = true
	s.putAPI(b)
	ask(refused, "", "") // which of the two?
	ask(invoices, "invoices", "", invoices)
	// The issuer is closed until an operator opens it.
	s.putAPI(store.API{ID: s.ID, Number: 9, Open: true})
	ask(s.ID, oauth.OpenIDScopes, "", s.ID)
	ask(invoices, oauth.OpenIDScopes+" invoices", "", invoices)
}
