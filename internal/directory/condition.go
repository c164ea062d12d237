package directory

import (
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// A Condition describes a directory for monitoring.
type Condition struct {
	Age        time.Duration // since the last successful poll
	ClockFault error         // nil if this node's clock is right
	Active     []keys.Life   // the keys in use; EndsAt is when the successor of each is used, or is due
	Due        int           // keys that are due and were not created
	Expiring   []ExpiringSecret
	Restore    grant.Restore // the latest
}

// Condition returns the present condition, also of a stale directory.
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

// IsScriptOrigin reports whether origin is that of a redirect URI of an enabled
// public client, at the cost of one or two lookups. It reads the directory as
// last polled, however long ago: a script must be able to read a 503.
func (d *Directory) IsScriptOrigin(realm, origin string) bool {
	v := d.view.Load()
	if v.clients.origins.get(originName{realm, origin}) > 0 {
		return true
	}
	chosen := oauth.OriginOfAnyPort(origin)
	return chosen != "" && v.clients.origins.get(originName{realm, chosen}) > 0
}

// Scopes returns the scopes that enabled clients of a realm may ask for, sorted; of very
// many, the first. It reads the directory as last polled, however long ago.
func (d *Directory) Scopes(realm string) []string { return d.view.Load().scopes()[realm] }
