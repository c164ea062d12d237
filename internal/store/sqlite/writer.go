package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	queueLength = 4096             // queued operations; a further one is store.ErrBusy
	batchLength = 256              // operations in one transaction
	lockPause   = time.Millisecond // between two attempts to take the write lock
)

// A writer makes all writes of this process, in one goroutine. It commits the
// queued operations on grants and documents in one transaction (group commit). A
// change of the directory and a sweep have transactions of their own.
type writer struct {
	conn    *connection
	timeout time.Duration // of waiting for another process's write lock
	// checkUsable returns an error if what is written now would be lost. In a server, it is
	// Present. In a process that does not hold the directory's lock, it is Displaced:
	// a move can begin after the store was opened. No other process writes while this
	// one has the write lock.
	checkUsable func() error
	failing     atomic.Bool // a write has failed, and transact has not succeeded since
	full        atomic.Bool // a write has failed on the disk, and no test write has succeeded since
	batches     store.BatchCounter

	checkpoint *checkpointer
	inbox[*operation]
	// updates holds operations of UpdateGrant, to be used again with their channels. An
	// operation is put back when its outcome is known: until then the writer may use it,
	// even if the context of its caller has ended.
	updates sync.Pool

	insertGrant, updateGrant, selectGrant *statement
	insertEvent                           *statement
	documents                             documentStatements
	begin, commit, rollback               *statement
}

// An operation is one caller's write. Exactly one of create, decide, change and
// alone is set.
type operation struct {
	create *grant.Grant
	id     grant.ID // of the grant that decide is about
	decide store.Decide
	change *store.Change
	alone  func() error // runs outside of a batch

	state    atomic.Int32 // waiting, running, or abandoned
	err      error
	panicked any           // what decide panicked with
	result   chan struct{} // has one message when the outcome is known
}

const (
	waiting = iota
	running
	abandoned
)

func newWriter(path string, timeout time.Duration) (w *writer, err error) {
	w = &writer{timeout: timeout, inbox: newInbox[*operation]()}
	w.updates.New = func() any { return &operation{result: make(chan struct{}, 1)} }
	vfs, err := collectingVFS()
	if err != nil {
		return nil, err
	}
	// The cache holds the upper pages of the tree, 3 MB for a million grants. The
	// leaves are too many; the operating system caches them.
	if w.conn, err = connect(path, vfs, slices.Concat(Pragmas, []string{"cache_size = -6000", "busy_timeout = 0"})); err != nil {
		return nil, err
	}
	err = w.conn.keep(textSize, map[**statement]string{
		&w.insertGrant: insertGrantSQL, &w.updateGrant: updateGrantSQL, &w.selectGrant: selectGrantSQL, &w.insertEvent: insertEventSQL,
		&w.begin: "BEGIN IMMEDIATE", &w.commit: "COMMIT", &w.rollback: "ROLLBACK",
	})
	if err == nil {
		w.documents, err = keepDocuments(w.conn)
	}
	if err != nil {
		w.conn.close()
		return nil, err
	}
	return w, nil
}

// do queues op and waits for its outcome. If ctx ends before op has begun, op is
// dropped; if it ends later, the outcome is unknown.
func (w *writer) do(ctx context.Context, op *operation) error {
	if ctx.Err() != nil {
		return errNotBegun
	}
	if op.result == nil {
		op.result = make(chan struct{}, 1)
	}
	switch err := w.submit(ctx, op, op.result); {
	case err == nil:
		return op.outcome()
	case err != ctx.Err():
		return err
	case op.state.CompareAndSwap(waiting, abandoned):
		return errNotBegun
	default:
		return fmt.Errorf("write of unknown outcome: %w", err)
	}
}

var (
	errClosed   = errors.New("store is closed")
	errNotBegun = fmt.Errorf("%w: timed out or canceled before the operation began", store.ErrBusy)
)

func (w *writer) run() {
	defer close(w.done)
	defer w.conn.close()
	defer w.checkpoint.stop()
	batch := make([]*operation, 0, batchLength)
	for {
		first, ok := w.next()
		if !ok {
			return
		}
		// Let other goroutines queue their writes: they share one fsync.
		runtime.Gosched()
		batch = batch[:0]
		var alone *operation
		for op := first; op != nil; {
			switch {
			case op.alone == nil:
				batch = append(batch, op)
			case op.begins():
				alone = op
			}
			if alone != nil {
				break
			}
			if len(batch) == cap(batch) {
				break
			}
			select {
			case op = <-w.queue:
			default:
				op = nil
			}
		}
		if len(batch) > 0 {
			w.commitBatch(batch)
		}
		if alone != nil {
			alone.finish(alone.alone())
			w.checkpoint.committed(w.conn)
		}
	}
}

// begins marks op as running, unless its caller's context has ended.
func (op *operation) begins() bool {
	return op.state.CompareAndSwap(waiting, running) || op.state.Load() == running
}

func (op *operation) outcome() error {
	if op.panicked != nil {
		panic(op.panicked)
	}
	return op.err
}

func (op *operation) finish(err error) {
	if diskFailed(err) { // the disk may have space later
		err = store.Unavailable(err)
	}
	op.err = err
	op.result <- struct{}{}
}

// commitBatch applies the batch in one transaction and acknowledges no operation
// before the commit is durable. Operations on one row see each other's writes, in
// the order of the queue. If one fails other than by a conflict, each is tried
// again in a transaction of its own, so that one cannot roll back another.
func (w *writer) commitBatch(batch []*operation) {
	fail := func(err error) {
		w.failed(err)
		for _, op := range batch {
			op.finish(err)
		}
	}
	if err := w.lock(); err != nil {
		fail(err)
		return
	}
	// Operations begin only now, with the lock: if the context of a caller ended before,
	// its operation is dropped, and certainly not written.
	batch = slices.DeleteFunc(batch, func(op *operation) bool { return !op.begins() })
	if len(batch) == 0 {
		w.rollback.exec()
		return
	}
	for _, op := range batch {
		op.err = w.apply(op)
		if op.err == nil || errors.Is(op.err, store.ErrConflict) || errors.Is(op.err, store.ErrNotFound) {
			continue
		}
		w.rollback.exec() // fails if SQLite has rolled back by itself
		if len(batch) == 1 {
			if diskFailed(op.err) {
				w.failed(op.err)
			}
			op.finish(op.err)
			return
		}
		for i := range batch {
			w.commitBatch(batch[i : i+1])
		}
		return
	}
	if _, err := w.commit.exec(); err != nil {
		w.rollback.exec()
		// The commit may be on disk or not: the outcome is unknown.
		fail(fmt.Errorf("commit: %w", err))
		return
	}
	w.batches.Add(len(batch))
	for _, op := range batch {
		op.result <- struct{}{}
	}
	w.checkpoint.committed(w.conn)
}

// lock begins a transaction that holds the write lock.
func (w *writer) lock() error {
	err := retryBusy(w.timeout, func() error {
		_, err := w.begin.exec()
		return err
	})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err = w.checkUsable(); err != nil {
		w.rollback.exec()
	}
	return err
}

// transact runs f in a transaction of its own.
func (w *writer) transact(f func() error) error {
	if err := w.lock(); err != nil {
		w.failed(err)
		return err
	}
	if err := f(); err != nil {
		w.rollback.exec() // fails if SQLite has rolled back by itself
		if diskFailed(err) {
			w.failed(err)
		}
		return err
	}
	if _, err := w.commit.exec(); err != nil {
		w.rollback.exec()
		err = fmt.Errorf("commit: %w", err)
		w.failed(err)
		return err
	}
	w.failing.Store(false)
	return nil
}

// retryBusy calls try until another process's lock is released, at most for limit.
// SQLite's own busy handler sleeps up to 0.1 s between attempts, and often misses
// the short gaps between two commits of a busy server.
func retryBusy(limit time.Duration, try func() error) error {
	for began := time.Now(); ; time.Sleep(lockPause) {
		err := try()
		if !isBusy(err) || time.Since(began) >= limit {
			return err
		}
	}
}

func isBusy(err error) bool { return IsCode(err, lib.SQLITE_BUSY) }

// apply executes op within the transaction.
func (w *writer) apply(op *operation) error {
	switch {
	case op.create != nil:
		return w.createGrant(*op.create)
	case op.change != nil:
		return w.commitDocuments(op.change)
	}
	have, err := find(w.selectGrant, op.id)
	if err != nil {
		return err
	}
	next, events := op.decided(have)
	if next == have {
		return nil
	}
	changed, err := w.updateGrant.execBound(bindUpdate(w.updateGrant, next))
	if err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	if changed == 0 {
		return fmt.Errorf("write grant: version %d cannot follow %d", next.Version, have.Version)
	}
	return w.putEvents(events)
}

func (w *writer) createGrant(g grant.Grant) error {
	created, err := w.insertGrant.execBound(bindInsert(w.insertGrant, g))
	if err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	if created == 0 {
		switch have, err := find(w.selectGrant, g.ID); {
		case errors.Is(err, store.ErrNotFound):
			return errPrefix
		case err != nil:
			return err
		case have != g:
			return store.ErrConflict
		}
	}
	return nil
}

// decided calls op.decide. A panic is passed on to the caller's goroutine.
func (op *operation) decided(have grant.Grant) (next grant.Grant, events []store.Event) {
	defer func() {
		if op.panicked = recover(); op.panicked != nil {
			next, events = have, nil
		}
	}()
	return op.decide(have)
}
