package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	queueLength = 4096 // operations that may wait; more are store.ErrBusy
	batchLength = 256  // operations in one transaction
)

// A writer owns the only connection that writes. It collects the operations
// that wait and commits them in one transaction (group commit).
type writer struct {
	conn   *sql.Conn
	queue  chan *operation
	closed chan struct{}
	done   chan struct{}
	once   sync.Once

	insertGrant, updateGrant, selectGrant *statement
	insertEvent                           *statement
	begin, commit, rollback               *statement
}

// An operation is one caller's write. Either grant or admin is set.
type operation struct {
	grant  grant.Grant
	events []store.Event
	create bool
	admin  func(tx *sql.Tx) error

	state  atomic.Int32 // waiting, running, or abandoned
	err    error
	result chan struct{}
}

const (
	waiting = iota
	running
	abandoned
)

func startWriter(ctx context.Context, db *sql.DB) (_ *writer, err error) {
	w := &writer{queue: make(chan *operation, queueLength), closed: make(chan struct{}), done: make(chan struct{})}
	if w.conn, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	if _, err := w.conn.ExecContext(ctx, "PRAGMA cache_size = -16000"); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		to      **statement
		query   string
		columns int
	}{
		{&w.insertGrant, insertGrantSQL, 0},
		{&w.updateGrant, updateGrantSQL, 0},
		{&w.selectGrant, selectGrantSQL, grantColumns},
		{&w.insertEvent, insertEventSQL, 0},
		{&w.begin, "BEGIN IMMEDIATE", 0},
		{&w.commit, "COMMIT", 0},
		{&w.rollback, "ROLLBACK", 0},
	} {
		if *p.to, err = prepare(w.conn, p.query, p.columns); err != nil {
			return nil, err
		}
	}
	go w.run()
	return w, nil
}

// do queues op and waits for its outcome. If ctx ends first and op has not
// begun, it never will; if it has begun, its outcome is unknown.
func (w *writer) do(ctx context.Context, op *operation) error {
	if ctx.Err() != nil {
		return errNotBegun
	}
	op.result = make(chan struct{})
	select {
	case <-w.closed:
		return errClosed
	default:
	}
	select {
	case w.queue <- op:
	default:
		return store.ErrBusy
	}
	select {
	case <-op.result:
		return op.err
	case <-w.done:
		// The writer has emptied the queue for the last time.
		select {
		case <-op.result:
			return op.err
		default:
			return errClosed
		}
	case <-ctx.Done():
		if op.state.CompareAndSwap(waiting, abandoned) {
			return errNotBegun
		}
		return fmt.Errorf("write of unknown outcome: %w", ctx.Err())
	}
}

var (
	errClosed   = errors.New("store is closed")
	errNotBegun = fmt.Errorf("%w: not begun when the request's time was over", store.ErrBusy)
)

func (w *writer) stop() {
	w.once.Do(func() { close(w.closed) })
	<-w.done
}

func (w *writer) run() {
	defer func() {
		for _, s := range []*statement{w.insertGrant, w.updateGrant, w.selectGrant, w.insertEvent, w.begin, w.commit, w.rollback} {
			s.close()
		}
		w.conn.Close()
		close(w.done)
	}()
	batch := make([]*operation, 0, batchLength)
	for {
		var first *operation
		select {
		case first = <-w.queue:
		case <-w.closed:
			select {
			case first = <-w.queue:
			default:
				return
			}
		}
		batch = batch[:0]
		var admin *operation
		for op := first; op != nil; {
			if op.state.CompareAndSwap(waiting, running) {
				if op.admin != nil {
					admin = op
					break
				}
				batch = append(batch, op)
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
		if admin != nil {
			admin.finish(w.runAdmin(admin.admin))
		}
	}
}

func (op *operation) finish(err error) {
	op.err = err
	close(op.result)
}

// commitBatch applies every operation of the batch in one transaction, and
// answers none before the commit is durable. Operations on one grant see each
// other in the order of the queue. If one fails in another way than losing,
// each is tried again in a transaction of its own, so that it cannot undo its
// neighbours.
func (w *writer) commitBatch(batch []*operation) {
	fail := func(err error) {
		for _, op := range batch {
			op.finish(err)
		}
	}
	if _, err := w.begin.exec(); err != nil {
		fail(fmt.Errorf("begin: %w", err))
		return
	}
	for _, op := range batch {
		op.err = w.apply(op)
		if op.err == nil || errors.Is(op.err, store.ErrConflict) {
			continue
		}
		w.rollback.exec() // fails if SQLite has rolled back by itself
		if len(batch) == 1 {
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
	for _, op := range batch {
		close(op.result)
	}
}

func (w *writer) apply(op *operation) error {
	statement := w.updateGrant
	values := updateValues(op.grant)
	if op.create {
		statement, values = w.insertGrant, insertValues(op.grant)
	}
	affected, err := statement.exec(values...)
	if err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	if affected == 0 {
		row, err := w.selectGrant.queryRow(op.grant.ID[:])
		if err != nil {
			return fmt.Errorf("write grant: %w", err)
		}
		if row != nil && scanGrant(row) == op.grant {
			return nil
		}
		return store.ErrConflict
	}
	for _, e := range op.events {
		if _, err := w.insertEvent.exec(eventValues(e)...); err != nil {
			return fmt.Errorf("write event: %w", err)
		}
	}
	return nil
}

func (w *writer) runAdmin(f func(*sql.Tx) error) error {
	// Not the caller's context: if it ended within the transaction, the
	// connection would be interrupted under the next one's hands.
	tx, err := w.conn.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
