package postgres_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
	"github.com/mintage/mintage/internal/store/storetest"
)

// silent is a host that accepts connections and never answers, like a machine that hangs.
// asked counts the connections.
func silent(t *testing.T) (address string, asked *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	asked = &atomic.Int64{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return l.Addr().String(), asked
}

// pair starts two proxies to the server, which act as two hosts of one URL.
func pair(t *testing.T) (first, second *pgtest.Proxy, hosts string) {
	t.Helper()
	for _, p := range []**pgtest.Proxy{&first, &second} {
		var err error
		if *p, err = pgtest.StartProxy(server.Address()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*p).Close() })
	}
	return first, second, first.Address() + "," + second.Address()
}

func TestConnectionsBeginWithTheHostThatServedLast(t *testing.T) {
	t.Parallel()
	dead, asked := silent(t)
	first, second, hosts := pair(t)
	_, url := server.Schema(t, "connect_timeout=2", "target_session_attrs=read-write")
	st := open(t, strings.Replace(url, server.Address(), dead+","+hosts, 1))
	if asked.Load() == 0 {
		t.Error("the first host of the URL was not tried first")
	}
	g := newGrant(1)
	create(t, st, g)
	known := asked.Load()
	replace := func() {
		t.Helper()
		g = rotated(g, g.Attempt+1)
		if err := storetest.Replace(t.Context(), st, g); err != nil {
			t.Errorf("an operation that needs a new connection: %v", err)
		}
		holds(t, st, g)
	}
	// If a connection is being made when the line breaks, the attempt continues with the
	// next host, which then counts as the host that served last.
	settle := func() {
		for st.Connecting() {
			runtime.Gosched()
		}
	}
	const times = 4
	// On a busy machine an attempt may time out and go on to the next host.
	spared := func() {
		t.Helper()
		if n := asked.Load() - known; n > times/2 {
			t.Errorf("the host that does not answer was tried %d times for %d new connections", n, times)
		}
	}
	for range times {
		settle()
		first.Sever()
		replace()
	}
	spared()
	settle()
	known = asked.Load()
	// The host that served last is gone: all others are tried, in order.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	replace()
	if n := asked.Load(); n == known {
		t.Error("the first host of the URL was not tried again")
	}
	settle()
	known = asked.Load()
	for range times {
		settle()
		second.Sever()
		replace()
	}
	spared()
}

// occupied makes a store open all its connections, each for an operation that waits until
// release is called.
func occupied(t *testing.T, st *postgres.Store, database string) (release func()) {
	t.Helper()
	server.Run(t, database, `CREATE TABLE enough (row BIGINT)`)
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		server.Run(t, database, `DO $$ BEGIN
			LOCK TABLE secret_uses;
			WHILE NOT EXISTS (SELECT FROM enough) LOOP PERFORM pg_sleep(0.02); END LOOP;
		END $$`)
	}()
	soon(t, "the lock", func() bool {
		return server.Run(t, database, `SELECT count(*) FROM pg_locks WHERE relation = 'secret_uses'::regclass AND mode = 'AccessExclusiveLock' AND granted`) == "1"
	})
	var working sync.WaitGroup
	for range postgres.Connections {
		working.Go(func() {
			if err := st.NoteSecretUses(t.Context(), map[string]grant.Instant{"secret": base}); err != nil {
				t.Error(err)
			}
		})
	}
	soon(t, "operations that wait", func() bool {
		return server.Run(t, database, `SELECT count(*)`+others+`wait_event_type = 'Lock'`) == fmt.Sprint(postgres.Connections)
	})
	return func() {
		server.Run(t, database, `INSERT INTO enough VALUES (1)`)
		<-locked
		working.Wait()
	}
}

// A standby may have replaced the first host, whose data is then outdated: a heartbeat
// that was confirmed by another host must invalidate all connections to the first.
func TestConnectionsToAnotherHostThanTheLatestAreNotUsed(t *testing.T) {
	t.Parallel()
	first, _, hosts := pair(t)
	database := server.Database(t)
	st := open(t, strings.Replace(server.URL(database, "connect_timeout=60"), server.Address(), hosts, 1))
	create(t, st, newGrant(1))
	first.Target("127.0.0.1:1") // open connections stay, and new ones fail
	occupied(t, st, database)()
	first.Cut()
	defer first.Heal() // otherwise closing the store would wait for the cut connections
	var reading sync.WaitGroup
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	for range postgres.Connections {
		reading.Go(func() {
			if _, err := st.Changes(ctx, 0); err != nil {
				t.Error(err)
			}
		})
	}
	reading.Wait()
	if d := time.Since(began); d > 40*time.Second {
		t.Errorf("it took %v: an operation used the first host", d)
	}
}

func TestAServerThatHangsCostsOneAttempt(t *testing.T) {
	t.Parallel()
	first, _, hosts := pair(t)
	database := server.Database(t)
	st := open(t, strings.Replace(server.URL(database, "connect_timeout=3"), server.Address(), hosts, 1))
	occupied(t, st, database)()
	first.Cut()
	defer first.Heal() // otherwise closing the store would wait for the cut connections
	self := store.Node{Name: "a", Since: base, Clock: base + 1}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := st.Heartbeat(ctx, self); err == nil {
		t.Error("a write was confirmed over a line that is cut")
	}
	// None of the old connections is tried, however many there are.
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := st.Heartbeat(ctx, self); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
}
