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
	"github.com/mintage/mintage/internal/testkit"
)

func (s *service) loginFor(scope string, resources ...string) issuer.Tokens {
	s.T.Helper()
	code, err := s.AuthorizeAt(scope, resources...)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.Must(s.Exchange(s.T.Context(), s.Listed("shop"), issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, From: testkit.Origin}))
}

func minutes(n int) *store.Milliseconds {
	ms := store.Milliseconds((time.Duration(n) * time.Minute).Milliseconds())
	return &ms
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
	t2 := s.Must(s.RefreshAt(t1.RefreshToken, "", orders+"/"))
	s.names(t2, store.TokenOpaque, 300, "openid orders:read orders:write", orders)
	t3 := s.Must(s.RefreshAt(t2.RefreshToken, "", invoices))
	s.names(t3, store.TokenJWT, 600, "openid invoices", invoices)
	t4 := s.Must(s.RefreshAt(t3.RefreshToken, "orders:read invoices", ""))
	s.names(t4, store.TokenOpaque, 300, "orders:read invoices", orders, invoices)
	// Nothing that is refused costs the token.
	s.Refused(grant.TargetUnknown)(s.RefreshAt(t4.RefreshToken, "", "https://api.example/other"))
	s.Refused(grant.TargetUnknown)(s.RefreshAt(t4.RefreshToken, "", oauth.SeveralResources+orders))
	s.Refused(grant.ScopeTooWide)(s.RefreshAt(t4.RefreshToken, "invoices", orders))
	s.Refused(grant.ScopeTooWide)(s.RefreshAt(t4.RefreshToken, "free", ""))
	t5 := s.Must(s.RefreshAt(t4.RefreshToken, "", ""))
	s.names(t5, store.TokenOpaque, 300, all, orders, invoices)
}

func TestNothingLeftForAnAPIIsAnUnknownTarget(t *testing.T) {
	s := withAPIs(t)
	t1 := s.loginFor("orders:read", orders, invoices)
	s.Refused(grant.TargetUnknown)(s.RefreshAt(t1.RefreshToken, "", invoices))
	s.names(s.Must(s.RefreshAt(t1.RefreshToken, "", orders)), store.TokenOpaque, 300, "orders:read", orders)
	// An API that the user has not agreed to is none of the grant.
	t2 := s.loginFor("orders:read", orders)
	s.Refused(grant.TargetUnknown)(s.RefreshAt(t2.RefreshToken, "", invoices))
}

func TestARepeatedRequestMayNameAnotherAPI(t *testing.T) {
	s := withAPIs(t)
	t1 := s.loginFor("", orders, invoices)
	t2 := s.Must(s.RefreshAt(t1.RefreshToken, "", orders))
	s.Clock.Advance(time.Second)
	again := s.Must(s.RefreshAt(t1.RefreshToken, "", orders))
	if !again.Repeated || again.AccessToken != t2.AccessToken || again.RefreshToken != t2.RefreshToken {
		t.Error("the same request has another answer")
	}
	other := s.Must(s.RefreshAt(t1.RefreshToken, "", invoices))
	if !other.Repeated || other.RefreshToken != t2.RefreshToken || other.ExpiresIn != 599 {
		t.Errorf("another resource: %+v", other)
	}
	s.names(other, store.TokenJWT, 599, "openid invoices", invoices)
}

func TestWithoutAResourceAllIsAsItWas(t *testing.T) {
	s := withAPIs(t)
	t1 := s.loginFor("")
	s.names(t1, store.TokenOpaque, 300, "openid free orders:read orders:write invoices", s.ID)
	if before := s.Login(); len(before.AccessToken) != len(t1.AccessToken) {
		t.Error("the access token has another form")
	}
	// The grant has no APIs, whatever its client names later.
	s.Refused(grant.TargetUnknown)(s.RefreshAt(t1.RefreshToken, "", orders))
	s.Must(s.RefreshAt(t1.RefreshToken, "", s.ID)) // its audience
	// Clients without APIs may send what they like.
	if _, err := s.Refresh(t.Context(), s.Listed(clientID), issuer.RefreshRequest{RefreshToken: s.Login().RefreshToken, Resource: "anything", From: testkit.Origin}); err != nil {
		t.Error(err)
	}
}

func TestAnAuthorizationNamesOneToFiveAPIsOfTheClient(t *testing.T) {
	s := withAPIs(t)
	six := []string{}
	for i, name := range []string{"a", "b", "c", "d"} {
		id := "https://api.example/" + name
		s.PutAPI(store.API{ID: id, Number: uint16(10 + i), Scopes: []store.APIScope{{Name: name, Number: 1}}})
		six = append(six, id)
	}
	s.Register(client.Registration{ID: "six", Name: "Six", RedirectURIs: []string{redirectURI}, APIs: append([]string{orders + " orders:read", invoices}, six...), Auth: store.AuthEither, NoPKCE: true})
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
	t2 := s.Must(s.RefreshAt(t1.RefreshToken, "", orders))
	t3 := s.Must(s.RefreshAt(t2.RefreshToken, "", invoices))
	gone := testkit.InvoicesAPI()
	gone.Deleted, gone.Scopes = true, nil
	s.PutAPI(gone)
	check := func(when string) {
		t.Helper()
		for name, token := range map[string]string{"all": t1.AccessToken, "the API": t3.AccessToken} {
			if _, err := s.Inspect(t.Context(), token); testkit.RefusalOf(t, err) != grant.TargetGone {
				t.Errorf("%s, a token for %s: %v", when, name, err)
			}
		}
		s.names(t2, store.TokenOpaque, 300, "openid orders:read orders:write", orders)
	}
	check("deleted")
	// A new API of that id is another one.
	anew := testkit.InvoicesAPI()
	anew.Number, anew.Scopes = 3, []store.APIScope{{Name: "invoices", Number: 2}}
	s.PutAPI(anew)
	check("registered again")
	s.Refused(grant.TargetUnknown)(s.RefreshAt(t3.RefreshToken, "", invoices))
	t4 := s.Must(s.RefreshAt(t3.RefreshToken, "", ""))
	if got, err := s.Inspect(t.Context(), t4.AccessToken); err != nil || !slices.Equal(got.Audience, []string{orders}) {
		t.Errorf("%+v, %v", got, err)
	}
	last := testkit.OrdersAPI()
	last.Deleted, last.Scopes = true, nil
	s.PutAPI(last)
	s.Refused(grant.TargetGone)(s.RefreshAt(t4.RefreshToken, "", ""))
}

func TestKeysAndTheFeedOutliveTheLongestTokenOfAnAPI(t *testing.T) {
	s := withAPIs(t)
	s.Reopen(keys.Schedule{Lifetime: 2 * time.Hour, Lead: time.Hour, MaxAge: time.Minute, Retention: 10 * time.Minute, Algorithms: keys.SigningAlgorithms})
	a := testkit.InvoicesAPI()
	a.AccessLifetime, a.LongestLifetime = minutes(20*60), *minutes(20 * 60)
	s.PutAPI(a)
	token := s.Must(s.RefreshAt(s.loginFor("", invoices).RefreshToken, "", ""))
	s.names(token, store.TokenJWT, 20*3600, "openid invoices", invoices)
	// Shorter now, and a token from before lives on.
	a.AccessLifetime = minutes(5)
	s.PutAPI(a)
	for range 19 {
		s.RotateKeys()
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
	t2 := s.Must(s.RefreshAt(t1.RefreshToken, "orders:read offline_access", ""))
	if t3 := s.Must(s.RefreshAt(t2.RefreshToken, "offline_access", "")); t3.Scope != "orders:read" {
		t.Errorf("scope %q", t3.Scope)
	}
	s.Register(client.Registration{ID: "old", Name: "Old", RedirectURIs: []string{redirectURI}, Scope: "read offline_access", Auth: store.AuthEither})
	if c := s.Listed("old"); c.Scope != "read" {
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
	a := testkit.OrdersAPI()
	a.Open, a.DefaultScope = true, "orders:read"
	s.PutAPI(a)
	ask(orders, a.Scope(), "orders:read")
	ask(orders, a.Scope(), "orders:read", orders+"/")
	ask(refused, "", "", invoices)
	ask(refused, "", "", s.ID)
	b := testkit.InvoicesAPI()
	b.Open = true
	s.PutAPI(b)
	ask(refused, "", "") // which of the two?
	ask(invoices, "invoices", "", invoices)
	// The issuer is closed until an operator opens it.
	s.PutAPI(store.API{ID: s.ID, Number: 9, Open: true})
	ask(s.ID, oauth.OpenIDScopes, "", s.ID)
	ask(invoices, oauth.OpenIDScopes+" invoices", "", invoices)
}
