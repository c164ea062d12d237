// Package claims holds the standard claims about users (OpenID Connect Core
// section 5.1): their names, the form of their values, and the scopes that ask for
// them (section 5.4).
package claims

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// Scopes that ask for claims.
const (
	Profile = "profile"
	Email   = "email"
	Address = "address"
	Phone   = "phone"
)

// MaxSize bounds the claims about one user, in bytes of JSON.
const MaxSize = 2048

// Claims are values by the name of a standard claim, in the form that Merge gives
// them: two users with the same claims have equal JSON.
type Claims map[string]json.RawMessage

// standard lists the claims in the order in which documentation and metadata name
// them. A Set refers to their positions: new ones are appended.
var standard = []struct {
	name, scope string
	form        func(value json.RawMessage) (any, error)
}{
	{"name", Profile, line},
	{"family_name", Profile, line},
	{"given_name", Profile, line},
	{"middle_name", Profile, line},
	{"nickname", Profile, line},
	{"preferred_username", Profile, line},
	{"profile", Profile, web},
	{"picture", Profile, web},
	{"website", Profile, web},
	{"gender", Profile, line},
	{"birthdate", Profile, birthdate},
	{"zoneinfo", Profile, line},
	{"locale", Profile, line},
	{"updated_at", Profile, seconds},
	{"email", Email, mailbox},
	{"email_verified", Email, flag},
	{"address", Address, postal},
	{"phone_number", Phone, line},
	{"phone_number_verified", Phone, flag},
}

// verified are the flags that vouch for the value of another claim.
var verified = map[string]string{"email": "email_verified", "phone_number": "phone_number_verified"}

// members are the members of the claim address (OpenID Connect Core section 5.1.1).
var members = []string{"formatted", "street_address", "locality", "region", "postal_code", "country"}

// Names returns the names of the standard claims. The caller must not change the list.
func Names() []string { return names }

var names = func() (list []string) {
	for _, s := range standard {
		list = append(list, s.name)
	}
	return list
}()

// IsStandard reports whether a claim is a standard claim.
func IsStandard(name string) bool { return slices.Contains(Names(), name) }

// A Set is a set of standard claims: a bit for each, by its position in the list.
type Set uint32

// SetOf returns the standard claims among names.
func SetOf(names []string) (set Set) {
	for i, s := range standard {
		if slices.Contains(names, s.name) {
			set |= 1 << i
		}
	}
	return set
}

// Of returns the claims that a scope asks for (OpenID Connect Core section 5.4).
func Of(scope oauth.Scope) (set Set) {
	asked := scope.Tokens()
	for i, s := range standard {
		if slices.Contains(asked, s.scope) {
			set |= 1 << i
		}
	}
	return set
}

// Names returns the names of the claims in a set.
func (set Set) Names() (list []string) {
	for i, s := range standard {
		if set&(1<<i) != 0 {
			list = append(list, s.name)
		}
	}
	return list
}

// Parse reads a JSON object of standard claims.
func Parse(object []byte) (Claims, error) {
	var patch Claims
	if err := json.Unmarshal(object, &patch); err != nil {
		return nil, fmt.Errorf("a JSON object is needed: %w", err)
	}
	return Claims(nil).Merge(patch)
}

// Merge returns c as the patch changes it (RFC 7396): a null, and an empty text,
// removes the claim. A changed email address or phone number is not verified,
// unless the patch says that it is.
func (c Claims) Merge(patch Claims) (Claims, error) {
	next := Claims{}
	maps.Copy(next, c)
	for name := range patch {
		if !IsStandard(name) {
			return nil, fmt.Errorf("%q is not a standard claim: these are %s", name, strings.Join(Names(), ", "))
		}
	}
	for _, s := range standard {
		value, given := patch[s.name]
		if !given {
			continue
		}
		if s.name == "address" {
			value = mergeAddress(c["address"], value)
		}
		formed, err := Form(s.name, value)
		if err != nil {
			return nil, err
		}
		if flag := verified[s.name]; flag != "" && !bytes.Equal(formed, c[s.name]) {
			delete(next, flag) // the patch may set it: it comes later in the list
		}
		next[s.name] = formed
		if formed == nil {
			delete(next, s.name)
		}
	}
	return next, next.checkSize()
}

func (c Claims) checkSize() error {
	if text, err := json.Marshal(c); err != nil || len(text) > MaxSize {
		return fmt.Errorf("the claims have %d bytes, and %d are allowed", len(text), MaxSize)
	}
	return nil
}

// Form returns the value of a standard claim in canonical form, or nil if it is empty.
func Form(name string, value json.RawMessage) (json.RawMessage, error) {
	if v := string(bytes.TrimSpace(value)); v == "null" || v == `""` || v == "{}" || v == "" {
		return nil, nil
	}
	i := slices.Index(Names(), name)
	if i < 0 {
		return nil, fmt.Errorf("%q is not a standard claim", name)
	}
	formed, err := standard[i].form(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return json.Marshal(formed)
}

// mergeAddress merges a patch into an address. It returns a patch that is not an object
// unchanged, for postal to reject.
func mergeAddress(present, patch json.RawMessage) json.RawMessage {
	var old, change map[string]json.RawMessage
	if json.Unmarshal(patch, &change) != nil || change == nil {
		return patch
	}
	if json.Unmarshal(present, &old) != nil || old == nil {
		old = map[string]json.RawMessage{}
	}
	maps.Copy(old, change)
	maps.DeleteFunc(old, func(_ string, v json.RawMessage) bool { return string(v) == "null" || string(v) == `""` })
	merged, err := json.Marshal(old)
	if err != nil {
		return patch
	}
	return merged
}

// Select returns the claims that are in a set.
func (c Claims) Select(set Set) Claims {
	chosen := Claims{}
	for _, name := range set.Names() {
		if value, ok := c[name]; ok {
			chosen[name] = value
		}
	}
	return chosen
}

// Assign adds a claim to c, which is a patch. The argument typed has the form NAME=VALUE. A
// dot in NAME separates the address from its member. An empty VALUE removes the claim.
func (c Claims) Assign(typed string) error {
	name, value, ok := strings.Cut(typed, "=")
	if !ok {
		return fmt.Errorf("%q has no =: write NAME=VALUE, or NAME= to remove the claim", typed)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	member, ofAddress := strings.CutPrefix(name, "address.")
	switch {
	case ofAddress:
		var address map[string]json.RawMessage
		if json.Unmarshal(c["address"], &address) != nil || address == nil {
			address = map[string]json.RawMessage{}
		}
		address[member] = text
		c["address"], err = json.Marshal(address)
		return err
	case name == "address" && value == "":
		text = json.RawMessage("null")
	case name == "address":
		return fmt.Errorf("address has members: write address.%s=VALUE, or one of %s", members[0], strings.Join(members[1:], ", "))
	case (name == verified["email"] || name == verified["phone_number"]) && (value == "true" || value == "false"):
		text = json.RawMessage(value)
	}
	c[name] = text
	return nil
}

// ParseMapping reads which claims are taken from another provider: CLAIM, or
// CLAIM=THEIRS if the provider uses another name.
func ParseMapping(list []string) (map[string]string, error) {
	mapping := map[string]string{}
	for _, entry := range list {
		name, theirs, renamed := strings.Cut(entry, "=")
		if !renamed {
			theirs = name
		}
		switch {
		case !IsStandard(name):
			return nil, fmt.Errorf("%q is not a standard claim: these are %s", name, strings.Join(Names(), ", "))
		case theirs == "":
			return nil, fmt.Errorf("%q names no claim of the provider", entry)
		case mapping[name] != "":
			return nil, fmt.Errorf("%s is given twice", name)
		}
		mapping[name] = theirs
	}
	return mapping, nil
}

func read[T any](value json.RawMessage, what string) (v T, err error) {
	if json.Unmarshal(value, &v) != nil {
		err = errors.New(what + " is needed")
	}
	return v, err
}

// Limits of values, in bytes.
const (
	maxLine = 255
	maxWeb  = 512
)

func line(value json.RawMessage) (any, error) {
	s, err := read[string](value, "a text")
	if err == nil && !oauth.IsText(s, maxLine) {
		err = fmt.Errorf("at most %d bytes of UTF-8 without control characters", maxLine)
	}
	return s, err
}

func web(value json.RawMessage) (any, error) {
	s, err := read[string](value, "a text")
	if err != nil {
		return s, err
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > maxWeb || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(s, " \"<>\\") {
		return s, fmt.Errorf("an http or https address of at most %d bytes is needed", maxWeb)
	}
	return s, nil
}

// mailbox accepts a text that can be an addr-spec (RFC 5322 section 3.4.1). The claim
// email_verified says whether mail arrives there.
func mailbox(value json.RawMessage) (any, error) {
	s, err := read[string](value, "a text")
	at := strings.LastIndexByte(s, '@')
	if err == nil && (!oauth.IsText(s, 254) || at < 1 || at == len(s)-1 || strings.ContainsAny(s, " ,;<>")) {
		err = errors.New("an email address is needed")
	}
	return s, err
}

func birthdate(value json.RawMessage) (any, error) {
	s, err := read[string](value, "a text")
	if err != nil {
		return s, err
	}
	// The year 0000 stands for an unknown year.
	for _, layout := range []string{time.DateOnly, "2006"} {
		if _, err := time.Parse(layout, s); err == nil {
			return s, nil
		}
	}
	return s, errors.New("YYYY-MM-DD, 0000-MM-DD or YYYY is needed")
}

func flag(value json.RawMessage) (any, error) { return read[bool](value, "true or false") }

func seconds(value json.RawMessage) (any, error) {
	n, err := read[int64](value, "a number of seconds since 1970")
	if err == nil && (n < 0 || n > 1<<40) {
		err = errors.New("out of range")
	}
	return n, err
}

func postal(value json.RawMessage) (any, error) {
	address, err := read[map[string]string](value, "an object of texts")
	for name, s := range address {
		flat := strings.NewReplacer("\r\n", " ", "\n", " ").Replace(s) // lines of formatted and street_address
		switch {
		case !slices.Contains(members, name):
			return nil, fmt.Errorf("%q is not one of %s", name, strings.Join(members, ", "))
		case !oauth.IsText(flat, 2*maxLine):
			return nil, fmt.Errorf("%s: at most %d bytes of UTF-8 without control characters", name, 2*maxLine)
		}
	}
	return address, err
}
