package doctor

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

func checkDatabase(ctx context.Context, p *Deployment) (f findings) {
	if p.Store == nil {
		f.fault("see the reason; the server answers 503 until the store works", "the store does not open: %v", p.StoreErr)
		return f
	}
	switch {
	case p.Embedded != nil:
		f.write(p.Embedded.TryWrite(ctx))
		c, err := p.Embedded.Examine(ctx)
		if err != nil {
			f.unknown("run this as the server's user", "%v", err)
			return f
		}
		f.judgeFile(c)
		f.unless("%s takes writes; journal_mode %s, synchronous FULL, %s, %s of log, %s free on the disk", filepath.Base(p.StoreFile), c.JournalMode, show.Bytes(c.Size), show.Bytes(c.WAL), show.Bytes(c.Free))
	case p.Database != nil:
		f.write(p.Database.TryWrite(ctx))
		c, err := p.Database.Examine(ctx)
		if err != nil {
			f.unknown("see the server's log", "%v", err)
			return f
		}
		if hosts := p.Database.Unverified; len(hosts) > 0 {
			f.warn("add sslmode=verify-full and sslrootcert=FILE to the store's URL", "connections to the database are not verified: %s", strings.Join(hosts, ", "))
		}
		f.judgeServer(c)
		f.unless("PostgreSQL %s takes writes, and keeps what it has confirmed; %s", c.Settings["server_version"], show.Count(len(c.Nodes), "node has used it within the hour", "nodes have used it within the hour"))
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

// judgeFile is about the embedded store.
func (f *findings) judgeFile(c store.FileCondition) {
	if c.JournalMode != "wal" {
		f.fault("stop what has changed it; a start of the server sets it", "journal_mode is %s, and must be wal", c.JournalMode)
	}
	if c.Synchronous != 2 {
		f.fault("stop what has changed it", "synchronous is %d, and must be 2 (FULL): what was answered could be lost", c.Synchronous)
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

// judgeServer judges the settings of a PostgreSQL server that are known.
func (f *findings) judgeServer(c store.ServerCondition) {
	is := func(name, bad string) bool { value, known := c.Settings[name]; return known && value == bad }
	if c.Standby || is("transaction_read_only", "on") {
		f.fault("name the primary's host in the store's URL, too", "the server only reads: it is a standby, or was set so")
	}
	if is("fsync", "off") {
		f.fault("fsync = on in postgresql.conf", "fsync is off: a power cut can destroy the database")
	}
	if is("full_page_writes", "off") {
		f.fault("full_page_writes = on in postgresql.conf, unless the file system never writes half a page (ZFS)", "full_page_writes is off: a power cut can destroy the database")
	}
	if is("synchronous_commit", "off") {
		f.fault("synchronous_commit = on for mintage's user: ALTER ROLE ... SET synchronous_commit = on", "synchronous_commit is off: tokens that were answered can be lost with the server")
	} else if is("synchronous_commit", "local") {
		f.warn("synchronous_commit = on", "synchronous_commit is local: no standby confirms what is answered")
	}
	if is("synchronous_standby_names", "") {
		f.warn("set synchronous_standby_names if a standby is ever to take over: an unsynchronised one that is promoted is a restore (see the page about high availability)",
			"no standby confirms commits (synchronous_standby_names is empty)")
	}
	if is("autovacuum", "off") {
		f.fault("autovacuum = on in postgresql.conf", "autovacuum is off: the table of grants grows without end")
	}
	if isolation, known := c.Settings["default_transaction_isolation"]; known && isolation != "read committed" {
		f.warn("ALTER ROLE ... SET default_transaction_isolation = 'read committed'", "default_transaction_isolation is %s: batches of refreshes will collide and be tried again", isolation)
	}
	if version, known := c.Settings["server_version"]; known {
		major, _ := strconv.Atoi(strings.FieldsFunc(version+".", func(r rune) bool { return r < '0' || r > '9' })[0])
		if major > 0 && major < 13 {
			f.warn("upgrade the server", "PostgreSQL %s is no longer maintained", version)
		}
	}
	if c.Fillfactor == 100 {
		f.warn("ALTER TABLE grants SET (fillfactor = 85), and then VACUUM FULL grants at a quiet time", "the table of grants has no room for updates in place (fillfactor 100)")
	}
	if c.Dead > 100_000 && c.Dead > c.Live {
		f.warn("look for what keeps autovacuum from the table: an old transaction, a replication slot, or its settings", "the table of grants has %d dead rows beside %d live ones", c.Dead, c.Live)
	}
}

// checkIntegrity reads the whole file of the embedded store.
func checkIntegrity(ctx context.Context, p *Deployment) (f findings) {
	if p.Embedded == nil {
		f.note("not for PostgreSQL: see its pg_amcheck and data checksums")
		return f
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
	is := p.Config.IssuerID()
	switch {
	case err != nil:
		f.unknown("see database", "the issuer that the store remembers cannot be read: %v", err)
	case is == "" || p.Config.PublicURL == "" && p.Config.Issuer == "":
		f.unknown("give doctor the server's configuration", "no issuer is configured")
	case was == "":
		f.note("the store remembers none yet: the next start of a server notes it")
	case was != is:
		f.fault("put the old issuer (or public_url, base_path) back; if the change is meant: mintage doctor --accept-issuer",
			"the issuer was %s and is %s: clients and resource servers that know the old one refuse what this server says", was, is)
	default:
		f.ok("%s, as it has always been", is)
	}
	return f
}
