package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
)

// List returns all keys. An active key without a successor ends when the successor is due.
// A retired signing key ends when the servers stop publishing it.
func (a Keys) List(ctx context.Context) ([]adminapi.Key, error) {
	view, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	list := []adminapi.Key{}
	for _, l := range view.Ring.Lives(a.now(), a.Schedule.Retaining(max(view.IDTokenLifetime(), view.LongestAccess(0)))) {
		ends := l.EndsAt
		if l.Phase == keys.Active && ends == 0 && slices.Contains(a.Schedule.Rotating(), l.Purpose) {
			ends = l.ActiveAt.Add(a.Schedule.Lifetime)
		}
		list = append(list, adminapi.Key{ID: l.ID.String(), Purpose: string(l.Purpose), Phase: string(l.Phase),
			CreatedAt: show.JSONInstant(l.CreatedAt), ActiveAt: show.JSONInstant(l.ActiveAt), EndsAt: show.JSONInstant(ends)})
	}
	return list, nil
}

// Public returns the signing keys that are next, active or retired, which the servers
// publish.
func (a Keys) Public(ctx context.Context) ([]jose.JSONWebKey, error) {
	ring, err := a.Ring(ctx)
	if err != nil {
		return nil, err
	}
	ch, err := a.whole().Changes(ctx, 0)
	return ring.JWKS(a.now(), a.Schedule.Retaining(ch.LongestJWT())), err
}

// Records returns the keys as the store has them.
func (a Keys) Records(ctx context.Context) ([]keys.Stored, error) {
	ch, err := a.whole().Changes(ctx, 0)
	return ch.Keys, err
}

// Rotate makes successors of the keys with the purposes, or of all. They become active
// after in, or if in is zero as soon as every verifier can have fetched them.
func (a Keys) Rotate(ctx context.Context, purposes []string, in time.Duration) ([]keys.Stored, error) {
	list, err := purposesIn(a.Schedule, purposes)
	if err != nil {
		return nil, err
	}
	kek, err := a.KEK(ctx)
	if err != nil {
		return nil, err
	}
	added, err := directory.RotateKeys(ctx, a.whole(), kek, a.Schedule, directory.Rotation{Purposes: list, In: in, Actor: a.Actor.String()}, a.Now)
	return added, a.announce(ctx, err)
}

// ViewKeyChanges returns the views of keys that were made or withdrawn.
func ViewKeyChanges(records []keys.Stored) []adminapi.KeyChange {
	views := []adminapi.KeyChange{}
	for _, r := range records {
		views = append(views, adminapi.KeyChange{ID: r.ID.String(), Purpose: string(r.Purpose), ActiveAt: show.JSONInstant(r.ActiveAt), WithdrawnAt: show.JSONInstant(r.WithdrawnAt())})
	}
	return views
}

// Rewrap wraps all keys by the next key-encryption key, and returns how many
// there are.
func (a Keys) Rewrap(ctx context.Context, kek *keys.KEK) (int, error) {
	n, err := directory.RewrapKeys(ctx, a.whole(), kek, a.Actor.String(), a.Now)
	return n, a.announce(ctx, err)
}

// purposesIn returns the purposes with the names, or an error if s does not rotate the
// keys of one.
func purposesIn(s keys.Schedule, names []string) (list []keys.Purpose, err error) {
	var known []string
	for _, p := range s.Rotating() {
		known = append(known, string(p))
	}
	for _, name := range names {
		p := keys.Purpose(name)
		switch {
		case p == keys.Pepper:
			return nil, &oauth.Invalid{Field: "purpose", Message: "the pepper never rotates: every stored secret depends on it"}
		case !slices.Contains(known, name):
			return nil, &oauth.Invalid{Field: "purpose", Message: fmt.Sprintf("%q is none of %s", name, strings.Join(known, ", "))}
		case !slices.Contains(list, p):
			list = append(list, p)
		}
	}
	return list, nil
}

// Withdrawal returns what withdraws the named keys and those of the purposes, or
// all keys that rotate.
func (a Keys) Withdrawal(ids, purposes []string, all bool) (w directory.Withdrawal, err error) {
	w.Actor = a.Actor.String()
	if all == (len(ids)+len(purposes) > 0) {
		return w, &oauth.Invalid{Field: "all", Message: "name keys, purposes or both; or all"}
	}
	s := a.Schedule
	s.Registrations = true // if registration is off now, its keys may still be there
	if w.Purposes, err = purposesIn(s, purposes); err != nil {
		return w, err
	}
	if all {
		w.Purposes = s.Rotating()
	}
	for _, text := range ids {
		id, err := strconv.ParseUint(text, 16, 32)
		if err != nil || len(text) != 8 {
			return w, &oauth.Invalid{Field: "key", Message: fmt.Sprintf("%q is not 8 hexadecimal digits (see: mintage keys list)", text)}
		}
		w.Keys = append(w.Keys, grant.KeyID(id))
	}
	return w, nil
}

// Withdraw declares keys untrusted, now. A dry run only names them.
func (a Keys) Withdraw(ctx context.Context, w directory.Withdrawal, dry bool) (done directory.Withdrawn, err error) {
	if dry {
		records, err := a.Records(ctx)
		if err == nil {
			done.Keys, err = w.Choose(records)
		}
		return done, err
	}
	kek, err := a.KEK(ctx)
	if err != nil {
		return directory.Withdrawn{}, err
	}
	done, err = directory.WithdrawKeys(ctx, a.whole(), kek, w, a.Now)
	return done, a.announce(ctx, err)
}

// View returns the view of a withdrawal, without the number of grants that it ends.
func (a Keys) View(done directory.Withdrawn) adminapi.Withdrawal {
	text := func(d time.Duration) string { return config.Duration(d).String() }
	var longest grant.Policy
	for _, p := range a.Policies {
		longest.CodeLifetime, longest.AccessLifetime = max(longest.CodeLifetime, p.CodeLifetime), max(longest.AccessLifetime, p.AccessLifetime)
	}
	return adminapi.Withdrawal{Withdrawn: ViewKeyChanges(done.Keys), Added: ViewKeyChanges(done.Added), CodeLifetime: text(longest.CodeLifetime),
		AccessTokenLifetime: text(longest.AccessLifetime), JWKSMaxAge: text(a.Schedule.MaxAge)}
}

// EndedBy counts what the withdrawal of keys ends, or would end.
func (a Keys) EndedBy(ctx context.Context, records []keys.Stored) (directory.Ended, error) {
	return directory.CountEnded(ctx, a.whole(), records, a.Policies, a.now())
}
