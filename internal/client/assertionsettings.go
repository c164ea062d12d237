package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/store"
)

// Limits of a client's settings about assertions.
const (
	maxRegisteredKeys   = 10
	maxAssertionClaims  = 10
	maxRegisteredKeySet = 8 << 10 // bytes; also of a CA
)

// assertionSettings are the settings of clients that present assertions.
var assertionSettings = slices.Concat(signingSettings, federatedSettings)

// signingSettings are about the signatures of assertions, of the client or another issuer.
var signingSettings = []Setting{
	{
		Name: "assertion alg", Member: "token_endpoint_auth_signing_alg", Optional: true, Flag: "assertion-signing-alg", Group: "Client assertions",
		Schema: "{type: string, enum: [ES256, EdDSA, PS256, RS256], description: 'The one algorithm of its assertions. Default: ES256 for private_key_jwt, RS256 for federated.'}",
		Help:   "the one algorithm that signs its assertions: ES256 (default of private_key_jwt), EdDSA, PS256 or RS256 (default of federated)",
		Field:  func(r *Registration) any { return &r.Assertion.Alg },
	},
	{
		Name: "keys", Member: "jwks", Optional: true, File: true, Flag: "jwks", Group: "Client assertions",
		Schema: "{type: object, additionalProperties: true, description: 'The public keys that verify its assertions (RFC 7517), or else jwks_uri.'}",
		Help:   "file with the public keys that verify them, as a JWK set (RFC 7517)",
		Field:  func(r *Registration) any { return &r.Assertion.Keys },
		Text: func(r *Registration) string {
			var names []string
			set, _ := keyset.Parse(r.Assertion.Keys)
			for _, key := range set {
				names = append(names, cmp.Or(key.KeyID, "(without kid)"))
			}
			return strings.Join(names, " ")
		},
	},
	{
		Name: "keys at", Member: "jwks_uri", Optional: true, Flag: "jwks-uri", Group: "Client assertions",
		Schema: "{type: string, description: 'An https address.'}",
		Help:   "https address of these keys, in place of a file",
		Field:  func(r *Registration) any { return &r.Assertion.KeysURI },
	},
	{
		Name: "keys ca", Member: "jwks_ca", Optional: true, File: true, Flag: "jwks-ca", Group: "Client assertions",
		Schema: "{type: string, description: 'Certificates in PEM that are trusted at jwks_uri beside the system''s.'}",
		Help:   "file with certificates (PEM) that are trusted at that address beside the system's",
		Field:  func(r *Registration) any { return &r.Assertion.KeysCA },
		Text: func(r *Registration) string {
			if r.Assertion.KeysCA == "" {
				return ""
			}
			return fmt.Sprintf("certificates: %d", strings.Count(r.Assertion.KeysCA, "-----BEGIN CERTIFICATE-----"))
		},
	},
	{
		Name: "endpoint as audience", Member: "assertion_token_endpoint_audience", Optional: true, Flag: "assertion-token-endpoint-audience", Group: "Client assertions",
		Schema: "{type: boolean, description: 'The token endpoint''s address is accepted as the audience of what the client signs.'}",
		Help:   "accept the token endpoint's address as the audience of what it signs, beside the issuer",
		Field:  func(r *Registration) any { return &r.Assertion.TokenEndpoint },
	},
}

// federatedSettings are those of clients whose assertions another issuer signs.
var federatedSettings = []Setting{
	{
		Name: "trusts issuer", Member: "assertion_issuer", Optional: true, Flag: "assertion-issuer", Group: "Client assertions",
		Schema: "{type: string, description: 'For federated: the issuer that the client trusts.'}",
		Help:   "issuer (iss) whose tokens authenticate the client, for --auth-method federated",
		Field:  func(r *Registration) any { return &r.Assertion.Issuer },
	},
	{
		Name: "trusts subject", Member: "assertion_subject", Optional: true, Flag: "assertion-subject", Group: "Client assertions",
		Schema: "{type: string, description: 'The subject, in which * stands for characters other than colon and slash.'}",
		Help:   "subject (sub) that these tokens name; * stands for characters other than : and /, and not for the owner of a workload",
		Field:  func(r *Registration) any { return &r.Assertion.Subject },
	},
	{
		Name: "trusts audience", Member: "assertion_audience", Optional: true, Flag: "assertion-audience", Group: "Client assertions",
		Schema: "{type: string, description: 'The one audience; default: this issuer.'}",
		Help:   "their one audience (aud); default: this issuer",
		Field:  func(r *Registration) any { return &r.Assertion.Audience },
	},
	{
		Name: "trusts claims", Member: "assertion_claims", Optional: true, Each: true, Flag: "assertion-claim", Group: "Client assertions",
		Schema: "{type: array, items: {type: string}, description: 'Further claims, as name=value.'}",
		Help:   "a further claim that they must have, as name=value; repeatable",
		Update: "a further claim that they must have, as name=value, instead of all that there were; \"\": none; repeatable",
		Field:  func(r *Registration) any { return &r.Assertion.Claims },
	},
	{
		Name: "trusts lifetime", Member: "assertion_max_lifetime", Optional: true, Flag: "assertion-max-lifetime", Group: "Client assertions",
		Schema: "{type: string, description: 'A duration from 1m to 24h: how far ahead the expiry may lie; default: 70m.'}",
		Help:   "how far ahead their expiry may lie, at most 24h; default: 70m",
		Field:  func(r *Registration) any { return &r.Assertion.Lifetime },
	},
}

// checkAssertions checks the settings about assertions together, and completes them.
func checkAssertions(r *Registration) error {
	a := &r.Assertion
	if !r.Auth.Asserts() {
		for _, s := range assertionSettings {
			if !s.Left(r) {
				return invalid(s.Flag, "it is for --auth-method private_key_jwt or federated")
			}
		}
		return nil
	}
	federated := r.Auth == store.AuthFederated
	if a.Alg == "" {
		if a.Alg = string(jose.ES256); federated {
			a.Alg = string(jose.RS256)
		}
	}
	if err := oneOf(jose.SignatureAlgorithm(a.Alg), keyset.Algorithms...); err != nil {
		return invalid("assertion-signing-alg", "%s", err)
	}
	if err := checkKeys(a, r.kept.Assertion.Keys); err != nil {
		return err
	}
	if !federated {
		for _, s := range federatedSettings {
			if !s.Left(r) {
				return invalid(s.Flag, "it is for --auth-method federated: what the client signs itself names the client")
			}
		}
		return nil
	}
	return checkTrust(r)
}

// isKeysURI reports whether a text can be the address of a key set.
func isKeysURI(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.Fragment == "" && len(text) <= 2048
}

// checkKeys checks the keys of a client, and reduces a key set by keepKeys.
func checkKeys(a *store.AssertionRule, before json.RawMessage) error {
	switch {
	case len(a.Keys) > 0 && a.KeysURI != "":
		return invalid("jwks", "its keys are of a file and at an address: remove the one with --jwks \"\", or the other with --jwks-uri \"\"")
	case len(a.Keys) == 0 && a.KeysURI == "":
		return invalid("jwks", "give the keys that verify its assertions: either --jwks FILE or --jwks-uri URL")
	}
	if a.KeysURI != "" {
		if !isKeysURI(a.KeysURI) {
			return invalid("jwks-uri", "%q is not an https address without credentials and fragment", a.KeysURI)
		}
		if _, err := keyset.Roots(a.KeysCA); err != nil || len(a.KeysCA) > maxRegisteredKeySet {
			return invalid("jwks-ca", "not a file of at most %d bytes with certificates in PEM", maxRegisteredKeySet)
		}
		return nil
	}
	if a.KeysCA != "" {
		return invalid("jwks-ca", "it is for --jwks-uri")
	}
	return keepKeys(&a.Keys, before, jose.SignatureAlgorithm(a.Alg))
}

// keepKeys reduces a registered key set to the members that verify signatures. One of the
// keys must be for alg, unless alg is empty. The limits of key sizes apply to new keys
// only: keys that are registered already were accepted by an earlier version.
func keepKeys(text *json.RawMessage, before json.RawMessage, alg jose.SignatureAlgorithm) error {
	set, err := keyset.Parse(*text)
	old, _ := keyset.Parse(before)
	if set = set.Bounded(true, old); err == nil && len(set) == 0 {
		err = keyset.ErrNone
	}
	switch {
	case err != nil:
		return invalid("jwks", "%s", err)
	case len(set) > maxRegisteredKeys || len(*text) > 4*maxRegisteredKeySet:
		return invalid("jwks", "at most %d keys", maxRegisteredKeys)
	case alg != "" && len(set.Find("", alg)) == 0:
		return invalid("jwks", "none of the keys verifies %s, which --assertion-signing-alg names", alg)
	}
	for i := range set { // only what verifies is kept
		set[i] = jose.JSONWebKey{Key: set[i].Key, KeyID: set[i].KeyID, Algorithm: set[i].Algorithm, Use: set[i].Use}
	}
	kept, err := json.Marshal(jose.JSONWebKeySet{Keys: set})
	if err == nil && len(kept) > maxRegisteredKeySet {
		return invalid("jwks", "the keys have %d bytes, and %d are allowed", len(kept), maxRegisteredKeySet)
	}
	*text = kept
	return err
}

func checkTrust(r *Registration) error {
	a := &r.Assertion
	for _, x := range [][2]string{{"assertion-issuer", a.Issuer}, {"assertion-subject", a.Subject}, {"assertion-audience", a.Audience}} {
		if len(x[1]) > maxAudience || strings.ContainsFunc(x[1], func(c rune) bool { return c <= ' ' || c > '~' }) {
			return invalid(x[0], "%q is not at most %d printable ASCII characters without spaces", x[1], maxAudience)
		}
	}
	switch {
	case a.Issuer == "":
		return invalid("assertion-issuer", "missing: whose tokens authenticate the client")
	case strings.Trim(a.Subject, "*:/.-_@") == "":
		return invalid("assertion-subject", "missing, or it matches any subject: name the workload, such as system:serviceaccount:shop:orders")
	case AnyOwner(a.Subject) && a.Subject != r.kept.Assertion.Subject:
		return invalid("assertion-subject", "%q matches workloads of any owner: write out who owns the workload, such as repo:acme/shop:ref:refs/heads/main", a.Subject)
	case a.TokenEndpoint:
		return invalid("assertion-token-endpoint-audience", "it is for private_key_jwt: give the audience by --assertion-audience")
	case len(a.Claims) > maxAssertionClaims:
		return invalid("assertion-claim", "at most %d", maxAssertionClaims)
	}
	var names []string
	for _, claim := range a.Claims {
		name, value, ok := strings.Cut(claim, "=")
		if !ok || name == "" || value == "" || len(claim) > maxAudience || slices.Contains(names, name) || slices.Contains(checkedClaims, name) {
			return invalid("assertion-claim", "%q is not name=value, or the name is there twice or is checked anyway", claim)
		}
		names = append(names, name)
	}
	if a.Lifetime != nil && (a.Lifetime.Duration() < time.Minute || a.Lifetime.Duration() > maxFederated) {
		return invalid("assertion-max-lifetime", "%s is not between 1m and 24h", a.Lifetime.Duration())
	}
	return nil
}

// ownerLabels are the parts of subjects after which platforms name the owner of a
// workload: GitHub, GitLab, CircleCI, Terraform. A Kubernetes namespace is not among them:
// the issuer is a single cluster, in which strangers cannot create namespaces.
var ownerLabels = []string{"repo", "repository", "repository_owner", "repository_owner_id", "project_path", "namespace_path", "org", "organization"}

// AnyOwner reports whether a subject pattern matches workloads of any owner: it has
// several parts, and a * in one of the first two or in the part after an owner's label.
// Anyone can have a repository, a project or an organization at such a platform.
func AnyOwner(pattern string) bool {
	parts := strings.FieldsFunc(pattern, func(c rune) bool { return c == ':' || c == '/' })
	for i, part := range parts {
		if len(parts) > 1 && strings.Contains(part, "*") && (i < 2 || slices.Contains(ownerLabels, parts[i-1])) {
			return true
		}
	}
	return false
}

// checkedClaims are the claims that have rules of their own.
var checkedClaims = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}
