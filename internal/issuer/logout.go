package issuer

import (
	"context"
	"errors"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// A SessionEnd is the end of a session. The grants that end with it record its author
// and its reason, whichever process revokes them.
type SessionEnd struct {
	Subject   string
	Reference [16]byte // zero for a session of an earlier version, to which no grant refers
	// Grants is set if all grants of the session end with it, whatever their clients
	// are registered for.
	Grants bool
	Actor  string // of the events, as in store.Event
	Detail string
}

// Revoke returns g revoked because of e, and the event. The session's user ends
// the grants of clients that are registered for it, and an operator all.
func (e SessionEnd) Revoke(g grant.Grant, now grant.Instant) (grant.Grant, []store.Event) {
	why := grant.ReasonLogout
	if e.Grants {
		why = grant.ReasonOperator
	}
	return g.Revoke(why).Next, []store.Event{{At: now, Name: store.EventGrantRevoked, About: g.ID.String(), Actor: e.Actor, Detail: e.Detail}}
}

// EndGrants revokes the grants that end with a session. It returns how many it revoked.
// It can be repeated: a code that was issued before the end may become a grant after it.
func (iss *Issuer) EndGrants(ctx context.Context, e SessionEnd) (revoked int, err error) {
	view, err := iss.Directory.View()
	if err != nil {
		return 0, store.Unavailable(err)
	}
	any := e.Grants
	for c := range view.Clients(iss.Realm) {
		any = any || c.LogoutEndsGrants
	}
	if !any || e.Reference == [16]byte{} {
		return 0, nil
	}
	for g, err := range store.GrantsOfSubject(ctx, iss.Store, iss.Realm, e.Subject) {
		if err != nil {
			return revoked, store.Unavailable(err)
		}
		c, ok := view.Registered(iss.Realm, g.ClientID) // a disabled client may be enabled again
		if g.Session != e.Reference || g.State != grant.Active || !e.Grants && (!ok || !c.LogoutEndsGrants) {
			continue
		}
		err = iss.Store.UpdateGrant(ctx, g.ID, func(g grant.Grant) (grant.Grant, []store.Event) { return e.Revoke(g, iss.now()) })
		switch {
		case err == nil:
			revoked++
		case !errors.Is(err, store.ErrNotFound):
			return revoked, store.Unavailable(err)
		}
	}
	return revoked, nil
}
