package postgres

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// hosts knows which host of the URL was confirmed as the primary last, and with
// it which connections may be used. One to another host may lead to a server
// that has been replaced: what it has confirmed before, and can still be read
// there, is out of date.
type hosts struct {
	last  atomic.Pointer[place]
	epoch atomic.Int64 // grows when all connections are given up
	trust atomic.Int64 // in nanoseconds
}

type place struct {
	host string
	port uint16
}

// An origin is to where and when a connection was made.
type origin struct {
	place
	epoch int64
}

// originKey is where a connection notes its origin.
const originKey = "mintage.origin"

// watch has the connections of a pool prepared, and checked before each use.
func (h *hosts) watch(c *pgxpool.Config) {
	before := c.BeforeConnect
	c.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) error {
		if err := before(ctx, cc); err != nil {
			return err
		}
		h.prepare(cc)
		return nil
	}
	c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) { return h.usable(ctx, conn.PgConn()), nil }
	// Which is more than a ping, and comes before it.
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// prepare has a connection begin with the host that was confirmed last: another
// one before it in the URL may be out of reach, or not know that it has been
// replaced, and each connection would wait for it anew.
func (h *hosts) prepare(c *pgx.ConnConfig) {
	if last := h.last.Load(); last != nil {
		all := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
		slices.SortStableFunc(all, func(a, b *pgconn.FallbackConfig) int { return last.distance(a) - last.distance(b) })
		c.Host, c.Port, c.TLSConfig, c.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
	}
	epoch := h.epoch.Load()
	// The driver does not tell which host it has connected to, only the address.
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

// current reports whether a connection leads to the server that was confirmed
// last, and is from after the last fault.
func (h *hosts) current(conn *pgconn.PgConn) bool {
	o, _ := conn.CustomData()[originKey].(origin)
	return o == origin{*h.last.Load(), h.epoch.Load()}
}

// abandon gives up all connections, also those that are in use, when their users
// are done with what they have begun. It is for a connection that breaks or
// hangs: the server may have been replaced, and the others would lead there
// still.
func (s *Store) abandon() {
	s.hosts.epoch.Add(1)
	s.pool.Reset()
}
