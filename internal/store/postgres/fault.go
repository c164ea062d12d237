package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mintage/mintage/internal/store"
)

var (
	errClosed   = errors.New("store is closed")
	errNotBegun = fmt.Errorf("%w: timed out or canceled before the operation began", store.ErrBusy)
)

// notWritten is the error of an operation that failed before anything was written. It wraps
// store.ErrBusy, because the outcome is known.
type notWritten struct{ error }

func (e notWritten) Error() string   { return "nothing was written: " + e.error.Error() }
func (e notWritten) Unwrap() []error { return []error{store.ErrBusy, e.error} }

func unwritten(err error) error {
	if errors.Is(err, store.ErrBusy) {
		return err
	}
	return notWritten{err}
}

// transient wraps an error in store.ErrUnavailable, unless another attempt would fail
// as well: the server cannot be reached, is shutting down, answers too late, or has no
// space.
func transient(err error) error {
	if v := judge(err); v == fine || v == refused && !diskFailed(err) || store.Interrupted(err) {
		return err
	}
	return store.Unavailable(oneLine{err})
}

// A verdict is what an error implies about a write.
type verdict int

const (
	fine    verdict = iota
	unknown         // it may have been committed
	refused         // rolled back; another attempt would fail as well
	outrun          // rolled back because of a concurrent transaction
	unsent          // it has not reached the primary
)

// judge classifies an error. A write is unknown unless it was surely rolled back.
func judge(err error) verdict {
	if err == nil {
		return fine
	}
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		if v := judgeAnswer(server); v != unknown {
			return v
		}
	}
	if errors.Is(err, store.ErrBusy) || pgconn.SafeToRetry(err) {
		return unsent
	}
	return unknown
}

func judgeAnswer(e *pgconn.PgError) verdict {
	switch e.Code {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock timeout
		return outrun
	case "25006": // read-only: a standby, or a demoted primary
		return unsent
	case "40003": // statement completion unknown
		return unknown
	}
	switch e.Code[:min(2, len(e.Code))] {
	case "08", "57", "58", "XX": // connection, operator intervention, operating system, internal error
		return unknown
	}
	// FATAL also ends a session that has committed and waits for a standby to
	// confirm the commit.
	if e.SeverityUnlocalized != "ERROR" {
		return unknown
	}
	return refused
}

// pause waits for a random time (exponential backoff with jitter) before a
// transaction is tried again.
func pause(ctx context.Context, try int) {
	longest := time.Millisecond << min(try, 6)
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(longest)):
	}
}

// warningKey is the key of the last warning in a connection's custom data.
const warningKey = "mintage.warning"

// noteWarning keeps a warning for confirmed. A server warns if it reports a commit
// that no standby has confirmed, because the wait was cancelled.
func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warningKey] = n.Message
	}
}

// forgetWarning drops an earlier warning before a write. Servers also warn, for
// example, about a changed collation version or an ignored storage parameter.
func forgetWarning(c *pgconn.PgConn) { delete(c.CustomData(), warningKey) }
