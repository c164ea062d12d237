package oauth

import (
	"net/url"
	"slices"
	"strings"
)

// PushedPrefix begins the request_uri of a pushed request (RFC 9126 section 2.2).
const PushedPrefix = "urn:ietf:params:oauth:request_uri:"

// PushedForm returns the authorization request in the body of a pushed one, for
// ParseAuthorization: without the credentials of its client, which it names.
func PushedForm(body, clientID string) string {
	var b strings.Builder
	b.WriteString("client_id=" + url.QueryEscape(clientID))
	for one := range strings.SplitSeq(body, "&") {
		name, _, _ := strings.Cut(one, "=")
		if name, err := unescape(name); err == nil && one != "" && !isCredential(name) {
			b.WriteString("&" + one)
		}
	}
	return b.String()
}

// isCredential reports whether a parameter is about the client or the address of the
// request alone.
func isCredential(name string) bool {
	return slices.Contains([]string{"client_id", "client_secret", "client_assertion", "client_assertion_type", "realm"}, name)
}
