package resource

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
)

// introspection is the answer about an active token (RFC 7662 section 2.2).
type introspection struct {
	Active    bool        `json:"active"`
	Scope     oauth.Scope `json:"scope"`
	ClientID  string      `json:"client_id"`
	TokenType string      `json:"token_type,omitempty"` // of access tokens
	ExpiresAt int64       `json:"exp"`
	IssuedAt  int64       `json:"iat"`
	Subject   string      `json:"sub"`
	Audience  any         `json:"aud,omitempty"`
	Issuer    string      `json:"iss"`
	ID        string      `json:"jti,omitempty"`
	AuthTime  int64       `json:"auth_time,omitempty"`
	ACR       string      `json:"acr,omitempty"` // RFC 9470 section 6.2

	Confirmation      *issuer.Confirmation `json:"cnf,omitempty"` // RFC 9449 section 6.2
	issuer.Delegation                      // RFC 8693 section 4
}

// inactive is the whole answer about a token that is not active for the caller. It does
// not contain the reason (RFC 7662 section 2.2).
var inactive = []byte(`{"active":false}`)

// introspect is the introspection endpoint. It answers in JSON or, if the caller
// prefers, as a JWT: the signed answer of RFC 9701, or the token itself as a JWT, for
// gateways that replace opaque tokens by JWTs.
func (e *Endpoints) introspect(ctx context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
	c, p, rec, err := r.AboutToken(ctx)
	if err != nil {
		return a, rec, err
	}
	if c.Public() {
		return a, rec, client.WrongMethod // RFC 7662 section 2.1: anybody can use a public client's id
	}
	t, err := e.Issuer.Introspect(ctx, c, p["token"])
	if refused, ok := errors.AsType[*grant.Refused](err); ok && refused.Why != grant.StoreBehind {
		rec.Inactive, t.GrantID = err, refused.GrantID
	} else if err != nil {
		return a, rec, err
	}
	dead := rec.Inactive != nil
	rec.GrantID = t.GrantID

	form := preferred(r.Header["Accept"])
	switch {
	case form == mediaIntrospectionJWT:
		var body string
		if dead {
			body, err = e.Issuer.Signer().Introspection(c, inactive)
		} else {
			body, err = e.Issuer.Signer().Introspection(c, e.introspection(t))
		}
		return server.Answer{Body: []byte(body), Header: contentType(mediaIntrospectionJWT)}, rec, err
	case dead:
		return server.Answer{Body: inactive}, rec, nil
	case form == mediaJWT && t.Kind == issuer.AccessToken && t.IntrospectableBy(c):
		// A client that introspects its own token gets no JWT: a verifier that does not
		// introspect would accept the JWT of an opaque token until it expires, even after
		// a revocation.
		body, err := e.Issuer.Signer().Phantom(ctx, t)
		return server.Answer{Body: []byte(body), Header: contentType(mediaJWT)}, rec, err
	}
	return server.Answer{Body: e.introspection(t)}, rec, nil
}

const (
	mediaIntrospectionJWT = "application/token-introspection+jwt" // RFC 9701 section 5
	mediaJWT              = "application/jwt"
)

// preferred returns the media type with the highest weight in an Accept header, of
// those that introspect distinguishes; of equal weights, the first (RFC 9110 section
// 12.5.1). Any result other than the two JWT types stands for JSON.
func preferred(accept []string) string {
	best, weight := "", 0.0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, given := params["q"]; given {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		if q <= weight {
			continue
		}
		switch media {
		case mediaIntrospectionJWT, mediaJWT, "application/json", "application/*", "*/*":
			best, weight = media, q
		}
	}
	return best
}

// countIntrospection counts an answer by whether the token was active.
func countIntrospection(m *metrics.Metrics, o *server.Outcome) {
	if o.Err == nil {
		m.Introspection(o.Inactive == nil)
	}
}

func contentType(media string) http.Header { return http.Header{"Content-Type": {media}} }

func (e *Endpoints) introspection(t issuer.Token) []byte {
	a := introspection{
		Active: true, Scope: t.Scope, ClientID: t.ClientID, ExpiresAt: int64(t.ExpiresAt) / 1000, IssuedAt: int64(t.IssuedAt) / 1000,
		Subject: t.Subject, Issuer: e.Issuer.ID, ID: t.ID(), AuthTime: int64(t.AuthTime) / 1000, ACR: t.ACR,
		Confirmation: issuer.ConfirmationOf(t.JKT), Delegation: t.Delegation(),
	}
	switch len(t.Audience) {
	case 0:
	case 1:
		a.Audience = t.Audience[0]
	default:
		a.Audience = t.Audience
	}
	switch {
	case t.Kind != issuer.AccessToken:
	case t.JKT.Bound():
		a.TokenType = "DPoP"
	default:
		a.TokenType = "Bearer"
	}
	body, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return issuer.AddClaims(body, t.Claims)
}
