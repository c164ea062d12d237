package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mintage/mintage/internal/store"
)

// abortTime limits a rollback.
const abortTime = time.Second

// transact runs f in a transaction, and again after a serialization failure. f may
// run several times; its last run counts.
func (s *Store) transact(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	if ctx.Err() != nil {
		return errNotBegun
	}
	for races, fresh := 0, false; ; {
		err := s.once(ctx, f)
		if errors.Is(err, store.ErrConflict) {
			s.note(nil)
			return err
		}
		switch v := judge(err); {
		case v == outrun && ctx.Err() == nil:
			pause(ctx, races)
			races++
			continue
		case v == unsent && !fresh && ctx.Err() == nil && !s.closed.Load():
			s.abandon()
			fresh = true
			continue
		case v == outrun || v == unsent:
			err = unwritten(err)
		}
		err = transient(err)
		if judge(err) != refused || diskFailed(err) {
			s.note(err)
		}
		return err
	}
}

// once runs f in one transaction, as commit does, on a connection of the pool.
func (s *Store) once(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// A cancelled context does not imply a fault of the server.
		if conn.Conn().IsClosed() && !errors.Is(ctx.Err(), context.Canceled) {
			s.abandon()
		}
		conn.Release()
	}()
	return commit(ctx, conn, func(tx pgx.Tx) error { return f(ctx, tx) })
}

// commit runs f in one transaction on a connection. The error of the commit is returned
// unchanged, because its outcome may be unknown; earlier errors are unwritten.
func commit(ctx context.Context, conn *pgxpool.Conn, f func(tx pgx.Tx) error) error {
	tx, err := conn.Begin(ctx)
	if err == nil {
		err = f(tx)
	}
	if err == nil {
		if err = tx.Commit(ctx); err == nil {
			err = confirmed(conn.Conn().PgConn())
		}
		return err
	}
	if tx != nil {
		abort(ctx, tx)
	}
	if judge(err) == unknown && !errors.Is(err, store.ErrConflict) {
		return unwritten(err) // the commit was not sent
	}
	return err
}

// abort rolls tx back, unless it was committed. If that fails, the driver closes
// the connection, which ends the transaction.
func abort(ctx context.Context, tx pgx.Tx) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	_ = tx.Rollback(last)
}

// reading runs f, which only reads. It runs f again after a serialization failure,
// which a read can have if transactions are serializable, and once more if the
// connection was dead.
func (s *Store) reading(ctx context.Context, f func() error) error {
	for races, fresh := 0, false; ; {
		err := f()
		switch v := judge(err); {
		case ctx.Err() != nil || s.closed.Load():
			return err
		case v == outrun:
			pause(ctx, races)
			races++
		case v == unknown && !fresh && !errors.Is(err, store.ErrNotFound):
			s.abandon()
			fresh = true
		default:
			return err
		}
	}
}
