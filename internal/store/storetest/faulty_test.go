package storetest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

func newFaulty(t *testing.T) (*storetest.Faulty, store.Store) {
	t.Helper()
	st, err := sqlite.Create(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := storetest.NewFaulty(st)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, st
}

func TestAFaultHappensAsOftenAsInjectedAndThenTheStoreWorks(t *testing.T) {
	f, st := newFaulty(t)
	exists := func(id byte, want bool) {
		t.Helper()
		if _, err := st.Grant(t.Context(), grant.ID{id}); (err == nil) != want || !want && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("grant %d: %v, want it there: %t", id, err, want)
		}
	}
	create := func(id byte, want error) {
		t.Helper()
		if err := f.CreateGrant(t.Context(), grant.Grant{ID: grant.ID{id}, Version: 1, State: grant.Active}); !errors.Is(err, want) {
			t.Errorf("CreateGrant: %v, want %v", err, want)
		}
	}
	f.Inject(storetest.CreateGrant, 2, storetest.Lost)
	f.Inject(storetest.CreateGrant, 1, storetest.Unanswered)
	f.Inject(storetest.CreateGrant, 1, storetest.Conflicts)
	f.Inject(storetest.CreateGrant, 1, storetest.Full)
	for id, c := range []struct {
		err   error
		there bool
	}{
		{storetest.ErrInjected, false}, {storetest.ErrInjected, false}, {storetest.ErrInjected, true},
		{store.ErrConflict, false}, {store.ErrBusy, false}, {nil, true},
	} {
		create(byte(id), c.err)
		exists(byte(id), c.there)
	}
	if calls := f.Calls(); calls[storetest.CreateGrant] != 6 || len(calls) != 1 {
		t.Errorf("calls %v, want 6 creations", calls)
	}
	if calls := f.Calls(); len(calls) != 0 {
		t.Errorf("calls %v since they were last taken", calls)
	}

	f.Inject(storetest.CreateGrant, 5, storetest.Lost)
	f.Heal()
	create(10, nil)

	release := make(chan struct{})
	f.Inject(storetest.CreateGrant, 1, storetest.Blocks(release))
	done := make(chan struct{})
	go func() {
		create(11, nil)
		close(done)
	}()
	exists(11, false)
	close(release)
	<-done
	exists(11, true)

	f.Inject(storetest.CreateGrant, 1, storetest.Meanwhile(func() { exists(12, false) }))
	create(12, nil)
	exists(12, true)

	f.Inject(storetest.CreateGrant, 1, storetest.Hangs)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.CreateGrant(ctx, grant.Grant{}); !errors.Is(err, context.Canceled) {
		t.Errorf("hanging: %v", err)
	}
}

func TestEveryMethodCanFailAndAnswersNothingThen(t *testing.T) {
	f, _ := newFaulty(t)
	ctx := t.Context()
	for _, m := range storetest.Methods {
		f.Inject(m, 1, storetest.Unanswered)
	}
	g, grantErr := f.Grant(ctx, grant.ID{})
	grants, grantsErr := f.Grants(ctx, store.GrantFilter{Limit: 1})
	next, deleted, sweepErr := f.Sweep(ctx, store.SweptGrants, "", 1, 1)
	changes, changesErr := f.Changes(ctx, 0)
	client, clientErr := f.Client(ctx, "a")
	events, eventsErr := f.Events(ctx, "a", 1)
	revocations, from, revocationsErr := f.Revocations(ctx, 1, 1)
	document, documentErr := f.Document(ctx, store.DocumentKey{})
	documents, documentsErr := f.Documents(ctx, store.DocumentFilter{Kind: store.DocumentUser, Limit: 1})
	nodes, heartbeatErr := f.Heartbeat(ctx, store.Node{})
	nextKey, deletedDocuments, sweepDocumentsErr := f.Sweep(ctx, store.SweptDocuments, "", 1, 1)
	for m, err := range map[storetest.Method]error{
		storetest.Grant: grantErr, storetest.Grants: grantsErr, storetest.SweepGrants: sweepErr,
		storetest.Changes: changesErr, storetest.Client: clientErr, storetest.Events: eventsErr, storetest.Revocations: revocationsErr,
		storetest.CreateGrant:    f.CreateGrant(ctx, grant.Grant{}),
		storetest.UpdateGrant:    f.UpdateGrant(ctx, grant.ID{}, func(g grant.Grant) (grant.Grant, []store.Event) { return g, nil }),
		storetest.CommitEntry:    f.Commit(ctx, store.Change{Entries: []store.Entry{store.Client{Version: 1}.Entry()}}),
		storetest.CommitCutoff:   f.Commit(ctx, store.Change{Cutoffs: []store.Cutoff{{}}}),
		storetest.CommitKeys:     f.Commit(ctx, store.Change{Expect: 1, Keys: []keys.Stored{{}}}),
		storetest.CommitRestore:  f.Commit(ctx, store.Change{Restores: []grant.Restore{{}}}),
		storetest.CommitDocument: f.Commit(ctx, store.Change{Documents: []store.Document{{Version: 1}}}),
		storetest.CommitDelete:   f.Commit(ctx, store.Change{Delete: []store.DocumentKey{{}}}),
		storetest.CommitEvents:   f.Commit(ctx, store.Change{}),
		storetest.Ready:          f.Ready(ctx),
		storetest.NoteSecretUses: f.NoteSecretUses(ctx, nil),
		storetest.Document:       documentErr, storetest.Documents: documentsErr, storetest.SweepDocuments: sweepDocumentsErr,
		storetest.Heartbeat: heartbeatErr,
	} {
		// Also where the store said something else: the answer was lost.
		if !errors.Is(err, storetest.ErrInjected) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v, want ErrInjected alone", m, err)
		}
	}
	if g != (grant.Grant{}) || grants != nil || next != "" || deleted != 0 || changes.Version != 0 || client.ID != "" || events != nil || revocations != nil || from != 0 ||
		document.Version != 0 || documents != nil || nextKey != "" || deletedDocuments != 0 || nodes != nil {
		t.Error("a call that failed returned something")
	}
	for m, n := range f.Calls() {
		if n != 1 {
			t.Errorf("%d calls of %s", n, m)
		}
	}
}

func TestAPanicIsThatOfOneCall(t *testing.T) {
	f, _ := newFaulty(t)
	f.Inject(storetest.Grant, 1, storetest.Panics)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		f.Grant(t.Context(), grant.ID{})
	}()
	if _, err := f.Grant(t.Context(), grant.ID{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after the panic: %v", err)
	}
}
