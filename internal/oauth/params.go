package oauth

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a request's form (CWE-770). A valid token request has at most ten
// parameters; the rest are those that a server ignores by RFC 6749 section 3.2.
const (
	MaxForm  = 64 << 10 // bytes of body or query
	maxPairs = 64
)

// maxLength is the longest accepted value, in bytes, of each parameter that
// the endpoints know. Its keys are also the names that may not be in the query.
var maxLength = map[string]int{
	"grant_type":            255,
	"code":                  2048,
	"redirect_uri":          2048,
	"client_id":             255,
	"client_secret":         1024,
	"refresh_token":         2048,
	"code_verifier":         1024,
	"scope":                 1024,
	"state":                 2048,
	"client_assertion":      8192,
	"client_assertion_type": 255,
	"assertion":             8192,
	"resource":              2048,
	"username":              255,
	"password":              1024,
	"access_token":          8192,
	"token":                 8192,
	"device_code":           2048,
	"user_code":             64,
	"subject_token":         8192,
	"subject_token_type":    255,
	"actor_token":           8192,
	"actor_token_type":      255,
	"requested_token_type":  255,
}

// SeveralResources is the prefix of the parameter resource if the form has several (RFC
// 8707 section 2): with it, the text is the id of no API.
const SeveralResources = " "

// Params are the parameters of one request: those with a value, each once.
// A parameter sent without a value counts as omitted (RFC 6749 section 3.2).
type Params map[string]string

// ParseParams reads a form body and the query of the request's URL. With
// queryAllowed, parameters may also come in the query
// (compat.query_parameters); otherwise a known one there is ErrQuery.
//
// The standard library's parser is not used because it merges body and query,
// takes the first of duplicates, and keeps the valid pairs of a malformed body.
// The realm is returned apart: it belongs to the endpoint's address, so that only
// the query may contain it, and two of them are ErrRealm.
//
// For ErrRepeated, ErrQuery and ErrRealm, p holds the parameters that were sent once. The
// text of an error names the parameter, if it is a known one; its value may be a secret.
func ParseParams(body, rawQuery string, queryAllowed bool) (p Params, realm string, err error) {
	inBody, err := parsePairs(make([]pair, 0, usualPairs), body)
	if err != nil {
		return nil, "", err
	}
	inQuery, err := parsePairs(make([]pair, 0, usualPairs), rawQuery)
	if err != nil {
		return nil, "", err
	}
	p = make(Params, len(inBody))
	repeated, misplaced, realms := "", "", 0
	for i, kv := range inBody {
		if named(inBody[:i], kv.name) && kv.name != "resource" {
			repeated = kv.name
			delete(p, kv.name)
		} else if kv.value != "" {
			if kv.name == "resource" {
				p.AddResource(kv.value)
			} else {
				p[kv.name] = kv.value
			}
		}
	}
	for i, kv := range inQuery {
		_, known := maxLength[kv.name]
		switch {
		case named(inBody, kv.name):
			repeated = kv.name
			delete(p, kv.name)
		case kv.name == "realm":
			realm = kv.value
			realms++
		case named(inQuery[:i], kv.name):
			repeated = kv.name
			delete(p, kv.name)
		case known && !queryAllowed:
			misplaced = kv.name
		case known && kv.value != "":
			p[kv.name] = kv.value
		}
	}
	switch {
	case repeated != "":
		return p, "", naming(ErrRepeated, repeated)
	case misplaced != "":
		return p, "", naming(ErrQuery, misplaced)
	case realms > 1:
		return p, "", ErrRealm
	}
	return p, realm, nil
}

// AddResource adds a resource to those of p.
func (p Params) AddResource(uri string) {
	other := strings.TrimPrefix(p["resource"], SeveralResources)
	if other != "" && (other != p["resource"] || CanonicalTarget(other) != CanonicalTarget(uri)) {
		uri = SeveralResources + uri
	}
	p["resource"] = uri
}

// CheckLengths returns ErrTooLong if a known parameter exceeds its maximum.
func (p Params) CheckLengths() error {
	for name, value := range p {
		if most, known := maxLength[name]; known && len(value) > most {
			return naming(ErrTooLong, name)
		}
	}
	return nil
}

// naming adds the name of a parameter to an error, for logs. A name that the endpoints do
// not know may be any text: it is left out.
func naming(err error, name string) error {
	if _, known := maxLength[name]; !known {
		return err
	}
	return fmt.Errorf("%w: %s", err, name)
}

// A pair is a parameter as it was sent. It is foul if it contains a character that no
// parameter may have (RFC 6749 appendix A).
type pair struct {
	name, value string
	foul        bool
}

// usualPairs is the initial capacity of a list of pairs; nearly every form fits.
const usualPairs = 8

// parsePairs parses s and appends its pairs to an empty list. A foul pair is an error.
func parsePairs(pairs []pair, s string) ([]pair, error) {
	pairs, err := readPairs(pairs, s)
	if i := slices.IndexFunc(pairs, func(kv pair) bool { return kv.foul }); i >= 0 {
		return nil, naming(ErrMalformedValue, pairs[i].name)
	}
	return pairs, err
}

// readPairs splits and decodes application/x-www-form-urlencoded text (RFC
// 6749 appendix B), and appends the pairs to an empty list. Pairs without a name are
// dropped.
func readPairs(pairs []pair, s string) ([]pair, error) {
	if strings.IndexByte(s, ';') >= 0 {
		return nil, ErrMalformedBody
	}
	for n := 0; s != ""; n++ {
		if n == maxPairs {
			return nil, ErrMalformedBody
		}
		var one string
		one, s, _ = strings.Cut(s, "&")
		name, value, _ := strings.Cut(one, "=")
		name, err := unescape(name)
		if err != nil {
			return nil, err
		}
		if value, err = unescape(value); err != nil {
			return nil, err
		}
		if name != "" {
			pairs = append(pairs, pair{name, value, !clean(name) || !clean(value)})
		}
	}
	return pairs, nil
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s, nil
	}
	s, err := url.QueryUnescape(s)
	if err != nil {
		return "", ErrMalformedBody
	}
	return s, nil
}

// clean reports whether s is UTF-8 without control characters or a byte order
// mark (RFC 6749 appendix A allows no more in any parameter).
func clean(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
		if s[i] >= utf8.RuneSelf {
			return utf8.ValidString(s) && !strings.ContainsRune(s, '\ufeff') && !strings.ContainsFunc(s, IsControl)
		}
	}
	return true
}

// IsControl reports whether r is a control character, of ASCII or above it.
func IsControl(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }

func named(pairs []pair, name string) bool {
	return slices.ContainsFunc(pairs, func(kv pair) bool { return kv.name == name })
}

// DefaultRealm is the realm of a deployment that configures no other. A store from before
// there were several realms holds only its rows. It has the form of OpenAM's parameter
// realm, with a slash.
const DefaultRealm = "/api"
