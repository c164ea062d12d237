package login

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// A StoredSession is a session of a subject as the store has it: its documents,
// until it has ended, and the grants that it made.
type StoredSession struct {
	Name      string // for operators
	Subject   string
	Reference [16]byte            // zero for a session of an earlier version, which no grant refers to
	Session   *Session            // the latest login; nil if the session has ended
	Documents []store.DocumentKey // two, if two tabs have logged in at once
	Grants    []grant.Grant       // whatever their state is
}

// ListSessions returns the sessions of a subject, the latest first: those that have a
// document, and those that have ended and to which grants still refer.
func ListSessions(ctx context.Context, st store.Store, realm, subject string) ([]StoredSession, error) {
	var list []StoredSession
	of := func(name string, reference [16]byte) *StoredSession {
		i := slices.IndexFunc(list, func(r StoredSession) bool { return r.Name == name })
		if i < 0 {
			i = len(list)
			list = append(list, StoredSession{Name: name, Subject: subject, Reference: reference})
		}
		return &list[i]
	}
	for d, err := range store.DocumentsOfOwner(ctx, st, store.DocumentSession, store.OwnerOf(realm, subject)) {
		if err != nil {
			return nil, err
		}
		s := &Session{ExpiresAt: d.ExpiresAt}
		if err := json.Unmarshal(d.Body, s); err != nil {
			return nil, err
		}
		if s.Over != "" {
			continue
		}
		reference := s.reference()
		name := cmp.Or(grant.SessionName(reference), hex.EncodeToString(d.Key[:12]))
		r := of(name, reference)
		r.Documents = append(r.Documents, d.Key)
		if r.Session == nil || s.Began > r.Session.Began {
			r.Session = s
		}
	}
	for g, err := range store.GrantsOfSubject(ctx, st, realm, subject) {
		if err != nil {
			return nil, err
		}
		if g.Session != [16]byte{} {
			r := of(grant.SessionName(g.Session), g.Session)
			r.Grants = append(r.Grants, g)
		}
	}
	slices.SortFunc(list, func(x, y StoredSession) int {
		return cmp.Or(cmp.Compare(y.BeganAt(), x.BeganAt()), strings.Compare(x.Name, y.Name))
	})
	return list, nil
}

// State returns the state of the session at now, with the latest cutoff of its subject
// and the latest restore.
func (r StoredSession) State(ctx context.Context, now, cutoff, restored grant.Instant, alive Alive) (string, error) {
	if r.Session == nil {
		return SessionEnded, nil
	}
	return r.Session.state(ctx, now, cutoff, restored, alive)
}

// everyDocument is more than a subject has. What one call of Documents returns is one
// state of the store: no login comes between two pages of it.
const everyDocument = 1 << 20

// EndReference adds to c the end of a session: each document that has its reference.
// If a login continues the session meanwhile, the commit of c is a conflict. It reports
// whether the session has not ended before.
func EndReference(ctx context.Context, st store.Store, realm, subject string, reference [16]byte, now grant.Instant, c *store.Change) (ended bool, err error) {
	list, err := st.Documents(ctx, store.DocumentFilter{Kind: store.DocumentSession, Owner: store.OwnerOf(realm, subject), Limit: everyDocument})
	if err != nil {
		return false, err
	}
	for _, d := range list {
		var s Session
		if json.Unmarshal(d.Body, &s) != nil || s.reference() != reference {
			continue
		}
		d, err := over(d, &Session{Over: overEnded}, now)
		if err != nil {
			return false, err
		}
		c.Documents, ended = append(c.Documents, d), true
	}
	return ended, nil
}

// BeganAt is when the session began, or the first of its grants that are left.
func (r StoredSession) BeganAt() grant.Instant {
	if r.Session != nil {
		return r.Session.Began
	}
	first := grant.Never
	for _, g := range r.Grants {
		first = min(first, g.AuthorizedAt)
	}
	return first
}
