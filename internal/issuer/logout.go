package issuer

import (
	"context"
	"errors"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// EndGrants revokes the grants that refer to a session which has ended: those whose
// clients are registered for it or, if an operator has ended the session with them,
// all. It returns how many it revoked. It can be repeated: a code that was issued
// before the end may become a grant after it.
func (iss *Issuer) EndGrants(ctx context.Context, subject string, session [16]byte, all bool) (revoked int, err error) {
	view, err := iss.Directory.View()
	if err != nil {
		return 0, store.Unavailable(err)
	}
	any := all
	for c := range view.Clients(iss.Realm) {
		any = any || c.LogoutEndsGrants
	}
	if !any || session == [16]byte{} {
		return 0, nil
	}
	for g, err := range store.GrantsOfSubject(ctx, iss.Store, iss.Realm, subject) {
		if err != nil {
			return revoked, store.Unavailable(err)
		}
		c, ok := view.Registered(iss.Realm, g.ClientID)
		if g.Session != session || g.State != grant.Active || !all && (!ok || !c.LogoutEndsGrants) {
			continue
		}
		why, actor, detail := grant.ReasonLogout, store.AboutSubject(subject), "the user has signed out: session "
		if all {
			why, actor, detail = grant.ReasonOperator, "server", "a code that was redeemed after an operator had ended session "
		}
		err = iss.Store.UpdateGrant(ctx, g.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
			return g.Revoke(why).Next, []store.Event{{
				At: iss.now(), Name: store.EventGrantRevoked, About: g.ID.String(), Actor: actor, Detail: detail + grant.SessionName(session),
			}}
		})
		switch {
		case err == nil:
			revoked++
		case !errors.Is(err, store.ErrNotFound):
			return revoked, store.Unavailable(err)
		}
	}
	return revoked, nil
}
