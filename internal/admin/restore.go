package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// AboutStore is the About of events that concern the whole store.
const AboutStore = "store"

// reportedGrants is the number of grants after which issuedIn reports its progress again.
const reportedGrants = 5000

// Declare declares that the store was restored by other means from a backup
// of an instant. First it ends again what had ended since the backup. It reads all
// grants, which takes some seconds for each million of them, and reports to
// progress, if that is set, how many it has read.
func (a Restores) Declare(ctx context.Context, backup grant.Instant, ended Ended, progress func(read int)) (r grant.Restore, seen grant.Issued, err error) {
	if backup <= 0 || backup > a.now() {
		return r, seen, &oauth.Invalid{Field: "backup_time", Message: "is missing or still to come"}
	}
	if seen, err = issuedIn(ctx, a.whole(), progress); err != nil {
		return r, seen, fmt.Errorf("nothing was declared: %w", err)
	}
	if err = a.merge(ctx, ended); err == nil {
		err = operator.EndRestored(ctx, a.whole(), backup)
	}
	if err != nil {
		return r, seen, fmt.Errorf("nothing was declared: end what had ended since the backup: %w", err)
	}
	now := a.now()
	r = Restored(a.Policy, backup, now, seen)
	err = a.commit(ctx, store.Change{Restores: []grant.Restore{r}}, a.event(now, store.EventRestored, AboutStore, "declared; backup of "+show.Instant(backup)))
	if errors.Is(err, store.ErrConflict) {
		err = &Error{Changed, "restore", "", "another restore was declared at this very moment"}
	}
	return r, seen, err
}

// merge ends in the store what had ended since a backup. It retries after a conflict,
// because servers are using the store.
func (a Restores) merge(ctx context.Context, ended Ended) (err error) {
	var kek *keys.KEK
	if len(ended.Keys) > 0 {
		if kek, err = a.KEK(ctx); err != nil {
			return err
		}
	}
	for range 5 {
		if err = ended.Merge(ctx, a.whole(), kek, a.Actor.String(), a.Now); !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	return err
}

// Restored returns the Restore to record when this machine's clock shows now. Its At is
// after the instant of issue of every known token, unless this clock is behind. Its Until is
// after the expiry of every token from before the restore, whatever its lifetime is.
func Restored(p grant.Policy, backup, now grant.Instant, seen grant.Issued) grant.Restore {
	at := now.Add(p.MaxSkew)
	if !ClockIsBehind(now, seen) {
		at = max(at, seen.Latest+1)
	}
	last := max(at.Add(max(p.RefreshLifetime, seen.Longest)), seen.LastExpiry)
	return grant.Restore{Backup: backup, At: at, Until: last.Add(p.MaxSkew) + 1}
}

// behindMost is how far this machine's clock may be behind tokens that were
// issued elsewhere. Tokens are dated at the instant of the restore until the clock has
// reached it, and resource servers tolerate a clock difference of a minute.
const behindMost = time.Minute

// ClockIsBehind reports whether this machine's clock is too far behind for a restore:
// lost tokens that are dated after the restore's At are answered 503 until they expire.
func ClockIsBehind(now grant.Instant, seen grant.Issued) bool {
	return seen.Latest.Since(now) > behindMost
}

// issuedIn reads all grants of a store.
func issuedIn(ctx context.Context, st store.Store, progress func(read int)) (seen grant.Issued, err error) {
	n := 0
	for g, err := range store.EachGrant(ctx, st, store.GrantFilter{}) {
		if err != nil {
			return seen, err
		}
		seen = seen.And(g.Issued())
		if n++; progress != nil && n%reportedGrants == 0 {
			progress(n)
		}
	}
	return seen, nil
}

// ViewRestore returns the view of the latest restore at now.
func ViewRestore(r grant.Restore, now grant.Instant) adminapi.Restore {
	return adminapi.Restore{At: show.JSONInstant(r.At), Backup: show.JSONInstant(r.Backup), Until: show.JSONInstant(r.Until), InForce: r.InForce(now)}
}

// List returns the restores that were declared. Only the latest can be in force; it lasts
// until all of them have ended (see directory.View.Restore).
func (a Restores) List(ctx context.Context) ([]adminapi.Restore, error) {
	view, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	var latest, until grant.Instant
	for _, r := range view.Restores() {
		latest, until = max(latest, r.At), max(until, r.Until)
	}
	views := []adminapi.Restore{}
	for _, r := range view.Restores() {
		if r.At == latest {
			r.Until = until
		}
		v := ViewRestore(r, a.now())
		v.InForce = v.InForce && r.At == latest
		views = append(views, v)
	}
	return views, nil
}
