package node

import (
	"context"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/store"
)

// endAll returns what ends all sessions and all grants of a subject, by its own wish.
func (n *realm) endAll(policy grant.Policy) func(ctx context.Context, subject string) error {
	return func(ctx context.Context, subject string) error {
		a := admin.Admin{
			Store: n.store, Realm: n.name, Actor: admin.Actor{Via: admin.ViaAccount, Name: subject}, Policy: policy, Now: time.Now,
			Changed: func(ctx context.Context) { _ = n.directory.Poll(ctx) }, // one that cannot poll now does so within a second
		}
		if _, _, err := a.CutOff(ctx, subject, ""); err != nil {
			return store.Unavailable(err)
		}
		return nil
	}
}

// endLogouts returns the hook by which the commit that ends a session stores that it has
// ended: for the outbox, if there are clients to tell, and for the issuer, if there are
// clients whose grants end with it.
func endLogouts(realm string, directory *directory.Directory) func(context.Context, login.End, *store.Change) error {
	return func(ctx context.Context, e login.End, c *store.Change) error {
		view, err := directory.View()
		if err != nil {
			return err
		}
		told, revoked := false, false
		for client := range view.Clients(realm) {
			told, revoked = told || client.LogoutURI != "", revoked || client.LogoutEndsGrants
		}
		if told {
			c.Documents = append(c.Documents, logout.EndOfSession(realm, e.SessionEnd, e.At))
		}
		if revoked {
			d, err := e.Document(ctx, realm, e.At)
			if err != nil {
				return err
			}
			c.Documents = append(c.Documents, d)
		}
		return nil
	}
}
