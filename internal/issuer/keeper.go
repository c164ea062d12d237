package issuer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Keys are rotated by whatever node notices that one is due. Nobody leads: a
// key is added at the version of the directory at which it was missing, so of
// several nodes that notice at once one adds it, and the others see it.

// keepKeys adds keys in time until ctx ends. It runs beside the polls: an RSA
// key takes long to make.
func (d *Directory) keepKeys(ctx context.Context) {
	tick := time.NewTicker(PollInterval)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err := d.RotateDue(ctx)
			if err != nil && ctx.Err() == nil && !failing {
				d.log.Error("cannot add the keys that are due; trying again every second", "error", err)
			}
			failing = err != nil
		}
	}
}

// addTime bounds the writing of keys whose first use is already fixed: it is a
// part of keys.Schedule.Notice.
const addTime = 2 * time.Second

// RotateDue adds the keys that are due, as Run does every second. The check costs next to nothing.
func (d *Directory) RotateDue(ctx context.Context) error {
	due := d.view.Load().Ring.Due(grant.At(d.clock()), d.Schedule)
	if len(due) == 0 || d.ClockFault() != nil { // others know better what is due
		return nil
	}
	// An RSA key is much work: not for a store that does not even answer.
	try, cancelTry := context.WithTimeout(ctx, StaleAfter)
	defer cancelTry()
	if err := d.Poll(try); err != nil {
		return err
	}
	drafts, err := newDrafts(purposesOf(due))
	if err != nil {
		return err
	}
	// That took a while, and others may have added them.
	ctx, cancel := context.WithTimeout(ctx, addTime)
	defer cancel()
	now := grant.At(d.clock())
	if err := d.Poll(ctx); err != nil {
		return err
	}
	view := d.view.Load()
	var records []keys.Record
	for _, f := range view.Ring.Due(now, d.Schedule) {
		draft, ok := drafts.take(f.Purpose)
		if !ok {
			continue // due since a moment ago: next time
		}
		r, err := draft.Wrap(d.kek.Load().Of(view.Ring.Records()), now, f.ActiveAt)
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	if len(records) == 0 {
		return nil
	}
	err = addKeys(ctx, d.store, view.version, records, "server", now)
	if errors.Is(err, store.ErrConflict) {
		return nil // somebody changed something: the next look tells what
	}
	if err != nil {
		return err
	}
	for _, r := range records {
		d.log.Info("key added", "key_id", r.ID.String(), "purpose", string(r.Purpose), "used_from", r.ActiveAt.Time())
	}
	return d.Poll(ctx)
}

// firstKeys makes one key for each purpose. Another process may do so at the
// same moment: one of them wins.
func (d *Directory) firstKeys(ctx context.Context) error {
	now := grant.At(d.clock())
	var records []keys.Record
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

// addKeys adds records at a version of the directory, and notes who did it.
func addKeys(ctx context.Context, st store.Store, version int64, records []keys.Record, actor string, now grant.Instant) error {
	return st.Commit(ctx, store.Change{Expect: version, Keys: records, Events: addedEvents(records, actor, now)})
}

func addedEvents(records []keys.Record, actor string, now grant.Instant) (events []store.Event) {
	for _, r := range records {
		events = append(events, store.Event{
			At: now, Name: store.EventKeyAdded, About: r.ID.String(), Actor: actor,
			Detail: fmt.Sprintf("%s key, used from %s", r.Purpose, r.ActiveAt.Time().Format(time.RFC3339)),
		})
	}
	return events
}

// A Rotation is what an operator asks for.
type Rotation struct {
	Purposes []keys.Purpose // none: all that rotate
	// In is when the followers are used, from now on. Zero: as soon as every
	// verifier can know them.
	In    time.Duration
	Actor string
}

// RotateKeys makes a follower of a key of each purpose, beside a server that
// may be running on the store. It needs no key to be due.
func RotateKeys(ctx context.Context, st store.Store, kek *keys.KEK, s keys.Schedule, r Rotation, clock func() time.Time) ([]keys.Record, error) {
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
	for {
		ch, err := st.Changes(ctx, 0)
		if err != nil {
			return nil, err
		}
		// A key that is wrapped otherwise than the rest would stop every node.
		if _, err := keys.Open(kek, ch.Keys); err != nil {
			return nil, err
		}
		try, cancel := context.WithTimeout(ctx, addTime)
		now := grant.At(clock())
		var records []keys.Record
		for _, d := range drafts {
			rec, err := d.Wrap(kek.Of(ch.Keys), now, now.Add(max(r.In, s.Notice(d.Purpose))))
			if err != nil {
				cancel()
				return nil, err
			}
			records = append(records, rec)
		}
		err = addKeys(try, st, ch.Version, records, r.Actor, now)
		cancel()
		if !errors.Is(err, store.ErrConflict) {
			return records, err
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

// take is a draft for a purpose, and is it once only.
func (list *drafts) take(p keys.Purpose) (keys.Draft, bool) {
	for i, d := range *list {
		if d.Purpose == p {
			*list = append((*list)[:i], (*list)[i+1:]...)
			return d, true
		}
	}
	return keys.Draft{}, false
}

func purposesOf(due []keys.Follower) (list []keys.Purpose) {
	for _, f := range due {
		list = append(list, f.Purpose)
	}
	return list
}
