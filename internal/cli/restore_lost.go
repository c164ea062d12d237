package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// lasting lists the events whose effects a restore undoes.
var lasting = []audit.Name{
	audit.Name(store.EventCodeReplayed), audit.Name(store.EventRefreshReplayed), audit.Name(store.EventGrantRevoked), audit.Name(store.EventAccessRevoked),
	audit.Name(store.EventCutoff), audit.Name(store.EventDisconnected), audit.Name(store.EventKeyWithdrawn),
	audit.Name(store.EventClientCreated), audit.Name(store.EventClientChanged), audit.Name(store.EventClientDeleted),
	audit.Name(store.EventSecretAdded), audit.Name(store.EventSecretRevoked),
	audit.Name(store.EventAPICreated), audit.Name(store.EventAPIChanged), audit.Name(store.EventAPIDeleted),
	audit.Name(store.EventUserCreated), audit.Name(store.EventUserChanged), audit.Name(store.EventUserDisabled), audit.Name(store.EventUserEnabled),
	audit.Name(store.EventPasswordChanged), audit.Name(store.EventTOTPSet), audit.Name(store.EventTOTPRemoved),
}

// A userChange is a built-in user in the backup and in the present store.
type userChange struct{ was, is *account.User }

// otherProfile reports whether the name or the claims were changed.
func (c userChange) otherProfile() bool {
	return c.was.Name != c.is.Name || !reflect.DeepEqual(c.was.Claims, c.is.Claims)
}

func userChanges(list []backup.UserChange) (changes []userChange, err error) {
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
		// A login also changes the record.
		if u.was == nil || u.otherProfile() || u.was.State != u.is.State || u.was.Password != u.is.Password || u.was.Epoch != u.is.Epoch || !bytes.Equal(u.was.TOTP, u.is.TOTP) {
			changes = append(changes, u)
		}
	}
	return changes, nil
}

// since holds what has happened since a backup and lasts.
type since struct {
	ended       admin.Ended // what a restored store ends as well
	endedGrants int64
	missing     []string // changes that the operator has to repeat
}

// sinceInStore finds what has happened since a backup in the store that is to be
// replaced. The function calls its argument for each grant that has ended.
func sinceInStore(l backup.Lost, grants func(context.Context, func(grant.Grant) error) error) (since, error) {
	s := since{endedGrants: l.Ended, ended: admin.Ended{
		Realm: deployment.Realm, Keys: l.Withdrawn, Cutoffs: l.Cutoffs, Sessions: l.SignedOut, Grants: grants,
	}}
	users, err := userChanges(l.Users)
	if err != nil {
		return s, err
	}
	for _, c := range l.Clients {
		s.ofClient(c)
	}
	for _, a := range l.APIs {
		s.ofAPI(a)
	}
	for _, u := range users {
		s.ofUser(u)
	}
	return s, nil
}

func (s *since) ofClient(c backup.ClientChange) {
	id := c.Is.ID
	switch {
	case c.Was == nil && c.Is.State == store.ClientDeleted:
		return // made and deleted since
	case c.Was == nil:
		s.miss("client %s (%q) was registered: register it anew, with --id %s", id, c.Is.Name, id)
		return
	}
	end := admin.EndedClient{ID: id}
	if c.Was.State != c.Is.State {
		if c.Is.State == store.ClientEnabled {
			s.miss("client %s was enabled: mintage client enable %s", id, id)
		} else {
			end.State = c.Is.State
		}
	}
	has := func(secrets []store.Secret, id string) bool {
		return slices.ContainsFunc(secrets, func(s store.Secret) bool { return s.ID == id })
	}
	for _, secret := range c.Is.Secrets {
		if !has(c.Was.Secrets, secret.ID) {
			s.miss("client %s got the secret %s, which is lost: add one and bring it there", id, secret.ID)
		}
	}
	for _, secret := range c.Was.Secrets {
		if !has(c.Is.Secrets, secret.ID) && end.State != store.ClientDeleted {
			end.Secrets = append(end.Secrets, secret.ID)
		}
	}
	if end.State != "" || len(end.Secrets) > 0 {
		s.ended.Clients = append(s.ended.Clients, end)
	}
	was, is := c.Was.Clone(), c.Is.Clone()
	for _, x := range []*store.Client{&was, &is} {
		x.Secrets, x.State, x.Version, x.UpdatedAt = nil, "", 0, 0
	}
	if end.State != store.ClientDeleted && !reflect.DeepEqual(was, is) {
		s.miss("the registration of client %s was changed on %s: change it again", id, show.Instant(c.Is.UpdatedAt))
	}
}

func (s *since) ofAPI(c backup.APIChange) {
	id := c.Is.ID
	was, is := c.Was, *c.Is
	deleted := was != nil && !was.Deleted && (is.Deleted || is.Number != was.Number)
	if deleted {
		s.ended.APIs = append(s.ended.APIs, admin.EndedAPI{ID: was.ID, Deleted: true})
	}
	switch {
	case is.Deleted:
		return
	case was == nil || was.Deleted || deleted:
		s.miss("API %s (%q) was registered: register it anew: mintage api create", id, is.Name)
		return
	}
	end := admin.EndedAPI{ID: id, Closed: was.Open && !is.Open, Scope: was.Scope().Without(is.Scope())}
	if end.Closed || end.Scope != "" {
		s.ended.APIs = append(s.ended.APIs, end)
	}
	merged := *was
	merged.Open = was.Open && is.Open
	merged.Scopes = slices.DeleteFunc(slices.Clone(was.Scopes), func(s store.APIScope) bool { return end.Scope.Has(s.Name) })
	merged.DefaultScope = was.DefaultScope.Without(end.Scope)
	for _, x := range []*store.API{&merged, &is} {
		x.Version, x.UpdatedAt, x.LastScope, x.LongestLifetime = 0, 0, 0, 0
	}
	if !reflect.DeepEqual(merged, is) {
		s.miss("the registration of the API %s was changed on %s: change it again: mintage api update", id, show.Instant(c.Is.UpdatedAt))
	}
}

func (s *since) ofUser(c userChange) {
	name := c.is.Username
	switch {
	case c.was == nil:
		s.miss("user %s was made: make it anew, with --subject %s", name, c.is.Subject)
		return
	case c.is.State == account.Enabled && c.was.State != account.Enabled:
		s.miss("user %s was enabled: mintage user enable %s", name, name)
	}
	if c.otherProfile() {
		s.miss("the name or the claims of user %s were changed: mintage user update %s", name, name)
	}
	if !bytes.Equal(c.was.TOTP, c.is.TOTP) {
		s.miss("the second factor of user %s was changed; look whether it works, or: mintage user totp %s", name, name)
	}
	s.ended.Users = append(s.ended.Users, admin.EndedUser{Username: name, Disabled: c.is.State == account.Disabled, Now: c.is})
}

// sinceInAuditLog finds what has happened since a backup in the entries of audit
// logs, in the order of their time. The function reports whether the backup has a
// grant; nil if that is unknown.
func sinceInAuditLog(ctx context.Context, entries []audit.Entry, has func(context.Context, grant.ID) (bool, error)) (since, error) {
	s := since{ended: admin.Ended{Realm: deployment.Realm}}
	var grants []grant.Grant
	known := map[grant.ID]int{} // index in grants
	cutOff := func(e audit.Entry) {
		if e.Subject+e.ClientID != "" && e.Detail != admin.MergedDetail { // that one is later than what it repeats
			s.ended.Cutoffs = append(s.ended.Cutoffs, store.Cutoff{Realm: deployment.Realm, Subject: e.Subject, ClientID: e.ClientID, At: grant.At(e.Time)})
		}
	}
	miss := func(e audit.Entry) {
		about := strings.TrimSpace(strings.Join([]string{e.ClientID, e.Subject, e.Detail}, " "))
		s.miss("%s: %s %s, by %s", e.Time.Format(time.RFC3339), e.Event, about, e.Actor)
	}
	clients, users := map[string]*admin.EndedClient{}, map[string]bool{}
	client := func(id string) *admin.EndedClient {
		if clients[id] == nil {
			clients[id] = &admin.EndedClient{ID: id}
		}
		return clients[id]
	}
	for _, e := range entries {
		word, rest, _ := strings.Cut(e.Detail, " ")
		switch name := store.EventName(e.Event); {
		case e.GrantID != "":
			id, err := grant.ParseID(e.GrantID)
			if err != nil {
				continue
			}
			i, there := known[id]
			if !there {
				if has != nil { // a newer grant is lost anyway
					if there, err := has(ctx, id); err != nil {
						return s, err
					} else if !there {
						continue
					}
				}
				i = len(grants)
				known[id] = i
				grants = append(grants, grant.Grant{ID: id, State: grant.Active})
			}
			switch g := &grants[i]; {
			case name == store.EventAccessRevoked:
				g.AccessFloor = grant.At(e.Time)
			case g.State != grant.Revoked:
				g.State, g.Reason = grant.Revoked, reasonOf[name]
				s.endedGrants++
			}
		case name == store.EventCutoff || name == store.EventDisconnected:
			cutOff(e)
		case name == store.EventKeyWithdrawn:
			// The detail is "key ID: PURPOSE key".
			id, _, _ := strings.Cut(rest, ":")
			if key, err := strconv.ParseUint(id, 16, 32); err == nil {
				s.ended.Keys = append(s.ended.Keys, grant.KeyID(key))
			}
		case name == store.EventClientDeleted:
			client(e.ClientID).State = store.ClientDeleted
		case name == store.EventClientChanged:
			// The detail is the changes of the registration, or the state, or both with
			// a semicolon between them.
			state := e.Detail[strings.LastIndex(e.Detail, "; ")+1:]
			switch store.ClientState(strings.TrimSpace(state)) {
			case store.ClientDisabled:
				client(e.ClientID).State = store.ClientDisabled
			case store.ClientEnabled:
				client(e.ClientID).State = ""
			default:
				state = ""
			}
			if state != e.Detail {
				miss(e)
			}
		case name == store.EventSecretRevoked && word == "secret":
			client(e.ClientID).Secrets = append(client(e.ClientID).Secrets, rest)
		case name == store.EventAPIDeleted:
			// The detail is "api ID: NAME", and no id has a space.
			id, _, _ := strings.Cut(rest, ": ")
			s.ended.APIs = append(s.ended.APIs, admin.EndedAPI{ID: id, Deleted: true})
		case name == store.EventUserDisabled:
			users[e.Subject] = true
			cutOff(e) // its grants ended
		case name == store.EventUserEnabled:
			users[e.Subject] = false
		case name == store.EventPasswordChanged && strings.Contains(e.Detail, "grants ended"):
			cutOff(e)
			miss(e)
		default:
			miss(e)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(clients)) {
		s.ended.Clients = append(s.ended.Clients, *clients[id])
	}
	for _, subject := range slices.Sorted(maps.Keys(users)) {
		if users[subject] {
			s.ended.Users = append(s.ended.Users, admin.EndedUser{Subject: subject, Disabled: true})
		}
	}
	s.ended.Grants = func(_ context.Context, f func(grant.Grant) error) error {
		for _, g := range grants {
			if err := f(g); err != nil {
				return err
			}
		}
		return nil
	}
	return s, nil
}

// reasonOf is the reason of a grant's end by the event of the audit log. One event
// stands for operators and clients.
var reasonOf = map[store.EventName]grant.Reason{
	store.EventCodeReplayed: grant.ReasonCodeReplayed, store.EventRefreshReplayed: grant.ReasonRefreshReplayed, store.EventGrantRevoked: grant.ReasonOperator,
}

// miss notes a change that the operator has to repeat. Control characters in
// stored text cannot break its line.
func (s *since) miss(format string, args ...any) {
	s.missing = append(s.missing, strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, fmt.Sprintf(format, args...)))
}

// shownLines limits the printed lines of a list.
const shownLines = 20

// print prints what the restore costs.
func (p *plan) print(w io.Writer) error {
	m := p.backup.Manifest
	fmt.Fprintf(w, "Restore %s, of %s (%s ago), into %s\n", p.backup.File, show.Instant(p.at), age(p.at), p.cfg.Data)
	if p.cfg.PublicURL != "" && m.Issuer != "" && m.Issuer != p.cfg.IssuerID() {
		fmt.Fprintf(w, "\nIt belongs to another issuer: %s, and this one is %s.\n", m.Issuer, p.cfg.IssuerID())
	}
	fmt.Fprintf(w, "\nContinues:\n  %d grants", m.Rows["grants"])
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
		case p.cfg.AuditDirectory() == "":
			fmt.Fprintln(w, "  there is no audit log that lists them")
		case p.auditFault != nil:
			fmt.Fprintf(w, "  the audit log in %s cannot be read completely: %v\n", p.cfg.AuditDirectory(), p.auditFault)
		default:
			fmt.Fprintf(w, "  the audit log in %s has %d changes since\n", p.cfg.AuditDirectory(), len(p.auditLog))
		}
	}
	p.printEnded(w)
	printList(w, "Missing afterwards; repeat it:", p.missing)
	return nil
}

// printEnded lists what is ended in the restored store as well.
func (p *plan) printEnded(w io.Writer) {
	title := "Ended since the backup, and ended in the restored store as well:"
	if p.revive {
		title = "Ended since the backup, and valid again (--undo-revocations):"
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, id := range p.ended.Keys {
		add("key %s, withdrawn", id)
	}
	for _, c := range p.ended.Clients {
		if c.State != "" {
			add("client %s, %s", c.ID, c.State)
		}
		for _, id := range c.Secrets {
			add("secret %s of client %s, revoked", id, c.ID)
		}
	}
	for _, a := range p.ended.APIs {
		if a.Deleted {
			add("API %s, deleted", a.ID)
		}
		if a.Closed {
			add("API %s, closed to clients that registered themselves", a.ID)
		}
		if a.Scope != "" {
			add("scope %s of API %s, removed", a.Scope, a.ID)
		}
	}
	for _, u := range p.ended.Users {
		switch name := cmp.Or(u.Username, u.Subject); {
		case u.Disabled:
			add("user %s, disabled", name)
		default:
			add("sessions, password or second factor of user %s, as they were before the last change", name)
		}
	}
	for _, c := range p.ended.Cutoffs {
		switch {
		case c.Subject == "":
			add("everything of client %s until %s", c.ClientID, show.Instant(c.At))
		case c.ClientID == "":
			add("everything of subject %q until %s", c.Subject, show.Instant(c.At))
		default:
			add("everything of subject %q at client %s until %s", c.Subject, c.ClientID, show.Instant(c.At))
		}
	}
	if p.endedGrants > 0 {
		add("grants that were revoked: %d", p.endedGrants)
	}
	if n := len(p.ended.Sessions); n > 0 {
		add("sessions of browsers that were signed out: %d", n)
	}
	printList(w, title, lines)
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
	fmt.Fprintf(w, "  %d newer grants: their users log in again", l.Made)
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
		fmt.Fprintf(w, "  %d sessions of browsers: their users log in again\n", l.Sessions)
	}
	if l.Keys > 0 {
		fmt.Fprintf(w, "  %d keys\n", l.Keys)
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
