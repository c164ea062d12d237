// Package testkit makes the fixtures of most tests: an issuer on the embedded engine, with
// clocks that stand still and a store that fails on demand.
package testkit

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

// Realm is the realm of every kit.
const Realm = "/api"

// A Kit is an Issuer, with everything that it was made of.
type Kit struct {
	*issuer.Issuer
	T testing.TB
	// Faulty wraps Engine for the issuer and the directory. Tests use Engine like another
	// process.
	Faulty *storetest.Faulty
	Engine *sqlite.Store
	Dir    string // data directory of Engine
	KEK    *keys.KEK
	// Clock is the time of day, Uptime the age of the directory.
	Clock, Uptime *Clock
	Logged        *Log
}

// A Setup has what a test can change before its kit is made. The kit sets the issuer's
// Directory afterwards.
type Setup struct {
	issuer.Issuer
	Schedule      keys.Schedule
	Clock, Uptime *Clock
}

// Schedule has no RSA, because generating RSA keys is slow, and no rotation.
func Schedule() keys.Schedule {
	return keys.Schedule{MaxAge: time.Hour, Retention: time.Hour + 6*time.Minute, Algorithms: []keys.Purpose{keys.ES256, keys.EdDSA}}
}

// Started is the instant at which the clocks of a kit stand.
const Started = grant.Instant(1_700_000_000_123)

// New makes a kit that lives until the test ends.
func New(t testing.TB, change ...func(*Setup)) *Kit {
	t.Helper()
	k := &Kit{T: t, Dir: t.TempDir(), KEK: KEK(t), Logged: &Log{}}
	k.Engine = Create(t, k.Dir)
	k.Faulty = storetest.NewFaulty(k.Engine)
	s := Setup{
		Issuer: issuer.Issuer{
			Realm: Realm, Store: k.Faulty,
			Policy:       grant.Policy{AccessLifetime: 5 * time.Minute, RefreshLifetime: 31 * 24 * time.Hour},
			CodeLifetime: time.Minute, Log: slog.New(slog.NewTextHandler(k.Logged, nil)),
		},
		Schedule: Schedule(), Clock: NewClock(), Uptime: NewClock(),
	}
	for _, f := range change {
		f(&s)
	}
	k.Clock, k.Uptime = s.Clock, s.Uptime
	if s.Now == nil {
		s.Now = s.Clock.Now
	}
	var err error
	if s.Issuer.Directory, err = directory.Open(t.Context(), k.Faulty, k.KEK, s.Schedule, s.Issuer.Log, s.Uptime.Now); err != nil {
		t.Fatal(err)
	}
	k.Issuer = issuer.New(s.Issuer)
	return k
}

// Store makes a new store, and a wrapper of it that fails on demand.
func Store(t testing.TB) (*sqlite.Store, *storetest.Faulty) {
	t.Helper()
	st := Create(t, t.TempDir())
	return st, storetest.NewFaulty(st)
}

// Create makes a new store in a directory. It is closed at the end of the test.
func Create(t testing.TB, dir string) *sqlite.Store {
	t.Helper()
	st, err := sqlite.Create(t.Context(), dir)
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

// Raw opens the file of a store like any SQLite program.
func Raw(t testing.TB, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.FileName))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// Tables returns every row of every table of a store.
func Tables(t testing.TB, dir string) string {
	t.Helper()
	db := Raw(t, dir)
	var text strings.Builder
	for _, name := range column(t, db, `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`) {
		columns := column(t, db, `SELECT 'quote("'||name||'")' FROM pragma_table_info('`+name+`')`)
		rows := column(t, db, `SELECT `+strings.Join(columns, `||' '||`)+` AS row FROM "`+name+`" ORDER BY row`)
		fmt.Fprintf(&text, "%s, %d rows\n%s\n", name, len(rows), strings.Join(rows, "\n"))
	}
	return text.String()
}

// column returns the values that a query for one column finds.
func column(t testing.TB, db *sql.DB, query string) (list []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// KEK makes a key-encryption key.
func KEK(t testing.TB) *keys.KEK {
	t.Helper()
	kek, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	return kek
}

// At returns the time of the kit's clock.
func (k *Kit) At() grant.Instant { return grant.At(k.Clock.Now()) }

// View returns the current view of the directory.
func (k *Kit) View() *directory.View {
	k.T.Helper()
	view, err := k.Directory.View()
	if err != nil {
		k.T.Fatal(err)
	}
	return view
}

// Poll makes the directory read all changes.
func (k *Kit) Poll() {
	k.T.Helper()
	if err := k.Directory.Poll(k.T.Context()); err != nil {
		k.T.Fatal(err)
	}
}

// Register registers a client like another process, and polls.
func (k *Kit) Register(r client.Registration) (store.Client, oauth.Secret) {
	k.T.Helper()
	c, secret, err := r.Client(Realm, k.View().Ring, k.Policy, k.At())
	if err != nil {
		k.T.Fatal(err)
	}
	k.commit(store.Change{Entries: []store.Entry{c.Entry()}})
	return c, secret
}

// Client returns a client as it is stored.
func (k *Kit) Client(id string) store.Client {
	k.T.Helper()
	c, err := k.Engine.Client(k.T.Context(), id)
	if err != nil {
		k.T.Fatal(err)
	}
	return c
}

// Administer changes a client like another process, and polls.
func (k *Kit) Administer(id string, change func(*store.Client), cutoffs ...store.Cutoff) {
	k.T.Helper()
	c := k.Client(id).Clone()
	change(&c)
	c.Version++
	k.commit(store.Change{Entries: []store.Entry{c.Entry()}, Cutoffs: cutoffs})
}

// CutOff adds a cutoff like another process, and polls.
func (k *Kit) CutOff(c store.Cutoff) {
	k.T.Helper()
	k.commit(store.Change{Cutoffs: []store.Cutoff{c}})
}

func (k *Kit) commit(c store.Change) {
	k.T.Helper()
	if err := k.Engine.Commit(k.T.Context(), c); err != nil {
		k.T.Fatal(err)
	}
	k.Poll()
}

// A Clock stands still until it is moved. It may be used by several goroutines.
type Clock struct{ now atomic.Int64 }

// NewClock returns a clock that shows Started.
func NewClock() *Clock {
	c := &Clock{}
	c.Set(Started.Time())
	return c
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return time.Unix(0, c.now.Load()) }

// Set makes the clock show t.
func (c *Clock) Set(t time.Time) { c.now.Store(t.UnixNano()) }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.now.Add(int64(d)) }

// A Log keeps all log lines. Several goroutines may use it.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often text occurs in the log.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
