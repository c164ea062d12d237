package directory

import (
	"cmp"
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

// Every node rotates keys; there is no leader. A key is added by compare-and-swap of
// the directory's version, so that of several nodes one adds it, and the others
// read it.

// keepKeys adds keys when they are due, until ctx ends. It runs concurrently with the
// polls, because generating an RSA key takes long.
func (d *Directory) keepKeys(ctx context.Context) {
	for failing := false; Pause(ctx, PollInterval); {
		err := d.RotateDue(ctx)
		if err != nil && (ctx.Err() != nil || d.Outage.Combines(err, d.clock())) {
			continue
		}
		if err != nil && !failing {
			d.log.Error("cannot add the keys that are due; trying again every second", "error", err)
		}
		failing = err != nil
	}
}

// addTime limits the write of keys whose first use is already set. It is a part of
// keys.Schedule.Notice.
const addTime = 2 * time.Second

// RotateDue adds the keys that are due, as Run does every second. The check costs next to nothing.
func (d *Directory) RotateDue(ctx context.Context) error {
	due := d.view.Load().Ring.Due(grant.At(d.clock()), d.Schedule)
	if len(due) == 0 || d.ClockFault() != nil { // nodes with a right clock decide what is due
		return nil
	}
	// Do not generate RSA keys while the store does not respond.
	try, cancelTry := context.WithTimeout(ctx, StaleAfter)
	defer cancelTry()
	if err := d.Poll(try); err != nil {
		return err
	}
	drafts, err := newDrafts(purposesOf(due))
	if err != nil {
		return err
	}
	// Another node may have added them meanwhile.
	ctx, cancel := context.WithTimeout(ctx, addTime)
	defer cancel()
	now := grant.At(d.clock())
	if err := d.Poll(ctx); err != nil {
		return err
	}
	view := d.view.Load()
	var records []keys.Stored
	for _, f := range view.Ring.Due(now, d.Schedule) {
		draft, ok := drafts.take(f.Purpose)
		if !ok {
			continue // became due meanwhile: next time
		}
		records = append(records, draft.Wrap(d.kek.Load().Of(view.Ring.Records()), now, f.ActiveAt))
	}
	if len(records) == 0 {
		return nil
	}
	err = addKeys(ctx, d.store, view.version, records, "server", now)
	if errors.Is(err, store.ErrConflict) {
		return nil // the directory has changed: the next call looks again
	}
	if err != nil {
		return err
	}
	for _, r := range records {
		d.log.Info("key added", "key_id", r.ID.String(), "purpose", string(r.Purpose), "used_from", r.ActiveAt.Time())
	}
	return d.Poll(ctx)
}

// firstKeys creates one key for each purpose. If several processes do so, one of
// them wins.
func (d *Directory) firstKeys(ctx context.Context) error {
	now := grant.At(d.clock())
	var records []keys.Stored
	for _, p := range append(d.Schedule.Rotating(), keys.Pepper) {
		r, err := keys.New(d.kek.Load(), p, now, now)
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	for {
		ch, err := d.store.Changes(ctx, 0)
		if err == nil && len(ch.Keys) == 0 {
			err = addKeys(ctx, d.store, ch.Version, records, "server", now)
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := d.Poll(ctx); !errors.Is(err, errNoKeys) {
			return err
		}
	}
}

// addKeys adds records if the directory is still at a version, with events that name the
// actor.
func addKeys(ctx context.Context, st store.Store, version int64, records []keys.Stored, actor string, now grant.Instant) error {
	return st.Commit(ctx, store.Change{Expect: version, Keys: records, Events: addedEvents(records, actor, now)})
}

func addedEvents(records []keys.Stored, actor string, now grant.Instant) (events []store.Event) {
	for _, r := range records {
		events = append(events, store.Event{
			At: now, Name: store.EventKeyAdded, About: r.ID.String(), Actor: actor,
			Detail: fmt.Sprintf("%s key, used from %s", r.Purpose, r.ActiveAt.Time().Format(time.RFC3339)),
		})
	}
	return events
}

// A Rotation is an operator's order to schedule the next keys now.
type Rotation struct {
	Purposes []keys.Purpose // none: all that rotate
	// In is the time until the successors are used. Zero: the shortest time after which
	// every verifier can have them.
	In    time.Duration
	Actor string
}

// RotateKeys adds a successor key for each purpose, whether one is due or not.
// Servers may use the store meanwhile.
func RotateKeys(ctx context.Context, st store.Store, kek *keys.KEK, s keys.Schedule, r Rotation, clock func() time.Time) ([]keys.Stored, error) {
	if len(r.Purposes) == 0 {
		r.Purposes = s.Rotating()
	}
	for _, p := range r.Purposes {
		if r.In != 0 && r.In < s.Notice(p) {
			return nil, &oauth.Invalid{Field: "in", Message: fmt.Sprintf("%s is too soon: verifiers and other nodes know the %s key only after %s", r.In, p, s.Notice(p))}
		}
	}
	drafts, err := newDrafts(r.Purposes)
	if err != nil {
		return nil, err
	}
	var records []keys.Stored
	err = changeKeys(ctx, st, clock, func(ch store.Changes, now grant.Instant) (store.Change, error) {
		records = nil
		// Check kek: a key that a wrong key-encryption key wraps would stop every node.
		if _, err := keys.Open(kek, ch.Keys); err != nil {
			return store.Change{}, err
		}
		timeline := keys.NewTimeline(ch.Keys)
		for _, d := range drafts {
			at := now.Add(max(r.In, s.Notice(d.Purpose)))
			if due := timeline.Scheduled(d.Purpose, at, now, s); due != 0 && at > due {
				return store.Change{}, &oauth.Invalid{Field: "in", Message: fmt.Sprintf("%s is too late: the schedule rotates the %s key on %s", r.In, d.Purpose, due.Time().Format(time.RFC3339))}
			}
			records = append(records, d.Wrap(kek.Of(ch.Keys), now, at))
		}
		return store.Change{Keys: records, Events: addedEvents(records, r.Actor, now)}, nil
	})
	return records, err
}

// changeKeys commits the change that make returns for the present directory. If the
// directory has changed meanwhile, it calls make again. If the change has no keys, it
// commits nothing.
func changeKeys(ctx context.Context, st store.Store, clock func() time.Time, make func(ch store.Changes, now grant.Instant) (store.Change, error)) error {
	for {
		ch, err := st.Changes(ctx, 0)
		if err != nil {
			return err
		}
		c, err := make(ch, grant.At(clock()))
		if err != nil || len(c.Keys) == 0 {
			return err
		}
		c.Expect = ch.Version
		try, cancel := context.WithTimeout(ctx, addTime)
		err = st.Commit(try, c)
		cancel()
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

type drafts []keys.Draft

func newDrafts(purposes []keys.Purpose) (list drafts, err error) {
	for _, p := range purposes {
		d, err := keys.NewDraft(p)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// take removes and returns a draft for a purpose.
func (list *drafts) take(p keys.Purpose) (keys.Draft, bool) {
	for i, d := range *list {
		if d.Purpose == p {
			*list = append((*list)[:i], (*list)[i+1:]...)
			return d, true
		}
	}
	return keys.Draft{}, false
}

func purposesOf(due []keys.Successor) (list []keys.Purpose) {
	for _, f := range due {
		list = append(list, f.Purpose)
	}
	return list
}

// A Withdrawal is an operator's order to distrust keys, in an emergency.
type Withdrawal struct {
	Purposes []keys.Purpose // all keys of these purposes
	Keys     []grant.KeyID  // further single keys
	Actor    string
}

// Withdrawn lists the keys that were withdrawn, and the successors of those that
// were in use.
type Withdrawn struct{ Keys, Added []keys.Stored }

// WithdrawKeys declares keys untrusted from now on. Nodes stop trusting them at
// their next poll. If a key in use is withdrawn, the same transaction adds its
// successor, which is used at once, before verifiers and other nodes have it (see
// Directory.PollForKey).
func WithdrawKeys(ctx context.Context, st store.Store, kek *keys.KEK, w Withdrawal, clock func() time.Time) (Withdrawn, error) {
	drafts := drafts{}
	var done Withdrawn
	err := changeKeys(ctx, st, clock, func(ch store.Changes, now grant.Instant) (c store.Change, err error) {
		done = Withdrawn{}
		// Check kek: a key that a wrong key-encryption key wraps would stop every node.
		ring, err := keys.Open(kek, ch.Keys)
		if err != nil {
			return c, err
		}
		chosen, err := w.Choose(ch.Keys)
		if err != nil {
			return c, err
		}
		kek := kek.Of(ch.Keys)
		for _, r := range chosen {
			gone, err := kek.Withdraw(r, now)
			if err != nil {
				return c, err
			}
			done.Keys = append(done.Keys, gone)
			c.Events = append(c.Events, store.Event{At: now, Name: store.EventKeyWithdrawn, About: r.ID.String(), Actor: w.Actor, Detail: string(r.Purpose) + " key"})
			if ring.Current(r.Purpose, now) != r.ID {
				continue
			}
			draft, made := drafts.take(r.Purpose)
			if !made {
				if draft, err = keys.NewDraft(r.Purpose); err != nil {
					return c, err
				}
			}
			drafts = append(drafts, draft) // for another try
			done.Added = append(done.Added, draft.Wrap(kek, now, now))
		}
		c.Keys, c.Events = slices.Concat(done.Keys, done.Added), append(c.Events, addedEvents(done.Added, w.Actor, now)...)
		return c, nil
	})
	return done, err
}

// Choose lists the records of the keys that w withdraws.
func (w Withdrawal) Choose(records []keys.Stored) (list []keys.Stored, err error) {
	for _, id := range w.Keys {
		i := slices.IndexFunc(records, func(r keys.Stored) bool { return r.ID == id })
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

// An Ended counts what the withdrawal of keys ends.
type Ended struct {
	Grants int // whose refresh tokens, or whose client's sealed id, a withdrawn key has made
	JWTs   int // grants with a JWT, signed by a withdrawn key, that may not have expired
}

// CountEnded counts what the withdrawal of keys ends, or would end. It reads every grant,
// and applies the policy of the grant's realm.
func CountEnded(ctx context.Context, st store.Store, records []keys.Stored, policies map[string]grant.Policy, now grant.Instant) (n Ended, err error) {
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
	clients, apis := map[clientName]store.Client{}, map[apiNumber]store.API{}
	for _, c := range ch.Clients {
		clients[clientName{c.Realm, c.ID}] = c
	}
	for _, api := range ch.APIs {
		apis[apiNumber{api.Realm, api.Number}] = api
	}
	for g, err := range store.EachGrant(ctx, st, store.GrantFilter{}) {
		if err != nil {
			return n, err
		}
		p := policies[g.Realm]
		if g.State != grant.Active || now >= p.Expiry(g) {
			continue
		}
		if made[g.KeyID] || made[keys.RegistrationKey(g.ClientID)] {
			n.Grants++
		}
		c, life := clients[clientName{g.Realm, g.ClientID}], p.AccessLifetime
		jwt := c.TokenFormat == store.TokenJWT
		for _, number := range g.APIs {
			api := apis[apiNumber{g.Realm, number}]
			jwt, life = jwt || api.TokenFormat == store.TokenJWT, max(life, api.LongestLifetime.Duration())
		}
		if jwt && signed[cmp.Or(c.SigningAlg, keys.ES256)] && now < g.RotatedAt.Add(life) {
			n.JWTs++
		}
	}
	return n, nil
}

// RewrapKeys wraps every key by the key-encryption key that replaces kek, in one
// transaction. It returns how many it has wrapped: none if that was done before.
func RewrapKeys(ctx context.Context, st store.Store, kek *keys.KEK, actor string, clock func() time.Time) (int, error) {
	var changed []keys.Stored
	err := changeKeys(ctx, st, clock, func(ch store.Changes, now grant.Instant) (store.Change, error) {
		changed = nil
		from, to := kek.Of(ch.Keys), kek.Next()
		if from == to {
			return store.Change{}, nil
		}
		for _, r := range ch.Keys {
			r, err := to.Rewrap(from, r)
			if err != nil {
				return store.Change{}, err
			}
			changed = append(changed, r)
		}
		return store.Change{Keys: changed, Events: []store.Event{{
			At: now, Name: store.EventKEKRotated, About: "store", Actor: actor,
			Detail: fmt.Sprintf("%d keys, from %s to %s", len(changed), from.Fingerprint(), to.Fingerprint()),
		}}}, nil
	})
	return len(changed), err
}
