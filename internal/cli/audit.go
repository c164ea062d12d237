package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

func newAudit(s *settings) *cobra.Command {
	return parent("audit", "Read and verify the audit log", `Read and verify the audit log: one line for each security event, in files of the
data directory. Each line contains the hash of the line before. The commands only
read.`,
		newAuditShow(s), newAuditVerify(s), newAuditHead(s))
}

// auditDirectory returns the directory of the configured audit log.
func (s *settings) auditDirectory() (string, config.Config, error) {
	cfg, err := s.load()
	if err != nil {
		return "", cfg, err
	}
	if cfg.AuditDirectory() == "" {
		return "", cfg, deployment.Hint(errors.New("there is no audit log: audit.directory is off"), "name another directory with --audit-directory")
	}
	if _, err := os.ReadDir(cfg.AuditDirectory()); err != nil {
		return "", cfg, deployment.Hint(fmt.Errorf("audit log: %w", err), "name the server's --data directory or --config file, and run this as its user")
	}
	return cfg.AuditDirectory(), cfg, nil
}

func newAuditShow(s *settings) *cobra.Command {
	var f audit.Filter
	var events []string
	var since, until string
	var limit int
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show audit records",
		Long: `Show audit records, oldest first: the last 1000 that match the flags, or as many
as --limit allows. Subjects are personal data.`,
		Example: `  mintage audit show --since 1h
  mintage audit show --grant 0f3c9a50c1d24e6f8b7a6c5d4e3f2a1b
  mintage audit show --event refresh_replayed --event code_replayed --since 2026-11-01
  mintage audit show --follow --json`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			for _, name := range events {
				if !slices.Contains(audit.Names(), audit.Name(name)) {
					return deployment.Usage(deployment.Hint(fmt.Errorf("--event: there is no event %q", name), "events: "+eventNames()))
				}
				f.Events = append(f.Events, audit.Name(name))
			}
			if f.Since, err = parseMoment(since, time.Now()); err != nil {
				return deployment.Usage(fmt.Errorf("--since: %w", err))
			}
			if f.Until, err = parseMoment(until, time.Now()); err != nil {
				return deployment.Usage(fmt.Errorf("--until: %w", err))
			}
			if limit < 0 {
				return deployment.Usage(errors.New("--limit: not negative; 0 is all"))
			}
			dir, cfg, err := s.auditDirectory()
			if err != nil {
				return err
			}
			if s.realm != "" {
				of, err := s.settingsOf(cfg)
				if err != nil {
					return err
				}
				if f.Realms = []string{of.Realm}; of.Realm == oauth.DefaultRealm {
					f.Realms = append(f.Realms, "")
				}
			}
			out := cmd.OutOrStdout()
			print := func(e audit.Entry) error { return printEntry(out, e, asJSON) }
			var last []audit.Entry
			earlier, all := 0, limit == 0
			keep := func(e audit.Entry) error {
				if all {
					return print(e)
				}
				if last = append(last, e); len(last) >= 2*limit {
					last, earlier = append(last[:0], last[limit:]...), earlier+limit
				}
				return nil
			}
			printLast := func() error {
				if more := max(0, len(last)-limit); !all && (more > 0 || earlier > 0) {
					last, earlier = last[more:], earlier+more
					fmt.Fprintf(cmd.ErrOrStderr(), "mintage: %d earlier records are not shown; use --limit, or --since and --until\n", earlier)
				}
				all = true
				for _, e := range last {
					if err := print(e); err != nil {
						return err
					}
				}
				return nil
			}
			if follow {
				var failed error
				err := showEntries(cmd, keep, audit.Follow(cmd.Context(), dir, f, func() { failed = printLast() }))
				return cmp.Or(failed, err)
			}
			err = showEntries(cmd, keep, audit.Read(dir, f))
			if limit > 0 {
				noteEmpty(cmd, last, err, "no record is found")
			}
			return cmp.Or(printLast(), err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.GrantID, "grant", "", "only records of this grant")
	flags.StringVar(&f.ClientID, "client", "", "only records of this client")
	flags.StringVar(&f.Subject, "subject", "", "only records of this subject")
	flags.StringVar(&s.realm, "realm", "", "only records of this realm; records of the whole deployment count for the default one")
	flags.StringVar(&f.RequestID, "request", "", "only the request with this id")
	flags.StringArrayVar(&events, "event", nil, "only events with this name; repeatable")
	flags.StringVar(&since, "since", "", "only records from this time on: 2026-11-21 or 2026-11-21T09:30 (UTC), 2026-11-21T10:30:00+01:00, or an age such as 90m or 7d")
	flags.StringVar(&until, "until", "", "only records before this time, in the same forms")
	flags.IntVar(&limit, "limit", 1000, "maximum number of records, the last ones; 0: all")
	flags.BoolVarP(&follow, "follow", "f", false, "continue with new records")
	flags.BoolVar(&asJSON, "json", false, "print JSON, one record per line")
	return cmd
}

func eventNames() string {
	var list []string
	for _, n := range audit.Names() {
		list = append(list, string(n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// showEntries prints entries. It reports a damaged line and skips it.
func showEntries(cmd *cobra.Command, print func(audit.Entry) error, entries func(func(audit.Entry, error) bool)) error {
	damaged := 0
	for e, err := range entries {
		var d *audit.DamagedLine
		switch {
		case errors.As(err, &d):
			damaged++
			if damaged <= 5 {
				fmt.Fprintf(cmd.ErrOrStderr(), "mintage: %v\n", d)
			}
			continue
		case err != nil:
			return err
		}
		if err := print(e); err != nil {
			return err
		}
	}
	if damaged > 0 {
		return deployment.Hint(fmt.Errorf("%d lines of the audit log are not records", damaged), "see: mintage audit verify")
	}
	return nil
}

// printEntry prints an entry as one line. Text of unauthenticated callers cannot
// break it, or move the terminal's cursor (CWE-150).
func printEntry(w io.Writer, e audit.Entry, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(e)
	}
	b := append([]byte(e.Time.Format("2006-01-02T15:04:05.000Z07:00")), ' ')
	b = append(b, fmt.Sprintf("%-18s %-7s", e.Event, e.Outcome)...)
	for _, m := range [][2]string{
		{"realm", store.OtherRealm(e.Realm)}, {"client", e.ClientID}, {"subject", e.Subject}, {"grant", e.GrantID}, {"generation", generationText(e)}, {"request", e.RequestID},
		{"ip", e.RemoteIP}, {"actor", e.Actor}, {"node", e.Node}, {"detail", e.Detail},
	} {
		if m[1] != "" {
			b = append(append(append(b, ' '), m[0]...), '=')
			if strconv.Quote(m[1]) == `"`+m[1]+`"` && !strings.ContainsRune(m[1], ' ') {
				b = append(b, m[1]...)
			} else {
				b = strconv.AppendQuote(b, m[1])
			}
		}
	}
	_, err := w.Write(append(b, '\n'))
	return err
}

func generationText(e audit.Entry) string {
	if e.Generation == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(e.Generation), 10)
}

// parseMoment parses a time, a day, or an age; "" is the zero time. Times without
// a zone are UTC, like all output.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	d, err := config.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("%q is neither a time like 2026-11-21T09:30:00Z, nor a day (UTC) like 2026-11-21, nor a duration like 90m or 7d", text)
	}
	return now.Add(-d.Std()), nil
}

func newAuditHead(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "head",
		Short: "Print the hash of the last record",
		Long: `Print the hash of the last record. Keep it elsewhere: "mintage audit verify --head"
then proves that nothing was cut off or rewritten. The command verifies the whole
log.`,
		Example: `  mintage audit head >> /mnt/elsewhere/heads.txt`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, _, err := s.auditDirectory()
			if err != nil {
				return err
			}
			v, err := audit.Check{Progress: newProgress(cmd.ErrOrStderr(), time.Now).verified}.Verify(dir)
			if err != nil {
				return brokenAuditLog(err, v)
			}
			return output(cmd, asJSON, struct {
				Chain string    `json:"chain"`
				Seq   uint64    `json:"seq"`
				Time  time.Time `json:"time"`
				Hash  string    `json:"hash"`
			}{v.Head.Chain, v.Head.Seq, v.Last.Time, v.Head.Hash.String()}, line("%s", v.Head.Hash))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the record's number and time")
	return cmd
}
