package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// trust is how long the server of a connection is believed after it has
	// confirmed a write.
	trust = 4 * time.Second
	// confirmTime bounds a confirmation on a connection that stands.
	confirmTime = 2 * time.Second

	// touchSQL is a write for its own sake. Its rows are several, so that those
	// who begin at once need not wait for one another.
	touchSQL = `UPDATE pulse SET beats = beats + 1 WHERE id = %d`
	pulses   = 16
)

// confirmPrimary has the server of a connection make a durable write, before
// anything that it says is believed. A standby refuses. A primary that has been
// replaced waits in vain for a standby to confirm the write. And what a primary
// shows after a crash, it may have lost to a standby that is about to be
// promoted, if its clients were not answered: once a later write is confirmed,
// all of it is.
func confirmPrimary(ctx context.Context, conn *pgconn.PgConn) error {
	forgetWarning(conn)
	for races := 0; ; races++ {
		_, err := conn.Exec(ctx, fmt.Sprintf(touchSQL, rand.IntN(pulses))).ReadAll()
		var server *pgconn.PgError
		switch {
		case err == nil:
			return confirmed(conn)
		case errors.As(err, &server) && (server.Code == "42P01" || server.Code == "42703"): // no such table, no such column
			return nil // there is no store: there is nothing to believe
		case judge(err) != outrun || ctx.Err() != nil:
			return err
		}
		pause(ctx, races)
	}
}

// confirmedKey is where a connection notes when its server has last confirmed a
// write.
const confirmedKey = "mintage.confirmed"

// confirmed notes that a write was confirmed, or is the error of a commit that
// came with a warning: that one would be lost with the primary, and nobody may
// be told that it is done.
func confirmed(c *pgconn.PgConn) error {
	if text, warned := c.CustomData()[warningKey]; warned {
		forgetWarning(c)
		return fmt.Errorf("commit of unknown durability: %v", text)
	}
	c.CustomData()[confirmedKey] = time.Now()
	return nil
}

// usable reports whether a connection may be used: it leads to the server that
// was confirmed last, and that one has confirmed a write lately, or does so now.
// Behind one address there may be another server than there was.
func (h *hosts) usable(ctx context.Context, conn *pgconn.PgConn) bool {
	if conn.IsClosed() || !h.current(conn) {
		return false
	}
	if at, noted := conn.CustomData()[confirmedKey].(time.Time); noted && time.Since(at) < time.Duration(h.trust.Load()) {
		return true
	}
	now, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	err := confirmPrimary(now, conn)
	if err != nil && ctx.Err() == nil {
		h.epoch.Add(1) // the others lead there, too
	}
	return err == nil
}
