package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Limits of a client's registration.
const (
	maxClientID     = 64
	maxClientName   = 100
	maxRedirectURIs = 20
	maxAudiences    = 5
	maxAudience     = 255
	maxAPIs         = 20
	MaxSecrets      = 10
)

// A Registration holds what an administrator sets for a new client.
type Registration struct {
	ID string // "" to have one generated
	store.Settings
	// Secret is an existing secret to import; "" to have one generated, unless the
	// client is public.
	Secret oauth.Secret
	// kept are the settings before a change: addresses, keys and a subject that were valid
	// when they were set stay valid.
	kept store.Settings
}

// A Setting describes one field of a client's registration: its flag, its JSON member with
// its schema, its name in texts for people, and its check.
type Setting struct {
	Name     string // for people; "" if the text of another setting includes it
	Change   string // in a list of changes, if it is not Name
	Member   string // of JSON
	Schema   string // of the member, as in docs/reference/openapi.yaml, if it is more than a type
	Flag     string
	Group    string // title over the flag
	Help     string // of the flag
	Update   string // help of the flag of an update, if it is not Help
	Fixed    bool   // no flag changes it after the registration
	Inverse  bool   // the member is true if the field is false
	Optional bool   // without a value it has no member
	File     bool   // the flag names a file that has the value
	Each     bool   // changes of a list name each item
	Words    bool   // the text is a list of words
	APIs     bool   // the items are those of store.ReadAllowedAPI
	Default  string // what an empty text means

	// Field returns a pointer to the field: *string, *bool, *[]string,
	// **store.Milliseconds or, for JSON, *json.RawMessage.
	Field func(*Registration) any
	check func(*Registration) error
	// Text returns the setting for people, if that is not the value itself.
	Text func(*Registration) string
}

// Value returns the setting of r: a string, a boolean, a list of strings, a
// duration, or nil for what is left to the deployment.
func (s Setting) Value(r *Registration) any {
	switch p := s.Field(r).(type) {
	case *string:
		return cmp.Or(*p, s.Default)
	case *bool:
		return *p != s.Inverse
	case *[]string:
		return *p
	case **store.Milliseconds:
		if *p != nil {
			return (*p).Duration()
		}
	case *json.RawMessage:
		if len(*p) > 0 {
			return *p
		}
	}
	return nil
}

// Left reports whether an optional setting has no value, so that it has no member.
func (s Setting) Left(r *Registration) bool {
	if !s.Optional {
		return false
	}
	switch v := s.Value(r).(type) {
	case nil:
		return true
	case []string:
		return len(v) == 0
	default:
		return v == "" || v == false
	}
}

// List returns the items of a setting that is a list, and whether it is one. The items
// of the scope are its scopes.
func (s Setting) List(r *Registration) (items []string, ok bool) {
	switch p := s.Field(r).(type) {
	case *[]string:
		return *p, true
	case *string:
		return strings.Fields(*p), s.Words
	}
	return nil, false
}

// SetList gives a list setting other items.
func (s Setting) SetList(r *Registration, items []string) {
	switch p := s.Field(r).(type) {
	case *[]string:
		*p = items
	case *string:
		*p = strings.Join(items, " ")
	}
}

// Add returns a list with another item. An API that is there already gets the
// further scopes.
func (s Setting) Add(list []string, item string) []string {
	i := s.index(list, item)
	if i < 0 {
		return append(slices.Clone(list), item)
	}
	have, more, err := s.apis(list[i], item)
	switch {
	case err != nil:
		return append(slices.Clone(list), item) // the setting's check names the fault
	case !s.APIs || have.Scope == "": // all scopes
		return list
	case more.Scope == "":
		have.Scope = ""
	default:
		have.Scope = have.Scope.Union(more.Scope)
	}
	return slices.Replace(slices.Clone(list), i, i+1, have.String())
}

// Remove returns a list without an item. Missing reports that the list did not have it. If
// the item is an API with scopes, only these scopes are removed.
func (s Setting) Remove(list []string, item string) (rest []string, missing bool, err error) {
	i := s.index(list, item)
	if i < 0 {
		return list, true, nil
	}
	rest = slices.Clone(list)
	have, fewer, err := s.apis(list[i], item)
	switch left := have.Scope.Without(fewer.Scope); {
	case err != nil:
		return list, false, err
	case !s.APIs || fewer.Scope == "" || have.Scope != "" && left == "":
		return slices.Delete(rest, i, i+1), false, nil
	case have.Scope == "":
		return list, false, fmt.Errorf("the client has all scopes of %s: name those that it keeps, with --%s \"%s SCOPE\" --replace", have.ID, s.Flag, have.ID)
	default:
		missing = left == have.Scope
		have.Scope = left
		return slices.Replace(rest, i, i+1, have.String()), missing, nil
	}
}

// Lost returns the items and scopes of a list that the next list lacks.
func (s Setting) Lost(list, next []string) (lost []string) {
	for _, item := range list {
		i := s.index(next, item)
		if i < 0 {
			lost = append(lost, item)
			continue
		}
		was, is, _ := s.apis(item, next[i])
		switch left := was.Scope.Without(is.Scope); {
		case !s.APIs || is.Scope == "":
		case was.Scope == "":
			lost = append(lost, was.ID+" (its other scopes)")
		case left != "":
			lost = append(lost, store.AllowedAPI{ID: was.ID, Scope: left}.String())
		}
	}
	return lost
}

// index returns where a list has an item; an API is found by its id alone.
func (s Setting) index(list []string, item string) int {
	key := func(item string) string {
		if s.APIs {
			item, _, _ = strings.Cut(strings.TrimSpace(item), " ")
			item = oauth.CanonicalTarget(item)
		}
		return item
	}
	return slices.IndexFunc(list, func(have string) bool { return key(have) == key(item) })
}

// apis reads two items of a list of APIs.
func (s Setting) apis(one, other string) (a, b store.AllowedAPI, err error) {
	if !s.APIs {
		return a, b, nil
	}
	if a, err = store.ReadAllowedAPI(one); err == nil {
		b, err = store.ReadAllowedAPI(other)
	}
	return a, b, err
}

func oneOf[T ~string](value T, values ...T) error {
	if slices.Contains(values, value) {
		return nil
	}
	return fmt.Errorf("%q is none of %s", string(value), listed(values))
}

// listed returns values as texts list them.
func listed[T ~string](values []T) string {
	var names []string
	for _, v := range values {
		names = append(names, string(v))
	}
	return strings.Join(names, ", ")
}

func eachOf(list, values []string) error {
	for _, v := range list {
		if err := oneOf(v, values...); err != nil {
			return err
		}
	}
	return nil
}

// invalid returns an error about the setting of a flag, for checks of other settings.
func invalid(flag, format string, args ...any) error {
	return &oauth.Invalid{Field: flag, Message: fmt.Sprintf(format, args...)}
}
