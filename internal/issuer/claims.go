package issuer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/oauth"
)

// MaxClaims limits the claims about a subject, in bytes of compact JSON: they are in
// every code and every row.
const MaxClaims = 128

// registered are the members of tokens and responses that claims never replace: those
// that this server sends, and those by which verifiers decide (RFC 7519
// section 4.1, RFC 7662 section 2.2, RFC 7800, RFC 8693 section 4, RFC 9396,
// RFC 9701, and those of id_tokens and logout tokens).
var registered = []string{
	"iss", "sub", "aud", "exp", "iat", "nbf", "jti", "client_id", "scope", "token_type", "active", "auth_time",
	"username", "realm", "grant_id", "grant_type", "access_token", "refresh_token", "expires_in",
	"cnf", "act", "may_act", "granted_client_id", "authorization_details", "token_introspection", "azp",
	"acr", "amr", "nonce", "at_hash", "c_hash", "sid", "events",
}

// isRegistered reports whether a name is registered or standard. It ignores case, as some
// JSON parsers do.
func isRegistered(name string) bool {
	return slices.ContainsFunc(registered, func(r string) bool { return strings.EqualFold(r, name) }) || isStandard(name)
}

// isStandard reports whether a name, ignoring case, is that of a standard claim.
// Grants store no standard claims.
func isStandard(name string) bool {
	return slices.ContainsFunc(claims.Names(), func(r string) bool { return strings.EqualFold(r, name) })
}

// SplitClaims separates the standard claims about a subject, which clients read at
// userinfo, from the claims that codes and tokens carry. Both are compact JSON, and
// "" for none.
func SplitClaims(object json.RawMessage) (standard, carried string, err error) {
	names, values, err := members(object)
	if err != nil || !slices.ContainsFunc(names, claims.IsStandard) {
		carried, err = CheckClaims(object)
		return "", carried, err
	}
	patch, rest := claims.Claims{}, []byte{}
	for i, name := range names {
		switch quoted, err := json.Marshal(name); {
		case err != nil:
			return "", "", err
		case !claims.IsStandard(name):
			rest = append(append(append(append(rest, ','), quoted...), ':'), values[i]...)
		case patch[name] != nil:
			return "", "", &oauth.Invalid{Field: "claims", Message: fmt.Sprintf("member %q is repeated", name)}
		default:
			patch[name] = values[i]
		}
	}
	known, err := claims.Claims(nil).Merge(patch)
	if err != nil {
		return "", "", &oauth.Invalid{Field: "claims", Message: err.Error()}
	}
	if len(known) > 0 {
		text, err := json.Marshal(known)
		if err != nil {
			return "", "", err
		}
		standard = string(text)
	}
	if len(rest) > 0 {
		carried, err = CheckClaims(slices.Concat([]byte("{"), rest[1:], []byte("}")))
	}
	return standard, carried, err
}

// members returns the members of a JSON object in their order, repeated ones
// included.
func members(object json.RawMessage) (names []string, values []json.RawMessage, err error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') || !json.Valid(object) {
		return nil, nil, errors.New("not a JSON object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, nil, err
		}
		text, _ := name.(string)
		names, values = append(names, text), append(values, value)
	}
	return names, values, nil
}

// CheckClaims returns claims about a subject in their stored form: compact JSON, or
// "" for none.
func CheckClaims(claims json.RawMessage) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", &oauth.Invalid{Field: "claims", Message: fmt.Sprintf(format, args...)}
	}
	if len(bytes.TrimSpace(claims)) == 0 {
		return "", nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, claims); err != nil {
		return refuse("malformed JSON: %v", err)
	}
	if n := text.Len(); n > MaxClaims {
		return refuse("%d bytes without spaces: the limit is %d", n, MaxClaims)
	}
	var members map[string]json.RawMessage
	switch s := text.String(); {
	case s == "null" || s == "{}":
		return "", nil
	case s[0] != '{':
		return refuse("a JSON object is needed")
	case !utf8.ValidString(s):
		return refuse("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text.Bytes()))
	dec.UseNumber()
	if err := checkValue(dec); err != nil {
		return refuse("%v", err)
	}
	if err := json.Unmarshal(text.Bytes(), &members); err != nil {
		return refuse("malformed JSON: %v", err)
	}
	for name := range members {
		switch {
		case isStandard(name):
			return refuse("%q is a standard claim and cannot be in a token: clients read it at userinfo", name)
		case isRegistered(name):
			return refuse("%q is reserved: the server sets it, or verifiers depend on it", name)
		}
	}
	return text.String(), nil
}

// checkValue reads one value of well-formed JSON. It rejects values that parsers
// interpret differently, such as an object with a repeated name.
func checkValue(dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case string:
		return checkText(v)
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return fmt.Errorf("%s is out of range", v)
		}
	case json.Delim:
		names := map[string]bool{}
		for dec.More() {
			if v == '{' {
				name, err := dec.Token()
				if err != nil {
					return err
				}
				text, _ := name.(string)
				if err := checkText(text); err != nil {
					return err
				}
				if text == "" || names[text] {
					return fmt.Errorf("member name %q is empty or repeated", text)
				}
				names[text] = true
			}
			if err := checkValue(dec); err != nil {
				return err
			}
		}
		_, err := dec.Token() // its end
		return err
	}
	return nil
}

// checkText rejects control characters and U+FFFD, to which half of a surrogate pair is
// decoded.
func checkText(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return oauth.IsControl(r) || r == utf8.RuneError }) {
		return fmt.Errorf("%q contains a control character or an invalid character", s)
	}
	return nil
}

// AddClaims adds claims to a JSON object that has at least one member. The claims are a
// result of CheckClaims. AddClaims omits claims whose names are registered in this version.
func AddClaims(object []byte, claims string) []byte {
	if claims == "" {
		return object
	}
	more := CarriedClaims(claims)
	if more == nil {
		return object
	}
	return slices.Concat(object[:len(object)-1], []byte(","), more[1:])
}

// CarriedClaims returns claims that CheckClaims returned, except those whose names this
// version has registered: the session or grant that holds them may be older.
func CarriedClaims(claims string) json.RawMessage {
	var members map[string]json.RawMessage
	if claims == "" || json.Unmarshal([]byte(claims), &members) != nil {
		return nil
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return isRegistered(name) })
	more, err := json.Marshal(members)
	if err != nil || len(members) == 0 {
		return nil
	}
	return more
}
