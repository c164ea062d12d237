package doctor

import (
	"context"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
)

// checkKeys checks whether the key-encryption key opens every key, and whether
// each rotating key has its successor in time.
func checkKeys(_ context.Context, p *Deployment) (f findings) {
	records := p.Changes.Keys
	if len(records) == 0 {
		f.fault("start the server: it creates them", "the store has no keys yet")
		return f
	}
	if p.KEKErr != nil {
		f.unknown("run this as the server's user, or name the file with --kek-file; a copy of it belongs in a safe place apart from the store's backups", "%v", p.KEKErr)
	} else if _, err := keys.Open(p.KEK, records); err != nil {
		f.fault("put back the key-encryption key that belongs to this store: without it, every token is dead at the next start", "%v", err)
	}
	line := keys.NewTimeline(records)
	// A running server creates keys within seconds after they are due.
	for _, due := range line.Due(p.Now.Add(-time.Minute), p.Schedule) {
		f.fault("is a server running on this store? Its log says why it does not create it; by hand: mintage keys rotate --purpose "+string(due.Purpose),
			"a successor of the %s key is due and was not created", due.Purpose)
	}
	active := 0
	for _, l := range line.Lives(p.Now, p.Schedule) {
		if l.Phase == keys.Active {
			active++
		}
		if l.CreatedAt > p.Now.Add(p.Config.Skew()+time.Minute) {
			f.warn("set the clocks by NTP", "key %s (%s) was made in the future, on %s: by a clock that was ahead, or this one is behind", l.ID, l.Purpose, show.Instant(l.CreatedAt))
		}
	}
	f.unless("the key-encryption key opens all %d keys; %d are in use, and each successor is created %s ahead", len(records), active, p.Config.KeyLead)
	return f
}

// checkBackup compares the age of the last recorded backup with key_lead: an older
// backup lacks keys that are in use.
func checkBackup(_ context.Context, p *Deployment) (f findings) {
	dir := p.Config.AuditDirectory()
	var last time.Time
	if dir != "" {
		for e, err := range audit.Read(dir, audit.Filter{Events: []audit.Name{audit.BackupMade}}) {
			if err == nil && e.Outcome == audit.Success && e.Time.After(last) {
				last = e.Time
			}
		}
	}
	if last.IsZero() {
		if p.Config.Store != config.StoreSQLite {
			f.note("none is on record here; those that are made with the database's own tools are not known to mintage. One that is older than key_lead (%s) lacks keys", p.Config.KeyLead)
		} else {
			f.warn("make one every day: mintage backup --help", "no backup is on record in the audit log")
		}
		return f
	}
	age := p.Now.Time().Sub(last)
	if lead := p.Config.KeyLead.Std(); age > lead {
		f.warn("make one now: mintage backup --help", "the last backup is of %s, %s old: older than key_lead (%s), so it lacks keys that are in use by now", last.UTC().Format(time.RFC3339), show.Roughly(age), p.Config.KeyLead)
	} else if age > 2*24*time.Hour {
		f.warn("make one every day: what was granted since would be lost", "the last backup is %s old", show.Roughly(age))
	}
	f.unless("the last one is of %s, %s old", last.UTC().Format(time.RFC3339), show.Roughly(age))
	return f
}
