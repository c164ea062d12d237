package postgres

import (
	"context"
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
	// connections of one node, unless the URL says otherwise: one for each lane,
	// and some for what goes apart.
	connections = 12
	// connectTime bounds the attempt to reach one host of the URL, unless the
	// URL says otherwise, and to have it confirm a write.
	connectTime = 3 * time.Second
)

// keepAlive finds out within ten seconds that a host is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}

// settings reads a URL. What it leaves open is chosen so that every pooler can
// stand between: pgbouncer knows no prepared statements before version 1.21 in
// transaction mode, and refuses settings of a session.
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
	if !query.Has("default_query_exec_mode") {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connectTime
	}
	c.ConnConfig.OnNotice = noteWarning
	suitable := c.ConnConfig.ValidateConnect // by target_session_attrs
	c.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if suitable != nil {
			if err := suitable(ctx, conn); err != nil {
				return err
			}
		}
		return confirmPrimary(ctx, conn)
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

var errNoCancel = errors.New("statements are not cancelled")

// dialer makes the functions of one connection. Once it stands, nothing more is
// dialled for it, and that is the point: when a context ends, the driver would
// ask the server to cancel the statement. A cancelled statement that is
// committed and waits for a standby becomes visible to others at once, and they
// would be answered on the strength of what may yet be lost.
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

// explain says what an operator can do about a fault at the start.
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
			hint = ": the user must own the schema, or be allowed to create tables in it"
		case "25006":
			hint = ": this server is a standby; name the primary's host, too"
		case "53300":
			hint = ": the server has no connection left; lower pool_max_conns, or use a pooler"
		}
	case errors.As(err, &refusal):
		hint = ": is the server running, and can it be reached from here?"
	}
	return fmt.Errorf("open store: %w%s", oneLine{err}, hint)
}

// oneLine is an error whose text has no line breaks: the driver lists the
// attempts on each host in lines of their own.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e oneLine) Unwrap() error { return e.error }
