package audit_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

const base = grant.Instant(1_795_000_000_000)

// An auditedStore is a store with fault injection whose changes are recorded.
type auditedStore struct {
	store.Store
	t      *testing.T
	faulty *storetest.Faulty
	log    *audit.Log
	dir    string
}

func newAuditedStore(t *testing.T) *auditedStore {
	t.Helper()
	engine, err := sqlite.Create(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &auditedStore{t: t, faulty: storetest.NewFaulty(engine), dir: filepath.Join(t.TempDir(), "audit")}
	s.log = audit.Open(audit.Options{Directory: s.dir, Routine: true, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	s.Store = audit.NewStore(s.faulty, s.log)
	t.Cleanup(func() {
		if err := errors.Join(s.log.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// recorded closes the Log, and returns its entries without the first one.
func (s *auditedStore) recorded() (list []audit.Entry) {
	s.t.Helper()
	if err := s.log.Close(); err != nil {
		s.t.Fatal(err)
	}
	for e, err := range audit.Read(s.dir, audit.Filter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Event != audit.Segment {
			list = append(list, e)
		}
	}
	return list
}

func event(name store.EventName, about string) store.Event {
	return store.Event{At: base, Name: name, About: about, Actor: "operator:root", Detail: "detail"}
}

func aGrant() grant.Grant {
	return grant.Grant{
		ID: grant.ID{1, 2}, Realm: "/api", ClientID: "billing", Subject: "alice", Scope: "read", AuthorizedAt: base, Generation: 3, Version: 1,
		RotatedAt: base, KeyID: 1, ExpiresAt: base + 1000, DeleteAfter: base + 2000, State: grant.Active,
	}
}

// A command may be killed as soon as it has reported success, so the change must already
// be recorded.
func TestAChangeOfACommandIsRecordedBeforeItGoesOn(t *testing.T) {
	s := newAuditedStore(t)
	log := audit.Open(audit.Options{Directory: s.dir, AtOnce: true, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	defer log.Close()
	st := audit.NewStore(s.faulty, log)
	for i := range 5 {
		id := fmt.Sprint("client", i)
		if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{store.Client{ID: id, Realm: "/api", State: store.ClientEnabled, Version: 1}.Entry()}, Events: []store.Event{event(store.EventClientCreated, id)}}); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range audit.Read(s.dir, audit.Filter{ClientID: id}) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Fatalf("%d records of %s when it is made", n, id)
		}
	}
	// Once the audit log is closed, changes do not wait for it.
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{store.Client{ID: "client0", Realm: "/api", State: store.ClientDisabled, Version: 2}.Entry()}, Events: []store.Event{event(store.EventClientChanged, "client0")}}); err != nil {
		t.Error(err)
	}
}

// Every write with events passes them on, with the ids of what it changes.
func TestEveryChangeIsRecordedWithWhomItConcerns(t *testing.T) {
	s := newAuditedStore(t)
	ctx := audit.With(t.Context(), audit.Origin{RequestID: "r1", RemoteIP: netip.MustParseAddr("192.0.2.7")})
	g := aGrant()
	client := store.Client{ID: "billing", Realm: "/api", State: store.ClientEnabled, Version: 1}
	changed := client
	changed.Version = 2
	steps := []error{
		s.Commit(ctx, store.Change{Entries: []store.Entry{client.Entry()}, Events: []store.Event{event(store.EventClientCreated, "billing")}}),
		s.Commit(ctx, store.Change{Entries: []store.Entry{changed.Entry()}, Events: []store.Event{event(store.EventSecretAdded, "billing")}}),
		s.CreateGrant(ctx, g),
		s.UpdateGrant(ctx, g.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
			g.Version, g.State, g.Reason = 2, grant.Revoked, grant.ReasonRefreshReplayed
			return g, []store.Event{event(store.EventRefreshReplayed, g.ID.String())}
		}),
		s.Commit(ctx, store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "bob", ClientID: "billing", At: base}}, Events: []store.Event{event(store.EventCutoff, "billing")}}),
		s.Commit(ctx, store.Change{Documents: []store.Document{{Kind: store.DocumentUser, Key: store.DocumentKey{1}, Version: 1}}, Events: []store.Event{event(store.EventUserCreated, "subject:carol")}}),
		s.Commit(ctx, store.Change{Documents: []store.Document{{Kind: store.DocumentConsents, Key: store.DocumentKey{2}, Version: 1}}, Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "dave", ClientID: "billing", At: base}}, Events: []store.Event{event(store.EventDisconnected, "subject:dave")}}),
		s.Commit(ctx, store.Change{Documents: []store.Document{{Kind: store.DocumentConsents, Key: store.DocumentKey{3}, Version: 1}}, Events: []store.Event{event(store.EventClientRecorded, "https://agent.example/client.json")}}),
	}
	ch, err := s.Changes(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	steps = append(steps,
		s.Commit(ctx, store.Change{Expect: ch.Version, Keys: []keys.Stored{{ID: 7, Purpose: keys.MAC, CreatedAt: base, ActiveAt: base, Wrapped: []byte{1}}}, Events: []store.Event{event(store.EventKeyAdded, "00000007")}}),
		s.Commit(ctx, store.Change{Restores: []grant.Restore{{At: base, Backup: base - 1000, Until: base + 1000}}, Events: []store.Event{event(store.EventRestored, "store")}}),
	)
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	id := g.ID.String()
	want := []string{
		"client_created success billing  ", "secret_added success billing  ", "refresh_replayed refused billing alice " + id, "cutoff success billing bob ",
		"user_created success  carol ", "disconnected success billing dave ", "client_recorded success https://agent.example/client.json  ", "key_added success   ", "restored success   ",
	}
	list := s.recorded()
	var got []string
	for _, e := range list {
		got = append(got, fmt.Sprintf("%s %s %s %s %s", e.Event, e.Outcome, e.ClientID, e.Subject, e.GrantID))
		if e.RequestID != "r1" || e.RemoteIP != "192.0.2.7" || e.Actor != "operator:root" || !e.Time.Equal(base.Time()) {
			t.Errorf("%s: %+v", e.Event, e)
		}
		if (e.Realm == "/api") == store.EventName(e.Event).OfDeployment() {
			t.Errorf("%s has the realm %q", e.Event, e.Realm)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded:\n%q, want:\n%q", got, want)
	}
	if len(list) > 2 && list[2].Generation != 3 {
		t.Errorf("generation %d", list[2].Generation)
	}
}

// A write that surely failed is not recorded; one with an unknown outcome is recorded as
// such.
func TestTheRecordIsTrueToWhatCameOfTheWrite(t *testing.T) {
	for name, c := range map[string]struct {
		fault storetest.Fault
		want  []audit.Outcome
	}{
		"conflict":   {storetest.Conflicts, nil},
		"busy":       {storetest.Full, nil},
		"lost":       {storetest.Lost, []audit.Outcome{audit.Unknown, audit.Unknown}},
		"unanswered": {storetest.Unanswered, []audit.Outcome{audit.Unknown, audit.Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuditedStore(t)
			g := aGrant()
			if err := s.CreateGrant(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			s.faulty.Inject(storetest.CommitEntry, 1, c.fault)
			s.faulty.Inject(storetest.UpdateGrant, 1, func(ctx context.Context, do func() error) error {
				// The engine has called the decision function, whatever the outcome.
				do()
				return c.fault(ctx, func() error { return nil })
			})
			failed := s.Commit(t.Context(), store.Change{Entries: []store.Entry{store.Client{ID: "a", Realm: "/api", Version: 1}.Entry()}, Events: []store.Event{event(store.EventClientCreated, "a")}})
			replayed := s.UpdateGrant(t.Context(), g.ID, revoke)
			if failed == nil || replayed == nil {
				t.Fatal("nothing failed")
			}
			var got []audit.Outcome
			for _, e := range s.recorded() {
				got = append(got, e.Outcome)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("recorded %q, want %q", got, c.want)
			}
		})
	}
}

func revoke(g grant.Grant) (grant.Grant, []store.Event) {
	if g.State == grant.Revoked {
		return g, []store.Event{event(store.EventGrantRevoked, g.ID.String())}
	}
	g.Version++
	g.State = grant.Revoked
	return g, []store.Event{event(store.EventGrantRevoked, g.ID.String())}
}

// Revoking a revoked grant changes nothing.
func TestARevocationIsRecordedOnce(t *testing.T) {
	s := newAuditedStore(t)
	g := aGrant()
	if err := s.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.UpdateGrant(t.Context(), g.ID, revoke); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.UpdateGrant(t.Context(), grant.ID{9}, revoke); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if list := s.recorded(); len(list) != 1 || list[0].Event != "grant_revoked" || list[0].Outcome != audit.Success {
		t.Errorf("recorded %+v", list)
	}
}

// twice is an engine that loses its first write to a concurrent one, and decides again.
type twice struct{ store.Store }

func (s twice) UpdateGrant(_ context.Context, _ grant.ID, decide store.Decide) error {
	g := aGrant()
	decide(g)
	g.State = grant.Revoked
	decide(g)
	return nil
}

func TestTheLastDecisionCounts(t *testing.T) {
	s := newAuditedStore(t)
	if err := audit.NewStore(twice{s.faulty}, s.log).UpdateGrant(t.Context(), grant.ID{1}, revoke); err != nil {
		t.Fatal(err)
	}
	if list := s.recorded(); len(list) != 0 {
		t.Errorf("the first decision is recorded, although the second one was stored: %+v", list)
	}
}

// The list of event names contains those of the store.
func TestNamesHasEveryEventOfTheStoreOnce(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../store/rows.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names, found := audit.Names(), 0
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "EventName" {
			name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil || !slices.Contains(names, audit.Name(name)) {
				t.Errorf("%s is not in the list", name)
			}
			found++
		}
		return true
	})
	if found < 20 {
		t.Errorf("only %d events found in the store", found)
	}
	slices.Sort(names)
	if once := slices.Compact(slices.Clone(names)); len(once) != len(names) {
		t.Error("a name stands twice")
	}
}

// A store that does not respond in time may run a decision later. The decision must use
// the values of its own request, not those of a later one.
func TestALateDecisionIsTheOneThatWasAsked(t *testing.T) {
	s := newAuditedStore(t)
	if err := s.CreateGrant(t.Context(), aGrant()); err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	decide := func(who string) store.Decide {
		return func(g grant.Grant) (grant.Grant, []store.Event) {
			asked[who]++
			return g, nil
		}
	}
	var later func() error
	s.faulty.Inject(storetest.UpdateGrant, 1, func(_ context.Context, do func() error) error {
		later = do
		return storetest.ErrInjected
	})
	if err := s.UpdateGrant(t.Context(), aGrant().ID, decide("first")); !errors.Is(err, storetest.ErrInjected) {
		t.Fatal(err)
	}
	if err := s.UpdateGrant(t.Context(), aGrant().ID, decide("second")); err != nil {
		t.Fatal(err)
	}
	if err := later(); err != nil || asked["first"] != 1 || asked["second"] != 1 {
		t.Errorf("%v, asked %v", err, asked)
	}
}
