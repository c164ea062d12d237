package postgres_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/storetest"
)

const base grant.Instant = 1_700_000_000_000

func open(t testing.TB, url string) *postgres.Store {
	t.Helper()
	st, err := postgres.Create(t.Context(), postgres.Database{URL: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// fresh opens a store in a database of its own.
func fresh(t testing.TB) (st *postgres.Store, database string) {
	t.Helper()
	database = server.Database(t)
	return open(t, server.URL(database)), database
}

var newGrant, rotated = storetest.Everyday, storetest.Refreshed

func create(t testing.TB, st *postgres.Store, list ...grant.Grant) {
	t.Helper()
	for _, g := range list {
		if err := st.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
}

func holds(t testing.TB, st *postgres.Store, g grant.Grant) {
	t.Helper()
	if got, err := st.Grant(t.Context(), g.ID); err != nil || got != g {
		t.Errorf("Grant = %+v, %v; want %+v", got, err, g)
	}
}

func absent(t testing.TB, st *postgres.Store, g grant.Grant) {
	t.Helper()
	if _, err := st.Grant(t.Context(), g.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Grant: %v, want ErrNotFound", err)
	}
}

// soon polls until the condition seen is true of an event outside this process, and fails
// the test after a minute.
func soon(t testing.TB, what string, seen func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for pause := time.Microsecond; !seen(); pause = min(2*pause, 5*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not seen: %s", what)
		}
		time.Sleep(pause)
	}
}

// withTLS returns the address of a server that accepts TLS with an untrusted certificate.
func withTLS(t testing.TB) string {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	t.Cleanup(s.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err = io.ReadFull(c, make([]byte, 8)); err == nil { // SSLRequest
				_, err = c.Write([]byte("S"))
			}
			if err == nil {
				_ = tls.Server(c, s.TLS).Handshake()
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestAnErrorAtTheStartSaysWhatToDoAndNoPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		server.URL("nowhere"): "createdb",
		"postgres://mintage:s3cret@127.0.0.1:1/mintage?sslmode=disable":                      "is the server running",
		strings.ReplaceAll(server.URL("postgres"), "sslmode=disable", "sslmode=verify-full"): "the server does not support TLS",
		"postgres://mintage:s3cret@" + withTLS(t) + "/mintage?sslmode=verify-full":           "set sslrootcert to the authority",
		"postgres://mintage:s3cret@127.0.0.1:port/mintage":                                   "must look like postgres://",
		"mysql://mintage:s3cret@127.0.0.1/mintage":                                           "must look like postgres://",
		"postgres://mintage:s3cret@127.0.0.1/mintage?sslmode=nonsense":                       "sslmode",
		"postgres://mintage:s3cret@127.0.0.1/mintage?pool_max_conns=several":                 "pool_max_conns",
	} {
		st, err := postgres.Create(t.Context(), postgres.Database{URL: url}, nil)
		if err == nil {
			st.Close()
			t.Errorf("%s was opened", url)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
		if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q quotes the password, or has several lines", err)
		}
	}
}

func TestAnEventsTextNeverKeepsAGrantFromBeingRevoked(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	st := open(t, url)
	g := newGrant(1)
	create(t, st, g)
	next := rotated(g, 2)
	next.State, next.Reason = grant.Revoked, grant.ReasonRefreshReplayed
	e := store.Event{At: base, Name: store.EventRefreshReplayed, About: g.ID.String(), Actor: "a\x00b", Detail: "from \xff\xfe, \x00"}
	if err := storetest.Replace(t.Context(), st, next, e); err != nil {
		t.Fatal(err)
	}
	holds(t, st, next)
	list, err := st.Events(t.Context(), e.About, 10)
	if err != nil || len(list) != 1 || list[0].Actor != "a\ufffdb" || list[0].Detail != "from \ufffd, \ufffd" {
		t.Errorf("events %+v, %v", list, err)
	}
}

func TestASmallPoolIsEnough(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t, "pool_max_conns=1")
	st := open(t, url)
	errs := make(chan error)
	for n := range 40 {
		go func() {
			g := newGrant(uint64(n))
			err := st.CreateGrant(t.Context(), g)
			if err == nil {
				err = storetest.Replace(t.Context(), st, rotated(g, 7))
			}
			if err == nil {
				err = st.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: fmt.Sprint(n), At: base}}})
			}
			if err == nil {
				_, err = st.Changes(t.Context(), 0)
			}
			errs <- err
		}()
	}
	for range 40 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Each change is returned by exactly one poll: a node adds every key that it receives to
// its ring.
func TestAChangeOfTheDirectoryIsReturnedOnce(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	writer, reader := open(t, url), open(t, url)
	const rounds = 80
	added := make(chan error, 1)
	go func() {
		added <- func() error {
			for n := range rounds {
				ch, err := writer.Changes(t.Context(), 0)
				if err != nil {
					return err
				}
				record := keys.Stored{ID: grant.KeyID(n + 1), Purpose: keys.MAC, CreatedAt: base, ActiveAt: base, Wrapped: []byte{1}}
				if err := writer.Commit(t.Context(), store.Change{Expect: ch.Version, Keys: []keys.Stored{record}}); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	heard := map[grant.KeyID]int{}
	for since, done := int64(0), false; ; {
		ch, err := reader.Changes(t.Context(), since)
		if err != nil {
			t.Fatal(err)
		}
		since = ch.Version
		for _, r := range ch.Keys {
			heard[r.ID]++
		}
		if done {
			break
		}
		select {
		case err := <-added:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
	}
	for n := range rounds {
		if times := heard[grant.KeyID(n+1)]; times != 1 {
			t.Errorf("key %d was returned %d times", n+1, times)
		}
	}
}
