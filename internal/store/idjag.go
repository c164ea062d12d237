package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// An IDJAG says what a client's identity assertions for one authorization server may
// contain (draft-ietf-oauth-identity-assertion-authz-grant).
type IDJAG struct {
	Audience  string   // issuer of that server
	ClientID  string   // the client's id at that server
	Resources []string // at that server
	Scope     oauth.Scope
	Alg       keys.Purpose // "": RS256
	Public    bool         // a public client may get them
}

// ReadIDJAG reads the registered form: the issuer and, each after a space, client=ID,
// resource=URI, scope=NAME, alg=NAME and public.
func ReadIDJAG(text string) (p IDJAG, err error) {
	words := strings.Fields(text)
	for i, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch scope := oauth.Scope(value); {
		case i == 0 && oauth.IsTarget(word):
			p.Audience = word
		case name == "client" && value != "" && p.ClientID == "":
			p.ClientID = value
		case name == "resource" && oauth.IsTarget(value):
			p.Resources = append(p.Resources, value)
		case name == "scope" && isScopeToken(value) && !oauth.OpenIDScopes.Covers(scope):
			p.Scope = p.Scope.Union(scope)
		case name == "alg" && slices.Contains(keys.SigningAlgorithms, keys.Purpose(value)):
			p.Alg = keys.Purpose(value)
		case word == "public":
			p.Public = true
		default:
			return p, fmt.Errorf("%q is none of: the address of an issuer, client=ID, resource=URI, scope=NAME, alg=NAME, public", word)
		}
	}
	if p.ClientID == "" {
		return p, fmt.Errorf("%q has no client=ID, the client's id at that issuer", text)
	}
	return p, nil
}

func isScopeToken(name string) bool {
	s, err := oauth.ParseScope(name)
	return err == nil && s != ""
}

// IDJAGFor returns what the client's assertions for an issuer may contain.
func (s Settings) IDJAGFor(issuer string) (IDJAG, bool) {
	for _, text := range s.IDJAGs {
		if p, err := ReadIDJAG(text); err == nil && oauth.CanonicalTarget(p.Audience) == oauth.CanonicalTarget(issuer) {
			return p, true
		}
	}
	return IDJAG{}, false
}
