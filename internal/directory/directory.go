// Package directory is a node's copy of the clients, cutoffs, keys and restores
// that the store holds. It polls for changes, adds keys by their schedule, and
// writes this node's heartbeat.
package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

const (
	// PollInterval is how often a node polls for changes: a change by another
	// process takes effect within two intervals.
	PollInterval = time.Second
	// heartbeatTime limits a heartbeat, so that after one on a dead connection there
	// is time for another before the directory is stale.
	heartbeatTime = 2 * PollInterval
	// StaleAfter is the age of the last poll at which a node stops serving: it may
	// have missed a cutoff.
	StaleAfter = 5 * time.Second
	// CutoffReach is how far ahead cutoffs written by a command are dated, so that
	// every node has them before they apply. Until a node has polled a cutoff, it
	// still issues codes to the subjects concerned.
	CutoffReach = 2*PollInterval + 5*time.Second
	// flushInterval is how often the last uses of secrets are written.
	flushInterval = time.Minute
	// flushAtOnce is the age of a stored use at which the next poll replaces it.
	// Whether a secret may be revoked depends on its use within the last day.
	flushAtOnce = 12 * time.Hour
)

// A Directory is a node's copy of clients, cutoffs and keys. Requests read a View
// without locks; Run polls.
type Directory struct {
	// Schedule holds the durations of the phases of keys. It does not change.
	Schedule keys.Schedule

	// ReadKEK, if not nil, reads the key-encryption key again when another one wraps
	// the store's keys. It must be set before Run.
	ReadKEK func() (*keys.KEK, error)

	// Outage, if not nil, combines log lines about failures of the store. The code that sets
	// it logs the end of an outage. It must be set before Run.
	Outage *store.Outage

	store store.Store
	kek   atomic.Pointer[keys.KEK]
	log   *slog.Logger
	clock func() time.Time // monotonic, for the age of the last poll

	turn    chan struct{} // a mutex for the fields that follow; see wait
	records []keys.Stored
	uses    *uses
	unnoted bool   // the last write of uses has failed
	peers   *peers // nil before Join

	view   atomic.Pointer[View]
	polled atomic.Int64 // when the last good poll began: nanoseconds since origin
	// clockFault is set while this node's clock is wrong, which makes it not ready.
	clockFault atomic.Pointer[error]
	missing    atomic.Int64 // how many of the newest forms some node cannot read; see OlderNodes
	admits     atomic.Pointer[func(realm, id string) bool]
	origin     time.Time

	keyPolling sync.Mutex    // guards the fields that follow
	nextPoll   time.Duration // theoretical arrival time of the next poll by PollForKey, since origin
	absent     grant.KeyID   // the key that the last such poll did not find
	absentAt   time.Duration // when that began, since origin; 0: never
}

// ErrStale means that the last successful poll is so old that the node may have
// missed a cutoff.
var ErrStale = errors.New("no news from the store for more than five seconds")

// Open reads the directory. In an empty store, it creates the first keys. It fails if a key
// cannot be unwrapped. The clock is as for New.
func Open(ctx context.Context, st store.Store, kek *keys.KEK, s keys.Schedule, log *slog.Logger, clock func() time.Time) (*Directory, error) {
	d := New(st, kek, s, log, clock)
	return d, d.load(ctx, false)
}

// Read returns the directory as it is in the store now, for a command. It is not
// polled. Without a key-encryption key, its ring opens no token.
func Read(ctx context.Context, st store.Store, kek *keys.KEK, s keys.Schedule, clock func() time.Time) (*Directory, error) {
	d := New(st, kek, s, slog.New(slog.DiscardHandler), clock)
	_, err := d.Current(ctx)
	return d, err
}

// New returns a directory that has not been read; Join reads it. The clock must have a
// monotonic reading and the time of day, by which keys are rotated.
func New(st store.Store, kek *keys.KEK, s keys.Schedule, log *slog.Logger, clock func() time.Time) *Directory {
	d := &Directory{
		Schedule: s, store: st, log: log, clock: clock,
		turn: make(chan struct{}, 1), uses: newUses(), origin: clock(),
	}
	d.kek.Store(kek)
	d.view.Store(noView())
	return d
}

// load reads the directory. In an empty store, it creates the first keys; Join and Run add
// those that are due. It fails if a key cannot be unwrapped.
func (d *Directory) load(ctx context.Context, tick bool) error {
	err := d.poll(ctx, tick)
	if errors.Is(err, errNoKeys) {
		err = d.firstKeys(ctx)
	}
	return err
}

var errNoKeys = errors.New("the store has no keys yet")

// Poll updates the view. Call it after a change by this process, which then takes
// effect at once.
func (d *Directory) Poll(ctx context.Context) error { return d.poll(ctx, false) }

func (d *Directory) poll(ctx context.Context, tick bool) error {
	if err := d.wait(ctx); err != nil {
		return err
	}
	defer d.done()
	began := d.clock().Sub(d.origin)
	// Write the last uses of secrets before the heartbeat: a command that has awaited
	// heartbeats then finds them in the store.
	d.writeUses(ctx, d.unwritten(flushAtOnce))
	// Without a successful heartbeat the node is not current, even if it can read:
	// its database server may have been replaced.
	if d.peers != nil {
		try, cancel := context.WithTimeout(ctx, heartbeatTime)
		err := d.heartbeat(try, tick)
		cancel()
		if err != nil {
			return err
		}
	}
	if err := d.update(ctx); err != nil {
		return err
	}
	d.polled.Store(int64(began))
	return nil
}

// Current returns the view of the directory as the store has it now, for a use case of
// an operator. It reads what has changed since the last poll.
func (d *Directory) Current(ctx context.Context) (*View, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	defer d.done()
	if err := d.update(ctx); err != nil {
		return nil, err
	}
	return d.view.Load(), nil
}

// update reads what has changed in the store. The caller has locked d.turn.
func (d *Directory) update(ctx context.Context) error {
	old := d.view.Load()
	ch, err := d.store.Changes(ctx, old.version)
	if err == nil && ch.Version < old.version {
		// The store's version is lower than ours: a backup was restored, or a standby
		// without these changes was promoted.
		d.log.Error("the store's directory has gone back: reading all of it again; if an older copy was put in place, declare it: mintage restore --declare", "from", old.version, "to", ch.Version)
		old, d.records = noView(), nil
		ch, err = d.store.Changes(ctx, 0)
	}
	if err != nil {
		return err
	}
	if ch.Version != old.version {
		next, err := d.apply(old, ch)
		if err != nil {
			return err
		}
		d.view.Store(next)
	}
	return nil
}

// wait locks turn, unless ctx ends first: another caller's poll may hang in the
// store.
func (d *Directory) wait(ctx context.Context) error {
	select {
	case d.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Directory) done() { <-d.turn }

// openRing unwraps records, unless there is no key-encryption key. It reads the
// key-encryption key again if another process has replaced it.
func (d *Directory) openRing(records []keys.Stored) (*keys.Ring, error) {
	if d.kek.Load() == nil {
		return keys.LockedRing(records), nil
	}
	ring, err := keys.Open(d.kek.Load(), records)
	if d.ReadKEK == nil || !errors.As(err, new(*keys.OtherKEK)) {
		return ring, err
	}
	kek, unread := d.ReadKEK()
	if unread != nil {
		return nil, errors.Join(err, unread)
	}
	if ring, err = keys.Open(kek, records); err == nil {
		d.kek.Store(kek)
		d.log.Info("key-encryption key replaced", "fingerprint", kek.Of(records).Fingerprint())
	}
	return ring, err
}

// View returns the view of the last poll. It fails if the view is stale, and while this
// node's clock is wrong: a valid grant might seem expired, or a retry a replay.
func (d *Directory) View() (*View, error) {
	if d.clock().Sub(d.origin)-time.Duration(d.polled.Load()) > StaleAfter {
		return nil, ErrStale
	}
	if fault := d.ClockFault(); fault != nil {
		return nil, &store.ExternalFault{Cause: fault}
	}
	return d.view.Load(), nil
}

// Ring returns the key ring of the last poll, however old, for callers to which an old ring
// is better than none.
func (d *Directory) Ring() *keys.Ring { return d.view.Load().Ring }

// KEK returns the key-encryption key that wraps the keys as the store has them now: a
// command may have replaced it since the last poll.
func (d *Directory) KEK(ctx context.Context) (*keys.KEK, error) {
	if _, err := d.Current(ctx); err != nil {
		return nil, store.Unavailable(err)
	}
	return d.kek.Load(), nil
}

// CheckKEK returns an error if the key-encryption key that ReadKEK returns now does not open
// the store's keys: a server could not start with it.
func (d *Directory) CheckKEK(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTime)
	defer cancel()
	if d.wait(ctx) != nil {
		return nil
	}
	defer d.done()
	if d.update(ctx) != nil {
		return nil // another process may have wrapped the keys again
	}
	kek, err := d.ReadKEK()
	if err == nil {
		_, err = keys.Open(kek, d.records)
	}
	return err
}

// Latest returns the view of the last poll, however old, for callers to which an old view
// is better than none.
func (d *Directory) Latest() *View { return d.view.Load() }

// ClockFault returns an error if this node's clock is wrong, and the node therefore
// not ready.
func (d *Directory) ClockFault() error {
	if fault := d.clockFault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// maxKeyPolls limits the polls of PollForKey in a PollInterval: an unauthenticated caller can
// send a text that names a key.
const maxKeyPolls = 32

// PollForKey polls if a text names a key that view lacks, and returns the newer view. It returns
// nil if view has the key, or if a recent poll did not find it: nobody names a key before it
// exists, so that it does not appear later. PollForKey is for withdrawals, after which other
// nodes use the new key before this node has polled. An error means that the store could not
// be read, or not again so soon: the key may exist.
func (d *Directory) PollForKey(ctx context.Context, view *View, text string) (*View, error) {
	id, unknown := view.Ring.UnknownKey(text)
	if !unknown {
		return nil, nil
	}
	if fresh := d.view.Load(); fresh.Ring.Has(id) {
		return fresh, nil // another request has polled
	}
	now := d.clock().Sub(d.origin)
	if absent, ask := d.mayPoll(id, now); absent {
		return nil, nil
	} else if !ask {
		return nil, &store.ExternalFault{Cause: fmt.Errorf("key %s is unknown here, and the store was asked for %d others in the last second", id, maxKeyPolls)}
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatTime)
	defer cancel()
	if err := d.Poll(ctx); err != nil {
		return nil, err
	}
	fresh := d.view.Load()
	if !fresh.Ring.Has(id) {
		d.keyPolling.Lock()
		d.absent, d.absentAt = id, now
		d.keyPolling.Unlock()
	}
	return fresh, nil
}

// mayPoll reports whether a recent poll did not find a key, and otherwise whether PollForKey
// may poll again (GCRA).
func (d *Directory) mayPoll(id grant.KeyID, now time.Duration) (absent, ask bool) {
	d.keyPolling.Lock()
	defer d.keyPolling.Unlock()
	if d.absentAt != 0 && d.absent == id && now-d.absentAt < PollInterval {
		return true, false
	}
	next := max(d.nextPoll, now) + PollInterval/maxKeyPolls
	if next > now+PollInterval {
		return false, false
	}
	d.nextPoll = next
	return false, true
}

// Run polls, compares clocks and rotates keys until ctx ends. It writes the last
// uses of secrets every minute and at the end.
func (d *Directory) Run(ctx context.Context) {
	var keeper sync.WaitGroup
	keeper.Go(func() { d.keepKeys(ctx) })
	defer keeper.Wait()
	poll, flush := time.NewTicker(PollInterval), time.NewTicker(flushInterval)
	defer poll.Stop()
	defer flush.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			d.FlushUses(context.WithoutCancel(ctx))
			return
		case <-flush.C:
			d.FlushUses(ctx)
		case <-poll.C:
			try, cancel := context.WithTimeout(ctx, StaleAfter)
			err := d.poll(try, true)
			cancel()
			if err != nil && (ctx.Err() != nil || d.Outage.Combines(err, d.clock())) {
				continue
			}
			if err != nil && !failing {
				d.log.Error("cannot read clients, cutoffs and keys; requests are answered 503 until this ends", "error", err)
			}
			if err == nil && failing {
				d.log.Info("clients, cutoffs and keys are current again")
			}
			failing = err != nil
		}
	}
}

// Ready returns an error if this node must not receive requests.
func (d *Directory) Ready() error {
	if _, err := d.View(); errors.Is(err, ErrStale) {
		return fmt.Errorf("directory: %w", err)
	}
	return d.ClockFault()
}

// Departures lists clients of a realm whose registration deviates from the
// specification, for the log at the start.
func (d *Directory) Departures(realm string) (list []string) {
	for c := range d.view.Load().Marked(departed, realm) {
		list = append(list, fmt.Sprintf("client %s: refresh rotation is off", c.ID))
	}
	slices.Sort(list)
	return list
}
