package audit

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

// A world is a directory, and Logs that write to it.
type world struct {
	*testing.T
	dir string
	log logged
	mu  sync.Mutex
	now time.Time
}

// logged collects the log lines of Logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// theRing returns a ring with keys for the audit log that become active at the given
// instants, and all rings before it.
func theRing(t testing.TB, activeAt ...time.Time) *keys.Ring {
	rings := rotated(t, append([]time.Time{{}}, activeAt...)...)
	return rings[len(rings)-1]
}

func rotated(t testing.TB, activeAt ...time.Time) (rings []*keys.Ring) {
	t.Helper()
	kek, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	var records []keys.Stored
	add := func(p keys.Purpose, at grant.Instant) {
		r, err := keys.New(kek, p, at, at)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	for _, p := range keys.Purposes {
		add(p, 0)
	}
	for _, at := range activeAt {
		add(keys.Audit, max(0, grant.At(at)))
		ring, err := keys.Open(kek, records)
		if err != nil {
			t.Fatal(err)
		}
		rings = append(rings, ring)
	}
	return rings
}

// by returns options that make MACs with the keys of a ring.
func (o Options) by(ring *keys.Ring) Options {
	o.Keys = func() (*keys.Ring, bool) { return ring, true }
	return o
}

func newWorld(t *testing.T) *world {
	return &world{T: t, dir: filepath.Join(t.TempDir(), "audit"), now: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) step(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) options() Options {
	return Options{Directory: w.dir, Node: "a", Routine: true, Now: w.clock, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
}

// record writes events with a new Log, as a command does.
func (w *world) record(events ...Event) {
	w.Helper()
	w.recordAs(w.options(), events...)
}

func (w *world) recordAs(o Options, events ...Event) {
	w.Helper()
	l := Open(o)
	for _, e := range events {
		l.Record(e)
	}
	if err := l.Close(); err != nil {
		w.Fatal(err)
	}
}

// serve opens the Log of a server that makes MACs, and records its start.
func (w *world) serve() *Log {
	w.Helper()
	o := w.options().by(theRing(w))
	o.Server = true
	l := Open(o)
	w.Cleanup(func() { l.Close() })
	w.put(l, ServerStarted)
	return l
}

// put records an event in an open Log, and waits until it is written.
func (w *world) put(l *Log, name Name) {
	l.Record(Event{Name: name})
	l.Settle(w.Context())
}

// noticesTheRemoval requires that a server's Log knows record 3 as the last one although it
// is gone, and begins another chain.
func (w *world) noticesTheRemoval(l *Log) {
	w.Helper()
	l.Settle(w.Context())
	if h := l.Head(); h.Seq != 3 {
		w.Errorf("after the removal, the last record is %+v", h)
	}
	w.put(l, LoginSucceeded)
	w.breaks(Check{}, "another chain begins here")
}

// logins returns n different events.
func logins(n int) (list []Event) {
	for range n {
		list = append(list, Event{Name: LoginSucceeded, Subject: "alice", RequestID: "1"})
	}
	return list
}

func (w *world) read(f Filter) (list []Entry) {
	w.Helper()
	for e, err := range Read(w.dir, f) {
		if err != nil {
			w.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func (w *world) names() (list []Name) {
	w.Helper()
	for _, e := range w.read(Filter{}) {
		list = append(list, e.Event)
	}
	return list
}

func (w *world) holds(c Check) Verdict {
	w.Helper()
	v, err := c.Verify(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	return v
}

func (w *world) path(number uint64) string { return segmentPath(w.dir, number) }

func (w *world) text(number uint64) []byte {
	w.Helper()
	b, err := os.ReadFile(w.path(number))
	if err != nil {
		w.Fatal(err)
	}
	return b
}

func (w *world) replace(number uint64, text []byte) {
	w.Helper()
	if err := os.WriteFile(w.path(number), text, 0o600); err != nil {
		w.Fatal(err)
	}
}
