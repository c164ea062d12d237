package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
)

// A restoration is one run of the command restore.
type restoration struct {
	*settings
	backupTime            string
	declare, status, json bool
	yes, undo             bool
}

func newRestore(s *settings) *cobra.Command {
	r := &restoration{settings: s}
	cmd := &cobra.Command{
		Use:   "restore FILE --yes | --declare --backup-time INSTANT | --status",
		Short: "Restore a backup; clients continue",
		Long: `Restore the embedded store from a backup. Stop the server first. The present store
is kept beside it, under a name with the time. Without --yes, the command only
shows what the restore would lose.

Clients continue with their tokens even though the backup knows only older ones:
while a refresh token lives, an authentic token that is ahead of the store is
accepted. Replays are still detected.

What was revoked, disabled, deleted or withdrawn since the backup is also ended in
the restored store; --undo-revocations leaves that out. Grants that were made
since are lost. If the present store cannot be read, the audit log is used.

Use --declare, while servers run, for a store that was restored by other means
(PostgreSQL, a snapshot, a promoted standby that lacked commits). Until then,
tokens that are ahead of the store are answered 503.`,
		Example: `  mintage restore /var/backups/mintage-2026-11-21.db --config /etc/mintage/mintage.yaml
  mintage restore /var/backups/mintage-2026-11-21.db --config /etc/mintage/mintage.yaml --yes
  mintage restore --declare --backup-time 2026-11-21T03:00:00Z --config /etc/mintage/mintage.yaml
  mintage restore --status --config /etc/mintage/mintage.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			see := "see: " + cmd.CommandPath() + " --help"
			switch {
			case r.declare && r.status:
				return deployment.Usage(deployment.Hint(errors.New("--declare and --status exclude each other"), see))
			case (r.declare || r.status) && len(args) > 0:
				return deployment.Usage(deployment.Hint(errors.New("--declare and --status are about the store, and take no file"), see))
			case (r.declare || r.status) && r.undo:
				return deployment.Usage(deployment.Hint(errors.New("--undo-revocations is about a backup file"), see))
			case r.status:
				return r.printStatus(cmd)
			case r.declare:
				return r.declareOnly(cmd)
			case len(args) != 1:
				return deployment.Usage(deployment.Hint(fmt.Errorf("expected one backup file, got %d arguments", len(args)), see))
			}
			return r.putBack(cmd, args[0])
		},
	}
	cmd.Flags().BoolVar(&r.yes, "yes", false, "confirm")
	cmd.Flags().BoolVar(&r.undo, "undo-revocations", false, "do not end again what was revoked, disabled or deleted since the backup")
	cmd.Flags().BoolVar(&r.declare, "declare", false, "declare that the store was restored by other means")
	cmd.Flags().BoolVar(&r.status, "status", false, "list the declared restores")
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
		fmt.Fprintf(w, "\nThis machine's clock is at %s, and the store has a token of %s. Unless that one\nis wrong, set the clock first: tokens that were issued after the restore, by this\nclock, are answered 503 until they expire.\n",
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
	p := newProgress(cmd.ErrOrStderr(), time.Now)
	now, seen, err := a.DeclareRestore(cmd.Context(), backup, func(read int) {
		p.report("", 0, 0, false, func(time.Duration) string { return fmt.Sprintf("looking for the last token: %d grants read", read) })
	})
	p.end()
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	warnOfClock(cmd.ErrOrStderr(), grant.At(time.Now()), seen)
	fmt.Fprintf(w, "declared: the store is that of %s, %s old\n", show.Instant(backup), age(backup))
	if err := printInForce(w, now); err != nil {
		return err
	}
	fmt.Fprintf(w, `
Changes after %s and before the restore are lost: new grants (their users
log in again), and new or changed clients, secrets and users. What was revoked or
disabled meanwhile is valid again: revoke it again. The audit log lists it:
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
	a, err := r.open(cmd.Context())
	if err != nil {
		return err
	}
	defer a.Close()
	views, err := a.Restores(cmd.Context())
	if err != nil {
		return err
	}
	rows := [][]string{}
	for _, v := range views {
		state := "over"
		switch {
		case v.InForce:
			state = "in force"
		case !v.Latest:
			state = "superseded"
		}
		rows = append(rows, []string{when(v.At), when(v.Backup), when(v.Until), state})
	}
	list := table("RESTORED|BACKUP OF|UNTIL|", rows)
	if len(rows) == 0 {
		list = line("no restore was ever declared")
	}
	return output(cmd, r.json, views, list)
}

// ensureDataDirectory creates the data directory on a new machine.
func ensureDataDirectory(cfg config.Config) error {
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return deployment.Hint(fmt.Errorf("data directory: %w", err), "name another with --data, or make it and give it to this user")
	}
	return deployment.CheckDataDirectory(cfg.Data)
}
