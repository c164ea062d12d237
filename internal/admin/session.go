package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// States of a session.
const (
	SessionActive  = "active" // unless the browser has been idle: only its cookie tells
	SessionExpired = "expired"
	SessionEnded   = "ended"
)

// A SessionView is a session of a subject with the grants that it made, as people
// and programs see it.
type SessionView struct {
	Session   string       `json:"session"`
	Subject   string       `json:"subject"`
	State     string       `json:"state"`
	Username  string       `json:"username,omitempty"` // of a built-in user
	AuthTime  *time.Time   `json:"auth_time,omitempty"`
	Began     *time.Time   `json:"began_at,omitempty"` // at its latest login
	ExpiresAt *time.Time   `json:"expires_at,omitempty"`
	Grants    []show.Grant `json:"grants"`
}

// Sessions returns the sessions of a subject, the latest first: those that go on,
// and those that have ended and made grants whose rows are kept.
func (a *Admin) Sessions(ctx context.Context, subject string) ([]SessionView, error) {
	list, err := a.sessions(ctx, subject)
	if err != nil {
		return nil, err
	}
	ch, err := a.Store.Changes(ctx, 0)
	if err != nil {
		return nil, err
	}
	views := []SessionView{}
	for _, r := range list {
		v, err := a.viewSession(ctx, r, ch)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

func (a *Admin) sessions(ctx context.Context, subject string) ([]login.SessionRecord, error) {
	if subject == "" {
		return nil, &oauth.Invalid{Field: "subject", Message: "name a subject"}
	}
	if err := storable("subject", subject); err != nil {
		return nil, err
	}
	return login.Sessions(ctx, a.Store, a.Realm, subject)
}

// viewSession returns the view of a session. What ends everything of a subject, a
// restore, and a new password of a built-in user end sessions whose documents are still there.
func (a *Admin) viewSession(ctx context.Context, r login.SessionRecord, ch store.Changes) (SessionView, error) {
	now := a.now()
	v := SessionView{Session: r.Name, Subject: r.Subject, State: SessionEnded, Grants: []show.Grant{}}
	for _, g := range r.Grants {
		v.Grants = append(v.Grants, show.GrantAt(g, ch, now))
	}
	s := r.Session
	if s == nil {
		return v, nil
	}
	v.Username, v.AuthTime, v.Began, v.ExpiresAt = s.Username, show.JSONInstant(s.AuthTime), show.JSONInstant(s.Began), show.JSONInstant(s.ExpiresAt)
	cut := slices.ContainsFunc(ch.Cutoffs, func(c store.Cutoff) bool {
		return c.Realm == a.Realm && c.Subject == r.Subject && c.ClientID == "" && c.At >= s.Began
	}) || slices.ContainsFunc(ch.Restores, func(x grant.Restore) bool { return s.Began < x.At })
	switch {
	case now >= s.ExpiresAt:
		v.State = SessionExpired
		return v, nil
	case cut:
		return v, nil
	case s.Username == "":
		v.State = SessionActive
		return v, nil
	}
	u, err := account.Find(ctx, a.Store, a.Realm, s.Username)
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = nil
	case err == nil && u.State == account.Enabled && u.Epoch == s.Epoch:
		v.State = SessionActive
	}
	return v, err
}

// EndedSessions is what EndSessions has ended.
type EndedSessions struct {
	Subject string     `json:"subject"`
	Session string     `json:"session,omitempty"` // absent: all
	Grants  int        `json:"grants"`            // that were active and ended; of a cutoff those that it covers, at most MaxCovered
	Cutoff  *time.Time `json:"cutoff,omitempty"`
}

// EndSessions ends a session of a subject together with the grants that it made. A
// session that has ended already may have made grants that go on. With "", it ends
// all sessions and all grants of the subject in one cutoff, which reaches codes that
// are not redeemed too. It can be repeated.
func (a *Admin) EndSessions(ctx context.Context, subject, session string) (e EndedSessions, err error) {
	list, err := a.sessions(ctx, subject)
	e = EndedSessions{Subject: subject, Session: session}
	switch {
	case err != nil:
		return e, err
	case session == "":
		cut, _, err := a.CutOff(ctx, subject, "")
		if err == nil {
			e.Cutoff = show.JSONInstant(cut.At)
			e.Grants, err = a.Covered(ctx, cut)
		}
		return e, err
	}
	i := slices.IndexFunc(list, func(r login.SessionRecord) bool { return r.Name == session })
	if i < 0 {
		return e, &Error{NotFound, "session", session, fmt.Sprintf("subject %q has no session %q", subject, session)}
	}
	r := list[i]
	// The session first: it makes no grant after that, but for codes that are not
	// redeemed yet. A server ends those later: see logout.Record.
	event := a.event(a.now(), store.EventSessionEnded, store.AboutSubject(subject), "session "+r.Name+" with its grants")
	change := store.Change{Delete: r.Documents}
	if r.Reference != [16]byte{} {
		change.Documents = []store.Document{logout.EndOfSessionAndGrants(a.Realm, subject, r.Reference, a.now())}
	}
	if err := a.commit(ctx, change, event); err != nil {
		return e, err
	}
	e.Grants, err = a.revoke(ctx, r.Grants, "with session "+r.Name)
	return e, err
}

// revoke ends grants, and counts those that were active.
func (a *Admin) revoke(ctx context.Context, list []grant.Grant, detail string) (revoked int, err error) {
	for _, g := range list {
		ended := false
		err := a.Store.UpdateGrant(ctx, g.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
			ended = g.State == grant.Active
			return g.Revoke(grant.ReasonOperator).Next, []store.Event{a.event(a.now(), store.EventGrantRevoked, g.ID.String(), detail)}
		})
		switch {
		case errors.Is(err, store.ErrNotFound): // removed meanwhile: it had expired
		case err != nil:
			return revoked, err
		case ended:
			revoked++
		}
	}
	return revoked, nil
}
