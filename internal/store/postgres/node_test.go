package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

func TestHeartbeatsReturnTheOtherNodes(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	st, other := open(t, url), open(t, url)
	meet := func(st *postgres.Store, self store.Node, want ...store.Node) {
		t.Helper()
		got, err := st.Heartbeat(t.Context(), self)
		slices.SortFunc(got, func(a, b store.Node) int { return strings.Compare(a.Name, b.Name) })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Heartbeat = %+v, %v, want %+v", got, err, want)
		}
	}
	a := store.Node{ID: store.NodeID{1}, Name: "a", Since: base, Clock: base, Forms: 1}
	b := store.Node{ID: store.NodeID{2}, Name: "b", Since: base + 1, Clock: base + 1}
	meet(st, a)
	meet(other, b, a)
	a.Clock += 1000
	meet(st, a, b)
	b.Clock += 1200
	meet(other, b, a)
	// Since follows the node's clock, which was set forward.
	a.Clock, a.Since = a.Clock+5000, a.Since+5000
	meet(st, a, b)
	meet(other, b, a)
	// A node that starts deletes the rows of nodes that have been silent for an hour, or
	// whose clocks were far ahead of its own. It lists them once, because its own clock
	// may be wrong.
	hour := grant.Instant(time.Hour.Milliseconds())
	far := store.Node{ID: store.NodeID{3}, Name: "far", Since: base + 3*hour, Clock: base + 3*hour}
	meet(other, far, a, b)
	far.Clock += 1000
	meet(other, far)
	c := store.Node{ID: store.NodeID{4}, Name: "c", Since: base, Clock: base}
	meet(st, c, far)
	c.Clock += 1000
	meet(st, c)
}

// A node that knows of no other serves at once, so of two that start at the same time, one
// must see the other and compare clocks.
func TestOfTwoNodesThatStartAtOnceOneSeesTheOther(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	stores := []*postgres.Store{open(t, url), open(t, url)}
	for round := range 20 {
		var seen atomic.Int64
		var both sync.WaitGroup
		for n, st := range stores {
			both.Go(func() {
				self := store.Node{ID: store.NodeID{byte(round), byte(n), 1}, Since: base, Clock: base}
				others, err := st.Heartbeat(t.Context(), self)
				if err != nil {
					t.Error(err)
				}
				self.ID[1] ^= 1
				if slices.ContainsFunc(others, func(o store.Node) bool { return o.ID == self.ID }) {
					seen.Add(1)
				}
			})
		}
		if both.Wait(); seen.Load() == 0 {
			t.Fatal("neither saw the other")
		}
	}
}

// The primary is the host of the URL that confirms a write.
func TestHostsThatConfirmNoWriteArePassedOver(t *testing.T) {
	t.Parallel()
	own := ownServer(t)
	database := server.Database(t)
	own.Run(t, "postgres", `CREATE DATABASE `+database)
	host := func(url string) string { return url[strings.Index(url, "@")+1 : strings.LastIndex(url, "/")] }
	url := server.URL(database)
	both := strings.Replace(url, host(url), host(own.URL(database))+","+host(url), 1)

	gone := open(t, strings.Replace(url, host(url), "127.0.0.1:1,"+host(url), 1))
	there, elsewhere := newGrant(1), newGrant(2)
	create(t, gone, there)
	create(t, open(t, own.URL(database)), elsewhere)
	first := open(t, both)
	holds(t, first, elsewhere)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	// An unconfirmed write is the only sign that the first host was replaced.
	for setting, value := range map[string]string{"default_transaction_read_only": "on", "synchronous_standby_names": "absent"} {
		set := func(text, want string) {
			t.Helper()
			own.Run(t, "postgres", `ALTER SYSTEM `+text)
			own.Run(t, "postgres", `SELECT pg_reload_conf()`)
			soon(t, "the setting", func() bool { return own.Run(t, "postgres", `SHOW `+setting) == want })
		}
		before := own.Run(t, "postgres", `SHOW `+setting)
		set(`SET `+setting+` = '`+value+`'`, value)
		t.Run(setting, func(t *testing.T) {
			st, err := postgres.Open(t.Context(), postgres.Database{URL: both})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			holds(t, st, there)
			if _, err := st.Grant(t.Context(), elsewhere.ID); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("what only the other host has: %v, want ErrNotFound", err)
			}
		})
		set(`RESET `+setting, before)
	}
}

func TestThePasswordIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	asked := 0
	fails := errors.New("no password today")
	d := postgres.Database{URL: url, Password: func() (string, error) {
		if asked++; asked > 1 {
			return "", fails
		}
		return "secret", nil
	}}
	st, err := postgres.Create(t.Context(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if asked != 1 {
		t.Errorf("the password function was called %d times for one connection", asked)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	other, err := postgres.Create(ctx, d, nil)
	if err == nil {
		other.Close()
	}
	if !errors.Is(err, fails) {
		t.Errorf("%v, want the error of the password function", err)
	}
}

func TestOpenCreatesNothing(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	st, err := postgres.Open(t.Context(), postgres.Database{URL: url})
	if err == nil {
		st.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "holds no store") {
		t.Errorf("%v, want that there is no store", err)
	}
	if n := server.Run(t, "postgres", `SELECT count(*) FROM pg_class WHERE relnamespace = '`+name+`'::regnamespace`); n != "0" {
		t.Errorf("it made %s objects", n)
	}
	open(t, url)
	if st, err = postgres.Open(t.Context(), postgres.Database{URL: url}); err != nil {
		t.Fatal(err)
	}
	st.Close()
}

// A store whose move was undone while a server ran is no longer valid: the server's
// heartbeat fails.
func TestAHeartbeatReportsThatTheStoreHasMoved(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	st := open(t, url)
	self := store.Node{ID: store.NodeID{1}, Name: "a", Since: base, Clock: base, Forms: 1}
	if _, err := st.Heartbeat(t.Context(), self); err != nil {
		t.Fatal(err)
	}
	server.Run(t, "postgres", `INSERT INTO `+name+`.moves (id, state, source, move, claim, elsewhere, step, position, copied)
		VALUES (1, 'undone', 's', 'm', 'c', 'sqlite:/var/lib/mintage', '', '', 0)`)
	var displaced *store.Displaced
	if _, err := st.Heartbeat(t.Context(), self); !errors.As(err, &displaced) || !strings.Contains(err.Error(), "sqlite:/var/lib/mintage") {
		t.Errorf("%v, want the place of the store that is valid", err)
	}
}
