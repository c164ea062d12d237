package login

import (
	"errors"
	"slices"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
)

// maxHint is the longest id_token_hint in bytes: longer than any id_token.
const maxHint = 4096

// openID reads the parameters that count only if an id_token is asked for. What
// is wrong with them is the request's defect; an error is a fault.
func (a *Authorizer) openID(r oauth.AuthorizationRequest) (oauth.AuthorizationRequest, error) {
	switch {
	case !r.Scope.Has(oauth.OpenID):
		r.Nonce, r.IDTokenHint = "", ""
	case r.Defect == nil && r.IDTokenHint != "":
		return a.hinted(r)
	}
	return r, nil
}

// hinted demands the user whom the request's id_token_hint names (OpenID Connect
// Core section 3.1.2.1).
func (a *Authorizer) hinted(r oauth.AuthorizationRequest) (oauth.AuthorizationRequest, error) {
	if len(r.IDTokenHint) > maxHint {
		r.Defect = oauth.ErrTooLong
		return r, nil
	}
	h, err := a.Issuer.Hint(r.IDTokenHint)
	switch {
	case errors.Is(err, openid.ErrHint), err == nil && h.ClientID != r.ClientID:
		r.Defect = oauth.ErrHint
	case err != nil:
		return r, err
	default:
		r.Subjects = []string{h.Subject}
	}
	return r, nil
}

// expected reports whether the client may get an answer about the user of s. It
// may as long as nobody is signed in.
func expected(r oauth.AuthorizationRequest, s *Session) bool {
	return s == nil || r.Subjects == nil || slices.Contains(r.Subjects, s.Subject)
}
