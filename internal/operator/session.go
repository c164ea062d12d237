package operator

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// Limits of sessions.
const (
	Idle     = 30 * time.Minute
	Lifetime = 12 * time.Hour
	// ExternalLifetime is the lifetime of a session of an operator who signed in at another system:
	// a change of the account there takes effect only at the next sign-in.
	ExternalLifetime = 2 * time.Hour
	// fresh is the age up to which a sign-in suffices for actions that require a fresh one.
	fresh = 5 * time.Minute
	// useInterval is the minimum time between two writes of a session's last use.
	useInterval = time.Minute
	// maxSessions bounds the sessions that Sessions lists.
	maxSessions = 1000
)

// A Session is a browser in which an operator has signed in to the console.
type Session struct {
	Operator string        `json:"operator"`
	How      string        `json:"how"` // one of the ways to sign in
	Address  string        `json:"address"`
	BeganAt  grant.Instant `json:"began"`
	UsedAt   grant.Instant `json:"used"`
	FreshAt  grant.Instant `json:"fresh"` // when a factor was last checked

	// At names the login system at which the operator has signed in, "" for this server. Rule
	// is the configuration's rule that makes the user an operator, "" for an added operator.
	At   string `json:"at,omitempty"`
	Rule string `json:"rule,omitempty"`

	// Epoch is the epoch of the built-in user's record when the session began. A new password
	// or second factor changes the record's epoch, which ends the session.
	Epoch int64 `json:"epoch,omitempty"`

	// Pending is set while a factor is still to be checked. Factor is the sealed secret of a
	// factor that the operator is enrolling.
	Pending bool   `json:"pending,omitempty"`
	Factor  []byte `json:"factor,omitempty"`

	doc store.Document
}

// ID identifies a session to operators. It is not valid as a cookie.
func (s Session) ID() string { return hex.EncodeToString(s.doc.Key[:12]) }

// Fresh reports whether the operator has signed in recently. A sign-in far in the future,
// which a clock has dated that was set back since, is not fresh.
func (s Session) Fresh(now grant.Instant) bool { return now.Since(s.FreshAt).Abs() < fresh }

// EndsAt returns when the session ends unless it is used again.
func (s Session) EndsAt() grant.Instant {
	most := Lifetime
	if s.At != "" {
		most = ExternalLifetime
	}
	return min(s.UsedAt.Add(Idle), s.BeganAt.Add(most))
}

// Ways to sign in.
const (
	ByInvitation = "invitation"
	ByPassword   = "password and code"
	ByLogin      = "login"
)

// Begin stores a session and returns its cookie. It records a sign-in unless the session
// is pending.
func Begin(ctx context.Context, st store.Store, s Session) (cookie string, err error) {
	cookie = string(keys.NewSecret())
	s.UsedAt, s.FreshAt = s.BeganAt, s.BeganAt
	d, err := s.document(store.Document{Kind: store.DocumentConsoleSession, Key: store.KeyOf(store.DocumentConsoleSession, "", cookie)})
	if err != nil {
		return "", err
	}
	c := store.Change{Documents: []store.Document{d}}
	if s.Rule != "" {
		c.Events = []store.Event{s.signedIn()}
	}
	if err := st.Commit(ctx, c); err != nil {
		return "", err
	}
	if s.Pending || s.Rule != "" {
		return cookie, nil
	}
	return cookie, seen(ctx, st, s.Operator, s.BeganAt, s.signedIn())
}

func (s Session) signedIn() store.Event {
	e := store.Event{At: s.FreshAt, Name: store.EventConsoleSignIn, About: About, Actor: "console:" + s.Operator, Detail: "by " + s.How + ", from " + s.Address}
	if s.Rule != "" {
		e.Detail += ", as " + s.Rule
	}
	return e
}

func (s Session) document(d store.Document) (store.Document, error) {
	body, err := json.Marshal(s)
	d.Version++
	d.ExpiresAt, d.Body = s.EndsAt(), body
	return d, err
}

func parse(d store.Document) (s Session, err error) {
	err = json.Unmarshal(d.Body, &s)
	s.doc = d
	return s, err
}

// ErrNoSession means that a cookie identifies no session, or one that has ended.
const ErrNoSession Error = "there is no such session"

// Open returns the session of a cookie, and records its use.
func Open(ctx context.Context, st store.Store, cookie string, now grant.Instant) (Session, error) {
	s, err := Look(ctx, st, cookie, now)
	if err != nil || now.Since(s.UsedAt) < useInterval {
		return s, err
	}
	used := s
	used.UsedAt = now
	if err := used.put(ctx, st); err == nil {
		s = used
	} // else another request has recorded the use
	return s, nil
}

// Look returns the session of a cookie without recording a use, for polls of a page, which
// must not keep anybody signed in.
func Look(ctx context.Context, st store.Store, cookie string, now grant.Instant) (Session, error) {
	d, found, err := store.FindDocument(ctx, st, store.KeyOf(store.DocumentConsoleSession, "", cookie))
	if err != nil || !found {
		return Session{}, cmp.Or(err, error(ErrNoSession))
	}
	s, err := parse(d)
	if err == nil && now >= s.EndsAt() {
		err = ErrNoSession
	}
	return s, err
}

// put stores a session that was read.
func (s *Session) put(ctx context.Context, st store.Store) error {
	d, err := s.document(s.doc)
	if err != nil {
		return err
	}
	if err := st.Commit(ctx, store.Change{Documents: []store.Document{d}}); err != nil {
		return err
	}
	s.doc = d
	return nil
}

// ErrRepeated says that a form was sent before.
const ErrRepeated Error = "the form was sent already"

// formMemory is how long the store remembers that a form was sent. It exceeds the life of
// sessions: a browser can send a form again after another sign-in.
const formMemory = 30 * 24 * time.Hour

// NewForm returns an id for a single-use form.
func NewForm() string { return keys.RandomText(16) }

// SpendForm records in the store that a form was sent. It returns ErrRepeated if the form
// was sent before, in any session, and for an id that NewForm does not make.
func SpendForm(ctx context.Context, st store.Store, form string, now grant.Instant) error {
	if len(form) != len(NewForm()) {
		return ErrRepeated
	}
	d := store.Document{
		Kind: store.DocumentConsoleTicket, Key: store.KeyOf(store.DocumentConsoleTicket, "form", form), Version: 1, ExpiresAt: now.Add(formMemory),
		Body: []byte(NewForm()), // random: an equal record of another request would pass for this one
	}
	if err := st.Commit(ctx, store.Change{Documents: []store.Document{d}}); !errors.Is(err, store.ErrConflict) {
		return err
	}
	return ErrRepeated
}

// Confirm replaces a session whose factor was checked by another one, so that the earlier
// cookie is invalid. epoch is the epoch of the user's record since the check.
func (s Session) Confirm(ctx context.Context, st store.Store, epoch int64, now grant.Instant) (cookie string, err error) {
	if err := s.End(ctx, st); err != nil {
		return "", err
	}
	return Begin(ctx, st, Session{Operator: s.Operator, How: s.How, Address: s.Address, BeganAt: now, Epoch: epoch})
}

// End ends a session.
func (s Session) End(ctx context.Context, st store.Store, events ...store.Event) error {
	return st.Commit(ctx, store.Change{Delete: []store.DocumentKey{s.doc.Key}, Events: events})
}

// Sessions returns the sessions that have not ended, the latest first.
func Sessions(ctx context.Context, st store.Store, now grant.Instant) (list []Session, err error) {
	docs, err := st.Documents(ctx, store.DocumentFilter{Kind: store.DocumentConsoleSession, Limit: maxSessions})
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if s, err := parse(d); err == nil && now < s.EndsAt() && !s.Pending {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b Session) int { return int(b.BeganAt - a.BeganAt) })
	return list, nil
}

// EndByID ends the session with an ID, or all sessions of an operator if id is "".
func EndByID(ctx context.Context, st store.Store, operator, id, actor string, now grant.Instant) (ended int, err error) {
	list, err := Sessions(ctx, st, now)
	if err != nil {
		return 0, err
	}
	for _, s := range list {
		if s.ID() != id && (id != "" || s.Operator != operator) {
			continue
		}
		e := store.Event{At: now, Name: store.EventConsoleSessionEnded, About: About, Actor: actor, Detail: "of " + s.Operator + ", from " + s.Address}
		if err := s.End(ctx, st, e); err != nil {
			return ended, err
		}
		ended++
	}
	if ended == 0 && id != "" {
		return 0, ErrNoSession
	}
	return ended, nil
}

// EndRestored ends, in a restored store, the sessions that began until an instant, and all
// invitations and tickets: since the backup, they may have ended or been spent.
func EndRestored(ctx context.Context, st store.Store, until grant.Instant) error {
	for _, kind := range []store.DocumentKind{store.DocumentConsoleSession, store.DocumentConsoleInvitation, store.DocumentConsoleTicket} {
		for d, err := range store.EachDocument(ctx, st, store.DocumentFilter{Kind: kind}) {
			if err != nil {
				return err
			}
			if s, err := parse(d); kind == store.DocumentConsoleSession && err == nil && s.BeganAt > until {
				continue
			}
			if err := st.Commit(ctx, store.Change{Delete: []store.DocumentKey{d.Key}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fold returns a name as it is stored.
func Fold(name string) string { return strings.ToLower(strings.TrimSpace(name)) }
