package login

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Connection is a client that has a grant or a remembered consent of a user.
type Connection struct {
	ClientID string
	Client   *store.Client // nil if it is disabled or deleted
	Scope    oauth.Scope
	Claims   claims.Set // beside those of the scope
	Since    grant.Instant
	LastUsed grant.Instant // zero if it has no grant
}

// maxGrants limits the grants of one user that are read.
const maxGrants = 20_000

// Connections lists the connections of the user of a session, the latest first.
func (co *Consents) Connections(ctx context.Context, s *Session) ([]Connection, error) {
	view, err := co.view()
	if err != nil {
		return nil, err
	}
	cs, err := co.consents(ctx, s.Subject)
	if err != nil {
		return nil, err
	}
	grants, err := co.livingGrants(ctx, view, s.Subject, "")
	if err != nil {
		return nil, err
	}
	of := map[string]*Connection{}
	connection := func(clientID string, since grant.Instant) *Connection {
		c := of[clientID]
		if c == nil {
			c = &Connection{ClientID: clientID, Since: since}
			of[clientID] = c
		}
		c.Since = min(c.Since, since)
		return c
	}
	for _, g := range grants {
		c := connection(g.ClientID, g.AuthorizedAt)
		c.LastUsed = max(c.LastUsed, g.RotatedAt)
		c.Scope = union(c.Scope, g.Scope)
		c.Claims |= claims.Set(g.InUserInfo | g.InIDToken)
	}
	for clientID := range cs.Of {
		have, ok := co.living(view, cs, s.Subject, clientID)
		if ok && (have.Remembered != "" || of[clientID] != nil) {
			c := connection(clientID, have.At)
			c.Scope = union(c.Scope, have.Scope)
			c.Claims |= have.Claims
		}
	}
	var list []Connection
	for _, c := range of {
		if c.Client, err = co.Directory.Client(ctx, view, co.Realm, c.ClientID); err != nil {
			return nil, err
		}
		c.Claims &^= claims.Of(c.Scope)
		list = append(list, *c)
	}
	slices.SortFunc(list, func(x, y Connection) int {
		return cmp.Or(cmp.Compare(y.Since, x.Since), strings.Compare(x.ClientID, y.ClientID))
	})
	return list, nil
}

// livingGrants returns the active grants of a subject to one client, or to any if clientID
// is "". It may read many inactive ones, because a client may get a grant at each login.
func (co *Consents) livingGrants(ctx context.Context, view *directory.View, subject, clientID string) (list []grant.Grant, err error) {
	now, read := co.now(), 0
	for g, err := range store.EachGrant(ctx, co.Store, store.GrantFilter{Realm: co.Realm, Subject: subject, ClientID: clientID}) {
		if err != nil {
			return nil, store.Unavailable(err)
		}
		if read++; read > maxGrants {
			break
		}
		if g.State == grant.Active && now < g.ExpiresAt && g.AuthorizedAt > view.Cutoff(co.Realm, subject, g.ClientID) {
			list = append(list, g)
		}
	}
	return list, nil
}

// connected reports whether a client has a consent or a grant of the subject. Without
// either, the caller makes no cutoff, because every node would keep it in memory.
func (co *Consents) connected(ctx context.Context, view *directory.View, cs consents, subject, clientID string) (bool, error) {
	if _, ok := cs.Of[clientID]; ok {
		return true, nil
	}
	grants, err := co.livingGrants(ctx, view, subject, clientID)
	return len(grants) > 0, err
}

// Disconnect ends what a client has from the user of a session: its grants, the
// codes that it has not redeemed, and the consent.
func (co *Consents) Disconnect(ctx context.Context, s *Session, clientID string, from grant.Origin) error {
	err := CommitEnd(ctx, co.Store, func(c *store.Change) error {
		view, err := co.view()
		if err != nil {
			return err
		}
		cs, err := co.consents(ctx, s.Subject)
		if err != nil {
			return err
		}
		if there, err := co.connected(ctx, view, cs, s.Subject, clientID); !there {
			return err
		}
		delete(cs.Of, clientID)
		doc, err := cs.document()
		if err != nil {
			return err
		}
		// The cutoff also covers agreements that AgreedAt has dated after an earlier
		// cutoff ahead of this clock.
		at := co.Issuer.AgreedAt(view, s.Subject, clientID, co.now())
		*c = store.Change{Documents: []store.Document{doc}, Cutoffs: []store.Cutoff{{Realm: co.Realm, Subject: s.Subject, ClientID: clientID, At: at}}, Events: []store.Event{{
			At: co.now(), Name: store.EventDisconnected, About: store.AboutSubject(s.Subject), Actor: store.AboutSubject(s.Subject),
			Detail: fmt.Sprintf("client %q, from %s", clientID, from),
		}}}
		return nil
	})
	if err != nil {
		return err
	}
	return store.Unavailable(co.Directory.Poll(ctx))
}
