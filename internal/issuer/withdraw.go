package issuer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Withdrawal is what an operator asks for in an emergency.
type Withdrawal struct {
	Purposes []keys.Purpose // all keys of these
	Keys     []grant.KeyID  // and these
	Actor    string
}

// Withdrawn are the keys that were withdrawn, and those that took the place of
// the ones in use.
type Withdrawn struct{ Keys, Added []keys.Record }

// WithdrawKeys declares keys untrusted, now. Nodes see it with their next poll.
// A purpose whose key in use is withdrawn has a new one in the same transaction,
// which is used at once: no verifier knows it yet, and no node that has not
// polled (see Directory.Learn).
func WithdrawKeys(ctx context.Context, st store.Store, kek *keys.KEK, w Withdrawal, clock func() time.Time) (Withdrawn, error) {
	drafts := drafts{}
	for {
		ch, err := st.Changes(ctx, 0)
		if err != nil {
			return Withdrawn{}, err
		}
		// A key that is wrapped otherwise than the rest would stop every node.
		ring, err := keys.Open(kek, ch.Keys)
		if err != nil {
			return Withdrawn{}, err
		}
		chosen, err := w.Choose(ch.Keys)
		if err != nil {
			return Withdrawn{}, err
		}
		kek := kek.Of(ch.Keys)
		now := grant.At(clock())
		var done Withdrawn
		var events []store.Event
		for _, r := range chosen {
			gone, err := kek.Withdraw(r, now)
			if err != nil {
				return Withdrawn{}, err
			}
			done.Keys = append(done.Keys, gone)
			events = append(events, store.Event{At: now, Name: store.EventKeyWithdrawn, About: r.ID.String(), Actor: w.Actor, Detail: string(r.Purpose) + " key"})
			if ring.Current(r.Purpose, now) != r.ID {
				continue
			}
			draft, made := drafts.take(r.Purpose)
			if !made {
				if draft, err = keys.NewDraft(r.Purpose); err != nil {
					return Withdrawn{}, err
				}
			}
			next, err := draft.Wrap(kek, now, now)
			if err != nil {
				return Withdrawn{}, err
			}
			drafts = append(drafts, draft) // for another try
			done.Added = append(done.Added, next)
		}
		try, cancel := context.WithTimeout(ctx, addTime)
		err = st.Commit(try, store.Change{Expect: ch.Version, Keys: slices.Concat(done.Keys, done.Added), Events: append(events, addedEvents(done.Added, w.Actor, now)...)})
		cancel()
		if !errors.Is(err, store.ErrConflict) {
			return done, err
		}
	}
}

// Choose lists the records that w is about.
func (w Withdrawal) Choose(records []keys.Record) (list []keys.Record, err error) {
	for _, id := range w.Keys {
		i := slices.IndexFunc(records, func(r keys.Record) bool { return r.ID == id })
		switch {
		case i < 0:
			return nil, &oauth.Invalid{Field: "key", Message: fmt.Sprintf("no key %s (see: mintage keys list)", id)}
		case records[i].Purpose == keys.Pepper:
			return nil, &oauth.Invalid{Field: "key", Message: fmt.Sprintf("%s is the pepper, which every stored secret depends on: it cannot be withdrawn", id)}
		case records[i].WithdrawnAt() != 0:
			return nil, &oauth.Invalid{Field: "key", Message: fmt.Sprintf("%s was withdrawn before", id)}
		}
	}
	for _, r := range records {
		if r.WithdrawnAt() == 0 && (slices.Contains(w.Purposes, r.Purpose) || slices.Contains(w.Keys, r.ID)) {
			list = append(list, r)
		}
	}
	return list, nil
}

// An Ended is what stands for a withdrawal's effect, in numbers.
type Ended struct {
	Grants int // whose refresh tokens are by withdrawn keys
	JWTs   int // grants of which a JWT by a withdrawn key may be alive
}

// CountEnded counts what the withdrawal of keys ends, or would end. It reads every
// grant.
func CountEnded(ctx context.Context, st store.Store, records []keys.Record, accessLifetime time.Duration, now grant.Instant) (n Ended, err error) {
	made := map[grant.KeyID]bool{}
	signed := map[keys.Purpose]bool{}
	for _, r := range records {
		made[r.ID] = true
		signed[r.Purpose] = r.Purpose.Signs()
	}
	ch, err := st.Changes(ctx, 0)
	if err != nil {
		return n, err
	}
	jwts := map[string]bool{}
	for _, c := range ch.Clients {
		alg := c.SigningAlg
		if alg == "" {
			alg = keys.ES256
		}
		jwts[c.ID] = c.TokenFormat == store.TokenJWT && signed[alg]
	}
	f := store.GrantFilter{Limit: 1000}
	for {
		page, err := st.Grants(ctx, f)
		if err != nil {
			return n, err
		}
		for _, g := range page {
			if g.State != grant.Active || now >= g.ExpiresAt {
				continue
			}
			if made[g.KeyID] {
				n.Grants++
			}
			if jwts[g.ClientID] && now < g.RotatedAt.Add(accessLifetime) {
				n.JWTs++
			}
		}
		if len(page) < f.Limit {
			return n, nil
		}
		f.After = page[len(page)-1].ID
	}
}

// RewrapKeys wraps every key by the key-encryption key that is to take kek's
// place, in one transaction. It returns how many it has wrapped: none if that was
// done before.
func RewrapKeys(ctx context.Context, st store.Store, kek *keys.KEK, actor string, clock func() time.Time) (int, error) {
	for {
		ch, err := st.Changes(ctx, 0)
		if err != nil {
			return 0, err
		}
		from, to := kek.Of(ch.Keys), kek.Next()
		if from == to {
			return 0, nil
		}
		var changed []keys.Record
		for _, r := range ch.Keys {
			if r, err = to.Rewrap(from, r); err != nil {
				return 0, err
			}
			changed = append(changed, r)
		}
		try, cancel := context.WithTimeout(ctx, addTime)
		err = st.Commit(try, store.Change{Expect: ch.Version, Keys: changed, Events: []store.Event{{
			At: grant.At(clock()), Name: store.EventKEKRotated, About: "store", Actor: actor,
			Detail: fmt.Sprintf("%d keys, from %s to %s", len(changed), from.Fingerprint(), to.Fingerprint()),
		}}})
		cancel()
		if !errors.Is(err, store.ErrConflict) {
			return len(changed), err
		}
	}
}
