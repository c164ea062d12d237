package client

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
)

const (
	// issuedAhead is how far the clock of a signer may be ahead: FAPI 2.0 Security
	// Profile section 5.3.2.1 accepts 10 seconds, and refuses more than 60.
	issuedAhead = 30 * time.Second
	maxJTI      = 255
	maxSubject  = 1024 // of an assertion, that is compared with a pattern
)

// Limits of the lifetime of an assertion of another issuer.
const (
	maxFederated     = 24 * time.Hour
	defaultFederated = 70 * time.Minute // Kubernetes issues tokens of an hour, and renews them before their end
)

// Limits of the lifetime of an assertion that is a grant.
const (
	defaultIDJAG = 5 * time.Minute
	maxTrusted   = time.Hour
)

// An audience is one string or a list (RFC 7519 section 4.1.3).
type audience struct {
	names []string
	list  bool
}

func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{names: []string{one}}
		return nil
	}
	a.list = true
	return json.Unmarshal(b, &a.names)
}

// assertion holds the claims that have rules (RFC 7523 section 3).
type assertion struct {
	Issuer    string   `json:"iss"`
	Subject   string   `json:"sub"`
	Audience  audience `json:"aud"`
	ID        string   `json:"jti"`
	ExpiresAt *float64 `json:"exp"`
	IssuedAt  *float64 `json:"iat"`
	NotBefore *float64 `json:"nbf"`
}

// parseAssertion decodes an assertion, whose signature is not verified.
func parseAssertion(text oauth.Secret) (*jose.JSONWebSignature, assertion, error) {
	var a assertion
	signed, err := jose.ParseSignedCompact(string(text), keyset.Algorithms)
	if err != nil {
		return nil, a, wrongClaim("alg", "or the form is wrong: a JWT signed by ES256, EdDSA, PS256 or RS256 is needed")
	}
	err = decodeClaims(signed.UnsafePayloadWithoutVerification(), &a)
	return signed, a, err
}

// decodeClaims decodes claims. Its error names the first claim of a wrong type: always a
// claim that has a rule, never a name that a caller chose.
func decodeClaims(payload []byte, to any) error {
	if json.Unmarshal(payload, to) == nil {
		return nil
	}
	var all map[string]json.RawMessage
	_ = json.Unmarshal(payload, &all)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name] // its address has the method MarshalJSON
		one, err := json.Marshal(map[string]*json.RawMessage{name: &value})
		if err == nil && json.Unmarshal(one, to) != nil {
			return wrongClaim(name, "has the wrong JSON type")
		}
	}
	return wrongClaim("claims", "are not a JSON object, or name a member twice")
}

// checkTimes checks that an assertion is in force, and expires within ahead.
func checkTimes(claims assertion, now time.Time, ahead time.Duration) error {
	at := seconds(now)
	for i, n := range []*float64{claims.ExpiresAt, claims.IssuedAt, claims.NotBefore} {
		if n != nil && (math.IsNaN(*n) || *n < 0 || *n > 1<<40) {
			return wrongClaim([]string{"exp", "iat", "nbf"}[i], "is not a time in seconds")
		}
	}
	switch {
	case claims.ExpiresAt == nil:
		return wrongClaim("exp", "is missing")
	case at >= *claims.ExpiresAt:
		return wrongClaim("exp", "is over: the assertion has expired, or the clocks differ")
	case *claims.ExpiresAt > at+ahead.Seconds():
		return wrongClaim("exp", fmt.Sprintf("is more than %s ahead", ahead))
	case claims.IssuedAt != nil && *claims.IssuedAt > at+issuedAhead.Seconds():
		return wrongClaim("iat", "is in the future: compare the clocks")
	case claims.NotBefore != nil && *claims.NotBefore > at+issuedAhead.Seconds():
		return wrongClaim("nbf", "is in the future: compare the clocks")
	}
	return nil
}

// seconds returns t as a NumericDate (RFC 7519 section 2).
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func instant(seconds float64) grant.Instant { return grant.Instant(seconds * 1000) }

// isValue reports whether a claim is the string value, or a number or a boolean that is
// spelled like value.
func isValue(raw json.RawMessage, value string) bool {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		return text == value
	}
	return string(raw) == value && value != "null" && raw[0] != '{' && raw[0] != '['
}

// MatchSubject reports whether a subject matches a pattern, in which * stands for
// one or more characters other than colon and slash.
func MatchSubject(pattern, subject string) bool {
	if !strings.Contains(pattern, "*") || len(subject) > maxSubject {
		return subject == pattern
	}
	form, err := regexp.Compile(`^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[^:/]+`) + `$`)
	return err == nil && form.MatchString(subject)
}
