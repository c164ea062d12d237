package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/store"
)

// find returns a client in any state: its entry of the directory or, if it registered
// itself and the entry does not decide, its record with the version of the entry.
func (a Clients) find(ctx context.Context, id string) (store.Client, error) {
	entry, err := a.Store.Client(ctx, id)
	if err == nil && entry.Realm != a.Realm { // of a realm that the configuration does not name
		return store.Client{}, store.ErrNotFound
	}
	if err == nil && entry.Decides() || err != nil && !errors.Is(err, store.ErrNotFound) {
		return entry, err
	}
	doc, err := a.Store.Document(ctx, store.ClientKey(a.Realm, id))
	if err != nil {
		return store.Client{}, err
	}
	c, err := recorded(doc)
	c.Version = entry.Version
	return c, err
}

// ListSelfRegistered returns the clients that registered themselves and to which a user
// has agreed, in no particular order, and whether more follow. It includes deleted clients
// as List does.
func (a Clients) ListSelfRegistered(ctx context.Context, p adminapi.Page, all bool) (list []store.Client, more bool, err error) {
	if err := cmp.Or(p.Check(adminapi.ClientStates...), storable("after", p.After)); err != nil {
		return nil, false, err
	}
	view, err := a.view(ctx)
	if err != nil {
		return nil, false, err
	}
	// Clients are sorted by the keys of their records, even if a record was deleted.
	type keyed struct {
		key store.DocumentKey
		store.Client
	}
	ordered := func(a, b keyed) int { return bytes.Compare(a.key[:], b.key[:]) }
	f := store.DocumentFilter{Kind: store.DocumentClient, Limit: recordPage}
	if p.Match == "" || a.Records != nil { // the answer contains most records that are read
		f.Limit = min(recordPage, p.Limit+1)
	}
	if p.After != "" {
		f.After = store.ClientKey(a.Realm, p.After)
	}
	var barred []keyed
	for c := range view.Marked(directory.Barred, a.Realm) {
		if k := (keyed{store.ClientKey(a.Realm, c.ID), c.Clone()}); bytes.Compare(k.key[:], f.After[:]) > 0 {
			barred = append(barred, k)
		}
	}
	slices.SortFunc(barred, ordered)
	now := a.now()
	for last := false; !last; {
		docs, err := a.Records.find(ctx, a.Store, f, p.Match, now)
		if err != nil {
			return nil, false, err
		}
		last = len(docs) < f.Limit
		var page []keyed
		for _, d := range docs {
			if f.After = d.Key; now >= d.ExpiresAt {
				continue
			}
			c, err := recorded(d)
			if err != nil {
				return nil, false, err
			}
			// An entry of the directory overrides the record.
			if _, decided := view.Registered(a.Realm, c.ID); decided || c.Realm != a.Realm {
				continue
			}
			page = append(page, keyed{d.Key, c})
		}
		for len(barred) > 0 && (last || bytes.Compare(barred[0].key[:], f.After[:]) <= 0) {
			page, barred = append(page, barred[0]), barred[1:]
		}
		slices.SortFunc(page, ordered)
		for _, k := range page {
			switch {
			case !matchesPage(p, searched(k.Client)...), p.State != "" && p.State != string(k.State), p.State == "" && !all && k.State == store.ClientDeleted:
			case len(list) == p.Limit:
				return list, true, nil
			default:
				list = append(list, k.Client)
			}
		}
	}
	return list, false, nil
}
