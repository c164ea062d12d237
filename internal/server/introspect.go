package server

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
)

// introspection is the answer about a living token (RFC 7662 section 2.2).
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
}

// inactive is the whole answer about any token that is not alive for the one
// who asks: the reason is nobody's business (RFC 7662 section 2.2).
var inactive = []byte(`{"active":false}`)

// introspect is the introspection endpoint. Beside JSON it speaks two forms of
// JWT, if the caller prefers one: the signed answer of RFC 9701, and the token
// itself as a JWT, for gateways that keep opaque tokens outside.
func (s *Server) introspect(ctx context.Context, r *http.Request, x *exchange) (answer, error) {
	c, p, err := s.tokenRequest(ctx, r, x, overload.Check)
	if err != nil {
		return answer{}, err
	}
	if c.Public() {
		return answer{}, issuer.ErrClient // RFC 7662 section 2.1: anybody could ask in its name
	}
	t, err := s.issuer.Introspect(ctx, c, p["token"])
	var refused *grant.Refused
	if errors.As(err, &refused) && refused.Why != grant.StoreBehind {
		x.inactive, t.GrantID = err, refused.GrantID
	} else if err != nil {
		return answer{}, err
	}
	dead := x.inactive != nil
	x.grantID = t.GrantID

	form := preferred(r.Header["Accept"])
	switch {
	case form == mediaIntrospectionJWT:
		var body string
		if dead {
			body, err = s.issuer.SignIntrospection(c, inactive)
		} else {
			body, err = s.issuer.SignIntrospection(c, s.introspection(t))
		}
		return answer{body: []byte(body), header: contentType(mediaIntrospectionJWT)}, err
	case dead:
		return answer{body: inactive}, nil
	case form == mediaJWT && !t.Refresh && t.MayBeAskedBy(c):
		// Its own token is no reason: who verifies JWTs without asking would take
		// the JWT of a client with opaque tokens until it expires, also revoked.
		body, err := s.issuer.SignPhantom(t)
		return answer{body: []byte(body), header: contentType(mediaJWT)}, err
	}
	return answer{body: s.introspection(t)}, nil
}

const (
	mediaIntrospectionJWT = "application/token-introspection+jwt" // RFC 9701 section 5
	mediaJWT              = "application/jwt"
)

// preferred is the form that an Accept header asks for before JSON: of the
// media types that are written here, the one of the highest weight, and of
// equals the first (RFC 9110 section 12.5.1). Whatever else it says is JSON.
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

func contentType(media string) http.Header { return http.Header{"Content-Type": {media}} }

func (s *Server) introspection(t issuer.Token) []byte {
	a := introspection{
		Active: true, Scope: t.Scope, ClientID: t.ClientID, ExpiresAt: int64(t.ExpiresAt) / 1000, IssuedAt: int64(t.IssuedAt) / 1000,
		Subject: t.Subject, Issuer: s.issuer.ID, ID: t.ID, AuthTime: int64(t.AuthTime) / 1000,
	}
	switch len(t.Audience) {
	case 0:
	case 1:
		a.Audience = t.Audience[0]
	default:
		a.Audience = t.Audience
	}
	if !t.Refresh {
		a.TokenType = "Bearer"
	}
	body, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return issuer.AddClaims(body, t.Claims)
}
