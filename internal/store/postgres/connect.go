package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connections is the default of pool_max_conns: one for each lane, and some
	// for other operations.
	connections = 12
	// connectTime is the default time limit of connecting to one host of the URL
	// and confirming that it is the primary.
	connectTime = 3 * time.Second
)

// keepAlive detects a lost host within ten seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}

// settings parses a URL. The defaults work through every connection pooler:
// pgbouncer before version 1.21 has no prepared statements in transaction mode,
// and rejects session settings. Without a pooler, statements of batches are prepared;
// see prepares.
func settings(d Database) (*pgxpool.Config, error) {
	given, err := url.Parse(d.URL)
	if err != nil || given.Scheme != "postgres" && given.Scheme != "postgresql" {
		// Not err itself, which quotes the password.
		return nil, errors.New("the store's URL must look like postgres://user@host:5432/database")
	}
	c, err := pgxpool.ParseConfig(d.URL)
	if err != nil {
		return nil, err
	}
	query := given.Query()
	if !query.Has("pool_max_conns") {
		c.MaxConns = connections
	}
	chosen := query.Has("default_query_exec_mode")
	if !chosen {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	c.ConnConfig.ConnectTimeout = cmp.Or(c.ConnConfig.ConnectTimeout, connectTime)
	c.ConnConfig.OnNotice = noteWarning
	suitable := c.ConnConfig.ValidateConnect // by target_session_attrs
	c.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if suitable != nil {
			if err := suitable(ctx, conn); err != nil {
				return err
			}
		}
		err := confirmPrimary(ctx, conn)
		if errors.Is(err, context.DeadlineExceeded) {
			// Not wrapped: the driver replaces an error that holds a timeout.
			err = fmt.Errorf("%w: %v", errUnconfirmed, err)
		}
		if err == nil && !chosen {
			err = noteDirect(ctx, conn)
		}
		return err
	}
	c.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) (err error) {
		cc.DialFunc, cc.AfterConnect = dialer()
		if d.Password != nil {
			cc.Password, err = d.Password()
		}
		return err
	}
	return c, nil
}

// directKey marks, in its custom data, a connection to the server itself.
const directKey = "mintage.direct"

const backendSQL = `SELECT pg_backend_pid()`

// noteDirect marks a connection without a pooler in between: the process id that the driver
// received when it connected is that of the server's process. A pooler sends a number of its
// own, by which it finds the statement of a cancel request. If an engine rejects the query,
// its connections are not marked.
func noteDirect(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, backendSQL).ReadAll()
	if refused := new(pgconn.PgError); errors.As(err, &refused) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(results) == 1 && len(results[0].Rows) == 1 && string(results[0].Rows[0][0]) == fmt.Sprint(conn.PID()) {
		conn.CustomData()[directKey] = true
	}
	return nil
}

// prepares reports whether statements on a connection are prepared by name: the server
// then parses each of them once, and plans it a few times. Through a pooler, the next
// statement may reach a server connection on which the name is not prepared.
func prepares(conn *pgx.Conn) bool {
	_, direct := conn.PgConn().CustomData()[directKey]
	return direct
}

var errNoCancel = errors.New("statements are not cancelled")

// dialer returns the DialFunc and the AfterConnect of one connection. Once connected, the
// DialFunc fails, so that the driver cannot send a cancel request when a context ends: a
// cancelled statement that is committed locally and waits for a standby becomes visible at
// once, and responses would depend on data that may yet be lost.
func dialer() (pgconn.DialFunc, pgconn.AfterConnectFunc) {
	var stands atomic.Bool
	d := net.Dialer{KeepAliveConfig: keepAlive}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if stands.Load() {
			return nil, errNoCancel
		}
		return d.DialContext(ctx, network, address)
	}
	return dial, func(context.Context, *pgconn.PgConn) error {
		stands.Store(true)
		return nil
	}
}

// errUnconfirmed is the error of a server that can be reached, but is not known to be
// the primary.
var errUnconfirmed = errors.New("the server did not confirm a write in time")

// explain adds what an operator can do about an error at the start.
func explain(err error) error {
	hint := ""
	var server *pgconn.PgError
	var refusal *pgconn.ConnectError
	switch {
	case errors.As(err, &server):
		switch server.Code {
		case "28000", "28P01":
			hint = ": check the user and the password, and pg_hba.conf"
		case "3D000":
			hint = ": create the database first: createdb --owner=USER NAME"
		case "3F000", "42501":
			hint = ": the user needs SELECT, INSERT, UPDATE and DELETE on the tables; at the first start, and after an upgrade, it must own the schema and its tables"
		case "25006":
			hint = ": this server is a standby, or default_transaction_read_only is on; name the primary's host, too, or turn that off for the user"
		case "53300":
			hint = ": the server has no connection left; lower pool_max_conns, or use a pooler"
		}
	case errors.Is(err, errUnconfirmed):
		hint = ": does it wait for a synchronous standby that is not connected (pg_stat_replication)?"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		hint = ": use the host name in the server's certificate, and set sslrootcert to the authority that issued it"
	case errors.As(err, &refusal) && strings.Contains(err.Error(), "server refused TLS connection"):
		hint = ": the server does not support TLS, which sslmode requires: set ssl = on there"
	case errors.As(err, &refusal):
		hint = ": is the server running, and can it be reached from here?"
	}
	return fmt.Errorf("open store: %w%s", oneLine{err}, hint)
}

// oneLine removes line breaks from the text of an error: the driver lists the
// attempts for each host in separate lines.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e oneLine) Unwrap() error { return e.error }
