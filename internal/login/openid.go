package login

import (
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
)

// maxClaims is the longest parameter claims in bytes.
const maxClaims = 4096

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
