package token

import (
	"context"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Token types (RFC 8693 section 3).
const (
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
)

// checkExchange checks what a token exchange requires (RFC 8693 section 2.1).
func checkExchange(p oauth.Params) error {
	known := func(name string) bool { return p[name] == typeAccessToken || p[name] == typeJWT }
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

// exchangeTokens answers a token exchange (RFC 8693). Its parameter audience names an API
// as resource does, and both have to name the same.
func (e *Endpoints) exchangeTokens(ctx context.Context, c *store.Client, p oauth.Params, from grant.Origin) (issuer.Tokens, error) {
	if p["audience"] != "" {
		p.AddResource(p["audience"])
	}
	return issuer.Exchanges{Issuer: e.Issuer}.ExchangeToken(ctx, c, issuer.ExchangeRequest{
		SubjectToken: p["subject_token"], SubjectJWT: p["subject_token_type"] == typeJWT,
		ActorToken: p["actor_token"], ActorJWT: p["actor_token_type"] == typeJWT, AsJWT: p["requested_token_type"] == typeJWT,
		Scope: p["scope"], Resource: p["resource"], JKT: from.JKT,
	})
}

// appendExchanged appends the member that answers of an exchange have beside others (RFC
// 8693 section 2.2.1).
func appendExchanged(b []byte, x *issuer.Exchanged) []byte {
	kind := typeAccessToken
	if x.AsJWT {
		kind = typeJWT
	}
	return append(append(b, `","issued_token_type":"`...), kind...)
}
