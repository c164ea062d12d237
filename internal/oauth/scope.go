package oauth

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Limits of a scope list. An access token names its part of the grant's list
// in 64 bits; a code carries the list itself and stays under 1,000 characters.
const (
	MaxScopes      = 64
	MaxScopeLength = 256 // bytes
)

// A Scope is a list of scope tokens in its canonical form: each once, in the
// order first named, separated by one space (RFC 6749 section 3.3). The order
// is kept because access tokens refer to positions in a grant's list.
type Scope string

// ParseScope brings s to canonical form. Repeated tokens and spaces collapse.
// It refuses characters that RFC 6749 appendix A.4 excludes, more than
// MaxScopes tokens, and more than MaxScopeLength bytes.
func ParseScope(s string) (Scope, error) {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return "", errors.New(`a scope holds only printable ASCII without " and \`)
		}
	}
	var list []string
	for tok := range strings.SplitSeq(s, " ") {
		if tok != "" && !slices.Contains(list, tok) {
			list = append(list, tok)
		}
	}
	scope := Scope(strings.Join(list, " "))
	if len(list) > MaxScopes || len(scope) > MaxScopeLength {
		return "", fmt.Errorf("at most %d scopes and %d bytes", MaxScopes, MaxScopeLength)
	}
	return scope, nil
}

// Tokens lists the scope tokens of s.
func (s Scope) Tokens() []string {
	if s == "" {
		return nil
	}
	return strings.Split(string(s), " ")
}

// OpenID is the scope that makes an authorization request an authentication
// request (OpenID Connect Core section 3.1.2.1).
const OpenID = "openid"

// Has reports whether tok is one of the tokens of s. It allocates nothing.
func (s Scope) Has(tok string) bool {
	for one := range strings.SplitSeq(string(s), " ") {
		if one == tok {
			return true
		}
	}
	return false
}

// Covers reports whether every token of sub is in s.
func (s Scope) Covers(sub Scope) bool {
	_, ok := s.Bits(sub)
	return ok
}

// All returns the bitmap of every token of s.
func (s Scope) All() uint64 {
	if s == "" {
		return 0
	}
	return ^uint64(0) >> (MaxScopes - 1 - strings.Count(string(s), " "))
}

// Bits returns the bitmap of sub's tokens by their position in s. It returns false
// if s does not cover sub.
func (s Scope) Bits(sub Scope) (bitmap uint64, ok bool) {
	if s == sub {
		return s.All(), true
	}
	list := s.Tokens()
	for _, tok := range sub.Tokens() {
		i := slices.Index(list, tok)
		if i < 0 {
			return 0, false
		}
		bitmap |= 1 << i
	}
	return bitmap, true
}

// Pick is the inverse of Bits: the tokens of s at the positions set in bitmap.
func (s Scope) Pick(bitmap uint64) Scope {
	if bitmap == s.All() {
		return s
	}
	picked := make([]string, 0, bits.OnesCount64(bitmap))
	for i, tok := range s.Tokens() {
		if bitmap&(1<<i) != 0 {
			picked = append(picked, tok)
		}
	}
	return Scope(strings.Join(picked, " "))
}

// Common lists the tokens of s that are also in other, in the order of s.
func (s Scope) Common(other Scope) Scope {
	if s == other {
		return s
	}
	return s.filter(other, true)
}

// Union lists the tokens of s, followed by those of other that s lacks.
func (s Scope) Union(other Scope) Scope {
	if more := other.Without(s); s == "" || more == "" {
		return s + more
	} else {
		return s + " " + more
	}
}

// Without lists the tokens of s that are not in other, in the order of s.
func (s Scope) Without(other Scope) Scope {
	if !slices.ContainsFunc(s.Tokens(), other.Has) {
		return s
	}
	return s.filter(other, false)
}

func (s Scope) filter(other Scope, in bool) Scope {
	var list []string
	have := other.Tokens()
	for _, tok := range s.Tokens() {
		if slices.Contains(have, tok) == in {
			list = append(list, tok)
		}
	}
	return Scope(strings.Join(list, " "))
}
