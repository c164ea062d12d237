package client

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Documents are the clients whose id is the address of a document that describes
// them (OAuth Client ID Metadata Document).
type Documents struct {
	Realm string
	// Admitted are hosts and whole addresses, or any alone. None: no client.
	Admitted []string
	Any      string // the word for any
	// Fetch returns the document at an address, for a visitor of a network.
	Fetch func(ctx context.Context, address string, from netip.Prefix) (Document, error)
	Now   func() time.Time
}

// NamesItself reports whether an id has the form of one of a client that registered
// itself.
func NamesItself(id string) bool { return keys.IsRegistration(id) || oauth.IsClientAddress(id) }

// Admits reports whether an id is an address whose document may be fetched.
func (d *Documents) Admits(id string) bool {
	if len(d.Admitted) == 0 || oauth.CheckClientAddress(id) != nil {
		return false
	}
	return d.Admitted[0] == d.Any || slices.Contains(d.Admitted, id) || slices.Contains(d.Admitted, oauth.Host(id))
}

// Client returns the client of an address as its document describes it now, with the
// registered form of a redirect URI as its only one; "" is that of a device. Any port of this machine matches,
// that of localhost too: a program takes the one that is free.
func (d *Documents) Client(ctx context.Context, id, redirectURI string, from netip.Prefix) (*store.Client, error) {
	doc, err := d.Fetch(ctx, id, from)
	if err != nil {
		return nil, err
	}
	if redirectURI == "" {
		doc.RedirectURIs = []string{""}
	}
	i := slices.IndexFunc(doc.RedirectURIs, func(uri string) bool { return oauth.MatchRedirectURI([]string{oauth.LoopbackForm(uri)}, redirectURI) })
	if i < 0 {
		return nil, oauth.ErrRedirectMismatch
	}
	c := own(d.Realm, id, doc.Name, oauth.LoopbackForm(doc.RedirectURIs[i]), doc.Device, grant.At(d.Now()))
	c.RegisteredBy, c.Auth, c.Assertion = store.ByDocument, doc.Auth, store.AssertionRule{Alg: doc.Alg, KeysURI: doc.KeysURI}
	if doc.Bound {
		c.DPoP = store.DPoPRequired
	}
	return c, nil
}

// own is a client that registered itself, for a redirect URI, or for the device grant
// alone.
func own(realm, id, name, redirectURI string, device bool, now grant.Instant) *store.Client {
	c := &store.Client{
		ID: id, Realm: realm, State: store.ClientEnabled, Secrets: []store.Secret{}, CreatedAt: now, UpdatedAt: now,
		Settings: store.Settings{Name: name, Native: true, GrantTypes: ownGrantTypes(device), RedirectURIs: []string{}},
	}
	if redirectURI != "" {
		c.RedirectURIs = []string{redirectURI}
	}
	return c
}

// ownGrantTypes are those of a client that registered itself.
func ownGrantTypes(device bool) []string {
	types := slices.Clone(store.DefaultGrantTypes)
	if device {
		types = append(types, store.GrantDeviceCode)
	}
	return types
}
