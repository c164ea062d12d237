package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mintage/mintage/internal/store"
)

const (
	queueLength = 4096 // queued operations of one kind; a further one is store.ErrBusy
	// serveTime limits the time of one batch. The contexts of callers end earlier; this
	// limit frees the lane if the server hangs.
	serveTime = 5 * time.Second
	// gatherTime limits the wait for further operations; see gather.
	gatherTime = time.Millisecond
	// lateAfter is the time after which a batch counts as slow.
	lateAfter = 20 * time.Millisecond
	// raceTries is how often a batch is tried again after serialization failures
	// before its members are tried one by one.
	raceTries = 3
)

// A seat is one caller's operation in the queue or a batch.
type seat struct {
	ctx      context.Context
	state    atomic.Int32 // waiting, running, or abandoned
	settled  bool         // only the lane reads and writes it
	err      error
	panicked any // what the caller's function panicked with
	result   chan struct{}
}

const (
	waiting = iota
	running
	abandoned
)

func (s *seat) place() *seat { return s }

// settle returns the outcome to the caller. The first call counts.
func (s *seat) settle(err error) {
	if !s.settled {
		s.settled, s.err = true, err
		close(s.result)
	}
}

// A member is one operation of a batch. Its key identifies the row.
type member[K comparable] interface {
	key() K
	place() *seat
}

// A batcher sends queued operations of one kind in batches (group commit). Each of
// its lanes takes a connection and then everything that is queued; a single
// operation finds a free lane and does not wait.
//
// A batch holds one operation for each key, and none for a key that another lane
// is working on: for two rows with one key, a statement's result does not show
// which of them was written.
type batcher[K comparable, M member[K]] struct {
	limit  int  // members of a batch
	lanes  int  // concurrent batches
	shared bool // keys may repeat: these are reads
	// serve executes a batch and settles the members whose outcome is known.
	// Members that it does not settle have lost a race with another node, and the
	// batcher tries them again. After an error, the writes of members that are not
	// settled were rolled back, or their outcome is unknown.
	serve func(ctx context.Context, conn *pgxpool.Conn, batch []M) error
	store *Store

	mu       sync.Mutex
	queue    []M
	underway map[K]struct{}
	busy     int // lanes
	late     int // lanes with a slow batch
	closed   bool
	ended    chan struct{} // closed when the last lane has ended after close
}

func newBatcher[K comparable, M member[K]](s *Store, limit, lanes int, shared bool, serve func(context.Context, *pgxpool.Conn, []M) error) *batcher[K, M] {
	return &batcher[K, M]{
		store: s, limit: limit, lanes: lanes, shared: shared, serve: serve,
		underway: map[K]struct{}{}, ended: make(chan struct{}),
	}
}

// do queues m and waits for its outcome. If ctx ends before m has begun, m is
// dropped; if it ends later, the outcome is unknown.
func (b *batcher[K, M]) do(ctx context.Context, m M) error {
	if ctx.Err() != nil {
		return errNotBegun
	}
	p := m.place()
	p.ctx, p.result = ctx, make(chan struct{})
	if err := b.enqueue(m); err != nil {
		return err
	}
	select {
	case <-p.result:
		if p.panicked != nil {
			panic(p.panicked)
		}
		return p.err
	case <-ctx.Done():
		if p.state.CompareAndSwap(waiting, abandoned) {
			return errNotBegun
		}
		return transient(fmt.Errorf("operation of unknown outcome: %w", ctx.Err()))
	}
}

func (b *batcher[K, M]) enqueue(m M) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errClosed
	case len(b.queue) >= queueLength:
		return store.ErrBusy
	}
	b.queue = append(b.queue, m)
	b.open()
	return nil
}

// open starts a lane if none is running. It starts further lanes if more than one
// batch is queued, or if the running ones are slow: a server may hang. With fewer
// lanes, batches are larger, and each operation costs less.
func (b *batcher[K, M]) open() {
	if len(b.queue) > 0 && b.busy < b.lanes && (b.busy <= b.late || len(b.queue) >= b.limit) {
		b.busy++
		go b.lane()
	}
}

// queued returns the number of queued operations.
func (b *batcher[K, M]) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// close rejects further operations and waits for the queued ones.
func (b *batcher[K, M]) close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		if b.busy == 0 {
			close(b.ended)
		}
	}
	b.mu.Unlock()
	<-b.ended
}

// lane serves batches until the queue is empty. It takes its connection before the
// batch, so that more operations can be queued meanwhile.
func (b *batcher[K, M]) lane() {
	s := session{store: b.store}
	defer s.release()
	for b.turn(&s) {
	}
}

// turn serves one batch. It returns false if the queue is empty.
func (b *batcher[K, M]) turn(s *session) bool {
	defer b.watch()()
	began := time.Now()
	err := s.ensure()
	if err != nil && time.Since(began) > connectTime/2 {
		// Try again for the operations that were queued meanwhile.
		err = s.ensure()
	}
	b.gather(s)
	batch := b.take()
	if batch == nil {
		return false
	}
	if err != nil {
		b.fail(batch, err)
	} else {
		if !b.shared {
			b.store.batches.Add(len(batch))
		}
		ctx, cancel := context.WithTimeout(context.Background(), serveTime)
		began := time.Now()
		b.carry(ctx, s, batch)
		s.size, s.took = len(batch), time.Since(began)
		cancel()
	}
	b.leave(batch)
	return true
}

// gather waits a fraction of the last batch's duration for further operations. The
// callers of the last batch have just received their results: the more they were,
// the more new operations will follow. After a batch of one there is no wait.
func (b *batcher[K, M]) gather(s *session) {
	runtime.Gosched()
	if s.size < 2 {
		return
	}
	b.mu.Lock()
	n := len(b.queue)
	b.mu.Unlock()
	if n < s.size {
		time.Sleep(min(s.took/4, gatherTime))
	}
}

// watch counts the lane as late if stop is not called within lateAfter.
func (b *batcher[K, M]) watch() (stop func()) {
	count := func(n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.late += n
		b.open()
	}
	timer := time.AfterFunc(lateAfter, func() { count(1) })
	return func() {
		if !timer.Stop() {
			count(-1)
		}
	}
}

// take removes a batch from the queue, or ends the lane if there is none.
func (b *batcher[K, M]) take() (batch []M) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := b.queue[:0]
	for _, m := range b.queue {
		_, taken := b.underway[m.key()]
		if len(batch) == b.limit || taken {
			rest = append(rest, m)
			continue
		}
		if !m.place().state.CompareAndSwap(waiting, running) {
			continue // the context of its caller has ended
		}
		if !b.shared {
			b.underway[m.key()] = struct{}{}
		}
		batch = append(batch, m)
	}
	clear(b.queue[len(rest):])
	b.queue = rest
	if batch == nil {
		b.busy--
		if b.closed && b.busy == 0 {
			close(b.ended)
		}
	}
	return batch
}

// leave releases the keys of a batch.
func (b *batcher[K, M]) leave(batch []M) {
	if b.shared {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range batch {
		delete(b.underway, m.key())
	}
}

// carry serves a batch until each member has its outcome.
func (b *batcher[K, M]) carry(ctx context.Context, s *session, batch []M) {
	for races, fresh := 0, false; ; {
		if batch = remaining[K](batch); len(batch) == 0 {
			b.store.note(nil)
			return
		}
		err := ctx.Err()
		if err == nil {
			err = s.ensure()
		}
		if err != nil {
			b.fail(batch, unwritten(err))
			return
		}
		err = b.serve(ctx, s.conn, batch)
		switch v := judge(err); {
		case v == fine:
		case v == outrun && (races < raceTries || len(batch) == 1):
			pause(ctx, races)
			races++
		case v == unsent && !fresh:
			// Idle connections may have broken when their server ended.
			s.renew()
			fresh = true
		case v == unsent:
			b.fail(batch, unwritten(err))
			return
		case v != unknown && len(batch) > 1:
			// One member fails: the others must not fail with it.
			for _, m := range remaining[K](batch) {
				b.carry(ctx, s, []M{m})
			}
			return
		default:
			if v == unknown {
				s.renew()
			}
			b.fail(batch, transient(err))
			return
		}
	}
}

// remaining returns the members that are not settled. It settles those whose
// context has ended: their writes were not applied.
func remaining[K comparable, M member[K]](batch []M) (list []M) {
	for _, m := range batch {
		p := m.place()
		if !p.settled && p.ctx.Err() != nil {
			p.settle(errNotBegun)
		}
		if !p.settled {
			list = append(list, m)
		}
	}
	return list
}

func (b *batcher[K, M]) fail(batch []M, err error) {
	b.store.note(err)
	for _, m := range batch {
		m.place().settle(err)
	}
}

// A session is a lane's connection.
type session struct {
	store *Store
	conn  *pgxpool.Conn
	// The size and the duration of the last batch.
	size int
	took time.Duration
}

// ensure acquires a connection, unless the present one is usable.
func (s *session) ensure() error {
	ctx, cancel := context.WithTimeout(context.Background(), serveTime)
	defer cancel()
	if s.conn != nil && !s.store.hosts.usable(ctx, s.conn.Conn().PgConn()) {
		s.release()
	}
	if s.conn != nil {
		return nil
	}
	conn, err := s.store.acquire(ctx)
	s.conn = conn
	return err
}

// renew abandons all connections of the pool, and releases this one.
func (s *session) renew() {
	s.store.abandon()
	s.release()
}

func (s *session) release() {
	if s.conn != nil {
		s.conn.Release()
		s.conn = nil
	}
}

// acquire takes a connection from the pool.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := s.pool.Acquire(ctx)
	switch {
	case err == nil:
		forgetWarning(conn.Conn().PgConn())
		return conn, nil
	case s.closed.Load():
		return nil, errClosed
	case errors.Is(err, context.DeadlineExceeded) && s.hosts.unconfirmed.Load():
		err = fmt.Errorf("%w: %w", errUnconfirmed, err) // the caller has less time than a connection
	}
	return nil, unwritten(oneLine{err})
}
