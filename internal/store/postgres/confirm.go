package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// confirmedFor is how long a connection's server counts as the primary after it has
	// confirmed a write.
	confirmedFor = 4 * time.Second
	// confirmTime limits a confirmation on an existing connection.
	confirmTime = 2 * time.Second

	// touchSQL is a write that only proves that the server can commit. There are
	// several rows, so that concurrent confirmations rarely wait for one lock.
	touchSQL = `UPDATE pulse SET beats = beats + 1 WHERE id = %d`
	pulses   = 16
)

// confirmPrimary makes a durable write on a connection before anything is read
// from its server (fencing). A standby rejects the write. A primary that was
// replaced waits in vain for a standby to confirm it. And a primary that restarted
// after a crash may show commits that no standby has: once a later write is
// confirmed, they are confirmed as well.
func confirmPrimary(ctx context.Context, conn *pgconn.PgConn) error {
	forgetWarning(conn)
	for races := 0; ; races++ {
		_, err := conn.Exec(ctx, fmt.Sprintf(touchSQL, rand.IntN(pulses))).ReadAll()
		var server *pgconn.PgError
		switch {
		case err == nil:
			return confirmed(conn)
		case errors.As(err, &server) && (server.Code == "42P01" || server.Code == "42703"): // no such table, no such column
			return nil // there is no store yet
		case judge(err) != outrun || ctx.Err() != nil:
			return err
		}
		pause(ctx, races)
	}
}

// confirmedKey is the key of the instant, in a connection's custom data, at which
// its server last confirmed a write.
const confirmedKey = "mintage.confirmed"

// confirmed records that a write was confirmed. It returns an error for a commit
// with a warning: no standby has it, so it must not be acknowledged.
func confirmed(c *pgconn.PgConn) error {
	if text, warned := c.CustomData()[warningKey]; warned {
		forgetWarning(c)
		return fmt.Errorf("commit of unknown durability: %v", text)
	}
	c.CustomData()[confirmedKey] = time.Now()
	return nil
}

// usable reports whether a connection may be used: its host is the last one that
// was confirmed, and it has confirmed a write recently or does so now. Another
// server may have taken over the address.
func (h *hosts) usable(ctx context.Context, conn *pgconn.PgConn) bool {
	if conn.IsClosed() || !h.current(conn) {
		return false
	}
	if at, noted := conn.CustomData()[confirmedKey].(time.Time); noted && time.Since(at) < time.Duration(h.confirmedFor.Load()) {
		return true
	}
	now, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	err := h.noteConfirmation(func() error { return confirmPrimary(now, conn) })
	if err != nil && ctx.Err() == nil {
		h.epoch.Add(1) // other connections are to the same server
	}
	return err == nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
