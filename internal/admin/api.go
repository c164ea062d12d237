package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// Limits of an API's registration, in bytes.
const (
	maxAPIID     = 255
	maxAPIName   = 100
	maxScopeName = 100
	maxScopeText = 255
)

// ViewAPI returns the view of an API.
func ViewAPI(a store.API) adminapi.API {
	v := adminapi.API{
		ID: a.ID, Name: a.Name, Scopes: []adminapi.APIScope{}, TokenFormat: string(a.TokenFormat), SelfRegistered: a.Open,
		DefaultScope: string(a.DefaultScope), CreatedAt: show.JSONInstant(a.CreatedAt), UpdatedAt: show.JSONInstant(a.UpdatedAt),
	}
	for _, s := range a.Scopes {
		v.Scopes = append(v.Scopes, adminapi.APIScope{Name: s.Name, Texts: maps.Clone(s.Texts)})
	}
	if a.AccessLifetime != nil {
		text := config.Duration(a.AccessLifetime.Duration()).String()
		v.AccessTokenLifetime = &text
	}
	return v
}

// APIETag identifies an API's registration: what a caller can set, and the number, which
// differs if the API was deleted and registered again.
func APIETag(a store.API) string {
	v := ViewAPI(a)
	text, err := json.Marshal([]any{v.Name, v.Scopes, v.TokenFormat, v.AccessTokenLifetime, v.SelfRegistered, v.DefaultScope, a.Number})
	if err != nil {
		panic(err) // it holds texts, booleans and lists of texts
	}
	return etagOf(text)
}

// build returns the API that v describes, as the successor of old, which may be the
// zero API.
func (a APIs) build(v adminapi.API, old store.API, view *directory.View, now grant.Instant) (store.API, error) {
	invalid := func(field, format string, args ...any) (store.API, error) {
		return old, &oauth.Invalid{Field: field, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case len(v.ID) > maxAPIID || !oauth.IsTarget(v.ID) || strings.ContainsFunc(v.ID, func(c rune) bool { return c <= ' ' || c > '~' }) || strings.Contains(v.ID, "?"):
		return invalid("id", "%q is not an absolute URI of at most %d ASCII characters without query and fragment, such as https://api.example.com/orders", v.ID, maxAPIID)
	case strings.TrimSpace(v.Name) == "" || !oauth.IsText(v.Name, maxAPIName):
		return invalid("name", "missing, or not UTF-8 text of at most %d bytes", maxAPIName)
	case v.TokenFormat != "" && v.TokenFormat != string(store.TokenOpaque) && v.TokenFormat != string(store.TokenJWT):
		return invalid("token_format", "%q is neither opaque nor jwt", v.TokenFormat)
	case len(v.Scopes) > store.MaxAPIScopes:
		return invalid("scopes", "at most %d", store.MaxAPIScopes)
	}
	next := store.API{
		ID: v.ID, Realm: a.Realm, Name: v.Name, Number: old.Number, Version: old.Version + 1, LastScope: old.LastScope, Scopes: []store.APIScope{},
		TokenFormat: store.TokenFormat(v.TokenFormat), LongestLifetime: old.LongestLifetime, Open: v.SelfRegistered, CreatedAt: old.CreatedAt, UpdatedAt: now,
	}
	if old.Version == 0 || old.Deleted {
		next.CreatedAt = now
		if next.Number = view.LastAPI(a.Realm) + 1; next.Number >= store.ClientAudience {
			return invalid("id", "there were %d APIs already", store.ClientAudience-1)
		}
	} else {
		next.Later = old.Later
	}
	for _, s := range v.Scopes {
		if err := checkScope(next, s); err != nil {
			return old, err
		}
		kept, ok := old.FindScope(s.Name)
		if !ok || old.Deleted {
			if next.LastScope == math.MaxUint16 {
				return invalid("scopes", "the API had %d scopes already", math.MaxUint16)
			}
			next.LastScope++
			kept = store.APIScope{Name: s.Name, Number: next.LastScope}
		}
		kept.Texts = nil
		if len(s.Texts) > 0 {
			kept.Texts = s.Texts
		}
		next.Scopes = append(next.Scopes, kept)
	}
	var err error
	if next.DefaultScope, err = oauth.ParseScope(v.DefaultScope); err != nil || !next.Scope().Covers(next.DefaultScope) {
		return invalid("default_scope", "contains scopes that the API does not have")
	}
	if v.AccessTokenLifetime != nil {
		if next.AccessLifetime, err = accessLifetime(*v.AccessTokenLifetime, max(a.Policy.RetryWindow, view.LongestRetryWindow(a.Realm))); err != nil {
			return old, err
		}
		next.LongestLifetime = max(next.LongestLifetime, *next.AccessLifetime)
	}
	return next, conflicts(next, view)
}

// checkScope checks another scope of an API.
func checkScope(a store.API, s adminapi.APIScope) error {
	one, err := oauth.ParseScope(s.Name)
	_, twice := a.FindScope(s.Name)
	fault := ""
	switch {
	case err != nil || len(one.Tokens()) != 1 || string(one) != s.Name || len(s.Name) > maxScopeName || strings.Contains(s.Name, "="):
		fault = fmt.Sprintf("%q is not one scope of at most %d characters without =", s.Name, maxScopeName)
	case twice:
		fault = fmt.Sprintf("%q is listed twice", s.Name)
	case oauth.OpenIDScopes.Has(s.Name) || s.Name == oauth.OfflineAccess:
		fault = fmt.Sprintf("%q belongs to the issuer", s.Name)
	}
	for language, text := range s.Texts {
		if !slices.Contains(Languages, language) {
			fault = fmt.Sprintf("%q is not a language of the pages (%s)", language, strings.Join(Languages, ", "))
		} else if strings.TrimSpace(text) == "" || !oauth.IsText(text, maxScopeText) {
			fault = fmt.Sprintf("the text of %q is empty, or not UTF-8 text of at most %d bytes", s.Name, maxScopeText)
		}
	}
	if fault == "" {
		return nil
	}
	return &oauth.Invalid{Field: "scopes", Message: fault}
}

// accessLifetime parses the lifetime of an API's access tokens. It must exceed window, the
// longest retry window: an answer that is repeated to a retry contains a valid token.
func accessLifetime(text string, window time.Duration) (*store.Milliseconds, error) {
	life, err := Positive("access_token_lifetime", text)
	if err != nil {
		return nil, err
	}
	if least := window + time.Minute; life < least || life > grant.MaxAccessLifetime || life%time.Second != 0 {
		return nil, &oauth.Invalid{Field: "access_token_lifetime", Message: fmt.Sprintf(
			"%s is not a whole number of seconds from %s, a minute more than the longest retry window, to %s", config.Duration(life), config.Duration(least), config.Duration(grant.MaxAccessLifetime))}
	}
	return store.InMilliseconds(life), nil
}

// conflicts returns an error if a scope of an API belongs to another API, or if clients are
// allowed the scope without an API.
func conflicts(a store.API, view *directory.View) error {
	direct := false
	for _, s := range a.Scopes {
		other, taken := view.APIOfScope(a.Realm, s.Name)
		if taken && oauth.CanonicalTarget(other.ID) != oauth.CanonicalTarget(a.ID) {
			common := a.Scope().Common(other.Scope())
			return &Error{Conflict, "scope", string(common), fmt.Sprintf("scope %q belongs to the API %s: a scope belongs to one API only", common, other.ID)}
		}
		direct = direct || view.ClientsHave(a.Realm, s.Name)
	}
	if !direct {
		return nil
	}
	var clients []string
	var names oauth.Scope
	for c := range view.Clients(a.Realm) {
		if common := a.Scope().Common(c.Scope); common != "" && c.State != store.ClientDeleted {
			clients, names = append(clients, c.ID), names.Union(common)
		}
	}
	if len(clients) == 0 {
		return nil
	}
	slices.Sort(clients)
	return &Error{Conflict, "scope", string(names), fmt.Sprintf("scope %q is allowed without an API to the clients %s: take it from them (mintage client update ID --remove-scope), and allow it again with the API (--add-api)",
		names, strings.Join(clients, ", "))}
}

// Create registers an API.
func (a APIs) Create(ctx context.Context, v adminapi.API) (store.API, error) {
	return a.write(ctx, v.ID, func(old *store.API, view *directory.View) (store.API, changeRecord, error) {
		if old != nil {
			return *old, changeRecord{}, &Error{Taken, "api", old.ID, fmt.Sprintf("the API %s exists", old.ID)}
		}
		next, err := a.build(v, view.APIRow(a.Realm, v.ID), view, a.now())
		return next, changeRecord{name: store.EventAPICreated, detail: v.Name}, err
	})
}

// write stores the API that its argument write returns; old is nil if there is none with
// the id. The commit requires an unchanged directory, which keeps scopes and numbers unique.
func (a APIs) write(ctx context.Context, id string, write func(old *store.API, view *directory.View) (store.API, changeRecord, error)) (store.API, error) {
	return rewrite(ctx, a.Admin, "api", id, apiID, func(view *directory.View) (store.API, changeRecord, error) {
		old, _ := view.API(a.Realm, id)
		return write(old, view)
	})
}

func apiID(a store.API) string { return a.ID }

// Read returns a registered API.
func (a APIs) Read(ctx context.Context, id string) (store.API, error) {
	view, err := a.view(ctx)
	if err != nil {
		return store.API{}, err
	}
	if found, ok := view.API(a.Realm, id); ok {
		return *found, nil
	}
	return store.API{}, noAPI(id)
}

func noAPI(id string) error {
	return &Error{NotFound, "api", id, fmt.Sprintf("there is no API %q", id)}
}

// List returns the registered APIs sorted by id, and whether more follow.
func (a APIs) List(ctx context.Context, p adminapi.Page) ([]store.API, bool, error) {
	return list(ctx, a.Admin, p, func(view *directory.View) (iter.Seq[*store.API], bool) {
		row := view.APIRow(a.Realm, p.After) // also of one that was deleted meanwhile
		return view.APIsAfter(a.Realm, p.After, strings.ToLower(p.Match)), row.ID == p.After
	}, func(api *store.API) []string { return []string{api.ID, api.Name} })
}

func (a APIs) changed(v adminapi.API, old store.API, view *directory.View) (store.API, changeRecord, error) {
	v.ID = old.ID
	next, err := a.build(v, old, view, a.now())
	if err != nil {
		return old, changeRecord{}, err
	}
	changes := ViewAPI(next).Changes(ViewAPI(old))
	if changes == "" {
		next = old
	}
	return next, changeRecord{name: store.EventAPIChanged, detail: changes, none: changes == ""}, nil
}

// Apply registers the API v if there is none with the id, and otherwise changes the
// existing one to v. It writes nothing if v equals the existing API. With an ETag, the API
// must exist and be unchanged.
func (a APIs) Apply(ctx context.Context, id, etag string, v adminapi.API) (next store.API, created bool, err error) {
	if v.ID != "" && oauth.CanonicalTarget(v.ID) != oauth.CanonicalTarget(id) {
		return next, false, &oauth.Invalid{Field: "id", Message: fmt.Sprintf("%q is another API", v.ID)}
	}
	next, err = a.write(ctx, id, func(old *store.API, view *directory.View) (store.API, changeRecord, error) {
		if created = old == nil && etag == ""; created {
			v.ID = id
			next, err := a.build(v, view.APIRow(a.Realm, id), view, a.now())
			return next, changeRecord{name: store.EventAPICreated, detail: v.Name}, err
		}
		if old == nil {
			return store.API{}, changeRecord{}, noAPI(id)
		}
		if !matches(etag, APIETag(*old)) {
			return *old, changeRecord{}, changed("api", old.ID)
		}
		return a.changed(v, *old, view)
	})
	return next, created && err == nil, err
}

// Delete deletes an API. Access tokens that name it are inactive at once. With an
// ETag, the API must still be as it was.
func (a APIs) Delete(ctx context.Context, id, etag string) (store.API, error) {
	return a.write(ctx, id, func(old *store.API, _ *directory.View) (store.API, changeRecord, error) {
		if old == nil {
			return store.API{}, changeRecord{}, noAPI(id)
		}
		if !matches(etag, APIETag(*old)) {
			return *old, changeRecord{}, changed("api", old.ID)
		}
		next := deletedAPI(*old)
		next.UpdatedAt = a.now()
		next.Version++
		return next, changeRecord{name: store.EventAPIDeleted, detail: old.Name}, nil
	})
}

// deletedAPI returns the row that a deleted API leaves: its numbers are never used
// again.
func deletedAPI(a store.API) store.API {
	a.Deleted, a.Scopes, a.DefaultScope = true, []store.APIScope{}, ""
	return a
}

// checkAPIs returns an error if the registration c adds to old an API or a client that
// does not exist, a scope that the API does not have, or, without naming an API, a scope
// that belongs to one.
func (a Clients) checkAPIs(ctx context.Context, c, old store.Client) error {
	lists := []struct {
		flag        string
		now, before []string
	}{
		{"api", c.APIs, old.APIs}, {"serves-api", c.ServesAPIs, old.ServesAPIs},
		{"exchange-api", c.ExchangeAPIs, old.ExchangeAPIs}, {"exchange-beyond", c.ExchangeBeyond, old.ExchangeBeyond},
	}
	same := c.Scope == old.Scope && slices.Equal(c.ExchangeFrom, old.ExchangeFrom) && c.MayAct == old.MayAct
	for _, l := range lists {
		same = same && slices.Equal(l.now, l.before)
	}
	if same {
		return nil
	}
	view, err := a.view(ctx)
	if err != nil {
		return err
	}
	for _, l := range lists {
		for _, text := range l.now {
			allowed, err := store.ReadAllowedAPI(text)
			switch api, ok := view.API(a.Realm, allowed.ID); {
			case err != nil || slices.Contains(l.before, text): // it was valid when it was added
			case !ok:
				return &oauth.Invalid{Field: l.flag, Message: fmt.Sprintf("there is no API %q (see: mintage api list)", allowed.ID)}
			case !api.Scope().Covers(allowed.Scope):
				return &oauth.Invalid{Field: l.flag, Message: fmt.Sprintf("the API %s has the scopes %q only", api.ID, api.Scope())}
			}
		}
	}
	absent := func(id string) bool {
		other, ok := view.Registered(a.Realm, id)
		return id != c.ID && (!ok || other.State == store.ClientDeleted)
	}
	noClient := func(flag, id string) error {
		return &oauth.Invalid{Field: flag, Message: fmt.Sprintf("there is no client %q (see: mintage client list)", id)}
	}
	for _, id := range c.ExchangeFrom {
		if id != grant.EveryClient && !client.IsSelfRegisteredID(id) && !slices.Contains(old.ExchangeFrom, id) && absent(id) {
			return noClient("exchange-from", id)
		}
	}
	if c.MayAct != "" && c.MayAct != old.MayAct && absent(c.MayAct) {
		return noClient("may-act", c.MayAct)
	}
	for _, name := range c.Scope.Without(old.Scope).Tokens() {
		if api, ok := view.APIOfScope(a.Realm, name); ok {
			common := c.Scope.Without(old.Scope).Common(api.Scope())
			return &oauth.Invalid{Field: "scope", Message: fmt.Sprintf("%q belongs to the API %s: leave it out here, and allow it with --api \"%s %s\" alone, or to a client that exists with --add-api", common, api.ID, api.ID, common)}
		}
	}
	return nil
}
