package explain

import (
	"context"
	"slices"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// clientOf returns a client in any state, or nil, as the endpoints find it: with the
// scopes of its APIs, and also if it registered itself.
func clientOf(ctx context.Context, iss *issuer.Issuer, view *directory.View, id string) (*store.Client, error) {
	if c, ok := view.Registered(iss.Realm, id); ok {
		known := *c
		known.Secrets = nil // not even their digests are of use here
		return &known, nil
	}
	c, err := iss.Directory.Record(ctx, iss.Realm, id)
	if c != nil && err == nil {
		view.Offer(c)
		c.Secrets = nil
	}
	return c, err
}

// named returns the APIs of g that an opaque access token names.
func (e *Explanation) named(g grant.Grant) []string {
	for i := range g.APIs {
		if e.Token.APIs&(1<<i) == 0 {
			g.APIs[i] = 0
		}
	}
	return show.APIs(g.APIs[:], g.Realm, e.Directory.APIs)
}

// directoryOf returns the APIs and the cutoffs of a realm.
func directoryOf(v *directory.View, realm string) store.Changes {
	ch := store.Changes{Cutoffs: slices.Collect(v.Cutoffs(realm))}
	for _, a := range v.APIs(realm) {
		ch.APIs = append(ch.APIs, *a)
	}
	return ch
}
