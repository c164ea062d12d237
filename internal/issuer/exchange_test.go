package issuer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const stock = "https://api.example/stock"

// exchangers maps the ids of the tests' clients to what they may exchange.
var exchangers = map[string]store.Settings{
	"gateway":  {ExchangeFrom: []string{"shop"}, ServesAPIs: []string{orders}, ExchangeAPIs: []string{orders, invoices}},
	"mesh":     {ExchangeFrom: []string{"*"}, ServesAPIs: []string{invoices, stock}, ExchangeAPIs: []string{invoices, stock, orders + " orders:read"}},
	"ghost":    {ExchangeFrom: []string{"shop"}, ServesAPIs: []string{orders, invoices}, ExchangeAPIs: []string{orders, invoices}, ExchangeMode: store.Impersonate},
	"counter":  {ExchangeFrom: []string{"shop", "till", "kiosk"}, ServesAPIs: []string{orders}, ExchangeAPIs: []string{stock, invoices}, ExchangeBeyond: []string{stock + " stock:read"}},
	"opaque":   {ExchangeFrom: []string{"shop"}, ServesAPIs: []string{orders}, ExchangeAPIs: []string{orders}},
	"selfish":  {ExchangeFrom: []string{"selfish"}, ExchangeAPIs: []string{orders, invoices}, APIs: []string{orders, invoices}, RedirectURIs: []string{redirectURI}},
	"stranger": {ExchangeFrom: []string{"till"}, ServesAPIs: []string{orders}, ExchangeAPIs: []string{orders}},
	"idle":     {GrantTypes: []string{store.GrantClientCredentials}, APIs: []string{orders}},
}

// withExchangers makes a service with three APIs, clients where users log in (tokens of the
// till and the kiosk may be exchanged by the counter alone), and the exchangers.
func withExchangers(t *testing.T, change ...func(*issuer.Issuer)) *service {
	t.Helper()
	s := withAPIs(t, append(change, testkit.Named)...)
	s.PutAPI(store.API{ID: stock, Number: 3, Scopes: []store.APIScope{{Name: "stock:read", Number: 1}, {Name: "stock:count", Number: 2}}, TokenFormat: store.TokenJWT})
	for id, settings := range exchangers {
		settings.Name, settings.Auth, settings.NoPKCE = id, store.AuthEither, true
		if id != "selfish" && id != "idle" {
			settings.GrantTypes, settings.APIs = []string{store.GrantClientCredentials}, []string{orders}
		}
		s.Register(client.Registration{ID: id, Settings: settings})
	}
	for _, id := range []string{"till", "kiosk"} {
		s.Register(client.Registration{ID: id, Settings: store.Settings{Name: id, RedirectURIs: []string{redirectURI}, APIs: []string{orders, stock}, Auth: store.AuthEither, NoPKCE: true, MayAct: "counter"}})
	}
	s.Clock.Advance(time.Second)
	return s
}

// ExchangeToken sends the token exchange of a client.
func (s *service) ExchangeToken(ctx context.Context, c *store.Client, r issuer.ExchangeRequest) (issuer.Tokens, error) {
	return issuer.Exchanges{Issuer: s.Issuer}.ExchangeToken(ctx, c, r)
}

// tokenOf returns an access token of a new grant of the client: for all its APIs and
// scopes, or narrowed to one API and to scopes of it.
func (s *service) tokenOf(clientID, api, scope string) string {
	s.T.Helper()
	resources, all := []string{orders, invoices}, "openid orders:read orders:write invoices"
	switch clientID {
	case "till":
		resources, all = []string{orders, stock}, "orders:read stock:read stock:count"
	case "kiosk": // its users agree to less than it may request
		resources, all = []string{orders, stock}, "orders:read stock:read"
	case "selfish":
		all = "orders:read orders:write invoices"
	}
	code, err := s.Codes().Issue(s.T.Context(), issuer.Authorization{ClientID: clientID, RedirectURI: redirectURI, Subject: subject, Scope: all, Resources: resources})
	if err != nil {
		s.T.Fatal(err)
	}
	first := s.Must(s.Exchange(s.T.Context(), s.Listed(clientID), issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, From: testkit.Origin}))
	if api == "" {
		return first.AccessToken
	}
	return s.Must(s.Refresh(s.T.Context(), s.Listed(clientID), issuer.RefreshRequest{RefreshToken: first.RefreshToken, Resource: api, Scope: scope, From: testkit.Origin})).AccessToken
}

// step reads "client API scope scope", where API is the last part of its id.
func step(text string) (clientID, api, scope string) {
	parts := strings.SplitN(text, " ", 3)
	if clientID = parts[0]; len(parts) > 1 && parts[1] != "-" {
		api = "https://api.example/" + parts[1]
	}
	if len(parts) > 2 {
		scope = parts[2]
	}
	return clientID, api, scope
}

// chain returns the token of a chain of steps: the first logs in, each other exchanges.
func (s *service) chain(text string) string {
	s.T.Helper()
	first, rest, _ := strings.Cut(text, " > ")
	return s.extend(s.tokenOf(step(first)), rest)
}

// extend exchanges a token by each of the steps.
func (s *service) extend(token, text string) string {
	s.T.Helper()
	for part := range strings.SplitSeq(text, " > ") {
		if part == "" {
			break
		}
		clientID, api, scope := step(part)
		got, err := s.ExchangeToken(s.T.Context(), s.Listed(clientID), issuer.ExchangeRequest{SubjectToken: token, Resource: api, Scope: scope})
		if err != nil {
			s.T.Fatalf("%s: %v", part, err)
		}
		token = got.AccessToken
	}
	return token
}

// outcome describes the result of an exchange: "code refusal", or "API scope [actors]
// form".
func (s *service) outcome(got issuer.Tokens, err error) string {
	s.T.Helper()
	var told *oauth.Error
	var refused *grant.Refused
	switch {
	case errors.As(err, &told) && errors.As(err, &refused):
		return string(told.Code) + " " + refused.Why.String()
	case errors.As(err, &refused):
		return refused.Why.String()
	case errors.As(err, &told):
		return string(told.Code)
	case err != nil:
		s.T.Fatal(err)
	}
	if got.RefreshToken != "" || got.IDToken != "" {
		s.T.Error("an exchange gave more than an access token")
	}
	in, err := s.Inspect(s.T.Context(), got.AccessToken)
	if err != nil {
		s.T.Fatalf("the token is not active: %v", err)
	}
	if in.Subject != subject || len(in.Audience) != 1 || in.Scope != got.Scope {
		s.T.Errorf("the token is of %q for %q with %q, answered %q", in.Subject, in.Audience, in.Scope, got.Scope)
	}
	var actors []string
	for _, a := range in.Actors {
		actors = append(actors, a.Subject)
	}
	form := "opaque"
	if in.Form == issuer.JWT {
		form = "jwt"
	}
	return fmt.Sprintf("%s %s %s of %s by %s", strings.TrimPrefix(in.Audience[0], "https://api.example/"), in.Scope, form, in.ClientID, actors)
}

// Each row has a chain, which begins with the client of the grant and goes on with the
// clients that have exchanged before; the client that now exchanges; and the outcome.
func TestExchanges(t *testing.T) {
	s := withExchangers(t)
	for _, row := range []struct{ subject, by, want string }{
		// An exchange only narrows the scope.
		{"shop orders", "gateway invoices", "invoices invoices jwt of gateway by [gateway]"},
		{"shop orders", "gateway invoices invoices", "invoices invoices jwt of gateway by [gateway]"},
		{"shop orders", "gateway orders", "orders orders:read orders:write opaque of gateway by [gateway]"},
		{"shop orders", "gateway orders orders:write", "orders orders:write opaque of gateway by [gateway]"},
		{"shop orders", "gateway", "orders orders:read orders:write opaque of gateway by [gateway]"},
		{"shop orders", "gateway - orders:read", "orders orders:read opaque of gateway by [gateway]"},
		{"shop orders orders:read", "gateway orders", "orders orders:read opaque of gateway by [gateway]"},
		{"shop orders orders:read", "gateway orders orders:write", "scope_too_wide"},
		{"shop orders orders:read", "gateway invoices", "invoices invoices jwt of gateway by [gateway]"},
		{"shop orders", "gateway orders invoices", "scope_too_wide"},
		{"shop orders", "gateway invoices orders:read", "scope_too_wide"},
		{"shop orders", "gateway orders openid", "scope_too_wide"},
		{"shop orders", "gateway orders orders:read offline_access", "orders orders:read opaque of gateway by [gateway]"},
		{"shop orders", "gateway stock", "target_unknown"},
		{"shop orders", "gateway nothing", "target_unknown"},
		{"shop -", "gateway", "target_unknown"}, // it is for two APIs, and the request names none
		{"shop -", "gateway invoices", "invoices invoices jwt of gateway by [gateway]"},
		{"shop -", "gateway orders orders:read", "orders orders:read opaque of gateway by [gateway]"},
		// A client may exchange the tokens of the clients that its registration names.
		{"till orders", "gateway orders", "invalid_request not_exchanged"},
		{"till orders", "stranger orders", "invalid_request may_not_act"},
		{"shop orders", "stranger orders", "invalid_request not_exchanged"},
		{"selfish orders", "gateway orders", "invalid_request not_exchanged"},
		{"selfish orders", "selfish invoices", "invoices invoices jwt of selfish by [selfish]"},
		{"selfish orders", "selfish orders orders:read", "orders orders:read opaque of selfish by [selfish]"},
		{"shop orders", "selfish orders", "invalid_request not_exchanged"},
		// A client may exchange tokens for an API that it serves, and its own.
		{"shop invoices", "gateway orders", "invalid_request not_served"},
		{"shop invoices", "gateway invoices", "invalid_request not_served"},
		{"shop orders", "mesh orders", "invalid_request not_served"},
		{"shop invoices", "mesh orders", "orders orders:read opaque of mesh by [mesh]"},
		{"shop invoices", "mesh orders orders:write", "scope_too_wide"}, // its registration narrows
		{"shop invoices", "mesh stock", "target_unknown"},               // the user has not agreed
		{"shop invoices", "mesh", "invoices invoices jwt of mesh by [mesh]"},
		{"shop -", "mesh invoices", "invoices invoices jwt of mesh by [mesh]"},
		{"selfish invoices", "mesh orders", "orders orders:read opaque of mesh by [mesh]"},
		{"till stock", "mesh orders", "invalid_request may_not_act"},
		// The may_act claim limits who may exchange the token (RFC 8693 section 4.4).
		{"till orders", "counter stock", "stock stock:read stock:count jwt of counter by [counter]"},
		{"till orders", "counter stock stock:count", "stock stock:count jwt of counter by [counter]"},
		{"till stock", "counter stock", "invalid_request not_served"},
		{"till orders", "counter orders", "target_unknown"},
		{"till orders", "counter invoices", "target_unknown"},
		// The scope at another API is limited to what the user has agreed to.
		{"kiosk orders", "counter stock", "stock stock:read jwt of counter by [counter]"},
		{"kiosk orders", "counter stock stock:count", "scope_too_wide"},
		// ExchangeBeyond: an operator expressly allows scopes to which the user has not
		// agreed.
		{"shop orders", "counter stock", "stock stock:read jwt of counter by [counter]"},
		{"shop orders", "counter stock stock:count", "scope_too_wide"},
		{"shop orders", "counter invoices", "invoices invoices jwt of counter by [counter]"},
		{"shop orders", "counter", "target_unknown"},
		// Impersonation.
		{"shop orders", "ghost invoices", "invoices invoices jwt of ghost by []"},
		{"shop orders", "ghost orders orders:read", "orders orders:read opaque of ghost by []"},
		{"till orders", "ghost orders", "invalid_request not_exchanged"},
		{"shop orders > gateway invoices", "ghost orders", "invalid_request hides_actor"},
		{"shop orders > ghost invoices", "ghost orders", "orders orders:read orders:write opaque of ghost by []"},
		{"shop orders > ghost invoices", "mesh orders", "orders orders:read opaque of mesh by [mesh]"},
		// Chains of actors only grow, and the token remains one of the grant's client.
		{"shop orders > gateway invoices", "mesh orders", "orders orders:read opaque of mesh by [mesh gateway]"},
		{"shop orders > gateway invoices", "mesh stock", "target_unknown"},
		{"shop orders > gateway invoices", "gateway orders", "orders orders:read orders:write opaque of gateway by [gateway gateway]"},
		{"shop orders > gateway orders orders:read", "gateway orders orders:write", "scope_too_wide"},
		{"shop orders > gateway orders orders:read", "counter stock", "stock stock:read jwt of counter by [counter gateway]"},
		{"shop orders > counter stock", "mesh orders", "orders orders:read opaque of mesh by [mesh counter]"},
		{"shop orders > counter stock", "mesh stock", "stock stock:read jwt of mesh by [mesh counter]"},
		{"shop orders > counter stock", "gateway orders", "invalid_request not_served"},
		{"till orders > counter stock stock:read", "mesh stock stock:count", "scope_too_wide"},
		{"till orders > counter stock", "mesh orders", "orders orders:read opaque of mesh by [mesh counter]"}, // the till's may_act does not apply to the counter's token
		{"shop orders > gateway invoices > mesh orders", "gateway orders", "orders orders:read opaque of gateway by [gateway mesh gateway]"},
		{"shop orders > gateway orders > gateway orders > gateway orders", "gateway orders", "orders orders:read orders:write opaque of gateway by [gateway gateway gateway gateway]"},
		{"shop orders > gateway orders > gateway orders > gateway orders > gateway orders", "gateway orders", "invalid_request many_actors"},
		{"shop orders > gateway invoices > mesh orders > gateway invoices > mesh orders", "gateway invoices", "invalid_request many_actors"},
		{"shop orders > gateway invoices", "stranger orders", "invalid_request not_exchanged"},
	} {
		clientID, api, scope := step(row.by)
		got := s.outcome(s.ExchangeToken(t.Context(), s.Listed(clientID), issuer.ExchangeRequest{SubjectToken: s.chain(row.subject), Resource: api, Scope: scope}))
		if got != row.want {
			t.Errorf("%s, then %s: %s, want %s", row.subject, row.by, got, row.want)
		}
	}
}

// A subject token must be an active access token of a user, of the type that the request
// states. An actor token must be the client's own.
func TestTokensOfAnExchange(t *testing.T) {
	s := withExchangers(t)
	gateway, good := s.Listed("gateway"), s.chain("shop orders")
	service := func(id string) string {
		tokens, err := s.ServiceToken(t.Context(), s.Listed(id), issuer.ServiceRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return tokens.AccessToken
	}
	login := s.Login()
	own := service("gateway")
	for name, r := range map[string]issuer.ExchangeRequest{
		"nonsense":                     {SubjectToken: "nonsense"},
		"cut off":                      {SubjectToken: good[:len(good)-1]},
		"a refresh token":              {SubjectToken: login.RefreshToken},
		"a code":                       {SubjectToken: s.NewCode()},
		"a service token":              {SubjectToken: own},
		"opaque, and said to be a JWT": {SubjectToken: good, SubjectJWT: true},
		"an actor that is a user":      {SubjectToken: good, ActorToken: good},
		"another client's actor token": {SubjectToken: good, ActorToken: service("idle")},
		"an actor that is nothing":     {SubjectToken: good, ActorToken: "nothing"},
		"an actor's refresh token":     {SubjectToken: good, ActorToken: login.RefreshToken},
		"an opaque actor token as JWT": {SubjectToken: good, ActorToken: own, ActorJWT: true},
	} {
		if got := s.outcome(s.ExchangeToken(t.Context(), gateway, r)); !strings.HasPrefix(got, "invalid_request ") {
			t.Errorf("%s: %s, want invalid_request", name, got)
		}
	}
	if got := s.outcome(s.ExchangeToken(t.Context(), gateway, issuer.ExchangeRequest{SubjectToken: good, Resource: orders, AsJWT: true})); got != "invalid_request" {
		t.Errorf("a JWT for an API whose tokens are opaque: %s", got)
	}
	if got := s.outcome(s.ExchangeToken(t.Context(), gateway, issuer.ExchangeRequest{SubjectToken: good, Resource: invoices, AsJWT: true})); got != "invoices invoices jwt of gateway by [gateway]" {
		t.Errorf("a JWT for an API whose tokens are JWTs: %s", got)
	}
	if got := s.outcome(s.ExchangeToken(t.Context(), s.Listed("ghost"), issuer.ExchangeRequest{SubjectToken: good, Resource: orders, ActorToken: service("ghost")})); got != "orders orders:read orders:write opaque of ghost by [ghost]" {
		t.Errorf("an impersonator with an actor token: %s", got)
	}
	for _, id := range []string{"idle", "shop"} {
		if s.Listed(id).MayUse(store.GrantTokenExchange) {
			t.Errorf("%s may exchange", id)
		}
	}
	s.Clock.Advance(5*time.Minute + time.Second)
	if got := s.outcome(s.ExchangeToken(t.Context(), gateway, issuer.ExchangeRequest{SubjectToken: good})); got != "invalid_request grant_expired" {
		t.Errorf("an expired token: %s", got)
	}
}

// A JWT has the may_act claim and the claims of its code, whether it was exchanged or not.
func TestJWTsSayWhoMayActAndCarryTheClaims(t *testing.T) {
	s := withExchangers(t)
	code, err := s.Codes().Issue(t.Context(), issuer.Authorization{
		ClientID: "till", RedirectURI: redirectURI, Subject: subject, Scope: "orders:read stock:read", Resources: []string{orders, stock}, Claims: json.RawMessage(`{"tenant":"north"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	till := s.Listed("till")
	first := s.Must(s.Exchange(t.Context(), till, issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, From: testkit.Origin}))
	narrowed := s.Must(s.Refresh(t.Context(), till, issuer.RefreshRequest{RefreshToken: first.RefreshToken, Resource: stock, From: testkit.Origin})).AccessToken
	exchanged, err := s.ExchangeToken(t.Context(), s.Listed("counter"), issuer.ExchangeRequest{SubjectToken: first.AccessToken, Resource: stock})
	if err != nil {
		t.Fatal(err)
	}
	for text, may := range map[string]any{narrowed: map[string]any{"sub": "counter"}, exchanged.AccessToken: nil} {
		if _, claims := s.claims(text); claims["tenant"] != "north" || !reflect.DeepEqual(claims["may_act"], may) {
			t.Errorf("%v, want may_act %v", claims, may)
		}
	}
}

// The exchanged token expires with the API's lifetime, the subject token or the actor
// token, whichever is earliest.
func TestAnExchangedTokenExpiresAtTheEarliestLimit(t *testing.T) {
	s := withExchangers(t)
	good := s.chain("shop orders")
	before, err := s.Inspect(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(time.Minute)
	actor, err := s.ServiceToken(t.Context(), s.Listed("gateway"), issuer.ServiceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(time.Minute)
	for name, r := range map[string]issuer.ExchangeRequest{
		"the subject token": {SubjectToken: good, Resource: invoices}, // whose tokens live for ten minutes
		"with an actor":     {SubjectToken: good, Resource: invoices, ActorToken: actor.AccessToken},
	} {
		got, err := s.ExchangeToken(t.Context(), s.Listed("gateway"), r)
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.Inspect(t.Context(), got.AccessToken)
		if err != nil || in.ExpiresAt/1000 != before.ExpiresAt/1000 || got.ExpiresIn != 180 {
			t.Errorf("%s: expires at %v, in %d s; want %v, 180 s (%v)", name, in.ExpiresAt, got.ExpiresIn, before.ExpiresAt, err)
		}
	}
	s.Clock.Advance(time.Minute)
	fresh := s.chain("shop orders")
	got, err := s.ExchangeToken(t.Context(), s.Listed("gateway"), issuer.ExchangeRequest{SubjectToken: fresh, Resource: invoices, ActorToken: actor.AccessToken})
	if err != nil || got.ExpiresIn != 180 {
		t.Errorf("with an older actor token: expires in %d s, want 180 (%v)", got.ExpiresIn, err)
	}
	s.Clock.Advance(3*time.Minute + time.Second)
	s.Dead(grant.GrantExpired)(s.Inspect(t.Context(), got.AccessToken))
}

// The end of the grant, the user, a client, the API or the tokens ends every form of an
// exchanged token, at the next check on another node.
func TestEndsOfExchangedTokens(t *testing.T) {
	cutoff := func(subject, clientID string) func(*service, string) {
		return func(s *service, _ string) {
			s.CutOff(store.Cutoff{Realm: realm, Subject: subject, ClientID: clientID, At: s.At()})
		}
	}
	disable := func(id string) func(*service, string) {
		return func(s *service, _ string) {
			s.Administer(id, func(c *store.Client) { c.State = store.ClientDisabled })
		}
	}
	revoke := func(refresh bool) func(*service, string) {
		return func(s *service, token string) {
			in, err := s.Inspect(s.T.Context(), token)
			if err == nil && refresh {
				err = s.Engine.UpdateGrant(s.T.Context(), in.GrantID, func(g grant.Grant) (grant.Grant, []store.Event) { return g.Revoke(grant.ReasonOperator).Next, nil })
			} else if err == nil {
				_, err = s.Revoke(s.T.Context(), s.Listed("shop"), token, testkit.Origin)
			}
			if err != nil {
				s.T.Fatal(err)
			}
		}
	}
	for name, end := range map[string]struct {
		do   func(*service, string)
		want grant.Refusal
		only string // the form that ends, or "" for both
	}{
		"the grant is revoked":                  {revoke(true), grant.GrantRevoked, ""},
		"the subject token is revoked":          {revoke(false), grant.AccessRevoked, ""},
		"the user is cut off":                   {cutoff(subject, ""), grant.CutOff, ""},
		"the grant's client is cut off":         {cutoff("", "shop"), grant.CutOff, ""},
		"the user at the grant's client":        {cutoff(subject, "shop"), grant.CutOff, ""},
		"the exchanger is cut off":              {cutoff("", "gateway"), grant.CutOff, ""},
		"the user at the exchanger":             {cutoff(subject, "gateway"), grant.CutOff, ""},
		"the user at another client":            {cutoff(subject, "ghost"), grant.Allowed, "neither"},
		"what an exchanger has for itself":      {cutoff("gateway", "gateway"), grant.CutOff, ""},
		"an exchanger of the chain is disabled": {disable("gateway"), grant.ClientDisabled, ""},
		"the last exchanger is disabled":        {disable("mesh"), grant.ClientDisabled, "opaque"},
		"the grant's client is disabled":        {disable("shop"), grant.ClientDisabled, ""},
		"the exchanger may exchange no longer": {func(s *service, _ string) {
			s.Administer("gateway", func(c *store.Client) { c.ExchangeFrom = nil })
		}, grant.ClientDisabled, "jwt"},
		"the API is deleted": {func(s *service, _ string) {
			api := testkit.InvoicesAPI()
			api.Deleted = true
			s.PutAPI(api)
		}, grant.TargetGone, "jwt"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withExchangers(t)
			other := *s.Service
			other.Reopen(testkit.Schedule())
			first := s.chain("shop orders")
			forms := map[string]string{
				"opaque": s.extend(first, "gateway orders > gateway invoices > mesh orders"),
				"jwt":    s.extend(first, "gateway orders > gateway invoices"),
			}
			for form, text := range forms {
				if _, err := other.Inspect(t.Context(), text); err != nil {
					t.Fatalf("%s: %v before", form, err)
				}
			}
			s.Clock.Advance(time.Second)
			end.do(s, first)
			other.Poll()
			for form, text := range forms {
				for node, on := range map[string]*testkit.Service{"the first node": s.Service, "the other node": &other} {
					switch in, err := on.Inspect(t.Context(), text); {
					case end.only == "" || end.only == form:
						s.Dead(end.want)(in, err)
					case err != nil:
						t.Errorf("%s on %s: %v, although the token does not depend on it", form, node, err)
					}
				}
			}
		})
	}
}

// A client may revoke a token that it exchanged, and no other client may. The revocation
// ends neither the grant, nor the subject token, nor other exchanged tokens.
func TestRevokingAnExchangedToken(t *testing.T) {
	s := withExchangers(t)
	subject := s.chain("shop orders")
	exchange := func(id, token, api string) string {
		got, err := s.ExchangeToken(t.Context(), s.Listed(id), issuer.ExchangeRequest{SubjectToken: token, Resource: api})
		if err != nil {
			t.Fatal(err)
		}
		return got.AccessToken
	}
	for _, api := range []string{orders, invoices} {
		one, other := exchange("gateway", subject, api), exchange("gateway", subject, api)
		for _, id := range []string{"shop", "mesh"} {
			_, err := s.Revoke(t.Context(), s.Listed(id), one, testkit.Origin)
			if testkit.RefusalOf(t, err) != grant.OtherClient {
				t.Errorf("%s revokes it: %v", id, err)
			}
		}
		if _, err := s.Revoke(t.Context(), s.Listed("gateway"), one, testkit.Origin); err != nil {
			t.Fatal(err)
		}
		s.Dead(grant.AccessRevoked)(s.Inspect(t.Context(), one))
		for name, text := range map[string]string{"the subject token": subject, "another token": other} {
			if _, err := s.Inspect(t.Context(), text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := s.outcome(s.ExchangeToken(t.Context(), s.Listed("gateway"), issuer.ExchangeRequest{SubjectToken: one})); got != "invalid_request access_revoked" {
			t.Errorf("a revoked token is exchanged: %s", got)
		}
		if _, err := s.Revoke(t.Context(), s.Listed("gateway"), one, testkit.Origin); err != nil {
			t.Errorf("revoking it again: %v", err)
		}
	}
}

// An exchange writes nothing.
func TestAnExchangeWritesNothing(t *testing.T) {
	s := withExchangers(t)
	good := s.chain("shop orders")
	s.Faulty.Calls()
	for range 10 {
		if _, err := s.ExchangeToken(t.Context(), s.Listed("gateway"), issuer.ExchangeRequest{SubjectToken: good, Resource: invoices}); err != nil {
			t.Fatal(err)
		}
	}
	for call, n := range s.Faulty.Calls() {
		if call != storetest.Grant {
			t.Errorf("exchanges call %v %d times", call, n)
		}
	}
}

// A change of ExchangeBeyond applies to grants made after the change only.
func TestAChangeOfExchangeBeyondAppliesToLaterGrantsOnly(t *testing.T) {
	s := withExchangers(t)
	old := s.chain("shop orders")
	s.Clock.Advance(time.Second)
	s.Administer("counter", func(c *store.Client) {
		c.ExchangeBeyond = []string{stock + " stock:read stock:count"}
		c.DateBeyond(s.At())
	})
	s.Clock.Advance(time.Second)
	for token, want := range map[string]string{
		old:                    "stock stock:read jwt of counter by [counter]",
		s.chain("shop orders"): "stock stock:read stock:count jwt of counter by [counter]",
	} {
		if got := s.outcome(s.ExchangeToken(t.Context(), s.Listed("counter"), issuer.ExchangeRequest{SubjectToken: token, Resource: stock})); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
