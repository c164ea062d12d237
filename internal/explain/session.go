package explain

import (
	"context"
	"fmt"
	"slices"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/show"
)

// findSession finds the session of a subject that fits.
func (x *Explainer) findSession(ctx context.Context, v *Explained, subject string, fits func(login.StoredSession) bool) error {
	view, err := x.Directory.View()
	if err != nil {
		return err
	}
	v.session = &sessionFacts{subject: subject, state: "unknown", directory: directoryOf(view, x.Realm)}
	if subject == "" {
		return nil // the list would have the grants of all users, and no session that is alive
	}
	list, err := login.ListSessions(ctx, x.Store, x.Realm, subject)
	i := slices.IndexFunc(list, fits)
	if err != nil || i < 0 {
		return err
	}
	r := &list[i]
	v.session.StoredSession = r
	logouts, err := logout.Of(ctx, x.Store, x.Realm, subject)
	if err != nil {
		return err
	}
	for _, t := range logouts {
		if t.Concerns(r.Reference, r.BeganAt()) {
			v.session.logouts = append(v.session.logouts, t)
		}
	}
	v.session.state, err = r.State(ctx, x.now(), view.Cutoff(x.Realm, subject, ""), view.Restore().At, (&account.Users{Realm: x.Realm, Store: x.Store}).Alive)
	return err
}

// findHinted finds the session that an id_token names.
func (x *Explainer) findHinted(ctx context.Context, v *Explained, hint openid.Hint) error {
	v.input.notes = append(v.input.notes, fmt.Sprintf("it is an id_token that client %q got at %s; what follows is its session", hint.ClientID, show.Instant(hint.IssuedAt)))
	return x.findSession(ctx, v, hint.Subject, func(r login.StoredSession) bool {
		return hint.SessionID != "" && openid.SessionID(r.Reference, hint.ClientID) == hint.SessionID
	})
}

// hasSID returns whether a session has a sid: each client with a grant of it has another.
func hasSID(sid string) func(login.StoredSession) bool {
	return func(r login.StoredSession) bool {
		return slices.ContainsFunc(r.Grants, func(g grant.Grant) bool { return openid.SessionID(r.Reference, g.ClientID) == sid })
	}
}

// sessionText describes the session of a grant in one line.
func (v *Explained) sessionText() string {
	s := v.session
	if s == nil || s.StoredSession == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s; it made %s: mintage explain --subject %s %s", s.Name, s.state, show.Count(len(s.Grants), "grant", "grants"), show.Quote(s.subject), s.Name)
}

// sessionParts returns the session and, for people, its logouts and grants. If the
// explanation is about a grant, people see its session as a row of the grant.
func (v *Explained) sessionParts() []part {
	s, now := v.session, v.by.now()
	p := part{name: "session", facts: []fact{{"subject", s.subject, "subject", s.subject}, member("state", s.state)}}
	alone := v.request == nil && v.Explanation == nil
	if alone {
		p.head = "A session, " + s.state + ".\n\n"
	}
	grants := []adminapi.Grant{}
	if s.StoredSession == nil {
		why := "the subject has no such session, and no grant of it whose row is kept"
		if s.subject == "" {
			why = "no subject is given"
		}
		p.facts = append(p.facts, row("why", why),
			row("next", "a session is found by its subject: mintage explain --subject SUBJECT SESSION; see: mintage session list --subject SUBJECT"), member("grants", grants))
		p.facts = append(p.facts, v.pasted()...)
		return []part{p}
	}
	p.facts = append(p.facts, both("session", "session", s.Name))
	if in := s.Session; in != nil {
		when := func(at grant.Instant) string { return show.Instant(at) + " (" + show.Ago(now, at) + ")" }
		p.facts = append(p.facts, fact{"authenticated", show.Instant(in.AuthTime), "auth_time", show.JSONInstant(in.AuthTime)}, fact{"began", when(in.Began), "began_at", show.JSONInstant(in.Began)},
			fact{"expires", when(in.ExpiresAt), "expires_at", show.JSONInstant(in.ExpiresAt)})
	}
	p.facts = append(p.facts, row("end it", fmt.Sprintf("mintage session end --subject %s %s", show.Quote(s.subject), s.Name)))
	made := table{columns: "GRANT|STATE|CLIENT|SCOPE|AUTHORIZED|EXPIRES"}
	for _, g := range s.Grants {
		at := show.GrantAt(g, s.directory, v.by.lives(), now)
		grants = append(grants, at)
		made.rows = append(made.rows, []string{at.ID, at.State, at.ClientID, at.Scope, show.Instant(g.AuthorizedAt), show.Instant(v.by.lives().Expiry(g))})
	}
	logouts, notified := s.notifications(now)
	p.facts = append(append(p.facts, member("grants", grants), member("logouts", logouts)), v.pasted()...)
	parts := []part{p}
	if !alone {
		return parts
	}
	if len(notified.rows) > 0 {
		parts = append(parts, part{head: "logouts", table: notified})
	}
	if len(grants) == 0 {
		return append(parts, part{head: "no grant: only those whose scope has openid refer to a session"})
	}
	return append(parts, part{head: "grants", table: made})
}

// notifications lists which clients were notified that the session has ended, which were
// not, and why.
func (s *sessionFacts) notifications(now grant.Instant) (list []adminapi.ExplainedLogout, t table) {
	t.columns = "ENDED|OF|CLIENT|STATE|ATTEMPTS|ANSWER|NEXT"
	for _, of := range s.logouts {
		what := "the session"
		if of.Session == "" {
			what = "all sessions"
		}
		for _, token := range of.Tokens {
			notification, next := adminapi.ExplainedLogout{EndedAt: show.JSONInstant(of.At), All: of.Session == "", ClientID: token.ClientID, State: string(token.State), Attempts: token.Attempts, Answer: token.Answer}, ""
			if token.State == logout.Pending {
				notification.Next = show.JSONInstant(token.Next)
				next = show.Ago(now, max(token.Next, now)) + ", or with the client's next logout"
			}
			list = append(list, notification)
			t.rows = append(t.rows, []string{show.Instant(of.At), what, token.ClientID, string(token.State), fmt.Sprint(token.Attempts), show.Bounded(token.Answer), next})
		}
		rest := ""
		switch {
		case of.Looked == 0:
			rest = "clients are looked for within seconds"
		case len(of.Tokens) == 0:
			rest = "no client of it receives logout tokens"
		case of.More > 0:
			rest = fmt.Sprintf("and %d more", of.More)
		}
		if rest != "" {
			t.rows = append(t.rows, []string{show.Instant(of.At), what, "", rest})
		}
	}
	return list, t
}
