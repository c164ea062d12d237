package token

import (
	"context"
	"encoding/json"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Token types (RFC 8693 section 3).
const (
	typeAccessToken  = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT          = "urn:ietf:params:oauth:token-type:jwt"
	typeIDToken      = "urn:ietf:params:oauth:token-type:id_token"
	typeRefreshToken = "urn:ietf:params:oauth:token-type:refresh_token"
)

// asksIDJAG reports whether an exchange is for an identity assertion, whose audience is
// the authorization server of another party.
func asksIDJAG(p oauth.Params) bool {
	return p["grant_type"] == store.GrantTokenExchange && p["requested_token_type"] == oauth.TypeIDJAG
}

// checkIDJAG checks what a request for an identity assertion requires
// (draft-ietf-oauth-identity-assertion-authz-grant-04 section 4.3).
func checkIDJAG(p oauth.Params) error {
	switch {
	case p["subject_token"] == "" || p["subject_token_type"] == "":
		return oauth.ErrNoSubject
	case p["subject_token_type"] != typeIDToken && p["subject_token_type"] != typeRefreshToken:
		return oauth.ErrIDJAGType
	case p["actor_token"] != "" || p["actor_token_type"] != "":
		return oauth.ErrIDJAGActor
	case p["audience"] == "":
		return oauth.ErrNoAudience
	}
	return nil
}

// checkExchange checks what a token exchange requires (RFC 8693 section 2.1).
func checkExchange(p oauth.Params) error {
	known := func(name string) bool { return p[name] == typeAccessToken || p[name] == typeJWT }
	if asksIDJAG(p) {
		return checkIDJAG(p)
	}
	switch {
	case p["subject_token"] == "" || p["subject_token_type"] == "":
		return oauth.ErrNoSubject
	case (p["actor_token"] == "") != (p["actor_token_type"] == ""):
		return oauth.ErrActorType
	case !known("subject_token_type"), p["actor_token"] != "" && !known("actor_token_type"), p["requested_token_type"] != "" && !known("requested_token_type"):
		return oauth.ErrExchangeType
	}
	return nil
}

// exchangeTokens answers a token exchange (RFC 8693). The parameter audience names an API,
// as resource does. A request with both must name the same API twice.
func (e *Endpoints) exchangeTokens(ctx context.Context, c *store.Client, p oauth.Params, from grant.Origin) (issuer.Tokens, error) {
	if asksIDJAG(p) {
		return issuer.Exchanges{Issuer: e.Issuer}.IDJAG(ctx, c, issuer.IDJAGRequest{
			SubjectToken: p["subject_token"], Refresh: p["subject_token_type"] == typeRefreshToken,
			Audience: p["audience"], Resource: p["resource"], Scope: p["scope"], JKT: from.JKT, From: from,
		})
	}
	if !c.Exchanges() {
		return issuer.Tokens{}, oauth.ErrClientGrantType
	}
	if p["audience"] != "" {
		p.AddResource(p["audience"])
	}
	return issuer.Exchanges{Issuer: e.Issuer}.ExchangeToken(ctx, c, issuer.ExchangeRequest{
		SubjectToken: p["subject_token"], SubjectJWT: p["subject_token_type"] == typeJWT,
		ActorToken: p["actor_token"], ActorJWT: p["actor_token_type"] == typeJWT, AsJWT: p["requested_token_type"] == typeJWT,
		Scope: p["scope"], Resource: p["resource"], JKT: from.JKT,
	})
}

// appendExchanged appends issued_token_type, which answers to a token exchange have beside
// the usual members (RFC 8693 section 2.2.1).
func appendExchanged(b []byte, x *issuer.Exchanged) []byte {
	kind := typeAccessToken
	if x.AsJWT {
		kind = typeJWT
	}
	return append(append(b, `","issued_token_type":"`...), kind...)
}

// idJAGAnswer returns the answer with an identity assertion. The token_type is N_A,
// because the assertion is no access token (RFC 8693 section 2.2.1).
func idJAGAnswer(t issuer.Tokens) ([]byte, error) {
	return json.Marshal(struct {
		IssuedType string      `json:"issued_token_type"`
		Token      string      `json:"access_token"`
		Type       string      `json:"token_type"`
		Scope      oauth.Scope `json:"scope,omitempty"`
		ExpiresIn  int64       `json:"expires_in"`
	}{oauth.TypeIDJAG, t.AccessToken, "N_A", t.Scope, t.ExpiresIn})
}

// assert accepts an assertion of another issuer as a grant (RFC 7523 section 2.1).
func (e *Endpoints) assert(ctx context.Context, c *store.Client, p oauth.Params, from grant.Origin) (issuer.Tokens, error) {
	a, err := e.Assertions.Assertion(ctx, c.ID, true, oauth.Secret(p["assertion"]))
	switch {
	case err != nil:
		return issuer.Tokens{}, err
	case a.Trust.Kind == store.TrustIDJAG && c.Public() && p["client_assertion"] == "":
		return issuer.Tokens{}, oauth.ErrClientGrantType // the draft requires an authenticated client
	}
	return issuer.Assertions{Issuer: e.Issuer}.AssertionToken(ctx, c, issuer.AssertionRequest{
		Trust: a.Trust, ID: a.ID, Subject: a.Subject, Named: a.Scope, NamesAny: a.Scoped, Resources: a.Resources,
		IssuedAt: a.IssuedAt, ExpiresAt: a.ExpiresAt, AuthTime: a.AuthTime, Actors: a.Actors, Bound: a.JKT, Digest: a.Digest,
		Scope: p["scope"], Resource: p["resource"], JKT: from.JKT,
	})
}
