package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// putBack restores the embedded store from a file.
func (r *restoration) putBack(cmd *cobra.Command, file string) error {
	cfg, err := r.load()
	if err != nil {
		return err
	}
	if err := cfg.CheckStore(); err != nil {
		return deployment.Usage(err)
	}
	if cfg.Store != config.StoreSQLite {
		return deployment.Hint(errors.New("nothing was done: the store is a PostgreSQL database, which its own tools restore"),
			"stop the servers, restore it (pg_restore, or recovery to a point in time), start them, and then: mintage restore --declare --backup-time INSTANT")
	}
	progress := newProgress(cmd.ErrOrStderr(), time.Now)
	defer progress.end()
	b, err := backup.Open(cmd.Context(), file)
	if err != nil {
		return err
	}
	defer b.Close()
	// The output names absolute paths.
	if cfg.Data, err = filepath.Abs(cfg.Data); err != nil {
		return err
	}
	p := &plan{backup: b, cfg: cfg, at: b.Manifest.At, revive: r.undo}
	if !b.Made() {
		if p.at, err = r.backupInstant(time.Now()); err != nil {
			return err
		}
	} else if r.backupTime != "" {
		return deployment.Usage(deployment.Hint(errors.New("--backup-time: this backup contains its time"), "leave it out"))
	}
	if p.at > grant.At(time.Now()) {
		return deployment.Hint(fmt.Errorf("the backup is of %s, which is in the future", show.Instant(p.at)), "set this machine's clock")
	}
	if err := b.Check(cmd.Context(), progress.copied); err != nil {
		return deployment.Hint(fmt.Errorf("nothing was done: %w", err), "use another backup: this one is damaged")
	}
	if p.records, err = b.KeyRecords(cmd.Context()); err != nil {
		return err
	}
	if err := fitsKEK(cfg, p.records); err != nil {
		return err
	}
	if r.yes {
		if err := ensureDataDirectory(cfg); err != nil {
			return err
		}
		release, err := sqlite.Lock(cfg.Data)
		if err != nil {
			return deployment.Hint(fmt.Errorf("nothing was done: %w", err), "stop the server, and start it again after the restore")
		}
		defer release()
	}
	if err := p.compare(cmd.Context()); err != nil {
		return err
	}
	if err := p.print(cmd.OutOrStdout()); err != nil {
		return err
	}
	if !r.yes {
		return deployment.Usage(deployment.Hint(errors.New("nothing was done: this loses what happened since the backup"), "add --yes to do it"))
	}
	return r.install(cmd, p, progress)
}

// fitsKEK returns an error if the key-encryption key does not open the backup's
// keys.
func fitsKEK(cfg config.Config, records []keys.Record) error {
	kek, err := deployment.ReadKEK(cfg)
	if err != nil {
		return fmt.Errorf("nothing was done: %w", err)
	}
	if _, err := keys.Open(kek, records); err != nil {
		needs := "?"
		for _, r := range records {
			needs = r.WrappedBy()
		}
		return deployment.Hint(fmt.Errorf("nothing was done: the backup's keys cannot be used: %w", err),
			fmt.Sprintf("name the key-encryption key that was in use at the backup with --kek-file: its fingerprint is %s, and that of %s is %s", needs, kekPlace(cfg), kek.Fingerprint()))
	}
	return nil
}

func (r *restoration) install(cmd *cobra.Command, p *plan, progress *progress) (err error) {
	dir := p.cfg.Data
	aside, err := backup.AsideName(dir, time.Now())
	if err != nil {
		return err
	}
	kek, err := deployment.ReadKEK(p.cfg)
	if err != nil {
		return err
	}
	copied, err := backup.Prepare(cmd.Context(), dir, p.backup, progress.copied)
	progress.end()
	if err != nil {
		return deployment.Hint(err, "the store is as it was")
	}
	now := admin.Restored(policyOf(p.cfg), p.at, grant.At(time.Now()), p.seen)
	event := store.Event{At: grant.At(time.Now()), Name: store.EventRestored, About: admin.AboutStore, Actor: deployment.Operator(),
		Detail: fmt.Sprintf("%s, of %s", p.backup.File, show.Instant(p.at))}
	merge := func(st store.Store) error {
		if p.revive {
			return nil
		}
		return p.ended.Merge(cmd.Context(), st, kek, deployment.Operator(), time.Now)
	}
	if err := copied.Declare(cmd.Context(), merge, now, event); err != nil {
		return deployment.Hint(errors.Join(err, copied.Discard()), "the store is as it was")
	}
	kept, err := copied.Install(cmd.Context(), aside)
	if err != nil {
		return deployment.Hint(err, "nothing is lost: give the same command again")
	}
	noteAlone(p.cfg, p.records, cmd.ErrOrStderr(), audit.Event{Name: audit.Name(store.EventRestored), Actor: deployment.Operator(), Detail: event.Detail})
	return printRestored(cmd.OutOrStdout(), now, kept)
}

func printRestored(w io.Writer, now grant.Restore, kept []string) error {
	fmt.Fprintf(w, "\nrestored: the store is that of %s\n", show.Instant(now.Backup))
	for _, name := range kept {
		fmt.Fprintf(w, "the previous store is kept: %s\n", name)
	}
	if err := printInForce(w, now); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nStart the server.\n")
	return err
}

// A plan describes the effects of a restore.
type plan struct {
	cfg     config.Config
	backup  *backup.File
	at      grant.Instant
	records []keys.Record

	present    bool // there is a store to replace
	unreadable error
	lost       backup.Lost
	auditLog   []audit.Entry // instead, if the store cannot be read
	auditFault error
	users      []userChange
	seen       grant.Issued // by the backup and by the present store

	ended       admin.Ended // what is ended in the restored store as well, unless revive is set
	endedGrants int64
	revive      bool
	missing     []string // changes that the operator has to repeat
}

// compare finds what would be lost: from the present store, or else from the audit
// log.
func (p *plan) compare(ctx context.Context) (err error) {
	if p.seen, err = p.backup.Issued(ctx); err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(p.cfg.Data, sqlite.FileName))
	p.present = !errors.Is(err, fs.ErrNotExist)
	if p.present {
		var displaced *store.Displaced
		p.lost, err = p.backup.CompareWith(ctx, p.cfg.Data)
		switch {
		case errors.As(err, &displaced):
			return deployment.Hint(fmt.Errorf("nothing was done: the store in %s is not the current one: %w", p.cfg.Data, err),
				"restore the store where it is served now; a backup must not be served beside it")
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			p.seen = p.seen.And(p.lost.Issued)
			p.users, err = userChanges(p.lost.Users)
			if err != nil {
				return err
			}
			p.ofStore()
			return nil
		}
		p.unreadable = err
	}
	return p.readAuditLog(ctx)
}

// readAuditLog reads the changes since the backup from the audit log.
func (p *plan) readAuditLog(ctx context.Context) error {
	if p.cfg.AuditDirectory() == "" {
		return nil
	}
	for e, err := range audit.Read(p.cfg.AuditDirectory(), audit.Filter{Events: lasting, Since: p.at.Time()}) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			p.auditFault = err
			continue
		}
		if e.Outcome == audit.Success || e.Outcome == audit.Unknown || e.GrantID != "" {
			p.auditLog = append(p.auditLog, e)
		}
	}
	return p.ofAuditLog(ctx)
}
