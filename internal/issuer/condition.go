package issuer

import (
	"cmp"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// A Condition is what an operator watches of a directory.
type Condition struct {
	Age        time.Duration // of what is known
	ClockFault error         // nil if this node's clock is right
	Active     []keys.Life   // the keys in use; EndsAt is when each is followed, or would be
	Due        int           // keys that are to be made
	Expiring   []ExpiringSecret
	Restore    grant.Restore // the latest
}

// An ExpiringSecret is a secret of an enabled client that runs out, or has done
// so within lately.
type ExpiringSecret struct {
	ClientID string
	store.Secret
	Replaced bool // another secret of the client outlives it
}

const (
	// maxExpiring bounds Condition.Expiring to those that end next.
	maxExpiring = 200
	lately      = 7 * 24 * time.Hour
)

// Condition is the present one, also of a directory that is stale.
func (d *Directory) Condition() Condition {
	clock := d.clock()
	view, now := d.view.Load(), grant.At(clock)
	c := Condition{
		Age: clock.Sub(d.origin) - time.Duration(d.polled.Load()), Restore: view.Restore(),
		ClockFault: d.ClockFault(),
		Due:        len(view.Ring.Due(now, d.Schedule)), Expiring: view.expiring(now),
	}
	for _, l := range view.Ring.Lives(now, d.Schedule) {
		if l.Phase != keys.Active {
			continue
		}
		if l.EndsAt == 0 && d.Schedule.Lifetime > 0 && slices.Contains(d.Schedule.Rotating(), l.Purpose) {
			l.EndsAt = l.ActiveAt.Add(d.Schedule.Lifetime)
		}
		c.Active = append(c.Active, l)
	}
	return c
}

func (v *View) expiring(now grant.Instant) (list []ExpiringSecret) {
	for _, r := range v.clients {
		if r.State != store.ClientEnabled {
			continue
		}
		for _, s := range r.Secrets {
			if s.ExpiresAt == 0 || now.Since(s.ExpiresAt) > lately {
				continue
			}
			outlives := func(o store.Secret) bool { return o.ExpiresAt == 0 || o.ExpiresAt > s.ExpiresAt }
			list = append(list, ExpiringSecret{r.ID, s, slices.ContainsFunc(r.Secrets, outlives)})
		}
	}
	slices.SortFunc(list, func(a, b ExpiringSecret) int {
		return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), cmp.Compare(a.ClientID, b.ClientID), cmp.Compare(a.ID, b.ID))
	})
	return list[:min(len(list), maxExpiring)]
}
