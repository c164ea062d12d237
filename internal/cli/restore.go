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
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/restore"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// A restoration is one run of the command restore.
type restoration struct {
	*settings
	backupTime            string
	auditLogs             []string
	declare, status, json bool
	yes, undo             bool
}

func newRestore(s *settings) *cobra.Command {
	r := &restoration{settings: s}
	cmd := &cobra.Command{
		Use:   "restore FILE --yes | --declare --backup-time INSTANT --yes | --status",
		Short: "Restore a backup; clients continue",
		Long: `Restore the embedded store from a backup. Stop the server first. The present store
is kept beside it, under a name with the time. Without --yes, the command only
shows what the restore would lose, or what the declaration would end.

Clients continue with their tokens even though the backup knows only older ones:
while a refresh token lives, an authentic token that is ahead of the store is
accepted. Replays are still detected.

What was revoked, disabled, deleted or withdrawn since the backup is also ended in
the restored store; --undo-revocations leaves that out. Grants that were made
since are lost. If the present store cannot be read, the audit log is used, if its
chain holds.

Use --declare, while servers run, for a store that was restored by other means
(PostgreSQL, a snapshot, a promoted standby that lacked commits). Until then,
tokens that are ahead of the store are answered 503. What ended since the backup
is read from the audit log of this machine; name those of other machines with
--audit-log.`,
		Example: `  mintage restore /var/backups/mintage-2026-11-21.db --config /etc/mintage/mintage.yaml
  mintage restore /var/backups/mintage-2026-11-21.db --config /etc/mintage/mintage.yaml --yes
  mintage restore --declare --backup-time 2026-11-21T03:00:00Z --config /etc/mintage/mintage.yaml --yes
  mintage restore --status --config /etc/mintage/mintage.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			see := "see: " + cmd.CommandPath() + " --help"
			switch {
			case r.declare && r.status:
				return deployment.Usage(deployment.Hint(errors.New("--declare and --status exclude each other"), see))
			case (r.declare || r.status) && len(args) > 0:
				return deployment.Usage(deployment.Hint(errors.New("--declare and --status are about the store, and take no file"), see))
			case r.status && r.undo:
				return deployment.Usage(deployment.Hint(errors.New("--undo-revocations is about a backup file, or --declare"), see))
			case !r.declare && r.auditLogs != nil:
				return deployment.Usage(deployment.Hint(errors.New("--audit-log needs --declare"), see))
			case r.status:
				return r.printStatus(cmd)
			case r.declare:
				return r.declareOnly(cmd)
			case len(args) != 1:
				return deployment.Usage(deployment.Hint(fmt.Errorf("expected one backup file, got %d arguments", len(args)), see))
			}
			return r.restoreFile(cmd, args[0])
		},
	}
	cmd.Flags().BoolVar(&r.yes, "yes", false, "confirm")
	cmd.Flags().BoolVar(&r.undo, "undo-revocations", false, "do not end again what was revoked, disabled or deleted since the backup")
	cmd.Flags().BoolVar(&r.declare, "declare", false, "declare that the store was restored by other means")
	cmd.Flags().BoolVar(&r.status, "status", false, "list the declared restores")
	cmd.Flags().StringArrayVar(&r.auditLogs, "audit-log", nil, "with --declare: a `directory` with the audit log of another machine; may be repeated")
	cmd.Flags().StringVar(&r.backupTime, "backup-time", "", "time of a backup that does not contain it: 2026-11-21T03:00:00Z, or its age: 5h")
	cmd.Flags().BoolVar(&r.json, "json", false, "with --status: print JSON")
	return cmd
}

// backupInstant parses --backup-time.
func (r *restoration) backupInstant(now time.Time) (grant.Instant, error) {
	advice := "the instant at which the backup began, as " + now.UTC().Add(-time.Hour).Format(time.RFC3339) + "; an earlier one does no harm"
	if r.backupTime == "" {
		return 0, deployment.Usage(deployment.Hint(errors.New("--backup-time is missing"), advice))
	}
	at, err := parseMoment(r.backupTime, now)
	if err != nil {
		return 0, deployment.Usage(deployment.Hint(fmt.Errorf("--backup-time: %w", err), advice))
	}
	if at.After(now) {
		return 0, deployment.Usage(deployment.Hint(fmt.Errorf("--backup-time: %s is still to come", at.UTC().Format(time.RFC3339)), advice))
	}
	return grant.At(at), nil
}

// warnOfClock warns about the effect of a lagging clock on clients.
func warnOfClock(w io.Writer, now grant.Instant, seen grant.Issued) {
	if admin.ClockIsBehind(now, seen) {
		fmt.Fprintf(w, "\nThis machine's clock is at %s, and the store has a token of %s. Unless that date\nis wrong, set the clock first: lost tokens that are dated after the restore are\nanswered 503 until they expire.\n",
			show.Instant(now), show.Instant(seen.Latest))
	}
}

func (r *restoration) declareOnly(cmd *cobra.Command) error {
	backup, err := r.backupInstant(time.Now())
	if err != nil {
		return err
	}
	a, err := r.open(cmd.Context())
	if err != nil {
		return err
	}
	defer a.Close()
	progress := newProgress(cmd.ErrOrStderr(), time.Now)
	p := &plan{cfg: a.cfg, at: backup, progress: progress}
	if !r.undo {
		if records, err := a.Keys().Records(cmd.Context()); err == nil {
			_, p.ring, _ = fitsKEK(a.cfg, records) // without the keys, the chain alone is verified
		}
		if err := p.readAuditLog(cmd.Context(), r.auditLogs); err != nil {
			return err
		}
	}
	w := cmd.OutOrStdout()
	if !r.yes {
		p.printSince(w)
		advice := "add --yes to do it"
		if a.cfg.Store != config.StoreSQLite && !r.undo && r.auditLogs == nil {
			advice = "with several nodes, name the audit logs of the others, of which nothing is listed: --audit-log DIRECTORY; " + advice
		}
		return deployment.Usage(deployment.Hint(errors.New("nothing was declared: this accepts tokens that are newer than their grant in the store, and ends again what had ended since the backup (unless --undo-revocations is given)"), advice))
	}
	now, seen, err := a.Restores().Declare(cmd.Context(), backup, p.Ended, func(read int) {
		progress.report("", 0, 0, false, func(time.Duration) string { return fmt.Sprintf("looking for the last token: %d grants read", read) })
	})
	progress.end()
	if err != nil {
		return err
	}
	warnOfClock(cmd.ErrOrStderr(), grant.At(time.Now()), seen)
	fmt.Fprintf(w, "declared: the store is that of %s, %s old\n", show.Instant(backup), age(backup))
	if err := printInForce(w, now); err != nil {
		return err
	}
	p.printSince(w)
	fmt.Fprintf(w, `
Changes after %s and before the restore are lost: new grants (their users
log in again), and new or changed clients, secrets and users. What was revoked or
disabled meanwhile, and is not listed above, is valid again: revoke it again. The
audit log of each machine lists it:
  mintage audit show --since %s
`, show.Instant(backup), show.Instant(backup))
	return nil
}

// printInForce prints the effects of a declared restore.
func printInForce(w io.Writer, now grant.Restore) error {
	_, err := fmt.Fprintf(w, `in force on every server within two seconds, until %s:
  a client that is ahead of the store continues with its token
  a token that is older than the store's is a replay, and ends its grant
  codes that were issued before %s are refused; their users log in again
  rows of grants that have expired stay until then
`, show.Instant(now.Until), now.At.Time().Format("2006-01-02T15:04:05.000Z07:00"))
	return err
}

func (r *restoration) printStatus(cmd *cobra.Command) error {
	a, err := r.connect(cmd)
	if err != nil {
		return err
	}
	defer a.Close()
	restores, _, err := adminclient.Items[adminapi.Restore](cmd.Context(), a, "restores", nil, "restores")
	if err != nil {
		return err
	}
	rows, latest := [][]string{}, time.Time{}
	for _, v := range restores {
		if v.At.After(latest) {
			latest = *v.At
		}
	}
	for _, v := range restores {
		state := "over"
		switch {
		case v.InForce:
			state = "in force"
		case v.At.Before(latest):
			state = "superseded"
		}
		rows = append(rows, []string{when(v.At), when(v.Backup), when(v.Until), state})
	}
	list := table("RESTORED|BACKUP OF|UNTIL|", rows)
	if len(rows) == 0 {
		list = line("no restore was ever declared")
	}
	return output(cmd, r.json, restores, list)
}

// restoreFile restores the embedded store from a file.
func (r *restoration) restoreFile(cmd *cobra.Command, file string) error {
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
		return unusable(err, "use another backup: this one is damaged")
	}
	defer b.Close()
	// The output names absolute paths.
	if cfg.Data, err = filepath.Abs(cfg.Data); err != nil {
		return err
	}
	p := &plan{backup: b, cfg: cfg, progress: progress, at: b.Manifest.At, revive: r.undo}
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
	kek, ring, err := fitsKEK(cfg, p.records)
	if err != nil {
		return err
	}
	p.ring = ring
	if r.yes {
		if err := deployment.MakeDataDirectory(cfg.Data); err != nil {
			return err
		}
		release, err := lockStore(cfg.Data, "stop the server, and start it again after the restore")
		if err != nil {
			return fmt.Errorf("nothing was done: %w", err)
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
	return r.install(cmd, p, kek)
}

// lockStore locks an embedded store. The advice is for a store that another process has
// locked.
func lockStore(dir, advice string) (release func(), err error) {
	release, err = sqlite.Lock(dir)
	if errors.As(err, new(*sqlite.LockedError)) {
		err = deployment.Hint(err, advice)
	}
	return release, err
}

// fitsKEK returns the configured key-encryption key and the backup's key ring, or an error
// if the key does not unwrap the ring.
func fitsKEK(cfg config.Config, records []keys.Stored) (*keys.KEK, *keys.Ring, error) {
	kek, err := deployment.ReadKEK(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("nothing was done: %w", err)
	}
	ring, err := keys.Open(kek, records)
	if err != nil {
		needs := "?"
		for _, r := range records {
			needs = r.WrappedBy()
		}
		return nil, nil, deployment.Hint(fmt.Errorf("nothing was done: the backup's keys cannot be used: %w", err),
			fmt.Sprintf("name the key-encryption key that was in use at the backup with --kek-file: its fingerprint is %s, and that of %s is %s", needs, kekPlace(cfg), kek.Fingerprint()))
	}
	return kek, ring, nil
}

func (r *restoration) install(cmd *cobra.Command, p *plan, kek *keys.KEK) (err error) {
	dir := p.cfg.Data
	aside, err := restore.AsideName(dir, time.Now())
	if err != nil {
		return err
	}
	copied, err := restore.Prepare(cmd.Context(), dir, p.backup, p.progress.copied)
	p.progress.end()
	if err != nil {
		return deployment.Hint(err, "the store is as it was")
	}
	policy := deployment.Policy(p.cfg)
	policy.RefreshLifetime = p.cfg.LongestRefresh()
	now := admin.Restored(policy, p.at, grant.At(time.Now()), p.seen)
	event := store.Event{At: grant.At(time.Now()), Name: store.EventRestored, About: admin.AboutStore, Actor: admin.ByUser(deployment.User()).String(),
		Detail: fmt.Sprintf("%s, of %s", p.backup.File, show.Instant(p.at))}
	merge := func(st store.Store) error {
		if p.revive {
			return nil
		}
		return p.Ended.Merge(cmd.Context(), st, kek, admin.ByUser(deployment.User()).String(), time.Now)
	}
	if err := copied.Declare(cmd.Context(), merge, now, event); err != nil {
		return deployment.Hint(errors.Join(err, copied.Discard()), "the store is as it was")
	}
	kept, err := copied.Install(cmd.Context(), aside)
	if err != nil {
		return deployment.Hint(err, "nothing is lost: give the same command again")
	}
	noteAlone(p.cfg, p.records, cmd.ErrOrStderr(), audit.Event{Name: audit.Name(store.EventRestored), Actor: admin.ByUser(deployment.User()).String(), Detail: event.Detail})
	return printRestored(cmd.OutOrStdout(), now, kept, neededKEK(cmd, p.cfg, kek))
}

func printRestored(w io.Writer, now grant.Restore, kept []string, needed string) error {
	fmt.Fprintf(w, "\nrestored: the store is that of %s\n", show.Instant(now.Backup))
	for _, name := range kept {
		fmt.Fprintf(w, "the previous store is kept: %s\n", name)
	}
	if err := printInForce(w, now); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nStart the server.\n%s", needed)
	return err
}

// A plan describes the effects of a restore.
type plan struct {
	cfg      config.Config
	backup   *backup.File
	at       grant.Instant
	records  []keys.Stored
	progress *progress
	ring     *keys.Ring // of the restored store; nil: it cannot be opened

	present    bool // there is a store to replace
	unreadable error
	lost       restore.Lost
	auditLog   []audit.Entry // in place of lost, if the store cannot be read
	auditFault error
	auditLast  time.Time // of the last record in the configured audit log; zero: there is none
	auditNotes []string
	seen       grant.Issued // of the backup and of the present store

	restore.Since
	revive bool // leave out what has ended since
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
		p.lost, err = restore.CompareWith(ctx, p.backup, p.cfg.Data)
		switch {
		case errors.As(err, &displaced):
			return deployment.Hint(fmt.Errorf("nothing was done: the store in %s is not the current one: %w", p.cfg.Data, err),
				"restore the store where it is served now; a backup must not be served beside it")
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			p.seen = p.seen.And(p.lost.Issued)
			p.Since = restore.InStore(p.lost, func(ctx context.Context, f func(grant.Grant) error) error {
				return restore.EachEnded(ctx, p.backup, p.cfg.Data, f)
			})
			return nil
		}
		p.unreadable = err
	}
	return p.readAuditLog(ctx, nil)
}
