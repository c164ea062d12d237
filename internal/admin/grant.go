package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// List returns grants in the order of their ids, the directory, and whether more
// grants follow.
func (a Grants) List(ctx context.Context, f store.GrantFilter) (list []grant.Grant, view *directory.View, more bool, err error) {
	if err := errors.Join((adminapi.Page{Limit: f.Limit}).Check(), storable("subject", f.Subject), storable("client_id", f.ClientID)); err != nil {
		return nil, nil, false, err
	}
	if view, err = a.view(ctx); err != nil {
		return nil, nil, false, err
	}
	limit := f.Limit
	f.Realm, f.Limit = a.Realm, limit+1
	list, err = a.Store.Grants(ctx, f)
	return list[:min(limit, len(list))], view, len(list) > limit, err
}

// Read returns a grant, and the directory.
func (a Grants) Read(ctx context.Context, id grant.ID) (g grant.Grant, view *directory.View, err error) {
	g, err = a.Store.Grant(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return g, nil, &Error{NotFound, "grant", id.String(), fmt.Sprintf("there is no grant %s", id)}
	}
	if err != nil {
		return g, nil, err
	}
	view, err = a.view(ctx)
	return g, view, err
}

// View returns the view of a grant.
func (a Grants) View(g grant.Grant, view *directory.View) adminapi.Grant {
	ch := store.Changes{Cutoffs: []store.Cutoff{{Realm: g.Realm, Subject: g.Subject, ClientID: g.ClientID, At: view.Cutoff(g.Realm, g.Subject, g.ClientID)}}}
	for _, number := range g.APIs {
		if api, ok := view.APIByNumber(g.Realm, number); ok {
			ch.APIs = append(ch.APIs, *api)
		}
	}
	return show.GrantAt(g, ch, a.Policy, a.now())
}

// Revoke ends a grant.
func (a Grants) Revoke(ctx context.Context, id grant.ID) error {
	now := a.now()
	err := a.Store.UpdateGrant(ctx, id, func(g grant.Grant) (grant.Grant, []store.Event) {
		return g.Revoke(grant.ReasonOperator).Next, []store.Event{a.event(now, store.EventGrantRevoked, id.String(), "by command")}
	})
	if errors.Is(err, store.ErrNotFound) {
		err = &Error{NotFound, "grant", id.String(), fmt.Sprintf("there is no grant %s", id)}
	}
	return err
}

// CutOff ends everything that was authorized until now by a subject, for a client,
// or by the subject for the client.
func (a Grants) CutOff(ctx context.Context, subject, client string) (cut store.Cutoff, err error) {
	if subject == "" && client == "" {
		return cut, &oauth.Invalid{Field: "subject", Message: "name a subject, a client or both"}
	}
	if err := storable("subject", subject); err != nil {
		return cut, err
	}
	if len(subject) > oauth.MaxSubject {
		return cut, &oauth.Invalid{Field: "subject", Message: fmt.Sprintf("is longer than the longest subject, %d bytes", oauth.MaxSubject)}
	}
	about := client
	if client == "" {
		about = store.AboutSubject(subject)
	} else if _, err := a.Clients().Read(ctx, client); err != nil {
		return cut, err
	}
	cut = store.Cutoff{Realm: a.Realm, Subject: subject, ClientID: client, At: a.cutoffAt()}
	change := store.Change{Cutoffs: []store.Cutoff{cut}}
	if client == "" {
		// No token is left that could read the claims that logins stored about the subject.
		change.Delete = []store.DocumentKey{store.ClaimsKey(a.Realm, subject)}
		change.Documents = []store.Document{a.endOfAll(subject, cut.At)}
	}
	return cut, a.commit(ctx, change, a.event(a.now(), store.EventCutoff, about, show.Whom(subject, client, ", ")))
}

// endOfAll returns the document that makes the outbox notify clients that a subject's
// sessions have ended: those that began until at. It adds MaxSkew, because the clock of
// the node that began a session may be ahead.
func (a Grants) endOfAll(subject string, at grant.Instant) store.Document {
	return logout.EndOfAll(a.Realm, subject, at.Add(a.Policy.MaxSkew))
}

// Cutoffs returns cutoffs sorted by subject and client, of one subject or one
// client if they are named, and whether more follow.
func (a Grants) Cutoffs(ctx context.Context, subject, client string, p adminapi.Page) (list []store.Cutoff, more bool, err error) {
	if err := p.Check(); err != nil {
		return nil, false, err
	}
	view, err := a.view(ctx)
	if err != nil {
		return nil, false, err
	}
	rest := view.Cutoffs(a.Realm)
	if p.After != "" {
		key, _ := base64.RawURLEncoding.DecodeString(p.After)
		ofSubject, ofClient, _ := strings.Cut(string(key), "\x00")
		if rest = view.CutoffsFrom(a.Realm, ofSubject, ofClient); !view.HasCutoff(a.Realm, ofSubject, ofClient) {
			rest = nil
		}
	}
	return pick(p, rest, func(c store.Cutoff) bool {
		return CutoffKey(c) != p.After && (subject == "" || c.Subject == subject) && (client == "" || c.ClientID == client)
	})
}

// CutoffKey identifies a cutoff in a list.
func CutoffKey(c store.Cutoff) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.Subject + "\x00" + c.ClientID))
}

// ViewCutoff returns the view of a cutoff.
func ViewCutoff(c store.Cutoff) adminapi.Cutoff {
	return adminapi.Cutoff{Subject: c.Subject, ClientID: c.ClientID, At: show.JSONInstant(c.At)}
}

// Covered counts the grants that a cutoff covers, in any state, up to adminapi.MaxCovered.
// If there are none, the operator may have mistyped a name.
func (a Grants) Covered(ctx context.Context, cut store.Cutoff) (covered int, err error) {
	for g, err := range store.EachGrant(ctx, a.Store, store.GrantFilter{Realm: cut.Realm, Subject: cut.Subject, ClientID: cut.ClientID}) {
		if err != nil || covered >= adminapi.MaxCovered {
			return covered, err
		}
		if g.AuthorizedAt <= cut.At {
			covered++
		}
	}
	return covered, nil
}

// List returns the sessions of a subject, the latest first: the active ones, and those
// that have ended but whose grants are still stored.
func (a Sessions) List(ctx context.Context, subject string) ([]adminapi.Session, error) {
	list, err := a.stored(ctx, subject)
	if err != nil {
		return nil, err
	}
	view, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	views := []adminapi.Session{}
	for _, r := range list {
		v, err := a.viewSession(ctx, r, view)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

func (a Sessions) stored(ctx context.Context, subject string) ([]login.StoredSession, error) {
	if subject == "" {
		return nil, &oauth.Invalid{Field: "subject", Message: "name a subject"}
	}
	if err := storable("subject", subject); err != nil {
		return nil, err
	}
	return login.ListSessions(ctx, a.Store, a.Realm, subject)
}

func (a Sessions) viewSession(ctx context.Context, r login.StoredSession, view *directory.View) (v adminapi.Session, err error) {
	now := a.now()
	v = adminapi.Session{Session: r.Name, Subject: r.Subject, Grants: []adminapi.Grant{}}
	for _, g := range r.Grants {
		v.Grants = append(v.Grants, a.Grants().View(g, view))
	}
	if s := r.Session; s != nil {
		v.Username, v.AuthTime, v.Began, v.ExpiresAt = s.Username, show.JSONInstant(s.AuthTime), show.JSONInstant(s.Began), show.JSONInstant(s.ExpiresAt)
	}
	v.State, err = r.State(ctx, now, view.Cutoff(a.Realm, r.Subject, ""), view.Restore().At, (&account.Users{Realm: a.Realm, Store: a.Store}).Alive)
	return v, err
}

// End ends a session of a subject, revokes the grants that the session made, and returns
// how many it revoked. A session that has ended may still have active grants, which End
// revokes. It can be repeated.
func (a Sessions) End(ctx context.Context, subject, session string) (grants int, err error) {
	list, err := a.stored(ctx, subject)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(list, func(r login.StoredSession) bool { return r.Name == session })
	if i < 0 {
		return 0, &Error{NotFound, "session", session, fmt.Sprintf("subject %q has no session %q", subject, session)}
	}
	r := list[i]
	// The session ends first, so that it makes no more grants, except from codes that are
	// not redeemed yet. A server revokes those grants later: see issuer.Ends.
	event := a.event(a.now(), store.EventSessionEnded, store.AboutSubject(subject), "session "+r.Name+" with its grants")
	end := issuer.SessionEnd{Subject: r.Subject, Reference: r.Reference, Grants: true, Actor: a.Actor.String(), Detail: "with session " + r.Name}
	err = login.CommitEnd(ctx, a.Store, func(c *store.Change) (err error) {
		c.Events = []store.Event{event}
		revoke, err := end.Document(ctx, a.Realm, a.now())
		if err != nil {
			return err
		}
		c.Documents = []store.Document{logout.EndOfSession(a.Realm, end, a.now()), revoke}
		_, err = login.EndReference(ctx, a.Store, a.Realm, r.Subject, r.Reference, a.now(), c)
		return err
	})
	if err != nil {
		return 0, err
	}
	return a.revoke(ctx, r.Grants, end)
}

// revoke revokes the grants of a session that has ended. It counts the grants that this end
// has revoked, also those that a server revoked first. before lists the grants as they were
// before the end.
func (a Sessions) revoke(ctx context.Context, before []grant.Grant, e issuer.SessionEnd) (revoked int, err error) {
	if e.Reference == [16]byte{} {
		return 0, nil
	}
	for g, err := range store.EachGrant(ctx, a.Store, store.GrantFilter{Realm: a.Realm, Subject: e.Subject}) {
		if err != nil {
			return revoked, err
		}
		if g.Session != e.Reference || slices.ContainsFunc(before, func(b grant.Grant) bool { return b.ID == g.ID && b.State == grant.Revoked }) {
			continue
		}
		ended := false
		err = a.Store.UpdateGrant(ctx, g.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
			ended = g.State == grant.Active || g.Reason == grant.ReasonOperator
			return e.Revoke(g, a.now())
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
