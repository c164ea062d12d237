package postgres

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mintage/mintage/internal/store"
)

const (
	queueLength = 4096 // operations of one kind that may wait; more are store.ErrBusy
	// serveTime bounds the work on one batch. Callers leave earlier, by their
	// contexts; it frees the lane of a server that hangs.
	serveTime = 5 * time.Second
	// gatherTime bounds the wait for those who are about to ask.
	gatherTime = time.Millisecond
	// lateAfter is when a batch takes long.
	lateAfter = 20 * time.Millisecond
	// raceTries is how often a batch is outrun before its members go singly.
	raceTries = 3
)

// A seat is one caller's place in a batch.
type seat struct {
	ctx      context.Context
	state    atomic.Int32 // waiting, running, or abandoned
	settled  bool         // the lane's own
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

// settle tells the caller the outcome. The first one counts.
func (s *seat) settle(err error) {
	if !s.settled {
		s.settled, s.err = true, err
		close(s.result)
	}
}

// A member is one operation of a batch. Its key is what it is about.
type member[K comparable] interface {
	key() K
	place() *seat
}

// A batcher lets operations of one kind that wait at the same moment travel
// together. Each of its lanes takes whatever waits when it has a connection; a
// lone operation finds a lane free and waits for nobody.
//
// A batch holds one operation for each key, and none for a key that is under
// way in another lane: for two rows with one key, a statement's answer does not
// tell which of them was written.
type batcher[K comparable, M member[K]] struct {
	limit  int  // members of a batch
	lanes  int  // batches under way at once
	shared bool // keys may repeat: these are reads
	// serve does what the batch asks for and settles those whose outcome is
	// clear. Members that it leaves have lost to another node, and go again.
	// With an error, nothing was written for any that it leaves, or nobody
	// knows.
	serve func(ctx context.Context, conn *pgxpool.Conn, batch []M) error
	store *Store

	mu       sync.Mutex
	queue    []M
	underway map[K]struct{}
	busy     int // lanes
	late     int // lanes whose batch takes longer than lateAfter
	closed   bool
	ended    chan struct{} // closed when the last lane has ended after close
}

func newBatcher[K comparable, M member[K]](s *Store, limit, lanes int, shared bool, serve func(context.Context, *pgxpool.Conn, []M) error) *batcher[K, M] {
	return &batcher[K, M]{
		store: s, limit: limit, lanes: lanes, shared: shared, serve: serve,
		underway: map[K]struct{}{}, ended: make(chan struct{}),
	}
}

// do queues m and waits for its outcome. If ctx ends first and m has not begun,
// it never will; if it has begun, its outcome is unknown.
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
		return fmt.Errorf("operation of unknown outcome: %w", ctx.Err())
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

// open starts a lane if nobody serves those who wait. Further lanes join where
// one batch is not enough, and where the others take long: they may wait for a
// server that hangs, and others need not. With fewer lanes, batches are larger,
// and each operation costs less.
func (b *batcher[K, M]) open() {
	if len(b.queue) > 0 && b.busy < b.lanes && (b.busy <= b.late || len(b.queue) >= b.limit) {
		b.busy++
		go b.lane()
	}
}

// queued is how many operations wait.
func (b *batcher[K, M]) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// close refuses further operations and waits for those that were asked for.
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

// lane serves batches until nobody waits. It has its connection before it looks
// who waits, so that more can come while it gets one.
func (b *batcher[K, M]) lane() {
	s := session{store: b.store}
	defer s.release()
	for b.turn(&s) {
	}
}

// turn serves one batch, or reports that nobody waits.
func (b *batcher[K, M]) turn(s *session) bool {
	defer b.watch()()
	began := time.Now()
	err := s.ensure()
	if err != nil && time.Since(began) > connectTime/2 {
		// Others have come meanwhile, and what it met may be over.
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

// gather lets those come who are about to ask. Those of the last batch have just
// been answered, and the more of them there were, the more are on their way: they
// travel with those who wait, for a part of the time that the last batch took.
// After a batch of one nobody is waited for.
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

// watch notes that a lane takes long, if it does until stop is called.
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
			continue // its caller has gone
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

// leave makes room for those who wait for the batch's keys.
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
			// Connections that have lain idle may have died with their server.
			s.renew()
			fresh = true
		case v == unsent:
			b.fail(batch, unwritten(err))
			return
		case v != unknown && len(batch) > 1:
			// One fails: the others must not suffer.
			for _, m := range remaining[K](batch) {
				b.carry(ctx, s, []M{m})
			}
			return
		default:
			if v == unknown {
				s.renew()
			}
			b.fail(batch, err)
			return
		}
	}
}

// remaining drops those that are settled, and settles those whose time is over:
// whatever was tried for them was not written.
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
	// The last batch: its members, and how long it took.
	size int
	took time.Duration
}

// ensure gets a connection if there is none that may be used.
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

// renew gives up every connection of the pool, and this one at once.
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
	}
	return nil, unwritten(oneLine{err})
}
