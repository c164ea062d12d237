package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// revoke is the revocation endpoint (RFC 7009). The answer says the same of a
// token that was revoked, was dead before, or never was: what the client wanted
// is so. It is sent after the revocation is durable.
func (s *Server) revoke(ctx context.Context, r *http.Request, x *exchange) (answer, error) {
	c, p, err := s.tokenRequest(ctx, r, x, overload.Refresh)
	if err != nil {
		return answer{}, err
	}
	x.grantID, err = s.issuer.Revoke(ctx, c, p["token"], grant.Origin{Address: x.address, RequestID: x.id})
	return answer{body: []byte(`{}`)}, err
}

// tokenRequest reads a request about a token and authenticates its client, in
// the order of the token endpoint's checks. token_type_hint is not needed: a
// token tells its kind.
func (s *Server) tokenRequest(ctx context.Context, r *http.Request, x *exchange, turn overload.Class) (*store.Client, oauth.Params, error) {
	if err := s.admit(r, x); err != nil {
		return nil, nil, err
	}
	if err := s.queue.Early(); err != nil {
		return nil, nil, err
	}
	p, err := s.params(r, x, false)
	if err != nil {
		return nil, nil, err
	}
	if p["token"] == "" {
		return nil, nil, oauth.ErrNoToken
	}
	if h := r.Header["Authorization"]; len(h) == 1 && isBearer(h[0]) {
		// RFC 7662 section 2.3: the challenge matches the scheme used.
		x.challenge = s.challenge(oauth.ErrInvalidToken, "")
	}
	if err := s.enter(r, x, turn); err != nil {
		return nil, nil, err
	}
	c, err := s.client(ctx, r, x, p)
	return c, p, err
}

func isBearer(authorization string) bool {
	scheme, _, _ := strings.Cut(authorization, " ")
	return strings.EqualFold(scheme, "Bearer")
}

// challenge is the WWW-Authenticate header of RFC 6750 section 3. Scopes hold
// no quote and no backslash.
func (s *Server) challenge(told *oauth.Error, scope oauth.Scope) string {
	c := `Bearer realm="` + s.issuer.Realm + `"`
	if told.Code != "" {
		c += `, error="` + string(told.Code) + `", error_description="` + told.Description + `"`
	}
	if scope != "" {
		c += `, scope="` + string(scope) + `"`
	}
	return c
}
