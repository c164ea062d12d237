package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/restore"
	"github.com/mintage/mintage/internal/show"
)

// readAuditLog reads the changes since the backup from the audit log of the configuration,
// and from those in further directories, if their chains hold. A line whose key the restored
// store lacks does not break the chain.
func (p *plan) readAuditLog(ctx context.Context, further []string) (err error) {
	check := audit.Check{Restored: true, Progress: p.progress.verified}
	if p.ring != nil && p.ring.HasAudit() {
		check.Ring = p.ring
	}
	own := p.cfg.AuditDirectory()
	if own != "" {
		further = append([]string{own}, further...)
	}
	var begins time.Time // of the earliest log
	for _, dir := range further {
		verdict, err := check.Verify(dir)
		if first := verdict.First.Time; begins.IsZero() || !first.IsZero() && first.Before(begins) {
			begins = first
		}
		p.auditNotes = append(p.auditNotes, verdict.Notes...)
		if dir == own {
			p.auditLast = verdict.Last.Time
		}
		switch none := errors.Is(err, audit.ErrNone); {
		case none && dir != own:
			return deployment.Usage(deployment.Hint(fmt.Errorf("--audit-log: %w", err), "name the directory that holds its .jsonl files"))
		case none:
			p.auditNotes = append(p.auditNotes, fmt.Sprintf("there is none in %s: what had ended since the backup, and is not listed above, is valid again", dir))
		default:
			p.auditFault = errors.Join(p.auditFault, err)
		}
		for e, err := range audit.Read(dir, audit.Filter{Events: restore.Lasting, Since: p.at.Time()}) {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				p.auditFault = errors.Join(p.auditFault, fmt.Errorf("%s: %w", dir, err))
			case e.Outcome == audit.Success, e.Outcome == audit.Unknown, e.GrantID != "":
				p.auditLog = append(p.auditLog, e)
			}
		}
	}
	if p.auditFault != nil && !p.revive {
		return deployment.Hint(fmt.Errorf("nothing was done: the audit log is not intact: %w", p.auditFault),
			"put a copy in its place that was shipped or backed up; without one, give --undo-revocations, and then end again by hand what this lists and you know to be true: mintage audit show --since "+show.Instant(p.at))
	}
	if begins.After(p.at.Time()) {
		p.auditNotes = append(p.auditNotes, fmt.Sprintf("it begins on %s, after the backup: what had ended before, and is not listed above, is valid again", show.Instant(grant.At(begins))))
	}
	slices.SortStableFunc(p.auditLog, func(a, b audit.Entry) int { return a.Time.Compare(b.Time) })
	var has func(context.Context, grant.ID) (bool, error)
	if p.backup != nil {
		has = p.backup.HasGrant
	}
	p.Since, err = restore.InAuditLog(ctx, p.auditLog, has)
	return err
}

// shownLines limits the printed lines of a list.
const shownLines = 20

// print prints what continues after the restore, and what is lost or ended.
func (p *plan) print(w io.Writer) error {
	m := p.backup.Manifest
	fmt.Fprintf(w, "Restore %s, of %s (%s ago), into %s\n", p.backup.File, show.Instant(p.at), age(p.at), p.cfg.Data)
	if p.cfg.PublicURL != "" && m.Issuer != "" && m.Issuer != p.cfg.IssuerID() {
		fmt.Fprintf(w, "\nIt belongs to another issuer: %s, and this one is %s.\n", m.Issuer, p.cfg.IssuerID())
	}
	fmt.Fprintf(w, "\nContinues:\n  %s", show.Count(int(m.Rows["grants"]), "grant", "grants"))
	if p.present && p.unreadable == nil {
		fmt.Fprintf(w, ", of which %d were refreshed since: their clients continue with their tokens", p.lost.Refreshed)
	}
	fmt.Fprintln(w)
	p.printKeys(w)
	warnOfClock(w, grant.At(time.Now()), p.seen)
	fmt.Fprintln(w, "\nLost for good:")
	switch {
	case p.present && p.unreadable == nil:
		p.printLost(w)
	case p.present:
		fmt.Fprintf(w, "  all changes since; the present store cannot be read (%v)\n", p.unreadable)
	default:
		fmt.Fprintln(w, "  all changes since; there is no present store to compare with")
	}
	if !p.present || p.unreadable != nil {
		switch {
		case p.auditFault != nil:
			fmt.Fprintf(w, "  the audit log in %s is not intact: %v\n", p.cfg.AuditDirectory(), p.auditFault)
		case p.auditLast.IsZero():
			fmt.Fprintln(w, "  there is no audit log that lists them")
		default:
			fmt.Fprintf(w, "  the audit log in %s has %d changes since; its last record is of %s\n", p.cfg.AuditDirectory(), len(p.auditLog), p.auditLast.Format(time.RFC3339))
		}
	}
	p.printSince(w)
	return nil
}

// printSince lists what has ended since the backup, what the operator must repeat after the
// restore, and notes about the audit log.
func (p *plan) printSince(w io.Writer) {
	title := "Ended since the backup, and ended in the restored store as well:"
	if p.revive {
		title = "Ended since the backup, and valid again (--undo-revocations):"
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, id := range p.Ended.Keys {
		add("key %s, withdrawn", id)
	}
	in := func(realm, text string) string {
		if realm == "" || realm == oauth.DefaultRealm {
			return text
		}
		return text + " of realm " + realm[1:]
	}
	for _, c := range p.Ended.Clients {
		name := in(c.Realm, "client "+c.ID)
		if c.State != "" {
			add("%s, %s", name, c.State)
		}
		for _, id := range c.Secrets {
			add("secret %s of %s, revoked", id, name)
		}
	}
	for _, a := range p.Ended.APIs {
		name := in(a.Realm, "API "+a.ID)
		if a.Deleted {
			add("%s, deleted", name)
		}
		if a.Closed {
			add("%s, closed to clients that registered themselves", name)
		}
		if a.Scope != "" {
			add("scope %s of %s, removed", a.Scope, name)
		}
	}
	for _, t := range p.Ended.Trusts {
		what := "changed or disabled"
		if t.Deleted {
			what = "deleted"
		}
		add("%s, %s", in(t.Realm, "trust "+t.ID), what)
	}
	for _, u := range p.Ended.Users {
		switch name := in(u.Realm, "user "+cmp.Or(u.Username, u.Subject)); {
		case u.Disabled:
			add("%s, disabled", name)
		default:
			add("sessions, password or second factor of %s, as they were before the last change", name)
		}
	}
	for _, c := range p.Ended.Cutoffs {
		switch {
		case c.Subject == "":
			add("everything of %s until %s", in(c.Realm, "client "+c.ClientID), show.Instant(c.At))
		case c.ClientID == "":
			add("everything of %s until %s", in(c.Realm, fmt.Sprintf("subject %q", c.Subject)), show.Instant(c.At))
		default:
			add("everything of subject %q at %s until %s", c.Subject, in(c.Realm, "client "+c.ClientID), show.Instant(c.At))
		}
	}
	for _, t := range p.Ended.Tokens {
		add("admin token %s, revoked", t.Name)
	}
	for _, o := range p.Ended.Operators {
		add("operator %s of the console, removed", o.Name)
	}
	if p.EndedGrants > 0 {
		add("grants that were revoked: %d", p.EndedGrants)
	}
	if n := len(p.Ended.Sessions); n > 0 {
		add("sessions of browsers that were signed out: %d", n)
	}
	printList(w, title, lines)
	printList(w, "Missing afterwards; repeat it:", p.Missing)
	printList(w, "The audit log:", p.auditNotes)
}

func printList(w io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for i, line := range lines {
		if i == shownLines && len(lines) > shownLines+1 {
			fmt.Fprintf(w, "  ... and %d more\n", len(lines)-i)
			return
		}
		fmt.Fprintln(w, "  "+line)
	}
}

func (p *plan) printLost(w io.Writer) {
	l := p.lost
	fmt.Fprintf(w, "  %s: their users log in again", show.Count(int(l.Made), "newer grant", "newer grants"))
	var by []string
	for _, c := range l.MadeBy[:min(10, len(l.MadeBy))] {
		by = append(by, fmt.Sprintf("%s: %d", c.ClientID, c.Grants))
	}
	if len(l.MadeBy) > 10 {
		by = append(by, "...")
	}
	if by != nil {
		fmt.Fprintf(w, " (%s)", strings.Join(by, ", "))
	}
	fmt.Fprintln(w)
	if l.Sessions > 0 {
		fmt.Fprintf(w, "  %s: their users log in again\n", show.Count(int(l.Sessions), "browser session", "browser sessions"))
	}
	if l.Keys > 0 {
		fmt.Fprintf(w, "  %s\n", show.Count(int(l.Keys), "key", "keys"))
	}
}

// printKeys warns if the backup may lack keys that were in use.
func (p *plan) printKeys(w io.Writer) {
	complete := keys.NewTimeline(p.records).CompleteUntil(p.at, deployment.KeySchedule(p.cfg))
	if now := grant.At(time.Now()); complete != 0 && now >= complete {
		fmt.Fprintf(w, "\nThe backup is older than key_lead allows: since %s, keys may have been in use that it lacks.\n"+
			"What they made is refused as forged: refresh tokens and codes issued since then (their users log in\nagain), and JWTs that they signed.\n", show.Instant(complete))
	}
}

// neededKEK names the key-encryption key that the restored store needs, if --kek-file was
// given: the file that the server reads may already contain the key of a later rotation.
func neededKEK(cmd *cobra.Command, cfg config.Config, kek *keys.KEK) string {
	if !cmd.Flags().Changed("kek-file") {
		return ""
	}
	return fmt.Sprintf("It needs the key-encryption key %s, of %s. If its kek file has another one,\nkeep that under another name, and put this one in its place first.\n", kek.Fingerprint(), kekPlace(cfg))
}
