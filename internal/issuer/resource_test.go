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

// names checks the audience, scope, lifetime and format of an access token.
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
	// A trailing slash of an id, and the case of its host, do not matter. aud is the id as
	// registered.
	t1 := s.loginFor("", "HTTPS://API.example/orders/", invoices)
	all := oauth.Scope("openid orders:read orders:write invoices")
	s.names(t1, store.TokenOpaque, 300, all, orders, invoices) // the shortest lifetime, and no JWT unless both are
	t2 := s.Must(s.RefreshAt(t1.RefreshToken, "", orders+"/"))
	s.names(t2, store.TokenOpaque, 300, "openid orders:read orders:write", orders)
	t3 := s.Must(s.RefreshAt(t2.RefreshToken, "", invoices))
	s.names(t3, store.TokenJWT, 600, "openid invoices", invoices)
	t4 := s.Must(s.RefreshAt(t3.RefreshToken, "orders:read invoices", ""))
	s.names(t4, store.TokenOpaque, 300, "orders:read invoices", orders, invoices)
	// A refused request does not spend the refresh token.
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
	// An API that the user has not agreed to is not part of the grant.
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
		t.Error("the same request got a different answer")
	}
	other := s.Must(s.RefreshAt(t1.RefreshToken, "", invoices))
	if !other.Repeated || other.RefreshToken != t2.RefreshToken || other.ExpiresIn != 599 {
		t.Errorf("another resource: %+v", other)
	}
	s.names(other, store.TokenJWT, 599, "openid invoices", invoices)
}

// TestScopesNameTheirAPIs: most clients send a scope and no resource. The scope determines
// the APIs of a token, its format and its lifetime. Scopes that belong to no API keep the
// client's audience, which affects neither format nor lifetime.
func TestScopesNameTheirAPIs(t *testing.T) {
	for _, audience := range [][]string{nil, {"https://legacy.example", "legacy"}} {
		s := withAPIs(t, func(iss *issuer.Issuer) { iss.ID = issuerID })
		s.Administer("shop", func(c *store.Client) { c.Audience = audience })
		mine := audience
		if mine == nil {
			mine = []string{s.ID}
		}
		with := func(apis ...string) []string { return append(apis, mine...) }
		for _, c := range []struct {
			scope    string
			format   store.TokenFormat
			lifetime int64
			audience []string
		}{
			{"invoices", store.TokenJWT, 600, []string{invoices}},
			{"orders:read", store.TokenOpaque, 300, []string{orders}},
			{"orders:read orders:write offline_access", store.TokenOpaque, 300, []string{orders}},
			{"openid invoices", store.TokenJWT, 600, with(invoices)},
			{"free invoices", store.TokenJWT, 600, with(invoices)},
			{"invoices orders:read", store.TokenOpaque, 300, []string{invoices, orders}},
			{"openid free", store.TokenOpaque, 300, mine},
			{"", store.TokenOpaque, 300, with(orders, invoices)},
		} {
			t1 := s.loginFor(c.scope)
			scope := oauth.Scope(c.scope).Without(oauth.OfflineAccess)
			if scope == "" {
				scope = "openid free orders:read orders:write invoices"
			}
			s.names(t1, c.format, c.lifetime, scope, c.audience...)
			// The same applies to a client that sends neither scope nor resource at a
			// refresh.
			s.names(s.Must(s.RefreshAt(t1.RefreshToken, "", "")), c.format, c.lifetime, scope, c.audience...)
		}
		// A refresh for one resource: the scopes that belong to no API are at the client's
		// audience.
		t1 := s.loginFor("openid free invoices")
		t2 := s.Must(s.RefreshAt(t1.RefreshToken, "", invoices))
		s.names(t2, store.TokenJWT, 600, "openid invoices", invoices)
		t3 := s.Must(s.RefreshAt(t2.RefreshToken, "", mine[0]))
		s.names(t3, store.TokenOpaque, 300, "openid free", mine...)
		s.Refused(grant.TargetUnknown)(s.RefreshAt(t3.RefreshToken, "", orders))
		s.Refused(grant.ScopeTooWide)(s.RefreshAt(t3.RefreshToken, "invoices", mine[0]))
		t4 := s.Must(s.RefreshAt(t3.RefreshToken, "invoices", ""))
		s.names(t4, store.TokenJWT, 600, "invoices", with(invoices)...)
		// A resource that is the client's audience has no scopes of an API.
		if audience != nil {
			s.names(s.loginFor("", "legacy"), store.TokenOpaque, 300, "openid free", mine...)
			if _, err := s.AuthorizeAt("orders:read", "legacy"); err == nil {
				t.Error("a scope without its API")
			}
		}
	}
}

// TestAnAPIDoesNotChangeTheTokensOfClientsWithoutAPIs: whatever is registered, and
// whatever resource such a client sends.
func TestAnAPIDoesNotChangeTheTokensOfClientsWithoutAPIs(t *testing.T) {
	s := withAPIs(t)
	before := s.Login()
	s.names(before, store.TokenOpaque, 300, allScopes, s.ID)
	// Not even an API with one of the client's scopes, which only a race can register,
	// changes its tokens.
	s.PutAPI(store.API{ID: "https://api.example/claims", Number: 7, Scopes: []store.APIScope{{Name: "read", Number: 1}}})
	after := s.Login()
	s.names(after, store.TokenOpaque, 300, allScopes, s.ID)
	if len(before.AccessToken) != len(after.AccessToken) || s.Row(after.GrantID).APIs != (grant.APIs{}) {
		t.Error("the access token has another form")
	}
	// The client "shop" may not use the API with the scope "read", so its own scope "read"
	// belongs to its audience.
	s.Administer("shop", func(c *store.Client) { c.Scope += " read" })
	s.names(s.loginFor("read orders:read"), store.TokenOpaque, 300, "read orders:read", orders, s.ID)
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
	s.Register(client.Registration{ID: "six", Settings: store.Settings{Name: "Six", RedirectURIs: []string{redirectURI}, APIs: append([]string{orders + " orders:read", invoices}, six...), Auth: store.AuthEither, NoPKCE: true}})
	of := func(id, scope string, resources ...string) error {
		_, err := s.Codes().Issue(t.Context(), issuer.Authorization{ClientID: id, RedirectURI: redirectURI, Subject: subject, Scope: scope, Resources: resources})
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
		{"the scopes of five", "six", "a b c d invoices", nil, ""},
		{"the scopes of six", "six", "a b c d invoices orders:read", nil, "resource"},
		{"all scopes, of six", "six", "", nil, "resource"},
		{"an unknown scope beside those of five", "six", "a b c d invoices x", nil, "scope"},
	} {
		err := of(c.client, c.scope, c.resources...)
		var invalid *oauth.Invalid
		if errors.As(err, &invalid); c.field == "" && err != nil || c.field != "" && (invalid == nil || invalid.Field != c.field) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestFiveAPIsLeaveRoomForTheClientsAudience: a grant has five places for APIs and a sixth
// for the client's audience.
func TestFiveAPIsLeaveRoomForTheClientsAudience(t *testing.T) {
	s := withAPIs(t)
	list, ids := []string{orders, invoices}, []string{}
	scope := "free orders:read invoices"
	for i, name := range []string{"a", "b", "c"} {
		id := "https://api.example/" + name
		s.PutAPI(store.API{ID: id, Number: uint16(10 + i), Scopes: []store.APIScope{{Name: name, Number: 1}}})
		list, scope = append(list, id), scope+" "+name
	}
	ids = append(append(ids, list...), s.ID)
	s.Administer("shop", func(c *store.Client) { c.APIs = list })
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		for i := range list {
			a, _ := s.View().API(realm, list[i])
			changed := *a
			changed.TokenFormat = format
			s.PutAPI(changed)
		}
		s.names(s.loginFor(scope), format, 300, oauth.Scope(scope), ids...)
	}
}

// TestAGrantFromBeforeItsAPIKeepsItsAudience: an API that is registered later, with scopes
// that the client already had, changes new grants only.
func TestAGrantFromBeforeItsAPIKeepsItsAudience(t *testing.T) {
	s := newService(t)
	old := s.Login()
	s.PutAPI(store.API{ID: "https://api.example/read", Number: 7, Scopes: []store.APIScope{{Name: "read", Number: 1}}})
	s.Administer(clientID, func(c *store.Client) { c.Scope, c.APIs = "write admin", []string{"https://api.example/read"} })
	later := s.Must(s.Refresh(t.Context(), s.Listed(clientID), issuer.RefreshRequest{RefreshToken: old.RefreshToken, From: testkit.Origin}))
	s.names(later, store.TokenOpaque, 300, allScopes, s.ID)
	s.names(s.Login(), store.TokenOpaque, 300, "write admin read", "https://api.example/read", s.ID)
}

// TestTheClientsAudienceGoesOnWithoutItsAPIs: the scopes of a deleted API are no longer
// granted.
func TestTheClientsAudienceGoesOnWithoutItsAPIs(t *testing.T) {
	s := withAPIs(t)
	t1 := s.loginFor("openid free invoices")
	gone := testkit.InvoicesAPI()
	gone.Deleted, gone.Scopes = true, nil
	s.PutAPI(gone)
	if _, err := s.Inspect(t.Context(), t1.AccessToken); testkit.RefusalOf(t, err) != grant.TargetGone {
		t.Errorf("a token that names a deleted API: %v", err)
	}
	s.names(s.Must(s.RefreshAt(t1.RefreshToken, "", "")), store.TokenOpaque, 300, "openid free", s.ID)
}

// TestAnAgreementWithOtherAPIsHasAnotherNonce: a repeated answer is sealed again. Two
// different codes sealed under one nonce would make forgery possible.
func TestAnAgreementWithOtherAPIsHasAnotherNonce(t *testing.T) {
	s := withAPIs(t)
	nonces := map[string]bool{}
	seal := func(scope string, resources ...string) (nonce string) {
		t.Helper()
		code, err := s.Codes().IssueAgreed(s.Listed("shop"), issuer.Agreement{
			Authorization: issuer.Authorization{ClientID: "shop", RedirectURI: redirectURI, Subject: subject, Scope: scope, Resources: resources},
			KeyID:         s.View().Ring.Current(keys.Seal, grant.At(s.Now())), AuthorizedAt: grant.At(s.Now()), ExpiresAt: grant.At(s.Now()).Add(time.Minute),
		})
		if err != nil {
			t.Fatal(err)
		}
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(code.Code, keys.CodePrefix))
		if err != nil {
			t.Fatal(err)
		}
		return string(b[5 : 5+keys.NonceSize])
	}
	for i, number := range []uint16{2, 3, 4} {
		a := testkit.InvoicesAPI()
		a.Number = number
		s.PutAPI(a)
		if nonce := seal("invoices"); nonce != seal("invoices", invoices) || nonces[nonce] {
			t.Errorf("round %d: the nonce does not follow the APIs", i)
		} else {
			nonces[nonce] = true
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
	// A new API with that id is not the deleted one.
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
	// The lifetime is now shorter, but a token from before keeps its expiry.
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
	published, err := s.Signer().PublicKeys()
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
	s.Register(client.Registration{ID: "old", Settings: store.Settings{Name: "Old", RedirectURIs: []string{redirectURI}, Scope: "read offline_access", Auth: store.AuthEither}})
	if c := s.Listed("old"); c.Scope != "read" {
		t.Errorf("registered for %q", c.Scope)
	}
}

func TestClientsThatRegisteredThemselvesGetOpenAPIs(t *testing.T) {
	s := withAPIs(t)
	s.ID = "https://auth.example.com/oauth2/api"
	agent := &store.Client{ID: "agent", Realm: realm, RegisteredBy: store.ByDocument}
	ask := func(want string, scope oauth.Scope, def oauth.Scope, uris ...string) {
		t.Helper()
		r, err := s.Resources(s.View(), agent, uris, "")
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
	ask(refused, "", "") // the request does not select one of the two open APIs
	ask(invoices, "invoices", "", invoices)
	// The scopes select the APIs. No scope selects a closed API, even beside scopes of
	// open ones.
	askScope := func(scope oauth.Scope, want ...uint16) {
		t.Helper()
		r, err := s.Resources(s.View(), agent, nil, scope)
		var apis grant.APIs
		copy(apis[:], want)
		if r.APIs != apis || (err != nil) != (want == nil) {
			t.Errorf("%q: %v, %v", scope, r, err)
		}
	}
	s.PutAPI(store.API{ID: "https://api.example/closed", Number: 8, Scopes: []store.APIScope{{Name: "closed", Number: 1}}})
	askScope("invoices", 2)
	askScope("invoices orders:write closed openid", 2, 1)
	askScope("closed openid")
	for _, id := range []string{"https://api.example/closed", orders} {
		if r, err := s.Resources(s.View(), agent, []string{id}, "closed orders:read"); err == nil && r.Scope.Has("closed") {
			t.Errorf("%s: scope %q", id, r.Scope)
		}
	}
	ask(refused, "", "", "https://api.example/closed")
	ask(refused, "", "", orders, "https://api.example/closed")
	// The issuer's own API is closed until an operator opens it, even if it is registered.
	s.PutAPI(store.API{ID: s.ID, Number: 9})
	ask(refused, "", "", s.ID)
	ask(invoices, "invoices", "", invoices)
	if got := s.AllowedScope(s.View(), agent); got != "" {
		t.Errorf("of a closed issuer: %q", got)
	}
	s.PutAPI(store.API{ID: s.ID, Number: 9, Open: true})
	ask(s.ID, oauth.OpenIDScopes, "", s.ID)
	ask(invoices, oauth.OpenIDScopes+" invoices", "", invoices)
	askScope("openid invoices", 2, 9)
}

// TestTheRetryWindowEndsBeforeTheShortestTokenOfAnAPI: a repeated answer must contain an
// access token that has not expired, whatever window the client was registered with.
func TestTheRetryWindowEndsBeforeTheShortestTokenOfAnAPI(t *testing.T) {
	s := withAPIs(t)
	s.Administer("shop", func(c *store.Client) { c.RetryWindow = minutes(4) })
	a := testkit.OrdersAPI()
	a.AccessLifetime, a.LongestLifetime = minutes(2), *minutes(2)
	s.PutAPI(a)
	again := func(after time.Duration) (issuer.Tokens, error) {
		t1 := s.loginFor("", orders, invoices)
		s.Must(s.RefreshAt(t1.RefreshToken, "", ""))
		s.Clock.Advance(after)
		return s.RefreshAt(t1.RefreshToken, "", "")
	}
	if got := s.Must(again(time.Minute)); !got.Repeated || got.ExpiresIn != 60 {
		t.Errorf("within the window: %+v", got)
	}
	s.Refused(grant.RefreshReplayed)(again(time.Minute + 10*time.Second))
}
