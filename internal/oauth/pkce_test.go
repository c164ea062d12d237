package oauth_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

// The example of RFC 7636 appendix B.
const (
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

func TestVerifyS256(t *testing.T) {
	c, ok := oauth.ParseChallenge(challenge)
	if !ok || !oauth.VerifyS256(verifier, c) {
		t.Fatal("the example of RFC 7636 appendix B does not verify")
	}
	for i := range verifier {
		other := verifier[:i] + string(verifier[i]^1) + verifier[i+1:]
		if oauth.VerifyS256(other, c) {
			t.Errorf("verifier changed at %d is accepted", i)
		}
	}
	for i := range c { // every byte of the hash counts
		other := c
		other[i] ^= 1
		if oauth.VerifyS256(verifier, other) {
			t.Errorf("a challenge that differs in byte %d is accepted", i)
		}
	}
	for _, bad := range []string{"", challenge, verifier[:42], verifier + "x", strings.ToUpper(verifier), " " + verifier} {
		if oauth.VerifyS256(bad, c) {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A malformed verifier is refused even if its hash matches (section 4.1).
func TestVerifierForm(t *testing.T) {
	for _, tt := range []struct {
		verifier string
		ok       bool
	}{
		{strings.Repeat("a", 43), true},
		{strings.Repeat("~", 128), true},
		{strings.Repeat("aZ09-._~", 6), true},
		{strings.Repeat("a", 42), false},
		{strings.Repeat("a", 129), false},
		{strings.Repeat("a", 42) + "+", false},
		{strings.Repeat("a", 42) + "=", false},
		{strings.Repeat("a", 42) + "/", false},
		{strings.Repeat("a", 42) + " ", false},
		{strings.Repeat("a", 42) + "\x00", false},
		{strings.Repeat("a", 42) + "ü", false},
	} {
		if got := oauth.VerifyS256(tt.verifier, sha256.Sum256([]byte(tt.verifier))); got != tt.ok {
			t.Errorf("%q: %t", tt.verifier, got)
		}
	}
}

func TestParseChallenge(t *testing.T) {
	for _, bad := range []string{
		"", challenge[:42], challenge + "A", challenge + "=", challenge[:42] + "=", challenge[:42] + "N", // stray bits
		challenge[:42] + "+", challenge[:20] + "\n" + challenge[20:], challenge[:20] + "\n" + challenge[21:], challenge[:42] + "ü",
		strings.Repeat("A", 44), strings.Repeat("A", 128),
	} {
		if _, ok := oauth.ParseChallenge(bad); ok {
			t.Errorf("%q is accepted", bad)
		}
	}
}
