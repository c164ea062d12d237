package adminapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// An API is a registered API (a resource, RFC 8707). What a request leaves out has its
// default; the instants in it are ignored.
type API struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Scopes []APIScope `json:"scopes"`
	// TokenFormat is opaque or jwt; "" leaves it to the client's registration.
	TokenFormat         string  `json:"token_format,omitempty"`
	AccessTokenLifetime *string `json:"access_token_lifetime"` // null: the server's
	// SelfRegistered lets clients that registered themselves ask for the API.
	SelfRegistered bool       `json:"self_registered_clients"`
	DefaultScope   string     `json:"default_scope,omitempty"`
	CreatedAt      *time.Time `json:"created_at,omitempty"`
	UpdatedAt      *time.Time `json:"updated_at,omitempty"`
	Events         []Event    `json:"events,omitempty"` // only in the output of a command
}

// An APIScope is a scope of an API, with its texts by language.
type APIScope struct {
	Name  string            `json:"name"`
	Texts map[string]string `json:"texts,omitempty"`
}

// Changes describes in one line how a differs from old, "" if it does not.
func (a API) Changes(old API) string {
	var list []string
	before := map[string]map[string]string{}
	for _, s := range old.Scopes {
		before[s.Name] = s.Texts
	}
	for _, s := range a.Scopes {
		switch texts, there := before[s.Name]; {
		case !there:
			list = append(list, "scope added "+s.Name)
		case !maps.Equal(texts, s.Texts):
			list = append(list, "texts of scope "+s.Name)
		}
		delete(before, s.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		list = append(list, "scope removed "+name)
	}
	if list == nil && !slices.EqualFunc(a.Scopes, old.Scopes, func(s, o APIScope) bool { return s.Name == o.Name }) {
		list = []string{"scopes: another order"}
	}
	was := old.settings()
	for i, s := range a.settings() {
		if s[1] != was[i][1] {
			list = append(list, fmt.Sprintf("%s %q, was %q", s[0], s[1], was[i][1]))
		}
	}
	return strings.Join(list, "; ")
}

// settings returns names and values of the settings, except the scopes.
func (a API) settings() [][2]string {
	lifetime := ""
	if a.AccessTokenLifetime != nil {
		lifetime = *a.AccessTokenLifetime
	}
	return [][2]string{{"name", a.Name}, {"token format", a.TokenFormat}, {"access token lifetime", lifetime},
		{"self registered clients", fmt.Sprint(a.SelfRegistered)}, {"default scope", a.DefaultScope}}
}

// A ConsentPreview is the text of the consent page for a client that requests all scopes of
// an API.
type ConsentPreview struct {
	Locale string `json:"locale"`
	Words  []Word `json:"words"`
}

// A Word is one element of a page as people read it.
type Word struct {
	Kind string `json:"kind"` // heading, text, item or button
	Text string `json:"text"`
}
