package logout

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/lease"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/store"
)

const (
	pollInterval = time.Second
	// atOnce is how many clients are called at once; each has one call at a time.
	atOnce = 16
	// probesAtOnce is how many of them may be clients whose last attempt failed, so that
	// hanging clients leave slots to the others.
	probesAtOnce = atOnce / 2
	// inARow is how many tokens of one client are sent before other clients have their
	// turn.
	inARow = 20
	// maxFresh bounds queue.fresh.
	maxFresh = 256
	// rescan is how often all queues are read again, to find the tokens of a node that
	// has ended.
	rescan = time.Minute
)

// A Config holds the realm of an Outbox, and its dependencies.
type Config struct {
	Realm     string
	Store     store.Store
	Directory *directory.Directory
	Now       func() time.Time
	// ClockFault returns an error if this node's clock differs from those of other nodes. The
	// node then sends nothing, because clients refuse a token of the past or the future for
	// good.
	ClockFault func() error
	// Alone is set if no other node can use the store.
	Alone bool
	// Transport carries the calls; nil for the default one.
	Transport http.RoundTripper
	Metrics   *metrics.Metrics
	Audit     *audit.Log
	Log       *slog.Logger
	Monotonic func() time.Time // the monotonic clock
	Outage    *store.Outage    // nil: each failure is logged
}

// An Outbox delivers logout tokens.
type Outbox struct {
	Config
	current atomic.Pointer[issuer.Issuer]
	client  *http.Client
	wake    chan struct{}
	slots   chan struct{} // for calls
	probes  chan struct{} // for calls of clients whose last attempt failed
	working sync.WaitGroup

	// Only the goroutine of Run uses these:
	later   grant.Instant // when the next round after the first is due
	scanned time.Time     // when all queues were last read, by the monotonic clock
	lease   *lease.Lease

	mu     sync.Mutex // guards queues
	queues map[string]*queue
}

// New makes an Outbox. Use must be called before Run.
func New(cfg Config) *Outbox {
	o := &Outbox{
		Config: cfg, client: newClient(cfg.Transport), wake: make(chan struct{}, 1),
		slots: make(chan struct{}, atOnce), probes: make(chan struct{}, probesAtOnce), queues: map[string]*queue{},
	}
	o.lease = lease.New(lease.Lease{
		Store: cfg.Store, Key: store.KeyOf(store.DocumentDeployment, cfg.Realm, "logout leader"), Alone: cfg.Alone, Monotonic: cfg.Monotonic, Log: cfg.Log,
	})
	return o
}

// Use makes o issue tokens by iss from now on.
func (o *Outbox) Use(iss *issuer.Issuer) { o.current.Store(iss) }

// Wake makes o look for new ends now.
func (o *Outbox) Wake() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// find returns the queue of a client. The caller holds o.mu.
func (o *Outbox) find(clientID string) *queue {
	q := o.queues[clientID]
	if q == nil {
		q = &queue{}
		o.queues[clientID] = q
	}
	return q
}

// added notes that a client's queue has another token.
func (o *Outbox) added(clientID string, key store.DocumentKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.find(clientID)
	if q.added = true; len(q.fresh) < maxFresh {
		q.fresh = append(q.fresh, key)
	}
	q.due = q.next()
}

// waiting reports whether this node knows of a token that is not delivered yet.
func (o *Outbox) waiting() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queues {
		if q.oldest != 0 || len(q.fresh) > 0 || q.failed > 0 {
			return true
		}
	}
	return false
}

// Run delivers until ctx ends. Nodes that share a store take turns: see package lease.
func (o *Outbox) Run(ctx context.Context) {
	defer func() { o.lease.Release(context.WithoutCancel(ctx)) }()
	for ctx.Err() == nil {
		o.lead(ctx)
	}
}

// lead delivers for as long as this node leads. If the node does not lead, lead returns
// after pollInterval.
func (o *Outbox) lead(ctx context.Context) {
	leading, stop := context.WithCancel(ctx)
	defer o.forget()
	defer o.working.Wait()
	defer stop()
	for more := false; ctx.Err() == nil; {
		leads, err := o.leads(ctx)
		if leads && err == nil {
			more, err = o.turn(leading)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrConflict) && o.waiting() && !o.Outage.Combines(err, o.Monotonic()) {
			o.Log.Warn("cannot deliver logout tokens; retrying", "error", err)
		}
		switch {
		case leads && more && err == nil:
			continue
		case !leads:
			stop()
		}
		select {
		case <-ctx.Done():
		case <-o.wake:
		case <-time.After(pollInterval):
		}
		if !leads {
			return
		}
	}
}

// forget drops the state of the queues, because another node may lead next.
func (o *Outbox) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.queues)
	o.later, o.scanned = 0, time.Time{}
}

// turn runs the rounds that are due, and starts the delivery of the queues that are due.
// It reports whether more rounds are due.
func (o *Outbox) turn(ctx context.Context) (more bool, err error) {
	iss := o.current.Load()
	view, err := o.Directory.View()
	if err != nil {
		return false, err
	}
	more, err = o.look(ctx, iss, view)
	unread := errors.Is(err, errDecode)
	if err != nil && !unread {
		return false, err
	}
	now := o.Monotonic()
	if now.Sub(o.scanned) >= rescan {
		if unread {
			o.Log.Error("cannot decode a stored logout: its clients are not notified", "error", err)
		}
		o.scanned = now
		o.mu.Lock()
		for c := range view.Marked(directory.Notified, o.Realm) {
			o.find(c.ID)
		}
		for clientID, q := range o.queues {
			if _, ok := o.notifiable(view, clientID); !ok {
				q.failed = 0 // its tokens are dropped without a call
			}
			if q.failed == 0 {
				q.due = now
			}
		}
		o.mu.Unlock()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for clientID, q := range o.queues {
		if q.busy || q.due.After(now) {
			continue
		}
		slots := []chan struct{}{o.slots}
		if q.failed > 0 {
			slots = []chan struct{}{o.probes, o.slots}
		}
		q.busy, q.added = true, false
		o.working.Go(func() {
			for _, slot := range slots {
				select {
				case slot <- struct{}{}:
					defer func() { <-slot }()
				case <-ctx.Done():
				}
			}
			o.serve(ctx, iss, clientID, q)
		})
	}
	return more && !unread, nil
}

// Await waits until the clients of a session that has ended have been called once,
// or ctx ends.
func (o *Outbox) Await(ctx context.Context, e issuer.SessionEnd, at grant.Instant) {
	o.Wake()
	key := EndOfSession(o.Realm, e, at).Key
	for !o.called(ctx, key) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (o *Outbox) called(ctx context.Context, key store.DocumentKey) bool {
	d, err := o.Store.Document(ctx, key)
	if err != nil {
		return errors.Is(err, store.ErrNotFound)
	}
	r, err := decode[End](d)
	if err != nil || r.Looked == 0 {
		return err != nil
	}
	for _, ref := range r.Tokens {
		d, err := o.Store.Document(ctx, ref.key())
		if err != nil {
			continue
		}
		if t, err := decode[Token](d); err == nil && t.State == Pending && t.Attempts == 0 {
			return false
		}
	}
	return true
}

// Failing returns how many clients did not answer their last attempt, and the age of the
// oldest logout that this node has found waiting; zero: none. It is not negative: a
// cutoff that a command wrote is dated up to directory.CutoffReach ahead.
func (o *Outbox) Failing() (clients int, waiting time.Duration) {
	now := grant.At(o.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queues {
		if q.failed > 0 {
			clients++
		}
		if q.oldest != 0 {
			waiting = max(waiting, now.Since(q.oldest))
		}
	}
	return clients, waiting
}
