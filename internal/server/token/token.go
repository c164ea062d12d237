// Package token implements the endpoints at which clients register themselves, and obtain
// and revoke tokens.
package token

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/dpop"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
)

// Endpoints are the endpoints at which clients obtain and revoke tokens.
type Endpoints struct {
	Issuer                       *issuer.Issuer
	Assertions                   *client.Authenticator // verifies assertions as grants
	Registrations                *client.Registrations // nil: clients may not register themselves
	Push                         Pusher                // nil: users do not log in at this server
	PushedLifetime               time.Duration
	RequirePAR                   bool   // authorization.require_par
	DevicePage                   string // address where users enter the codes of devices; "": there is no device grant
	QueryParameters              bool   // compat.query_parameters
	InvalidRequestForDeadRefresh bool   // compat.invalid_request_for_dead_refresh
}

// Routes returns the routes of the endpoints that are enabled.
func (e *Endpoints) Routes() []server.Route {
	post := []string{http.MethodPost}
	supported := slices.Clone(store.AllGrantTypes)
	if e.DevicePage == "" {
		supported = slices.DeleteFunc(supported, func(name string) bool { return name == store.GrantDeviceCode })
	}
	tokens := map[string]any{"grant_types_supported": supported}
	if e.Issuer.IDTokenLifetime != 0 {
		tokens["id_token_signing_alg_values_supported"] = []keys.Purpose{keys.RS256, keys.ES256, keys.EdDSA}
	}
	tokens["authorization_grant_profiles_supported"] = []string{oauth.ProfileIDJAG}
	tokens["dpop_signing_alg_values_supported"] = dpop.Algorithms
	tokens["identity_chaining_requested_token_types_supported"] = []string{oauth.TypeIDJAG}
	maps.Copy(tokens, client.Metadata("token", false))
	routes := []server.Route{
		{Name: "token request", Paths: []string{"access_token"}, Methods: post, Class: overload.Refresh, Handle: e.token, Count: countToken, Scripts: true, NeedsRealm: true,
			Member: "token_endpoint", Metadata: tokens},
		{Name: "revocation", Paths: []string{"revoke", "token/revoke"}, Methods: post, Class: overload.Refresh, Handle: e.revoke, Scripts: true,
			Member: "revocation_endpoint", Metadata: client.Metadata("revocation", false)},
	}
	if e.Push != nil {
		routes = append(routes, server.Route{Name: "pushed authorization request", Paths: []string{"par"}, Methods: post, Class: overload.Login, Handle: e.push, Scripts: true,
			Member: "pushed_authorization_request_endpoint", Metadata: map[string]any{"require_pushed_authorization_requests": e.RequirePAR}})
	}
	if e.DevicePage != "" {
		routes = append(routes, server.Route{Name: "device authorization", Paths: []string{"device_authorization"}, Methods: post, Class: overload.Login, Handle: e.device, Count: countDevice, Scripts: true,
			Member: "device_authorization_endpoint"})
	}
	if e.Registrations != nil {
		routes = append(routes, server.Route{Name: "client registration", Paths: []string{"register"}, Methods: post, Class: overload.Login, Handle: e.register,
			AnyOrigin: true, Member: "registration_endpoint"})
	}
	return routes
}

// grantType is what the token endpoint does for one grant type. To add a grant
// type, add a row to grantTypes.
type grantType struct {
	class overload.Class
	check func(oauth.Params) error // whether the parameters that it requires are there
	grant func(*Endpoints, context.Context, *store.Client, oauth.Params, grant.Origin) (issuer.Tokens, error)
}

var grantTypes = map[string]grantType{
	store.GrantRefreshToken: {overload.Refresh, func(p oauth.Params) error {
		if p["refresh_token"] == "" {
			return oauth.ErrNoRefresh
		}
		return nil
	}, (*Endpoints).refresh},
	store.GrantAuthorizationCode: {overload.Code, func(p oauth.Params) error {
		switch {
		case p["code"] == "":
			return oauth.ErrNoCode
		case p["redirect_uri"] == "":
			return oauth.ErrNoRedirect
		case p["code_verifier"] != "" && !oauth.IsVerifier(p["code_verifier"]):
			return oauth.ErrVerifier // a mistake in the client's program, which invalid_grant would hide
		}
		return nil
	}, (*Endpoints).exchange},
	store.GrantClientCredentials: {overload.Code, func(oauth.Params) error { return nil }, (*Endpoints).service},
	store.GrantDeviceCode: {overload.Refresh, func(p oauth.Params) error {
		switch {
		case p["device_code"] == "":
			return oauth.ErrNoDeviceCode
		case p["code_verifier"] != "" && !oauth.IsVerifier(p["code_verifier"]):
			return oauth.ErrVerifier
		}
		return nil
	}, (*Endpoints).poll},
	store.GrantTokenExchange: {overload.Refresh, checkExchange, (*Endpoints).exchangeTokens},
	oauth.GrantJWTBearer: {overload.Refresh, func(p oauth.Params) error {
		if p["assertion"] == "" {
			return oauth.ErrNoAssertion
		}
		return nil
	}, (*Endpoints).assert},
}

// token is the token endpoint. Its phases have a fixed order, cheap before
// expensive and public before secret, and none before the last consumes
// anything but the client assertion: its jti is recorded before the client may do
// anything (RFC 7523 section 3, item 7).
func (e *Endpoints) token(ctx context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
	// 1. The address's limit, and an early look at the queue; the transport was checked.
	// 2. Form and parameters.
	p, err := r.Begin(e.QueryParameters)
	if err != nil {
		return a, rec, err
	}

	// 3. Grant type, and what it requires.
	rec.GrantType = p["grant_type"]
	if rec.GrantType == "" {
		return a, rec, oauth.ErrNoGrantType
	}
	of, ok := grantTypes[rec.GrantType]
	if !ok || rec.GrantType == store.GrantDeviceCode && e.DevicePage == "" {
		return a, rec, oauth.ErrGrantType
	}
	if err = of.check(p); err != nil {
		return a, rec, err
	}

	r.Asserts = rec.GrantType == oauth.GrantJWTBearer

	// 4. A slot, the client, its limit, and its permission.
	if err = r.EnterFor(of.class, p); err != nil {
		return a, rec, err
	}
	if err = r.AskNonce(p); err != nil {
		return a, rec, err
	}
	authenticate := r.Client
	if rec.GrantType == store.GrantDeviceCode {
		authenticate = r.DeviceClient
	}
	c, id, err := authenticate(ctx, p)
	rec.ClientID = id
	if err != nil {
		return a, rec, err
	}
	rec.Own = c.SelfRegistered()
	if err = r.CountClient(c); err != nil {
		return a, rec, err
	}
	if !c.MayUse(rec.GrantType) {
		return a, rec, oauth.ErrClientGrantType
	}

	// 5. Grant.
	if c.AudienceParameter && p["audience"] != "" && !asksIDJAG(p) {
		p.AddResource(p["audience"])
	}
	from := r.Origin()
	if from.JKT, err = keyOf(ctx, r, c); err != nil {
		return a, rec, err
	}
	rec.Tokens, err = of.grant(e, ctx, c, p, from)
	if err != nil {
		rec.Fault = errors.Is(err, oauth.ErrPending) && errors.Is(err, store.ErrUnavailable)
		return a, rec, err
	}
	if c.Public() {
		r.Served(c)
	}
	if x := rec.Tokens.Exchanged; x != nil && x.For != "" {
		a.Body, err = idJAGAnswer(rec.Tokens)
		return a, rec, err
	}
	return server.Answer{Body: tokenAnswer(rec.Tokens)}, rec, nil
}

func (e *Endpoints) exchange(ctx context.Context, c *store.Client, p oauth.Params, from grant.Origin) (issuer.Tokens, error) {
	return e.Issuer.Exchange(ctx, c, issuer.CodeRequest{Code: p["code"], RedirectURI: p["redirect_uri"], Verifier: p["code_verifier"], Resource: p["resource"], JKT: from.JKT, From: from})
}

func (e *Endpoints) service(ctx context.Context, c *store.Client, p oauth.Params, from grant.Origin) (issuer.Tokens, error) {
	return e.Issuer.ServiceToken(ctx, c, issuer.ServiceRequest{Scope: p["scope"], Resource: p["resource"], JKT: from.JKT})
}

func (e *Endpoints) refresh(ctx context.Context, c *store.Client, p oauth.Params, from grant.Origin) (issuer.Tokens, error) {
	t, err := e.Issuer.Refresh(ctx, c, issuer.RefreshRequest{RefreshToken: p["refresh_token"], Scope: p["scope"], Resource: p["resource"], JKT: from.JKT, From: from})
	if err != nil && e.dead(store.GrantRefreshToken, refusalOf(err)) {
		err = fmt.Errorf("%w: %w", oauth.ErrDeadRefreshToken, err)
	}
	return t, err
}

// dead reports whether the answer to a refused request is invalid_request in place of
// invalid_grant (compat.invalid_request_for_dead_refresh).
func (e *Endpoints) dead(grantType string, why grant.Refusal) bool {
	return e.InvalidRequestForDeadRefresh && grantType == store.GrantRefreshToken && why == grant.TokenUnknown
}

// ErrorAnswer returns the status and the error code of the answer to a refused request of a
// grant type.
func (e *Endpoints) ErrorAnswer(grantType string, why grant.Refusal) (status int, code oauth.ErrorCode) {
	if e.dead(grantType, why) {
		return http.StatusBadRequest, oauth.ErrDeadRefreshToken.Code
	}
	return server.Refusal(why)
}

// tokenAnswer returns a successful answer, with its members in the order that clients
// of OpenAM-style deployments expect. Nothing in it needs escaping: scopes exclude the
// quote and the backslash (RFC 6749 appendix A.4), and tokens are made of URL-safe
// characters.
func tokenAnswer(t issuer.Tokens) []byte {
	b := make([]byte, 0, 128+len(t.Scope)+len(t.RefreshToken)+len(t.AccessToken)+len(t.IDToken))
	b = append(append(b, `{"scope":"`...), t.Scope...)
	b = strconv.AppendInt(append(b, `","expires_in":`...), t.ExpiresIn, 10)
	kind := "Bearer"
	if t.Bound {
		kind = "DPoP" // RFC 9449 section 5
	}
	b = append(append(append(b, `,"token_type":"`...), kind...), `","`...)
	if t.RefreshToken != "" { // RFC 6749 section 4.4.3
		b = append(append(append(b, `refresh_token":"`...), t.RefreshToken...), `","`...)
	}
	b = append(append(b, `access_token":"`...), t.AccessToken...)
	if t.IDToken != "" { // OpenID Connect Core section 3.1.3.3
		b = append(append(b, `","id_token":"`...), t.IDToken...)
	}
	if t.Exchanged != nil {
		b = appendExchanged(b, t.Exchanged)
	}
	return append(b, `"}`...)
}

// refusalOf returns why a grant was refused; Allowed if err has another cause.
func refusalOf(err error) grant.Refusal {
	if refused, ok := errors.AsType[*grant.Refused](err); ok {
		return refused.Why
	}
	return grant.Allowed
}

// countToken counts a token request, and a replay that ended a grant. Other endpoints do
// not count replays: their callers need not be the token's client.
func countToken(m *metrics.Metrics, o *server.Outcome) {
	switch refusalOf(o.Err) {
	case grant.RefreshReplayed:
		m.Replay(metrics.ReplayedRefresh)
	case grant.CodeReplayed:
		m.Replay(metrics.ReplayedCode)
	}
	m.TokenRequest(metrics.TokenRequest{
		GrantType: o.GrantType, Format: o.Tokens.Format, Repeated: o.Tokens.Repeated, Shared: o.Tokens.Shared, ClientID: o.ClientID, Own: o.Own, Error: string(o.Code),
	})
}

// revoke is the revocation endpoint (RFC 7009). The answer is the same for a token that
// was revoked, was inactive before, or never existed. It is sent after the revocation is
// durable.
func (e *Endpoints) revoke(ctx context.Context, r *server.Request) (server.Answer, server.Report, error) {
	c, p, rec, err := r.AboutToken(ctx)
	if err != nil {
		return server.Answer{}, rec, err
	}
	t, err := e.Issuer.Revoke(ctx, c, p["token"], r.Origin())
	rec.GrantID, rec.ServiceRevoked = t.GrantID, err == nil && (t.IsService() || t.Exchanged())
	return server.Answer{Body: []byte(`{}`)}, rec, err
}

// keyOf returns the key that has signed the proof of a client's request (RFC 9449
// section 5), or zero if there is none or the client uses no proofs. The proof is
// verified once its client is known, and before anything is consumed.
func keyOf(ctx context.Context, r *server.Request, c *store.Client) (oauth.JKT, error) {
	switch {
	case c.DPoP == store.DPoPOff:
		return oauth.JKT{}, nil
	case c.DPoP == store.DPoPRequired && !r.HasProof():
		r.OfferNonce(c.Public())
		return oauth.JKT{}, oauth.ErrNoProof
	}
	return r.OwnProof(ctx, c.Public())
}
