package node

import (
	"context"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/store"
)

// useCases returns the use cases of operators, without an actor.
func (n *realm) useCases(cfg config.Config) admin.Admin {
	a := admin.Admin{
		Store: n.store, Realm: n.name, Issuer: cfg.IssuerID(), Policy: deployment.Policy(cfg), Profile: store.Profile(cfg.Authorization.Demanded()), Schedule: n.directory.Schedule, Now: time.Now,
		KEK: n.directory.KEK,
		Ring: func(context.Context) (*keys.Ring, error) {
			view, err := n.directory.View()
			if err != nil {
				return nil, store.Unavailable(err)
			}
			return view.Ring, nil
		},
		Current: n.directory.Current, UserCache: &account.UserCache{}, Records: &admin.Records{},
		// If this fails, the node reads the change at its next poll, within a second.
		Changed: func(ctx context.Context) { _, _ = n.directory.Current(ctx) },
		Settle:  n.directory.Settle,
	}
	if cfg.Login.Mode == config.LoginUsers && !n.node.dev { // operators of --dev get in by invitation
		a.OperatorRealm = n.name
	}
	if n.store != n.node.store {
		a.Whole = n.node.store
	}
	return a
}

// endAll returns a function that ends all sessions and all grants of a subject, at the
// subject's own request.
func (n *realm) endAll(cases admin.Admin) func(ctx context.Context, subject string) error {
	return func(ctx context.Context, subject string) error {
		a := cases
		a.Actor = admin.Actor{Via: admin.ViaAccount, Name: subject}
		_, err := a.Grants().CutOff(ctx, subject, "")
		return store.Unavailable(err)
	}
}

// endLogouts returns a hook that adds documents to the commit that ends a session: for the
// outbox, if there are clients to notify, and for the issuer, if there are clients whose
// grants end with the session.
func endLogouts(realm string, clients *directory.Directory) func(context.Context, login.End, *store.Change) error {
	return func(ctx context.Context, e login.End, c *store.Change) error {
		view, err := clients.View()
		if err != nil {
			return err
		}
		if view.AnyMarked(directory.Notified, realm) {
			c.Documents = append(c.Documents, logout.EndOfSession(realm, e.SessionEnd, e.At))
		}
		if view.AnyMarked(directory.Ending, realm) {
			d, err := e.Document(ctx, realm, e.At)
			if err != nil {
				return err
			}
			c.Documents = append(c.Documents, d)
		}
		return nil
	}
}

// policyOf returns the policy of a configuration for confidential clients.
func policyOf(cfg config.Config) grant.Policy {
	p := deployment.Policy(cfg)
	p.RetryWindow = cfg.RetryWindow.Std()
	return p
}
