package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

func checkDatabase(ctx context.Context, p *Deployment) (f findings) {
	if p.Store == nil {
		if f.denied(p, p.StoreErr) {
			return f
		}
		advice := "see the reason; the server answers 503 until the store works"
		info, err := os.Stat(p.StoreFile)
		if p.Config.Store == config.StoreSQLite && (errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0) {
			advice = "mount its disk, or restore a backup (mintage restore --help); only a first start makes a store: mintage serve --new-store"
		}
		return f.fault(advice, "the store does not open: %v", p.StoreErr)
	}
	switch {
	case p.Embedded != nil:
		f.write(p.Embedded.TryWrite(ctx))
		c, err := p.Embedded.Examine(ctx)
		if err != nil {
			return f.unknown("run this as the server's user", "%v", err)
		}
		f.judgeFile(c)
		f.unless("%s takes writes; journal_mode %s, synchronous FULL, %s, %s of log, %s free on the disk", filepath.Base(p.StoreFile), c.JournalMode, show.Bytes(c.Size), show.Bytes(c.WAL), show.Bytes(c.Free))
	case p.Database != nil:
		f.write(p.Database.TryWrite(ctx))
		c, err := p.Database.Examine(ctx)
		if err != nil {
			return f.unknown("see the server's log", "%v", err)
		}
		if hosts := p.Database.Unverified; len(hosts) > 0 {
			f.warn("add sslmode=verify-full and sslrootcert=FILE to the store's URL", "connections to the database are not verified: %s", strings.Join(hosts, ", "))
		}
		f.judgeServer(c)
		f.unless("PostgreSQL %s takes writes, and keeps what it has confirmed", c.Settings["server_version"])
	}
	return f
}

func (f *findings) write(err error) {
	if err != nil {
		f.fault("see the reason; nobody gets tokens until writes work", "the store takes no write: %v", err)
	}
}

const (
	freeFault   = 256 << 20
	freeWarning = 1 << 30
	walWarning  = 512 << 20
)

// judgeFile judges the embedded store: its settings, its disk and its write-ahead log.
func (f *findings) judgeFile(c store.FileCondition) {
	if c.JournalMode != "wal" {
		f.fault("stop what has changed it; a start of the server sets it", "journal_mode is %s, and must be wal", c.JournalMode)
	}
	if c.Synchronous != 2 {
		f.fault("stop what has changed it", "synchronous is %d, and must be 2 (FULL): acknowledged commits could be lost", c.Synchronous)
	}
	if c.Network != "" {
		f.fault("move the data directory to a local disk, or use PostgreSQL", "the store is on a network file system (%s): its log needs shared memory, and its locks hold on one machine", c.Network)
	}
	switch {
	case c.Free < freeFault:
		f.fault("make room: without it, writes fail and nobody gets tokens", "the disk has %s left", show.Bytes(c.Free))
	case c.Free < freeWarning || c.Free < c.Size/4:
		f.warn("make room before it is used up", "the disk has %s left; the store has %s", show.Bytes(c.Free), show.Bytes(c.Size))
	}
	if c.WAL > walWarning {
		f.warn("look for a program that reads the store for long (a backup, a shell): the log cannot begin anew before it ends", "the log of the store has grown to %s", show.Bytes(c.WAL))
	}
}

// badSettings are values of PostgreSQL's settings that endanger acknowledged responses,
// or the table of grants.
var badSettings = []struct{ name, value, level, text, advice string }{
	{"transaction_read_only", "on", levelFault, "the server only reads: it is a standby, or was set so", "name the primary's host in the store's URL, too"},
	{"fsync", "off", levelFault, "fsync is off: a power cut can destroy the database", "fsync = on in postgresql.conf"},
	{"full_page_writes", "off", levelFault, "full_page_writes is off: a power cut can destroy the database",
		"full_page_writes = on in postgresql.conf, unless the file system never writes half a page (ZFS)"},
	{"synchronous_commit", "off", levelFault, "synchronous_commit is off: acknowledged commits can be lost in a crash",
		"synchronous_commit = on for mintage's user: ALTER ROLE ... SET synchronous_commit = on"},
	{"synchronous_commit", "local", levelWarning, "synchronous_commit is local: no standby confirms commits", "synchronous_commit = on"},
	{"synchronous_standby_names", "", levelWarning, "no standby confirms commits (synchronous_standby_names is empty)",
		"set synchronous_standby_names if a standby is ever to take over: an unsynchronised one that is promoted is a restore (" + config.Page("how-to/high-availability.md") + ")"},
	{"autovacuum", "off", levelFault, "autovacuum is off: the table of grants grows without end", "autovacuum = on in postgresql.conf"},
}

// judgeServer judges a PostgreSQL server by its settings, privileges and dead rows.
func (f *findings) judgeServer(c store.ServerCondition) {
	for _, bad := range badSettings {
		if value, known := c.Settings[bad.name]; known && value == bad.value || c.Standby && bad.name == "transaction_read_only" {
			f.add(bad.level, bad.advice, "%s", bad.text)
		}
	}
	if c.Denied != "" {
		f.fault("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ... TO that user; ALTER DEFAULT PRIVILEGES gives it the tables that an upgrade adds",
			"the user in the store's URL may not do all that it has to in the tables %s", c.Denied)
	}
	if c.Dead > 100_000 && c.Dead > c.Live {
		f.warn("look for what keeps autovacuum from the table: an old transaction, a replication slot, or its settings", "the table of grants has %d dead rows beside %d live ones", c.Dead, c.Live)
	}
}

// checkIntegrity reads the whole file of the embedded store.
func checkIntegrity(ctx context.Context, p *Deployment) (f findings) {
	if p.Embedded == nil {
		return f.note("not for PostgreSQL: see its pg_amcheck and data checksums")
	}
	err := p.Embedded.QuickCheck(ctx)
	switch {
	case err == nil:
		f.ok("every page of the store was read, and is whole")
	case ctx.Err() != nil:
		f.unknown("check a backup instead: it is a copy", "the store is too large to be read within the time")
	default:
		f.fault("stop the server, put the file aside, and restore a backup: mintage restore --help", "the store is damaged: %v", err)
	}
	return f
}

// restoring reports whether a restore is in force: until it ends, no grant is
// removed.
func (p *Deployment) restoring() bool {
	return slices.ContainsFunc(p.Changes.Restores, func(r grant.Restore) bool { return r.InForce(p.Now) })
}

// checkIssuer compares the issuer with the one that the store remembers.
func checkIssuer(ctx context.Context, p *Deployment) (f findings) {
	was, err := directory.RememberedIssuer(ctx, p.Store, p.Realm)
	is, accept := p.Config.IssuerID(), "mintage doctor --accept-issuer"
	if p.Realm != oauth.DefaultRealm {
		accept += " --realm " + p.Realm[1:]
	}
	switch {
	case err != nil:
		f.unknown("see database", "the stored issuer cannot be read: %v", err)
	case is == "" || p.Config.PublicURL == "" && p.Config.Issuer == "":
		f.unknown("give doctor the server's configuration", "no issuer is configured")
	case was == "":
		f.note("the store has none yet: the next start of a server stores it")
	case was != is:
		f.fault("set the old issuer (or public_url, base_path) again; if the change is meant: "+accept,
			"the issuer was %s and is %s: clients and resource servers that expect the old one reject this server's tokens", was, is)
	default:
		f.ok("%s, as it has always been", is)
	}
	return f
}

// lostKEK reports whether the key-encryption key of an embedded store is missing and no
// server runs: a running server may have it as a credential of its service, which commands
// cannot read.
func (p *Deployment) lostKEK(ctx context.Context) bool {
	var realms adminapi.Realms
	return errors.Is(p.KEKErr, fs.ErrNotExist) && p.Config.Store == config.StoreSQLite && p.Admin(ctx, http.MethodGet, "/admin/v1/realms", &realms) != nil
}

// checkKeys checks whether the key-encryption key opens every key, and whether
// each rotating key has its successor in time.
func checkKeys(ctx context.Context, p *Deployment) (f findings) {
	records := p.Changes.Keys
	if len(records) == 0 {
		return f.fault("start the server: it creates them", "the store has no keys yet")
	}
	if p.lostKEK(ctx) {
		f.fault("restore the file from its copy, or name it with --kek-file: the server does not start without it", "%v", p.KEKErr)
	} else if p.KEKErr != nil {
		f.unknown("run this as the server's user, or name the file with --kek-file; a copy of it belongs in a safe place apart from the store's backups", "%v", p.KEKErr)
	} else if _, err := keys.Open(p.KEK, records); err != nil {
		f.fault("restore the key-encryption key that belongs to this store: without it, the server does not start again", "%v", err)
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
	return f.unless("the key-encryption key opens all %d keys; %d are in use, and each successor is created %s ahead", len(records), active, p.Config.KeyLead)
}

// checkBackup compares the age of the last recorded backup with key_lead: an older
// backup lacks keys that are in use.
func checkBackup(_ context.Context, p *Deployment) (f findings) {
	dir := p.Config.AuditDirectory()
	var last time.Time
	if dir != "" {
		for e, err := range audit.Read(dir, audit.Filter{Events: []audit.Name{audit.BackupMade}}) {
			if f.denied(p, err) {
				return f
			}
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
	return f.unless("the last one is of %s, %s old", last.UTC().Format(time.RFC3339), show.Roughly(age))
}
