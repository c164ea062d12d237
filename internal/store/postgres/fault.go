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
	errNotBegun = fmt.Errorf("%w: not begun when the request's time was over", store.ErrBusy)
)

// unwritten is a fault that came before anything could be written: the caller
// need not find out what has happened.
func unwritten(err error) error {
	if errors.Is(err, store.ErrBusy) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrBusy, err)
}

// A verdict is what a fault says about a write.
type verdict int

const (
	fine    verdict = iota
	unknown         // it may have happened
	refused         // the server has undone it, and would do so again
	outrun          // another transaction was faster; the server has undone it
	unsent          // it has not reached a server that may write
)

// judge reads a fault. Whatever is not known to have been undone may have
// happened.
func judge(err error) verdict {
	if err == nil {
		return fine
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
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
	case "40001", "40P01": // serialization failure, deadlock
		return outrun
	case "25006": // read-only: a standby, or a primary that is one no more
		return unsent
	case "40003": // statement completion unknown
		return unknown
	}
	switch e.Code[:min(2, len(e.Code))] {
	case "08", "57", "58", "XX": // connections, operators, the system below, bugs
		return unknown
	}
	// The server reports FATAL and ends the session also when it waits for a
	// standby to confirm what is committed already.
	if e.SeverityUnlocalized != "ERROR" {
		return unknown
	}
	return refused
}

// pause waits a while before a transaction that was outrun goes again: a
// random time, so that two of them do not meet again.
func pause(ctx context.Context, try int) {
	longest := time.Millisecond << min(try, 6)
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(longest)):
	}
}

// warningKey is where a connection notes the server's warnings.
const warningKey = "mintage.warning"

// noteWarning keeps a warning for confirmed. The one that matters comes with a
// commit that the server reports although no standby has confirmed it, because
// somebody has cancelled its wait.
func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warningKey] = n.Message
	}
}

// forgetWarning drops a warning that came before a write is begun, and is about
// something else: servers mention at each connection's start that the system has
// changed the order of text, and engines that they ignore a storage parameter.
func forgetWarning(c *pgconn.PgConn) { delete(c.CustomData(), warningKey) }
