package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// hosts holds which host of the URL was last confirmed as the primary. Connections
// to any other host are not used: it may have been replaced, and its data may be
// out of date.
type hosts struct {
	last         atomic.Pointer[place]
	epoch        atomic.Int64 // grows when all connections are abandoned
	confirmedFor atomic.Int64 // in nanoseconds
	// unconfirmed is set while a server is to confirm a write, and after it did not
	// do so in time.
	unconfirmed atomic.Bool
}

type place struct {
	host string
	port uint16
}

// An origin is the host of a connection and the epoch in which it was made.
type origin struct {
	place
	epoch int64
}

// originKey is the key of the origin in a connection's custom data.
const originKey = "mintage.origin"

// watch sets the hooks that prepare connections and check them before each use.
func (h *hosts) watch(c *pgxpool.Config) {
	before := c.BeforeConnect
	c.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) error {
		if err := before(ctx, cc); err != nil {
			return err
		}
		h.prepare(cc)
		return nil
	}
	validate := c.ConnConfig.ValidateConnect
	c.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return h.noteConfirmation(func() error { return validate(ctx, conn) })
	}
	c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) { return h.usable(ctx, conn.PgConn()), nil }
	// PrepareConn replaces the ping.
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// noteConfirmation keeps unconfirmed during a confirmation.
func (h *hosts) noteConfirmation(confirm func() error) error {
	h.unconfirmed.Store(true)
	err := confirm()
	h.unconfirmed.Store(errors.Is(err, errUnconfirmed) || errors.Is(err, context.DeadlineExceeded))
	return err
}

// prepare makes a connection try the last confirmed host first: a host before it
// in the URL may be unreachable, or an old primary, and each connection would wait
// for its timeout.
func (h *hosts) prepare(c *pgx.ConnConfig) {
	if last := h.last.Load(); last != nil {
		all := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
		slices.SortStableFunc(all, func(a, b *pgconn.FallbackConfig) int { return last.distance(a) - last.distance(b) })
		c.Host, c.Port, c.TLSConfig, c.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
	}
	epoch := h.epoch.Load()
	// The driver reports only the address that it has connected to, not the host.
	names := map[netip.Addr]string{}
	lookup, after := c.LookupFunc, c.AfterConnect
	c.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		addresses, err := lookup(ctx, host)
		for _, text := range addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				names[a.Unmap()] = host
			}
		}
		return addresses, err
	}
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		var p place // stays empty for a socket in the file system
		if a, err := netip.ParseAddrPort(conn.Conn().RemoteAddr().String()); err == nil {
			p = place{names[a.Addr().Unmap()], a.Port()}
		}
		conn.CustomData()[originKey] = origin{p, epoch}
		h.last.Store(&p)
		return after(ctx, conn)
	}
}

// distance is 0 for the place itself and 1 for others.
func (p place) distance(f *pgconn.FallbackConfig) int {
	if f.Host == p.host && f.Port == p.port {
		return 0
	}
	return 1
}

// current reports whether a connection is to the last confirmed host and was made
// in the present epoch.
func (h *hosts) current(conn *pgconn.PgConn) bool {
	o, _ := conn.CustomData()[originKey].(origin)
	return o == origin{*h.last.Load(), h.epoch.Load()}
}

// abandon closes all connections; those in use when they are released. It is called when
// one connection has broken or hangs: the server may have been replaced, and the other
// connections are to the same server.
func (s *Store) abandon() {
	s.hosts.epoch.Add(1)
	s.pool.Reset()
}

// Unverified lists the hosts of a URL whose connections are not encrypted or not
// authenticated, so that an attacker on the network could impersonate them. Sockets
// and loopback addresses are not listed.
func Unverified(d Database) (list []string, err error) {
	c, err := settings(d)
	if err != nil {
		return nil, err
	}
	note := func(host string, port uint16, t *tls.Config) {
		network, address := pgconn.NetworkAddress(host, port)
		verified := t != nil && (!t.InsecureSkipVerify || t.VerifyConnection != nil || t.VerifyPeerCertificate != nil)
		if network == "tcp" && !verified && !isLoopback(host) && !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	first := c.ConnConfig
	note(first.Host, first.Port, first.TLSConfig)
	for _, f := range first.Fallbacks {
		note(f.Host, f.Port, f.TLSConfig)
	}
	return list, nil
}
