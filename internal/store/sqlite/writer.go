package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	queueLength = 4096             // operations that may wait; more are store.ErrBusy
	batchLength = 256              // operations in one transaction
	lockPause   = time.Millisecond // between two tries to take the write lock
)

// A writer is the only one in this process that writes. It collects the
// operations on grants and documents that wait and commits them in one
// transaction (group commit). A change of the directory and a sweep come between,
// in transactions of their own.
type writer struct {
	path     string
	conn     *connection
	patience time.Duration // how long another process may hold the write lock
	failure  atomic.Pointer[error]
	full     atomic.Bool // a write has failed in the disk, and no try has found room since
	batches  store.BatchCounter

	checkpoint *checkpointer
	inbox[*operation]

	insertGrant, updateGrant, selectGrant *statement
	insertEvent                           *statement
	documents                             documentStatements
	begin, commit, rollback               *statement
}

// An operation is one caller's write. One of create, decide, change and alone is
// set.
type operation struct {
	create *grant.Grant
	id     grant.ID // of the grant that decide is about
	decide store.Decide
	change *store.Change
	alone  func() error // runs between two batches

	state    atomic.Int32 // waiting, running, or abandoned
	err      error
	panicked any // what decide panicked with
	result   chan struct{}
}

const (
	waiting = iota
	running
	abandoned
)

func newWriter(path string, patience time.Duration) (w *writer, err error) {
	w = &writer{path: path, patience: patience, inbox: newInbox[*operation]()}
	// The cache is for the upper pages of the tree, 3 MB with a million grants:
	// the lower ones are too many, and are read from the system's memory.
	if w.conn, err = connect(path, slices.Concat(Pragmas, []string{"cache_size = -6000", "busy_timeout = 0"})); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	for _, p := range []struct {
		to    **statement
		query string
	}{
		{&w.insertGrant, insertGrantSQL},
		{&w.updateGrant, updateGrantSQL},
		{&w.selectGrant, selectGrantSQL},
		{&w.insertEvent, insertEventSQL},
		{&w.begin, "BEGIN IMMEDIATE"},
		{&w.commit, "COMMIT"},
		{&w.rollback, "ROLLBACK"},
	} {
		if *p.to, err = w.conn.prepare(p.query); err != nil {
			return nil, err
		}
	}
	w.documents, err = prepareDocuments(w.conn)
	return w, err
}

func (w *writer) close() {
	for _, s := range []*statement{w.insertGrant, w.updateGrant, w.selectGrant, w.insertEvent, w.begin, w.commit, w.rollback} {
		s.close()
	}
	w.documents.close()
	w.conn.close()
}

// do queues op and waits for its outcome. If ctx ends first and op has not
// begun, it never will; if it has begun, its outcome is unknown.
func (w *writer) do(ctx context.Context, op *operation) error {
	if ctx.Err() != nil {
		return errNotBegun
	}
	op.result = make(chan struct{})
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
	errNotBegun = fmt.Errorf("%w: not begun when the request's time was over", store.ErrBusy)
)

func (w *writer) run() {
	defer close(w.done)
	defer w.close()
	defer w.checkpoint.stop()
	batch := make([]*operation, 0, batchLength)
	for {
		first, ok := w.next()
		if !ok {
			return
		}
		// Whoever is about to write may do so now: one fsync serves more.
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

// begins reports whether op runs, from here on if its caller still waits.
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
	op.err = err
	close(op.result)
}

// commitBatch applies every operation of the batch in one transaction, and
// answers none before the commit is durable. Operations on one row see each
// other in the order of the queue. If one fails in another way than losing,
// each is tried again in a transaction of its own, so that it cannot undo its
// neighbours.
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
	// Only now: while another process holds the lock, a caller may go away and
	// be sure that nothing is written.
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
		// On disk the commit may be whole or not: only a crash would tell.
		fail(fmt.Errorf("commit: %w", err))
		return
	}
	w.failure.Store(nil)
	w.batches.Add(len(batch))
	for _, op := range batch {
		close(op.result)
	}
	w.checkpoint.committed(w.conn)
}

// lock begins a transaction that holds the write lock.
func (w *writer) lock() error {
	err := patiently(w.patience, func() error {
		_, err := w.begin.exec()
		return err
	})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := w.stays(); err != nil {
		w.rollback.exec()
		return err
	}
	return nil
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
	w.failure.Store(nil)
	return nil
}

// patiently tries again while another process is in the way, for as long as
// limit. SQLite's own way to wait sleeps for up to a tenth of a second between
// two looks, and seldom meets the moments between two commits of a busy server.
func patiently(limit time.Duration, try func() error) error {
	for began := time.Now(); ; time.Sleep(lockPause) {
		err := try()
		if !isBusy(err) || time.Since(began) >= limit {
			return err
		}
	}
}

func isBusy(err error) bool { return IsCode(err, lib.SQLITE_BUSY) }

// apply does op within the transaction.
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
	if err := bindUpdate(w.updateGrant, next); err != nil {
		w.updateGrant.reset()
		return fmt.Errorf("write grant: %w", err)
	}
	changed, err := w.updateGrant.exec()
	if err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	if changed == 0 {
		return fmt.Errorf("write grant: version %d cannot follow %d", next.Version, have.Version)
	}
	return w.putEvents(events)
}

func (w *writer) createGrant(g grant.Grant) error {
	if err := bindInsert(w.insertGrant, g); err != nil {
		w.insertGrant.reset()
		return fmt.Errorf("write grant: %w", err)
	}
	created, err := w.insertGrant.exec()
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

// decided calls op.decide. Its panic is the caller's, and not the writer's.
func (op *operation) decided(have grant.Grant) (next grant.Grant, events []store.Event) {
	defer func() {
		if op.panicked = recover(); op.panicked != nil {
			next, events = have, nil
		}
	}()
	return op.decide(have)
}
