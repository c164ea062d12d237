package issuer

import (
	"context"

	"github.com/mintage/mintage/internal/store"
)

// Knows reports whether id is that of a client, in whatever state. What is sent
// as one and is none may be anything: a secret in the wrong field.
func (iss *Issuer) Knows(id string) bool {
	r := iss.Directory.view.Load().clients[id]
	return r != nil && r.Realm == iss.Realm
}

// noteOldSecret tells of a use of a secret, by its index, that is not the newest
// of its client: whoever uses it has not taken over the newer one yet, or has
// no right to.
func (iss *Issuer) noteOldSecret(ctx context.Context, c *store.Client, i int) {
	if iss.OldSecretUsed == nil {
		return
	}
	for _, s := range c.Secrets {
		if s.CreatedAt > c.Secrets[i].CreatedAt {
			iss.OldSecretUsed(ctx, c.Realm, c.ID, c.Secrets[i].ID)
			return
		}
	}
}
