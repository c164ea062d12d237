package oauth

import (
	"net/url"
	"strings"
)

// OfflineAccess is a scope of OpenID Connect (Core section 11) that this service
// removes from every request: it always issues a refresh token.
const OfflineAccess = "offline_access"

// OpenIDScopes are the scopes of OpenID Connect (Core sections 3.1.2.1 and 5.4).
// They belong to the issuer, which is a built-in API.
const OpenIDScopes Scope = "openid profile email address phone"

// IsTarget reports whether uri can name a resource (RFC 8707 section 2).
func IsTarget(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.IsAbs() && !strings.Contains(uri, "#")
}

// CanonicalTarget returns the form in which resources are compared: scheme and
// host in lower case (RFC 3986 section 6.2.2.1), and without one trailing slash,
// which clients append.
func CanonicalTarget(uri string) string {
	uri = strings.TrimSuffix(uri, "/")
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok {
		return uri
	}
	end := 0
	if strings.HasPrefix(rest, "//") {
		if end = strings.IndexAny(rest[2:], "/?"); end < 0 {
			end = len(rest)
		} else {
			end += 2
		}
		// User information is case-sensitive.
		at := strings.LastIndexByte(rest[:end], '@') + 1
		rest = rest[:at] + strings.ToLower(rest[at:end]) + rest[end:]
	}
	return strings.ToLower(scheme) + ":" + rest
}
