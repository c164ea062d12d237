package explain

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// sessionFacts is a session and the grants that it made.
type sessionFacts struct {
	*login.StoredSession // nil if there is no such session
	subject              string
	state                string
	directory            store.Changes
	logouts              []logout.Told
}

// findSession finds the session of a subject whose reference fits.
func (x *Explainer) findSession(ctx context.Context, v *Explained, subject string, fits func(reference [16]byte) bool) error {
	view, err := x.Directory.View()
	if err != nil {
		return err
	}
	v.session = &sessionFacts{subject: subject, state: "unknown", directory: directoryOf(view, x.Realm)}
	list, err := login.ListSessions(ctx, x.Store, x.Realm, subject)
	i := slices.IndexFunc(list, func(r login.StoredSession) bool { return fits(r.Reference) })
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
	v.asked.notes = append(v.asked.notes, fmt.Sprintf("it is an id_token that client %q got at %s; what follows is its session", hint.ClientID, show.Instant(hint.IssuedAt)))
	return x.findSession(ctx, v, hint.Subject, func(reference [16]byte) bool {
		return hint.SessionID != "" && openid.SessionID(reference, hint.ClientID) == hint.SessionID
	})
}

// sessionText describes the session of a grant in one line.
func (v *Explained) sessionText() string {
	s := v.session
	if s == nil || s.StoredSession == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s; it made %s: mintage explain --subject %s %s", s.Name, s.state, show.Count(len(s.Grants), "grant", "grants"), show.Quote(s.subject), s.Name)
}

func (v *Explained) printSession(w io.Writer) error {
	s := v.session
	now := v.by.now()
	fmt.Fprintf(w, "A session, %s.\n\n", s.state)
	rows := [][2]string{{"subject", s.subject}}
	if s.StoredSession == nil {
		rows = append(rows, [2]string{"why", "the subject has no such session, and no grant of it whose row is kept"},
			[2]string{"next", "a session is found by its subject: mintage explain --subject SUBJECT SESSION; see: mintage session list --subject SUBJECT"})
	} else {
		rows = append(rows, [2]string{"session", s.Name})
		if in := s.Session; in != nil {
			rows = append(rows, [2]string{"authenticated", show.Instant(in.AuthTime)}, [2]string{"began", show.Instant(in.Began) + " (" + show.Ago(now, in.Began) + ")"},
				[2]string{"expires", show.Instant(in.ExpiresAt) + " (" + show.Ago(now, in.ExpiresAt) + ")"})
		}
		rows = append(rows, [2]string{"end it", fmt.Sprintf("mintage session end --subject %s %s", show.Quote(s.subject), s.Name)})
	}
	for _, n := range v.asked.notes {
		rows = append(rows, [2]string{"pasted", n})
	}
	if err := show.Fields(w, rows); err != nil || s.StoredSession == nil {
		return err
	}
	if err := s.printLogouts(w, now); err != nil {
		return err
	}
	var grants [][]string
	for _, g := range s.Grants {
		at := show.GrantAt(g, s.directory, now)
		grants = append(grants, []string{"  " + at.ID, at.State, at.ClientID, at.Scope, show.Instant(g.AuthorizedAt), show.Instant(g.ExpiresAt)})
	}
	if len(grants) == 0 {
		_, err := fmt.Fprintln(w, "\nno grant: only those whose scope has openid refer to a session")
		return err
	}
	fmt.Fprintln(w, "\ngrants")
	return show.Table(w, "  GRANT|STATE|CLIENT|SCOPE|AUTHORIZED|EXPIRES", grants)
}

// printLogouts says which clients were told that the session has ended, and which
// were not, and why.
func (s *sessionFacts) printLogouts(w io.Writer, now grant.Instant) error {
	if len(s.logouts) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nlogouts")
	var rows [][]string
	for _, t := range s.logouts {
		what := "the session"
		if t.Session == "" {
			what = "all sessions"
		}
		for _, token := range t.Tokens {
			next := ""
			if token.State == logout.Pending {
				next = show.Ago(now, max(token.Next, now)) + ", or with the client's next logout"
			}
			rows = append(rows, []string{"  " + show.Instant(t.At), what, token.ClientID, string(token.State), fmt.Sprint(token.Attempts), show.Bounded(token.Answer), next})
		}
		switch {
		case t.Looked == 0:
			rows = append(rows, []string{"  " + show.Instant(t.At), what, "", "clients are looked for within seconds"})
		case len(t.Tokens) == 0:
			rows = append(rows, []string{"  " + show.Instant(t.At), what, "", "no client of it receives logout tokens"})
		case t.More > 0:
			rows = append(rows, []string{"  " + show.Instant(t.At), what, "", fmt.Sprintf("and %d more", t.More)})
		}
	}
	return show.Table(w, "  ENDED|OF|CLIENT|TOLD|ATTEMPTS|ANSWER|NEXT", rows)
}

func (s *sessionFacts) logoutsJSON() (list []adminapi.ExplainedLogout) {
	for _, t := range s.logouts {
		for _, token := range t.Tokens {
			j := adminapi.ExplainedLogout{EndedAt: show.JSONInstant(t.At), All: t.Session == "", ClientID: token.ClientID, State: string(token.State), Attempts: token.Attempts, Answer: token.Answer}
			if token.State == logout.Pending {
				j.Next = show.JSONInstant(token.Next)
			}
			list = append(list, j)
		}
	}
	return list
}

func (s *sessionFacts) json(now grant.Instant) *adminapi.ExplainedSession {
	out := &adminapi.ExplainedSession{Subject: s.subject, State: s.state, Grants: []adminapi.Grant{}}
	if s.StoredSession == nil {
		return out
	}
	out.Session, out.Logouts = s.Name, s.logoutsJSON()
	if in := s.Session; in != nil {
		out.AuthTime, out.Began, out.ExpiresAt = show.JSONInstant(in.AuthTime), show.JSONInstant(in.Began), show.JSONInstant(in.ExpiresAt)
	}
	for _, g := range s.Grants {
		out.Grants = append(out.Grants, show.GrantAt(g, s.directory, now))
	}
	return out
}
