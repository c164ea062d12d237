package directory

import (
	"context"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// NoteUse records the use of a client's secret, by its index, in memory.
func (v *View) NoteUse(c *store.Client, secret int, now grant.Instant) {
	u := v.clients.find(c.Realm, c.ID).uses[secret]
	// At most once a second: this avoids contention for the cache line.
	if last := u.at.Load(); int64(now)-last >= 1000 && u.at.CompareAndSwap(last, int64(now)) {
		u.all.mu.Lock()
		u.all.noted[u] = true
		u.all.mu.Unlock()
	}
}

// FlushUses writes the uses of secrets that the store lacks. It takes at most two
// seconds: a write that hangs must not stop the polls.
func (d *Directory) FlushUses(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if d.wait(ctx) == nil {
		d.writeUses(ctx, d.unwritten(0))
		d.done()
	}
}

// unwritten returns the uses that are newer than the stored ones by at least the duration
// older.
func (d *Directory) unwritten(older time.Duration) map[string]grant.Instant {
	changed := map[string]grant.Instant{}
	d.uses.mu.Lock()
	defer d.uses.mu.Unlock()
	for u := range d.uses.noted {
		if at, written := u.at.Load(), u.written.Load(); at != written && at-written >= older.Milliseconds() {
			changed[u.id] = grant.Instant(at)
		}
	}
	return changed
}

// writeUses writes uses to the store.
func (d *Directory) writeUses(ctx context.Context, changed map[string]grant.Instant) {
	if len(changed) == 0 {
		return
	}
	try, cancel := context.WithTimeout(ctx, PollInterval)
	defer cancel()
	err := d.store.NoteSecretUses(try, changed)
	if err != nil && ctx.Err() != nil {
		return // the server stops
	}
	combined := d.Outage.Combines(err, d.clock())
	if err != nil && !combined && !d.unnoted {
		d.log.Warn("cannot note the last use of secrets; trying again", "error", err)
	}
	if d.unnoted = err != nil && !combined; err != nil {
		return
	}
	d.uses.mu.Lock()
	defer d.uses.mu.Unlock()
	for id, at := range changed {
		u := d.uses.byID[id]
		u.written.Store(int64(at))
		if u.at.Load() == int64(at) { // else NoteUse notes it again, or has done so
			delete(d.uses.noted, u)
		}
	}
}
