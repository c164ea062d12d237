package login

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/plain"
	"github.com/mintage/mintage/internal/store"
)

// A StoredSession is a session of a subject as the store has it: its documents,
// until it has ended, and the grants that it made.
type StoredSession struct {
	Name      string // for operators
	Subject   string
	Reference [16]byte
	Session   *Session      // the latest login; nil if the session has ended
	Grants    []grant.Grant // whatever their state is
}

// ListSessions returns the sessions of a subject, the latest first: those that have a
// document, and those that have ended and to which grants still refer.
func ListSessions(ctx context.Context, st store.Store, realm, subject string) ([]StoredSession, error) {
	var list []StoredSession
	of := func(reference [16]byte) *StoredSession {
		i := slices.IndexFunc(list, func(r StoredSession) bool { return r.Reference == reference })
		if i < 0 {
			i = len(list)
			list = append(list, StoredSession{Name: grant.SessionName(reference), Subject: subject, Reference: reference})
		}
		return &list[i]
	}
	for d, err := range store.EachDocument(ctx, st, store.DocumentFilter{Kind: store.DocumentSession, Owner: store.OwnerOf(realm, subject)}) {
		if err != nil {
			return nil, err
		}
		s := &Session{ExpiresAt: d.ExpiresAt}
		if err := plain.Unmarshal(sessionMembers, d.Body, s); err != nil {
			return nil, err
		}
		if s.Over != "" {
			continue
		}
		// Two documents have one reference, if two tabs have logged in at once.
		if r := of(s.reference()); r.Session == nil || s.Began > r.Session.Began {
			r.Session = s
		}
	}
	for g, err := range store.EachGrant(ctx, st, store.GrantFilter{Realm: realm, Subject: subject}) {
		if err != nil {
			return nil, err
		}
		if g.Session != [16]byte{} {
			r := of(g.Session)
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

// BeganAt returns when the session began or, after its end, its first remaining grant.
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
