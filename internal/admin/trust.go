package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// Trusts creates, changes and reads trusts in other issuers.
type Trusts struct{ *Admin }

// Trusts returns the use cases of trusts.
func (a *Admin) Trusts() Trusts { return Trusts{a} }

// ViewTrust returns the view of a trust.
func ViewTrust(t store.Trust) adminapi.Trust {
	v := adminapi.Trust{
		ID: t.ID, Issuer: t.Issuer, Kind: string(t.Kind), ClientID: t.ClientID, Disabled: t.Disabled, APIs: slices.Clone(t.APIs),
		JWKS: t.Keys, JWKSURI: t.KeysURI, JWKSCA: t.KeysCA, Audience: t.Audience, Tenant: t.Tenant,
		Subjects: slices.Clone(t.Subjects), SubjectFrom: string(t.SubjectFrom), EmailDomains: slices.Clone(t.Domains),
		CreatedAt: show.JSONInstant(t.CreatedAt), UpdatedAt: show.JSONInstant(t.UpdatedAt),
	}
	if t.Lifetime != nil {
		v.MaxLifetime = config.Duration(t.Lifetime.Duration()).String()
	}
	return v
}

// TrustETag identifies the settings of a trust.
func TrustETag(t store.Trust) string {
	v := ViewTrust(t)
	text, err := json.Marshal([]any{v.Settings(), v.JWKS, v.JWKSCA, t.Since})
	if err != nil {
		panic(err) // it holds texts and valid JSON
	}
	return etagOf(text)
}

// build returns the trust that v describes, as the successor of old, which may be the
// zero trust.
func (a Trusts) build(v adminapi.Trust, old store.Trust, view *directory.View, now grant.Instant) (store.Trust, error) {
	next := store.Trust{
		Realm: a.Realm, Issuer: v.Issuer, Kind: store.TrustKind(v.Kind), ClientID: v.ClientID, Disabled: v.Disabled,
		Keys: v.JWKS, KeysURI: v.JWKSURI, KeysCA: v.JWKSCA, Audience: v.Audience, Tenant: v.Tenant, Subjects: v.Subjects,
		SubjectFrom: store.SubjectFrom(v.SubjectFrom), Domains: slices.Clone(v.EmailDomains),
		Since: old.Since, CreatedAt: old.CreatedAt, UpdatedAt: now, Version: old.Version + 1,
	}
	next.ID = store.TrustID(next.Issuer, next.Kind, next.ClientID)
	if old.Version == 0 || old.Deleted {
		next.CreatedAt, next.Since = now, now
	} else {
		next.Later = old.Later
	}
	if old.Disabled && !next.Disabled {
		next.Since = now
	}
	life, err := Positive("max_lifetime", v.MaxLifetime)
	if err != nil {
		return old, err
	}
	if life != 0 {
		next.Lifetime = store.InMilliseconds(life)
	}
	kept := old
	if old.Deleted {
		kept = store.Trust{}
	}
	if err := client.CheckTrust(&next, kept, a.Issuer); err != nil {
		return old, err
	}
	if next.APIs, err = a.apisOf(v, kept, view); err != nil {
		return old, err
	}
	return next, nil
}

// apisOf checks the client of a trust, and returns the trust's APIs. The client must be
// allowed each of them.
func (a Trusts) apisOf(v adminapi.Trust, old store.Trust, view *directory.View) (list []string, err error) {
	c, ok := view.Registered(a.Realm, v.ClientID)
	own := oauth.IsClientAddress(v.ClientID) && (!ok || c.SelfRegistered()) // described by its metadata document
	switch {
	case own && store.TrustKind(v.Kind) == store.TrustWorkload:
		return nil, &oauth.Invalid{Field: "client_id", Message: "a client that describes itself is for --kind id-jag: it signs for itself, by private_key_jwt"}
	case !ok && !own || ok && c.State == store.ClientDeleted:
		return nil, &oauth.Invalid{Field: "client_id", Message: fmt.Sprintf("there is no client %q (see: mintage client list)", v.ClientID)}
	case !own && store.TrustKind(v.Kind) == store.TrustIDJAG && c.Public():
		return nil, &oauth.Invalid{Field: "client_id", Message: fmt.Sprintf("client %q is public, and an ID-JAG is accepted of clients that authenticate only", v.ClientID)}
	case a.Profile != "" && old.Version == 0 && (own || c.Profile != a.Profile):
		return nil, &oauth.Invalid{Field: "client_id", Message: fmt.Sprintf("authorization.profile demands of every client that gets tokens that it is registered with --profile %s: client %q is not", a.Profile, v.ClientID)}
	case len(v.APIs) == 0 || len(v.APIs) > grant.MaxAPIs:
		return nil, &oauth.Invalid{Field: "apis", Message: fmt.Sprintf("give 1 to %d APIs, each with the scopes that the trust allows: --api \"ID SCOPE SCOPE\"", grant.MaxAPIs)}
	}
	for _, text := range v.APIs {
		l, err := store.ReadAllowedAPI(text)
		api, ok := view.API(a.Realm, l.ID)
		may := own || slices.ContainsFunc(c.APIs, func(of string) bool {
			have, err := store.ReadAllowedAPI(of)
			return err == nil && oauth.CanonicalTarget(have.ID) == oauth.CanonicalTarget(l.ID)
		})
		switch {
		case err != nil:
			return nil, &oauth.Invalid{Field: "apis", Message: fmt.Sprintf("%q is not the id of an API with scopes behind it", text)}
		case slices.Contains(old.APIs, text): // it was valid when it was added
		case !ok:
			return nil, &oauth.Invalid{Field: "apis", Message: fmt.Sprintf("there is no API %q (see: mintage api list)", l.ID)}
		case !api.Scope().Covers(l.Scope):
			return nil, &oauth.Invalid{Field: "apis", Message: fmt.Sprintf("the API %s has the scopes %q only", api.ID, api.Scope())}
		case own && !api.Open:
			return nil, &oauth.Invalid{Field: "apis", Message: fmt.Sprintf("the API %s is closed to clients that describe themselves: mintage api update %s --self-registered-clients", api.ID, api.ID)}
		case !may:
			return nil, &oauth.Invalid{Field: "apis", Message: fmt.Sprintf("the client is not allowed the API %s: mintage client update %s --add-api %q", api.ID, c.ID, text)}
		}
		list = append(list, l.String())
	}
	return list, nil
}

// Create creates a trust.
func (a Trusts) Create(ctx context.Context, v adminapi.Trust) (store.Trust, error) {
	id := store.TrustID(v.Issuer, store.TrustKind(v.Kind), v.ClientID)
	return a.write(ctx, id, func(old store.Trust, view *directory.View) (store.Trust, changeRecord, error) {
		if old.Version != 0 && !old.Deleted {
			return old, changeRecord{}, &Error{Taken, trustKind, id, fmt.Sprintf("there is a trust of this issuer, kind and client: %s", id)}
		}
		next, err := a.build(v, old, view, a.now())
		return next, changeRecord{name: store.EventTrustCreated, detail: fmt.Sprintf("%s of %s for client %s: %s", next.Kind, next.Issuer, next.ClientID, ViewTrust(next).Changes(adminapi.Trust{}))}, err
	})
}

const trustKind = "trust"

// write stores the trust that its argument write returns; old is the zero trust if there is
// none with the id. The commit requires an unchanged directory, because a trust names APIs
// and a client. Once the trust is disabled or deleted, its grants are revoked, also those
// that an interrupted call before this one left.
func (a Trusts) write(ctx context.Context, id string, write func(old store.Trust, view *directory.View) (store.Trust, changeRecord, error)) (store.Trust, error) {
	next, err := rewrite(ctx, a.Admin, trustKind, id, trustID, func(view *directory.View) (store.Trust, changeRecord, error) {
		var old store.Trust
		if row := view.TrustRow(a.Realm, id); row != nil {
			old = *row
		}
		return write(old, view)
	})
	if (err == nil || isGone(err)) && !a.DryRun && (next.Disabled || next.Deleted) {
		err = cmp.Or(a.endGrants(ctx, next), err)
	}
	return next, err
}

func trustID(t store.Trust) string { return t.ID }

// endGrants revokes the grants of a trust that has ended, for resource servers that verify
// tokens offline: they receive revocations of grants, but not the end of a trust.
func (a Trusts) endGrants(ctx context.Context, t store.Trust) error {
	for g, err := range store.EachGrant(ctx, a.Store, store.GrantFilter{Realm: a.Realm, ClientID: t.ClientID}) {
		if err == nil && g.Trust == t.ID && g.State == grant.Active {
			err = a.Grants().Revoke(ctx, g.ID)
		}
		if err != nil && !isGone(err) {
			return fmt.Errorf("the trust has ended, and its tokens are refused here; revoke its grants, so that other verifiers refuse them (the same command again does so): %w", err)
		}
	}
	return nil
}

// Read returns a trust.
func (a Trusts) Read(ctx context.Context, id string) (store.Trust, error) {
	view, err := a.view(ctx)
	if err != nil {
		return store.Trust{}, err
	}
	if t := view.TrustRow(a.Realm, id); t != nil && !t.Deleted {
		return *t, nil
	}
	return store.Trust{}, noTrust(id)
}

func noTrust(id string) error {
	return &Error{NotFound, trustKind, id, fmt.Sprintf("there is no trust %q", id)}
}

// List returns the trusts sorted by id, and whether more follow.
func (a Trusts) List(ctx context.Context, p adminapi.Page) ([]store.Trust, bool, error) {
	return list(ctx, a.Admin, p, func(view *directory.View) (iter.Seq[*store.Trust], bool) {
		return view.TrustsAfter(a.Realm, p.After), view.TrustRow(a.Realm, p.After) != nil // also of one that was deleted meanwhile
	}, func(t *store.Trust) []string { return []string{t.ID, t.Issuer, t.ClientID, string(t.Kind)} })
}

// Change changes a trust to v. With an ETag, the trust must be unchanged.
func (a Trusts) Change(ctx context.Context, id, etag string, v adminapi.Trust) (store.Trust, error) {
	return a.write(ctx, id, func(old store.Trust, view *directory.View) (store.Trust, changeRecord, error) {
		switch {
		case old.Version == 0 || old.Deleted:
			return old, changeRecord{}, noTrust(id)
		case !matches(etag, TrustETag(old)):
			return old, changeRecord{}, changed(trustKind, id)
		case store.TrustID(v.Issuer, store.TrustKind(v.Kind), v.ClientID) != id:
			return old, changeRecord{}, &oauth.Invalid{Field: "issuer", Message: "the issuer, the kind and the client of a trust never change: delete it, and create another one"}
		}
		next, err := a.build(v, old, view, a.now())
		if err != nil {
			return old, changeRecord{}, err
		}
		changes := ViewTrust(next).Changes(ViewTrust(old))
		if changes == "" {
			next = old
		}
		return next, changeRecord{name: store.EventTrustChanged, detail: changes, none: changes == ""}, nil
	})
}

// Delete deletes a trust. Tokens issued by it are inactive at once, and stay inactive if
// the trust is created again. With an ETag, the trust must be unchanged.
func (a Trusts) Delete(ctx context.Context, id, etag string) error {
	_, err := a.write(ctx, id, func(old store.Trust, _ *directory.View) (store.Trust, changeRecord, error) {
		switch {
		case old.Version == 0 || old.Deleted:
			return old, changeRecord{}, noTrust(id)
		case !matches(etag, TrustETag(old)):
			return old, changeRecord{}, changed(trustKind, id)
		}
		next := old
		next.Deleted, next.UpdatedAt = true, a.now()
		next.Version++
		return next, changeRecord{name: store.EventTrustDeleted, detail: fmt.Sprintf("%s of %s for client %s", old.Kind, old.Issuer, old.ClientID)}, nil
	})
	return err
}
