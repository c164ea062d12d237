package directory

import (
	"context"
	"slices"

	"github.com/mintage/mintage/internal/store"
)

// AdmitSelfRegistered sets the function that reports whether a client with an id may
// register itself in a realm. It applies from the next request on, also to clients with a
// record: a client that is no longer admitted receives no tokens.
func (d *Directory) AdmitSelfRegistered(admits func(realm, id string) bool) { d.admits.Store(&admits) }

// Admits reports whether an id is one of a client that may have registered itself in a
// realm.
func (d *Directory) Admits(realm, id string) bool {
	admits := d.admits.Load()
	return admits != nil && (*admits)(realm, id)
}

// Client returns an enabled client of a realm, or nil. If v has no client with the id, in
// any state, Client reads the record of a client that registered itself and to which a user
// has agreed from the store.
func (d *Directory) Client(ctx context.Context, v *View, realm, id string) (*store.Client, error) {
	if c, ok := v.Client(realm, id); ok {
		return c, nil
	}
	if _, known := v.Registered(realm, id); known || !d.Admits(realm, id) {
		return nil, nil
	}
	c, err := d.Record(ctx, realm, id)
	switch {
	case c == nil || err != nil:
		return nil, err
	case c.State != store.ClientEnabled:
		return nil, nil
	}
	v.Offer(c)
	return c, nil
}

// Unrecorded returns a stand-in for a client that may register itself and has no record
// yet, or nil. The server knows only its id, and fetches nothing: all that the client proves
// is that it has a device code, which is sealed for it.
func (d *Directory) Unrecorded(ctx context.Context, realm, id string) (*store.Client, error) {
	if _, known := d.Latest().Registered(realm, id); known || !d.Admits(realm, id) {
		return nil, nil
	}
	c, err := d.Record(ctx, realm, id)
	if c != nil || err != nil {
		return nil, err
	}
	return &store.Client{
		ID: id, Realm: realm, State: store.ClientEnabled, RegisteredBy: store.ByDocument,
		Settings: store.Settings{Auth: store.AuthNone, GrantTypes: []string{store.GrantDeviceCode}},
	}, nil
}

// OpenAPIs returns the APIs that are open to clients which registered themselves,
// sorted by id.
func (v *View) OpenAPIs(realm string) []*store.API {
	return slices.Collect(apisOf(v.apis.open, realm, "", ""))
}

// Offer sets the APIs of a client that registered itself to the open ones of its realm, and
// its Scope to theirs if the realm has APIs.
func (v *View) Offer(c *store.Client) {
	if c.APIs = nil; !v.HasAPIs(c.Realm) {
		return
	}
	for _, a := range v.OpenAPIs(c.Realm) {
		c.APIs = append(c.APIs, a.ID)
	}
	c.Scope = v.ScopeOf(c.Realm, c.APIs)
}

// Record reads the record of a client that registered itself, or nil.
func (d *Directory) Record(ctx context.Context, realm, id string) (*store.Client, error) {
	doc, found, err := store.FindDocument(ctx, d.store, store.ClientKey(realm, id))
	if err != nil || !found {
		return nil, err
	}
	c, err := doc.ClientRecord()
	return &c, err
}
