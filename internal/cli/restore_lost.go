package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// lasting are the events that a restore takes back.
var lasting = []audit.Name{
	audit.Name(store.EventCodeReplayed), audit.Name(store.EventRefreshReplayed), audit.Name(store.EventGrantRevoked),
	audit.Name(store.EventCutoff), audit.Name(store.EventDisconnected), audit.Name(store.EventKeyWithdrawn),
	audit.Name(store.EventClientCreated), audit.Name(store.EventClientChanged), audit.Name(store.EventClientDeleted),
	audit.Name(store.EventSecretAdded), audit.Name(store.EventSecretRevoked),
	audit.Name(store.EventUserCreated), audit.Name(store.EventUserDisabled), audit.Name(store.EventUserEnabled),
	audit.Name(store.EventPasswordChanged), audit.Name(store.EventTOTPSet), audit.Name(store.EventTOTPRemoved),
}

// A command is to be given again after a restore, or, if args is nil, what else
// is to be done.
type command struct {
	args []string
	why  string
}

// line is the command in a shell. What strangers have written ends no comment.
func (c command) line(s *settings, data string) string {
	why := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, c.why)
	if c.args == nil {
		return "# " + why
	}
	line := "mintage"
	for _, a := range c.args {
		line += " " + show.Quote(a)
	}
	if s.file != "" {
		line += " --config " + show.Quote(s.file)
	} else {
		line += " --data " + show.Quote(data)
	}
	return line + "  # " + why
}

// A userChange is a built-in user then and now.
type userChange struct{ was, is *account.User }

func userChanges(list []sqlite.UserChange) (changes []userChange, err error) {
	for _, c := range list {
		u := userChange{is: &account.User{}}
		if err := json.Unmarshal(c.Is, u.is); err != nil {
			return nil, fmt.Errorf("a user's record: %w", err)
		}
		if c.Was != nil {
			u.was = &account.User{}
			if err := json.Unmarshal(c.Was, u.was); err != nil {
				return nil, fmt.Errorf("a user's record: %w", err)
			}
		}
		// A login alone changes the record as well.
		if u.was == nil || u.was.State != u.is.State || u.was.Password != u.is.Password || u.was.Epoch != u.is.Epoch || (u.was.TOTP == nil) != (u.is.TOTP == nil) {
			changes = append(changes, u)
		}
	}
	return changes, nil
}

// commandsOfStore are those that end again what had ended, in the order in which
// they do most: keys, then whole subjects and clients, then single grants.
func commandsOfStore(l sqlite.Lost, users []userChange) (list []command) {
	for _, id := range l.Withdrawn {
		list = append(list, command{[]string{"keys", "withdraw", id.String()}, "somebody may have a copy of it"})
	}
	for _, c := range l.Clients {
		list = append(list, commandsOfClient(c)...)
	}
	for _, u := range users {
		list = append(list, commandsOfUser(u)...)
	}
	for _, c := range l.Cutoffs {
		list = append(list, command{revokeArgs(c.Subject, c.ClientID), "everything was ended at " + show.Instant(c.At)})
	}
	for _, g := range l.Ended {
		list = append(list, command{[]string{"grant", "revoke", g.ID.String()}, fmt.Sprintf("of %q to %q: %s", g.Subject, g.ClientID, g.Reason)})
	}
	if rest := l.EndedAll - int64(len(l.Ended)); rest > 0 {
		list = append(list, command{nil, fmt.Sprintf("and %d more grants; see the audit trail", rest)})
	}
	return list
}

func revokeArgs(subject, client string) []string {
	args := []string{"grant", "revoke"}
	if subject != "" {
		args = append(args, "--subject", subject)
	}
	if client != "" {
		args = append(args, "--client", client)
	}
	return args
}

func commandsOfClient(c sqlite.ClientChange) (list []command) {
	id := c.Is.ID
	switch {
	case c.Was == nil && c.Is.State == store.ClientDeleted:
		return nil // made and deleted since
	case c.Was == nil:
		return []command{{nil, fmt.Sprintf("client %s (%q) was registered: register it anew, with --id %s", id, c.Is.Name, id)}}
	case c.Is.State == store.ClientDeleted:
		return []command{{[]string{"client", "delete", id, "--yes"}, fmt.Sprintf("%q was deleted", c.Is.Name)}}
	case c.Was.State != c.Is.State:
		verb := "enable"
		if c.Is.State == store.ClientDisabled {
			verb = "disable"
		}
		list = append(list, command{[]string{"client", verb, id}, fmt.Sprintf("%q was %sd", c.Is.Name, verb)})
	}
	has := func(secrets []store.Secret, id string) bool {
		return slices.ContainsFunc(secrets, func(s store.Secret) bool { return s.ID == id })
	}
	for _, s := range c.Is.Secrets {
		if !has(c.Was.Secrets, s.ID) {
			list = append(list, command{nil, fmt.Sprintf("client %s got the secret %s, which is lost: add one and bring it there", id, s.ID)})
		}
	}
	for _, s := range c.Was.Secrets {
		if !has(c.Is.Secrets, s.ID) {
			// Refused for the last one of a client, until another one is added.
			list = append(list, command{[]string{"client", "secret", "revoke", id, s.ID}, fmt.Sprintf("a secret of %q was revoked", c.Is.Name)})
		}
	}
	was, is := c.Was.Clone(), c.Is.Clone()
	for _, x := range []*store.Client{&was, &is} {
		x.Secrets, x.State, x.Version, x.UpdatedAt = nil, "", 0, 0
	}
	if !reflect.DeepEqual(was, is) {
		list = append(list, command{nil, fmt.Sprintf("the registration of client %s was changed on %s: change it again", id, show.Instant(c.Is.UpdatedAt))})
	}
	return list
}

func commandsOfUser(c userChange) (list []command) {
	name := c.is.Username
	switch {
	case c.was == nil:
		return []command{{nil, fmt.Sprintf("user %s was made: make it anew, with --subject %s", name, c.is.Subject)}}
	case c.is.State == account.Disabled && c.was.State != account.Disabled:
		list = append(list, command{[]string{"user", "disable", name}, "it was disabled"})
	case c.is.State != c.was.State:
		list = append(list, command{[]string{"user", "enable", name}, "it was enabled"})
	}
	if c.was.Password != c.is.Password {
		list = append(list, command{nil, fmt.Sprintf("the password of user %s was changed, and the old one is good again: mintage user password %s", name, name)})
	}
	if (c.was.TOTP == nil) != (c.is.TOTP == nil) {
		list = append(list, command{nil, fmt.Sprintf("the second factor of user %s was changed: mintage user totp %s", name, name)})
	}
	return list
}

// commandsOfTrail are commandsOfStore as far as the audit trail knows.
func commandsOfTrail(ctx context.Context, trail []audit.Entry, b *sqlite.BackupFile) (list []command) {
	for _, e := range trail {
		at := e.Time.Format(time.RFC3339)
		switch {
		case e.GrantID != "":
			id, err := grant.ParseID(e.GrantID)
			if err != nil {
				continue
			}
			// One that was made since is lost anyway.
			if has, err := b.HasGrant(ctx, id); err == nil && has {
				list = append(list, command{[]string{"grant", "revoke", e.GrantID}, fmt.Sprintf("%s at %s", e.Event, at)})
			}
		case e.Event == audit.Name(store.EventCutoff), e.Event == audit.Name(store.EventDisconnected):
			if e.Subject != "" || e.ClientID != "" {
				list = append(list, command{revokeArgs(e.Subject, e.ClientID), fmt.Sprintf("%s at %s", e.Event, at)})
			}
		case e.Event == audit.Name(store.EventKeyWithdrawn):
			// The detail begins with the key's id.
			if id, _, ok := strings.Cut(strings.TrimPrefix(e.Detail, "key "), ":"); ok {
				list = append(list, command{[]string{"keys", "withdraw", id}, "withdrawn at " + at})
			}
		case e.Event == audit.Name(store.EventClientDeleted):
			list = append(list, command{[]string{"client", "delete", e.ClientID, "--yes"}, "deleted at " + at})
		default:
			about := strings.TrimSpace(strings.Join([]string{e.ClientID, e.Subject, e.Detail}, " "))
			list = append(list, command{nil, fmt.Sprintf("%s: %s %s, by %s", at, e.Event, about, e.Actor)})
		}
	}
	return list
}

// shownCommands is how many are printed; the rest is in the file.
const shownCommands = 20

// print tells what the restore costs.
func (p *plan) print(w io.Writer, s *settings) error {
	m := p.backup.Manifest
	fmt.Fprintf(w, "Put back %s, of %s (%s ago), into %s\n", p.backup.File, show.Instant(p.at), age(p.at), p.cfg.Data)
	if p.cfg.PublicURL != "" && m.Issuer != "" && m.Issuer != p.cfg.IssuerID() {
		fmt.Fprintf(w, "\nIt is another issuer's: %s, and this one is %s.\n", m.Issuer, p.cfg.IssuerID())
	}
	fmt.Fprintf(w, "\nContinues:\n  %d grants", m.Rows["grants"])
	if p.present && p.unreadable == nil {
		fmt.Fprintf(w, ", of which %d were refreshed since: their clients go on with the token that they hold", p.lost.Refreshed)
	}
	fmt.Fprintln(w)
	p.printKeys(w)
	warnOfClock(w, grant.At(time.Now()), p.seen)
	fmt.Fprintln(w, "\nLost for good:")
	switch {
	case p.present && p.unreadable == nil:
		p.printLost(w)
	case p.present:
		fmt.Fprintf(w, "  all that was made since; the present store cannot be read (%v)\n", p.unreadable)
	default:
		fmt.Fprintln(w, "  all that was made since; there is no present store to compare with")
	}
	if !p.present || p.unreadable != nil {
		switch {
		case p.cfg.AuditDirectory() == "":
			fmt.Fprintln(w, "  there is no audit trail that would tell what it was")
		case p.trailFault != nil:
			fmt.Fprintf(w, "  the audit trail in %s cannot be read everywhere: %v\n", p.cfg.AuditDirectory(), p.trailFault)
		default:
			fmt.Fprintf(w, "  the audit trail in %s has %d changes since\n", p.cfg.AuditDirectory(), len(p.trail))
		}
	}
	if len(p.commands) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nGood again, until you end it once more, or missing:")
	for i, c := range p.commands {
		if i == shownCommands {
			fmt.Fprintf(w, "  ... and %d more, in the file that the restore writes\n", len(p.commands)-i)
			break
		}
		fmt.Fprintln(w, "  "+c.line(s, p.cfg.Data))
	}
	return nil
}

func (p *plan) printLost(w io.Writer) {
	l := p.lost
	fmt.Fprintf(w, "  %d grants that were made since: their users log in again", l.Made)
	for i, by := range l.MadeBy {
		lead := ", "
		if i == 0 {
			lead = " ("
		}
		if i == 10 {
			fmt.Fprint(w, ", ...")
			break
		}
		fmt.Fprintf(w, "%s%s: %d", lead, by.ClientID, by.Grants)
	}
	if len(l.MadeBy) > 0 {
		fmt.Fprint(w, ")")
	}
	fmt.Fprintln(w)
	if l.Sessions > 0 {
		fmt.Fprintf(w, "  %d sessions of browsers: their users log in again\n", l.Sessions)
	}
	if l.Revived > 0 {
		fmt.Fprintf(w, "  the end of %d sessions of browsers, which are good again until they expire\n", l.Revived)
	}
	if l.Keys > 0 {
		fmt.Fprintf(w, "  %d keys\n", l.Keys)
	}
}

// printKeys warns of keys that are lost.
func (p *plan) printKeys(w io.Writer) {
	complete := keys.NewTimeline(p.records).CompleteUntil(p.at, deployment.KeySchedule(p.cfg))
	if now := grant.At(time.Now()); complete != 0 && now >= complete {
		fmt.Fprintf(w, "\nThe backup is older than key_lead allows: since %s, keys may have been in use that it lacks.\n"+
			"What they made is refused as forged: refresh tokens and codes issued since then (their users log in\nagain), and JWTs that they signed.\n", show.Instant(complete))
	}
}

// writeAgain writes the commands into a file, before anything is replaced.
func (p *plan) writeAgain(name string, s *settings) (string, error) {
	if len(p.commands) == 0 {
		return "", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# What was ended between %s and the restore from this backup, to be ended again\n# before the server starts. Look at it first.\n", show.Instant(p.at))
	for _, c := range p.commands {
		fmt.Fprintln(&b, c.line(s, p.cfg.Data))
	}
	if err := deployment.ReplaceFile(name, []byte(b.String()), 0o600); err != nil {
		return "", fmt.Errorf("nothing was done: %w", err)
	}
	return name, nil
}
