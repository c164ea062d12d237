package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
)

func newBackup(s *settings) *cobra.Command {
	var verify, asJSON bool
	cmd := &cobra.Command{
		Use:   "backup FILE [--verify]",
		Short: "Back up the store while the server runs",
		Long: `Copy the store to a file while the server runs. The copy is consistent. The file
gets its name when it is complete, checked and on disk; an existing file is never
overwritten. With --verify, nothing is copied: FILE is checked.

The key-encryption key is not in the backup: keep it as well, in another place.
"mintage restore" restores a backup. No client loses its grant if the backup is
younger than key_lead.

This is for the embedded store. For PostgreSQL, the command names the tools.`,
		Example: `  mintage backup /var/backups/mintage-2026-11-21.db --config /etc/mintage/mintage.yaml
  mintage backup /var/backups/mintage-2026-11-21.db --verify --config /etc/mintage/mintage.yaml`,
		Args: exactly(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" {
				return deployment.Usage(deployment.Hint(errors.New("a backup cannot be a stream: it is checked and made durable as a file"), "name a file, and copy that"))
			}
			cfg, err := s.load()
			if err != nil {
				return err
			}
			if verify {
				return verifyBackup(cmd, cfg, args[0], asJSON)
			}
			if err := cfg.CheckStore(); err != nil {
				return deployment.Usage(err)
			}
			if cfg.Store != config.StoreSQLite {
				return adviseDatabaseBackup(cfg, args[0])
			}
			return makeBackup(cmd, s, cfg, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "check FILE instead of copying")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// adviseDatabaseBackup returns an error that names PostgreSQL's tools.
func adviseDatabaseBackup(cfg config.Config, file string) error {
	return deployment.Hint(errors.New("nothing was done: the store is a PostgreSQL database, which its own tools back up"),
		strings.Join([]string{
			"one file, beside running servers: pg_dump --format=custom --file=" + show.Quote(file) + " " + show.Quote(cfg.StoreName()),
			"with the user in PGUSER and the password in the file that PGPASSFILE names (mode 0600): everybody on this machine can read the command",
			"any point in time: a base backup and the archived write-ahead log (pg_basebackup, archive_command, or your provider's)",
			"after a restore: mintage restore --declare --backup-time INSTANT, with the time at which the backup began",
			"keep the key-encryption key too, in another place: " + kekPlace(cfg),
		}, "\n         "))
}

// kekPlace names the file of the key-encryption key.
func kekPlace(cfg config.Config) string {
	path, _ := deployment.KEKPath(cfg)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

func makeBackup(cmd *cobra.Command, s *settings, cfg config.Config, file string, asJSON bool) error {
	progress := newProgress(cmd.ErrOrStderr(), time.Now)
	b := backup.Job{Dir: cfg.Data, File: file, Version: cmd.Root().Version, Now: time.Now, Report: progress.copied}
	if cfg.PublicURL != "" {
		b.Issuer = cfg.IssuerID()
	}
	_, err := b.Make(cmd.Context())
	progress.end()
	if errors.Is(err, context.Canceled) {
		return deployment.Hint(errors.New("stopped; there is no backup, and nothing is left of it"), "the server was not touched")
	}
	if err != nil {
		return err
	}
	v, err := viewBackup(cmd.Context(), cfg, file)
	if err != nil {
		return err
	}
	noteAlone(cfg, v.records, cmd.ErrOrStderr(), audit.Event{Name: audit.BackupMade, Actor: admin.ByUser(deployment.User()).String(), Detail: fmt.Sprintf("%s, of %s", v.File, show.Instant(v.at))})
	err = output(cmd, asJSON, v, v.text(s.file))
	if v.kekFault != nil {
		err = errors.Join(err, deployment.Hint(fmt.Errorf("the backup was made, but its keys cannot be used: %w", v.kekFault),
			"find the key-encryption key with the fingerprint "+v.KEK+": a backup is useless without it"))
	}
	return err
}

// unusable adds advice to the error of a damaged backup. The advice that printError adds
// otherwise is about the store.
func unusable(err error, advice string) error {
	if isCorrupt(err) {
		return deployment.Hint(err, advice)
	}
	return err
}

// verifyBackup checks a whole backup.
func verifyBackup(cmd *cobra.Command, cfg config.Config, file string, asJSON bool) error {
	progress := newProgress(cmd.ErrOrStderr(), time.Now)
	b, err := backup.Open(cmd.Context(), file)
	if err != nil {
		return unusable(err, "take another one")
	}
	defer b.Close()
	err = b.Check(cmd.Context(), progress.copied)
	progress.end()
	if err != nil {
		return deployment.Hint(err, "take another one")
	}
	if !b.Made() {
		return deployment.Hint(fmt.Errorf("%s is intact, but it is a store's file and not a backup: it does not contain its time", file),
			"restore it with: mintage restore "+show.Quote(file)+" --backup-time INSTANT")
	}
	v, err := viewBackup(cmd.Context(), cfg, file)
	if err != nil {
		return err
	}
	err = errors.Join(output(cmd, asJSON, v, v.text("")), v.kekFault)
	if v.complete != 0 && grant.At(time.Now()) >= v.complete {
		err = errors.Join(err, deployment.Hint(fmt.Errorf("it is %s old: since %s, keys may be in use that it lacks, and what they made would be refused", age(v.at), show.Instant(v.complete)),
			"take another one, at least every "+cfg.KeyLead.String()+" (key_lead)"))
	}
	return err
}

// A backupView is the description of a backup, for people and programs.
type backupView struct {
	File    string           `json:"file"`
	Size    int64            `json:"size"`
	At      *time.Time       `json:"at"`
	Version string           `json:"version"`
	Issuer  string           `json:"issuer,omitempty"`
	Schema  int              `json:"schema"`
	Rows    map[string]int64 `json:"rows"`
	Keys    []string         `json:"keys"`
	KEK     string           `json:"kek"`
	KEKFile string           `json:"kek_file"`
	// KEKFits is null if the key-encryption key is not at KEKFile.
	KEKFits *bool `json:"kek_fits"`
	// CompleteUntil is when servers may first use a key that the backup lacks.
	CompleteUntil *time.Time `json:"complete_until"`

	at, complete grant.Instant
	records      []keys.Stored
	kekFault     error
}

// viewBackup reads a backup's manifest, and tries the key-encryption key on it.
func viewBackup(ctx context.Context, cfg config.Config, file string) (v backupView, err error) {
	b, err := backup.Open(ctx, file)
	if err != nil {
		return v, err
	}
	defer b.Close()
	m := b.Manifest
	v = backupView{
		File: file, Size: b.Size, At: show.JSONInstant(m.At), Version: m.Version, Issuer: m.Issuer, Schema: m.Schema, Rows: m.Rows, Keys: m.Keys,
		KEK: m.KEK, KEKFile: kekPlace(cfg), at: m.At,
	}
	if abs, err := filepath.Abs(file); err == nil {
		v.File = abs
	}
	records, err := b.KeyRecords(ctx)
	if err != nil {
		return v, err
	}
	v.records, v.complete = records, keys.NewTimeline(records).CompleteUntil(m.At, deployment.KeySchedule(cfg))
	v.CompleteUntil = show.JSONInstant(v.complete)
	if _, err := os.Stat(v.KEKFile); err != nil {
		return v, nil
	}
	kek, err := deployment.ReadKEK(cfg)
	if err == nil {
		_, err = keys.Open(kek, records)
	}
	fits := err == nil
	v.KEKFits, v.kekFault = &fits, err
	return v, nil
}

func age(at grant.Instant) string {
	return grant.At(time.Now()).Since(at).Round(time.Second).String()
}

// text describes the backup for people. configuration is the file to keep beside it, or "".
func (v backupView) text(configuration string) text {
	rows := []string{}
	for _, table := range []string{"grants", "clients", "documents", "cutoffs", "events"} {
		rows = append(rows, fmt.Sprintf("%d %s", v.Rows[table], table))
	}
	kek, keep := v.KEK, v.KEK+", which is not at "+v.KEKFile
	switch {
	case v.KEKFits == nil:
		kek += " (not tried: it is not at " + v.KEKFile + ")"
	case *v.KEKFits:
		kek, keep = kek+" (fits: "+v.KEKFile+")", v.KEK+": "+v.KEKFile
	default:
		kek += " (does not fit: " + v.KEKFile + ")"
	}
	complete := "for ever: no key rotates"
	if v.complete != 0 {
		complete = show.Instant(v.complete)
	}
	return fields([][2]string{
		{"backup", v.File}, {"size", fmt.Sprintf("%.1f MB", float64(v.Size)/1e6)}, {"of", show.Instant(v.at) + ", " + age(v.at) + " ago"},
		{"made by", v.Version}, {"issuer", v.Issuer}, {"rows", strings.Join(rows, ", ")},
		{"keys", strings.Join(slices.Sorted(slices.Values(v.Keys)), " ")}, {"key-encryption key", kek}, {"holds all keys until", complete},
	}, func(w io.Writer) error {
		fmt.Fprintf(w, "\nKeep beside it, in another place:\n  the key-encryption key %s\n", keep)
		if configuration != "" {
			fmt.Fprintf(w, "  the configuration: %s\n", configuration)
		}
		return nil
	})
}

// noteAlone records an event for a command that opens no store.
func noteAlone(cfg config.Config, records []keys.Stored, stderr io.Writer, e audit.Event) {
	auditLog := deployment.CommandAudit(cfg, func() ([]keys.Stored, error) { return records, nil })
	auditLog.Record(e)
	if err := auditLog.Close(); err != nil {
		fmt.Fprintf(stderr, "mintage: done, but not recorded in the audit log: %v\n", err)
	}
}
