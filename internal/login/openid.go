package login

import (
	"errors"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// maxClaims is the longest parameter claims in bytes.
const maxClaims = 4096

// openID reads acr_values, and the parameters that count only if an id_token is asked
// for. What is wrong with them is the request's defect; an error is a fault.
func (rs *Requests) openID(r oauth.AuthorizationRequest, c *store.Client, builtIn bool) (oauth.AuthorizationRequest, error) {
	r.Classes = wished(r.ACRValues, builtIn)
	switch {
	case !r.Scope.Has(oauth.OpenID):
		r.Nonce, r.IDTokenHint, r.Claims = "", "", ""
		return r, nil
	case r.Defect != nil:
		return r, nil
	case len(r.IDTokenHint) > oauth.MaxHint || len(r.Claims) > maxClaims:
		r.Defect = oauth.ErrTooLong
		return r, nil
	}
	if r.Claims != "" {
		d, err := openid.ReadClaims(r.Claims)
		r.Subjects = d.Subjects
		may := claims.Of(c.Scope)
		r.InUserInfo = uint32(claims.SetOf(d.UserInfo) & may &^ claims.Of(r.Scope))
		r.InIDToken = uint32(claims.SetOf(d.IDToken) & may)
		switch {
		case err != nil:
			r.Defect = oauth.ErrClaims
		case r.Subjects != nil && len(r.Subjects) == 0:
			r.Defect = oauth.ErrLoginRequired // they exclude each other
		case d.Classes != nil:
			r.Classes = slices.DeleteFunc(d.Classes, func(class string) bool { return !mayReach(class, builtIn) })
			if len(r.Classes) == 0 {
				r.Defect = oauth.ErrUnmet // whoever logs in
			}
		}
	}
	if r.Defect != nil || r.IDTokenHint == "" {
		return r, nil
	}
	return rs.hinted(r)
}

// named returns the claims that a request asks for by name and not by its scope: the
// user is asked about them too.
func named(r oauth.AuthorizationRequest) claims.Set {
	if r.InUserInfo|r.InIDToken == 0 {
		return 0
	}
	return claims.Set(r.InUserInfo|r.InIDToken) &^ claims.Of(r.Scope)
}

// mayReach reports whether a login may have an acr: what other systems say is not
// known before.
func mayReach(class string, builtIn bool) bool {
	if !builtIn {
		return openid.IsACR(class)
	}
	return slices.Contains(openid.Classes, class)
}

// wished returns the classes of which one must be the login's, by acr_values (RFC 9470
// section 5), or nil if no login can have one of them. Of built-in users, a stronger class
// does for a weaker one. Other systems need not say an acr: a login without one does.
func wished(values string, builtIn bool) (list []string) {
	for class := range strings.FieldsSeq(values) {
		if mayReach(class, builtIn) {
			list = append(list, class)
		}
	}
	switch {
	case list == nil:
		return nil
	case !builtIn:
		return append(list, "")
	}
	weakest := slices.IndexFunc(openid.Classes, func(class string) bool { return slices.Contains(list, class) })
	return append(list, openid.Classes[weakest+1:]...)
}

// hinted demands the user whom the request's id_token_hint names (OpenID Connect
// Core section 3.1.2.1).
func (rs *Requests) hinted(r oauth.AuthorizationRequest) (oauth.AuthorizationRequest, error) {
	h, err := rs.Issuer.Hint(r.IDTokenHint)
	switch {
	case errors.Is(err, openid.ErrHint), err == nil && h.ClientID != r.ClientID:
		r.Defect = oauth.ErrHint
	case err != nil:
		return r, err
	case r.Subjects != nil && !slices.Contains(r.Subjects, h.Subject):
		r.Defect = oauth.ErrLoginRequired
	default:
		r.Subjects = []string{h.Subject}
	}
	return r, nil
}

// unmet returns the error of a request that demands another user than that of s,
// or another login (OpenID Connect Core sections 3.1.2.1 and 5.5.1.1). As long as
// nobody is signed in, there is none.
func unmet(r oauth.AuthorizationRequest, s *Session) *oauth.Error {
	switch {
	case s == nil:
		return nil
	case r.Subjects != nil && !slices.Contains(r.Subjects, s.Subject):
		return oauth.ErrLoginRequired
	case r.Classes != nil && !slices.Contains(r.Classes, s.Login.Class()):
		return oauth.ErrUnmet
	}
	return nil
}
