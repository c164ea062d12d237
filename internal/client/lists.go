package client

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

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

// Remove returns a list without an item, which is missing if nothing had to be
// removed. Scopes behind the id of an API are removed alone.
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

// Lost returns what a list has and the next one has not.
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
