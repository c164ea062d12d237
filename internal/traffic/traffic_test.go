package traffic_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
	"github.com/mintage/mintage/internal/traffic"
)

// A process counts; the test sets its clock and totals.
type process struct {
	*traffic.Recorder
	totals map[string]uint64
}

func start(st store.Store, now *time.Time) *process {
	p := &process{totals: map[string]uint64{}}
	p.Recorder = traffic.New(st, func() map[string]uint64 { return maps.Clone(p.totals) }, func() time.Time { return *now })
	return p
}

// failing makes writes fail, before or after they are applied.
type failing struct {
	store.Store
	before, after bool
}

var errLost = errors.New("lost")

func (f *failing) Commit(ctx context.Context, c store.Change) error {
	if f.before {
		return errLost
	}
	err := f.Store.Commit(ctx, c)
	if f.after && err == nil {
		err = errLost
	}
	return err
}

func total(t *testing.T, r *traffic.Recorder, name string, of, step time.Duration) (n uint64) {
	t.Helper()
	s, err := r.Sum(t.Context(), of, step)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Of[name]) != int(of/step) {
		t.Fatalf("%d steps", len(s.Of[name]))
	}
	for _, v := range s.Of[name] {
		n += v
	}
	return n
}

// The counts of two nodes are added, and those of an earlier process survive a restart.
func TestNodesAndRestartsAddUp(t *testing.T) {
	st := testkit.Create(t, t.TempDir())
	now := time.Date(2026, 11, 25, 9, 57, 0, 0, time.UTC)
	a, b := start(st, &now), start(st, &now)
	a.totals["requests"], b.totals["requests"] = 7, 5
	a.totals["invalid_grant"] = 2
	for _, p := range []*process{a, b} {
		if err := p.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a.totals["requests"] = 9 // not stored yet
	if n := total(t, a.Recorder, "requests", time.Hour, traffic.Step); n != 14 {
		t.Errorf("seen by a: %d requests", n)
	}
	if n := total(t, b.Recorder, "requests", time.Hour, traffic.Step); n != 12 {
		t.Errorf("seen by b: %d requests", n)
	}
	now = now.Add(10 * time.Minute) // another block
	if err := a.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := start(st, &now)
	c.totals["requests"] = 1
	for of, step := range map[time.Duration]time.Duration{time.Hour: traffic.Step, 24 * time.Hour: traffic.Step, 7 * 24 * time.Hour: time.Hour} {
		if n := total(t, c.Recorder, "requests", of, step); n != 15 {
			t.Errorf("in %s: %d requests", of, n)
		}
	}
	if n := total(t, c.Recorder, "invalid_grant", time.Hour, traffic.Step); n != 2 {
		t.Errorf("%d errors", n)
	}
	s, err := c.Sum(t.Context(), time.Hour, traffic.Step)
	if err != nil || !s.From.Equal(time.Date(2026, 11, 25, 9, 10, 0, 0, time.UTC)) || s.Of["requests"][9] != 14 || s.Of["requests"][11] != 1 {
		t.Errorf("%v from %s, %v", s.Of["requests"], s.From, err)
	}
	now = now.Add(7 * 24 * time.Hour)
	if n := total(t, c.Recorder, "requests", 7*24*time.Hour, time.Hour); n != 0 {
		t.Errorf("a week later: %d requests", n)
	}
}

// A failed write is repeated, whether it was applied or not.
func TestAFailedWriteIsMadeAgain(t *testing.T) {
	now := time.Date(2026, 11, 25, 9, 57, 0, 0, time.UTC)
	for _, fault := range []failing{{before: true}, {after: true}} {
		fault.Store = testkit.Create(t, t.TempDir())
		p, other := start(&fault, &now), start(fault.Store, &now)
		p.totals["requests"] = 3
		if err := p.Write(t.Context()); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
		fault.before, fault.after = false, false
		p.totals["requests"] = 4
		later := now.Add(3 * time.Hour)
		now = later // the block has ended
		if err := p.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := total(t, other.Recorder, "requests", 24*time.Hour, traffic.Step); n != 4 {
			t.Errorf("%+v: %d requests", fault, n)
		}
	}
}

// The largest block fits into a document, and a week with all names into 2 MB.
func TestItIsBounded(t *testing.T) {
	st := testkit.Create(t, t.TempDir())
	now := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	p := start(st, &now)
	for range 24 {
		for _, name := range traffic.Names {
			p.totals[name] += 30_000_000 // 100,000 a second
		}
		p.Tick()
		now = now.Add(traffic.Step)
	}
	if err := p.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	docs, err := st.Documents(t.Context(), store.DocumentFilter{Kind: store.DocumentTraffic, Limit: 10})
	if err != nil || len(docs) != 1 || len(docs[0].Body) > store.MaxDocument {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	t.Logf("a block has %d bytes", len(docs[0].Body))
	if size := 7 * 24 * 12 * 8 * len(traffic.Names); size > 2<<20 {
		t.Errorf("a week takes %d bytes", size)
	}
}

// Every total of the metrics, in any realm, has a name here.
func TestEveryTotalHasAName(t *testing.T) {
	m := metrics.New("1", 0, "/api", "/staff")
	staff := m.Realm("/staff")
	staff.Route("token").Answered("POST", 200, time.Millisecond)
	for _, r := range []metrics.TokenRequest{
		{GrantType: "authorization_code"}, {GrantType: "refresh_token"}, {Error: "invalid_grant"}, {Error: "use_dpop_nonce"}, {Error: "slow_down"}, {Error: "unheard of"},
	} {
		staff.TokenRequest(r)
	}
	staff.Login(metrics.LoginOK)
	m.Realm("/api").Login("unheard of")
	staff.Throttled(metrics.LimitClientRequests)
	m.Shed(metrics.ShedLate)
	got := m.Totals()
	for name, n := range got {
		if !slices.Contains(traffic.Names, name) {
			t.Errorf("%s is not in Names", name)
		}
		if want := map[string]uint64{"requests": 1, "refreshes": 1, "codes": 1, "logins": 1, "invalid_grant": 1, "other": 1, "login_other": 1, "throttled": 1, "overloaded": 1}[name]; n != want {
			t.Errorf("%s: %d, want %d", name, n, want)
		}
	}
	if len(got) != len(traffic.Names) {
		t.Errorf("%d totals, of %d", len(got), len(traffic.Names))
	}
}
