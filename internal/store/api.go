package store

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/plain"
)

// EntryAPI is the kind of an API's entry. The entry's id is oauth.CanonicalTarget of the
// API's id: two APIs of a realm whose ids differ only by a trailing slash cannot both exist.
const EntryAPI EntryKind = "api"

// IssuerAPI is the number of the issuer, which is a built-in API: the scopes of
// OpenID Connect belong to it. No other API has this number.
const IssuerAPI = math.MaxUint16

// ClientAudience is the number that stands in a grant for the audience of its client's
// registration, beside the numbers of APIs. No API has this number.
const ClientAudience = IssuerAPI - 1

// MaxAPIScopes limits the scopes of an API.
const MaxAPIScopes = oauth.MaxScopes

// An API is a registered resource (RFC 8707) for which access tokens are issued.
type API struct {
	ID    string `json:"id"` // absolute URI: the aud of its tokens
	Realm string `json:"realm"`
	Name  string `json:"name"`
	// Number names the API in codes and rows. It is never used again: an API that is
	// deleted and registered again has another one.
	Number  uint16     `json:"number"`
	Deleted bool       `json:"deleted,omitempty"`
	Scopes  []APIScope `json:"scopes"`
	// LastScope is the highest number that a scope had.
	LastScope uint16 `json:"last_scope"`
	// TokenFormat is the format of the API's access tokens; "": that of the client.
	TokenFormat TokenFormat `json:"token_format,omitempty"`
	// AccessLifetime is the lifetime of the API's access tokens; nil: the deployment's.
	AccessLifetime *Milliseconds `json:"access_lifetime_ms,omitempty"`
	// LongestLifetime is the longest AccessLifetime that the API ever had: its tokens may
	// be that old.
	LongestLifetime Milliseconds `json:"longest_lifetime_ms,omitempty"`
	// Open lets clients that registered themselves request tokens for the API.
	Open bool `json:"open,omitempty"`
	// DefaultScope is the scope of such a client if it requests no scope of the API.
	DefaultScope oauth.Scope `json:"default_scope,omitempty"`

	CreatedAt grant.Instant `json:"created_at"`
	UpdatedAt grant.Instant `json:"updated_at"`
	Version   int64         `json:"version"`

	Later
}

// An APIScope is a scope of an API. A name is a scope of one API only.
type APIScope struct {
	Name string `json:"name"`
	// Number is stable, and never used again in the API.
	Number uint16 `json:"number"`
	// Texts say on the consent page what the scope allows, by language.
	Texts map[string]string `json:"texts,omitempty"`
}

// Entry returns the row of a.
func (a API) Entry() Entry {
	return Entry{EntryAPI, InRealm(a.Realm, oauth.CanonicalTarget(a.ID)), a.Version, a.encoded(a)}
}

var knownOfAPI = sync.OnceValue(memberNames[API])

// apiMembers are the members of an API, and apiScopeMembers those of its scopes.
var apiMembers = []plain.Member[API]{
	plain.At("id", func(p *plain.Reader, a *API) { a.ID = p.Text() }),
	plain.At("realm", func(p *plain.Reader, a *API) { a.Realm = p.Text() }),
	plain.At("name", func(p *plain.Reader, a *API) { a.Name = p.Text() }),
	plain.At("number", func(p *plain.Reader, a *API) { a.Number = plain.Unsigned[uint16](p) }),
	plain.At("deleted", func(p *plain.Reader, a *API) { a.Deleted = p.Bool() }),
	plain.At("scopes", func(p *plain.Reader, a *API) { a.Scopes = plain.List(p, plain.Value(apiScopeMembers)) }),
	plain.At("last_scope", func(p *plain.Reader, a *API) { a.LastScope = plain.Unsigned[uint16](p) }),
	plain.At("token_format", func(p *plain.Reader, a *API) { a.TokenFormat = TokenFormat(p.Text()) }),
	plain.At("access_lifetime_ms", func(p *plain.Reader, a *API) { a.AccessLifetime = new(Milliseconds(p.Number())) }),
	plain.At("longest_lifetime_ms", func(p *plain.Reader, a *API) { a.LongestLifetime = Milliseconds(p.Number()) }),
	plain.At("open", func(p *plain.Reader, a *API) { a.Open = p.Bool() }),
	plain.At("default_scope", func(p *plain.Reader, a *API) { a.DefaultScope = oauth.Scope(p.Text()) }),
	plain.At("created_at", func(p *plain.Reader, a *API) { a.CreatedAt = grant.Instant(p.Number()) }),
	plain.At("updated_at", func(p *plain.Reader, a *API) { a.UpdatedAt = grant.Instant(p.Number()) }),
	plain.At("version", func(p *plain.Reader, a *API) { a.Version = p.Number() }),
}

var apiScopeMembers = []plain.Member[APIScope]{
	plain.At("name", func(p *plain.Reader, s *APIScope) { s.Name = p.Text() }),
	plain.At("number", func(p *plain.Reader, s *APIScope) { s.Number = plain.Unsigned[uint16](p) }),
	plain.At("texts", func(p *plain.Reader, s *APIScope) { s.Texts = plain.Map(p, (*plain.Reader).Text) }),
}

// API decodes an entry of kind EntryAPI.
func (e Entry) API() (a API, err error) {
	if err = decode(apiMembers, string(e.Body), &a, &a.Later, knownOfAPI); err != nil {
		err = fmt.Errorf("decode API %q: %w", a.ID, err)
	}
	return a, err
}

// Lifetime returns the lifetime of a's access tokens, or the deployment's.
func (a API) Lifetime(deployment time.Duration) time.Duration {
	return a.AccessLifetime.Or(deployment)
}

// Scope returns the scopes of a as a list.
func (a API) Scope() oauth.Scope {
	names := make([]string, len(a.Scopes))
	for i, s := range a.Scopes {
		names[i] = s.Name
	}
	return oauth.Scope(strings.Join(names, " "))
}

// FindScope returns a scope of a by its name.
func (a API) FindScope(name string) (APIScope, bool) {
	i := slices.IndexFunc(a.Scopes, func(s APIScope) bool { return s.Name == name })
	if i < 0 {
		return APIScope{}, false
	}
	return a.Scopes[i], true
}

// An AllowedAPI is an API with the scopes that a client may use: some, or all if Scope is
// empty.
type AllowedAPI struct {
	ID    string
	Scope oauth.Scope
}

// ReadAllowedAPI reads an item of Client.APIs: the id of an API and any scopes, separated by
// spaces.
func ReadAllowedAPI(text string) (AllowedAPI, error) {
	id, scopes, _ := strings.Cut(strings.TrimSpace(text), " ")
	scope, err := oauth.ParseScope(scopes)
	return AllowedAPI{id, scope}, err
}

// String returns the item that ReadAllowedAPI reads.
func (l AllowedAPI) String() string { return strings.TrimSpace(l.ID + " " + string(l.Scope)) }

// Of returns the scopes of a that l allows.
func (l AllowedAPI) Of(a *API) oauth.Scope {
	if l.Scope == "" {
		return a.Scope()
	}
	return a.Scope().Common(l.Scope)
}
