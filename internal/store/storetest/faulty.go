package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// Faulty is a store that fails where a test injects a fault, and counts its calls.
type Faulty struct {
	store store.Store

	mu     sync.Mutex
	faults map[Method][]Fault
	calls  map[Method]int
	before Hook
	after  Hook
}

// A Hook is called at Grant, CreateGrant, UpdateGrant, Changes and ReadSecretUses,
// with the grant or its id if there is one. It may fail, panic, count or wait. Hooks
// may run at the same time.
type Hook func(m Method, g grant.Grant) error

var _ store.Store = (*Faulty)(nil)

// NewFaulty wraps a store that works.
func NewFaulty(st store.Store) *Faulty {
	return &Faulty{store: st, faults: map[Method][]Fault{}, calls: map[Method]int{}}
}

// A Method names a method of store.Store, and for some methods the kind of record.
type Method string

const (
	Grant          Method = "Grant"
	CreateGrant    Method = "CreateGrant"
	UpdateGrant    Method = "UpdateGrant"
	Grants         Method = "Grants"
	Changes        Method = "Changes"
	Client         Method = "Client"
	NoteSecretUses Method = "NoteSecretUses"
	Events         Method = "Events"
	Revocations    Method = "Revocations"
	Document       Method = "Document"
	Documents      Method = "Documents"
	Heartbeat      Method = "Heartbeat"
	Ready          Method = "Ready"
	SweepGrants    Method = "Sweep of grants"
	SweepDocuments Method = "Sweep of documents"
	// A Commit is named by the first of these kinds of records that its change has.
	CommitDocument Method = "Commit of a document"
	CommitEntry    Method = "Commit of an entry"
	CommitKeys     Method = "Commit of keys"
	CommitRestore  Method = "Commit of a restore"
	CommitCutoff   Method = "Commit of a cutoff"
	CommitDelete   Method = "Commit of a deletion"
	CommitEvents   Method = "Commit of events"
)

// Methods lists the methods that can fail.
var Methods = []Method{
	Grant, CreateGrant, UpdateGrant, Grants, Changes, Client, NoteSecretUses, Events, Revocations, Document, Documents, Heartbeat, Ready,
	SweepGrants, SweepDocuments, CommitDocument, CommitEntry, CommitKeys, CommitRestore, CommitCutoff, CommitDelete, CommitEvents,
}

func methodOf(c store.Change) Method {
	switch {
	case len(c.Documents) > 0:
		return CommitDocument
	case len(c.Entries) > 0:
		return CommitEntry
	case len(c.Keys) > 0:
		return CommitKeys
	case len(c.Restores) > 0:
		return CommitRestore
	case len(c.Cutoffs) > 0:
		return CommitCutoff
	case len(c.Delete) > 0:
		return CommitDelete
	}
	return CommitEvents
}

// A Fault replaces one call. It makes the real call by calling do, if at all.
type Fault func(ctx context.Context, do func() error) error

// ErrInjected is an error that package store does not define.
var ErrInjected = errors.New("injected fault")

// Lost fails before anything happens. Its error does not exclude that the write was
// committed.
func Lost(context.Context, func() error) error { return ErrInjected }

// Unanswered makes the call and fails whatever its result is, as if the response was
// lost.
func Unanswered(_ context.Context, do func() error) error {
	do()
	return ErrInjected
}

// Conflicts fails as if another caller had won a compare-and-swap.
func Conflicts(context.Context, func() error) error { return store.ErrConflict }

// Full fails as if too many operations were queued.
func Full(context.Context, func() error) error { return store.ErrBusy }

// Panics panics, as a bug in the store could.
func Panics(context.Context, func() error) error { panic("injected panic") }

// Hangs does nothing until the context ends, and returns the context's error.
func Hangs(ctx context.Context, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

// Blocks waits for release before the call happens.
func Blocks(release <-chan struct{}) Fault {
	return func(_ context.Context, do func() error) error {
		<-release
		return do()
	}
}

// Meanwhile calls first before the call, as if it happened concurrently.
func Meanwhile(first func()) Fault {
	return func(_ context.Context, do func() error) error {
		first()
		return do()
	}
}

// Inject adds n faults to the queue of a method. Each call takes the first fault of
// its queue.
func (f *Faulty) Inject(m Method, n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.faults[m] = append(f.faults[m], fault)
	}
}

// Before sets the hook that runs before each call. If h fails, its error replaces the
// call.
func (f *Faulty) Before(h Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = h
}

// After sets the hook that runs after each call that succeeded. If h fails, its error
// replaces the result.
func (f *Faulty) After(h Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = h
}

// Heal removes the hooks, and the faults that are still queued.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.faults)
	f.before, f.after = nil, nil
}

// Calls returns the number of calls of each method since the last Calls.
func (f *Faulty) Calls() map[Method]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = map[Method]int{}
	return calls
}

func (f *Faulty) call(ctx context.Context, m Method, do func() error) error {
	if fault := f.fault(m); fault != nil {
		return fault(ctx, do)
	}
	return do()
}

// hooked is like call, and runs the hooks around do.
func (f *Faulty) hooked(ctx context.Context, m Method, g grant.Grant, do func() error) error {
	if fault := f.fault(m); fault != nil {
		return fault(ctx, func() error { return f.between(m, g, do) })
	}
	return f.between(m, g, do)
}

// fault counts a call of m, and takes the next fault from its queue. It returns nil if
// there is none.
func (f *Faulty) fault(m Method) (fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[m]++
	if list := f.faults[m]; len(list) > 0 {
		fault, f.faults[m] = list[0], list[1:]
	}
	return fault
}

// between calls do between the hooks.
func (f *Faulty) between(m Method, g grant.Grant, do func() error) error {
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	if before != nil {
		if err := before(m, g); err != nil {
			return err
		}
	}
	err := do()
	f.mu.Lock()
	after := f.after
	f.mu.Unlock()
	if after != nil && err == nil {
		return after(m, g)
	}
	return err
}

// read is like call, for methods that also return a value. With an error, it returns the
// zero value.
func read[T any](f *Faulty, ctx context.Context, m Method, do func() (T, error)) (T, error) {
	var value, none T
	err := f.call(ctx, m, func() (err error) {
		value, err = do()
		return err
	})
	if err != nil {
		return none, err
	}
	return value, nil
}

// Grant implements store.Store, as do the methods below.
func (f *Faulty) Grant(ctx context.Context, id grant.ID) (g grant.Grant, err error) {
	err = f.hooked(ctx, Grant, grant.Grant{ID: id}, func() (err error) {
		g, err = f.store.Grant(ctx, id)
		return err
	})
	if err != nil {
		g = grant.Grant{}
	}
	return g, err
}

func (f *Faulty) CreateGrant(ctx context.Context, g grant.Grant) error {
	return f.hooked(ctx, CreateGrant, g, func() error { return f.store.CreateGrant(ctx, g) })
}

func (f *Faulty) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	return f.hooked(ctx, UpdateGrant, grant.Grant{ID: id}, func() error { return f.store.UpdateGrant(ctx, id, decide) })
}

func (f *Faulty) Grants(ctx context.Context, filter store.GrantFilter) ([]grant.Grant, error) {
	return read(f, ctx, Grants, func() ([]grant.Grant, error) { return f.store.Grants(ctx, filter) })
}

func (f *Faulty) Changes(ctx context.Context, since int64) (changes store.Changes, err error) {
	err = f.hooked(ctx, Changes, grant.Grant{}, func() (err error) {
		changes, err = f.store.Changes(ctx, since)
		return err
	})
	if err != nil {
		changes = store.Changes{}
	}
	return changes, err
}

func (f *Faulty) TallyUsers(ctx context.Context) (store.Tally, error) {
	return read(f, ctx, Documents, func() (store.Tally, error) { return f.store.TallyUsers(ctx) })
}

func (f *Faulty) CountDocuments(ctx context.Context, kind store.DocumentKind) (int, error) {
	return read(f, ctx, Documents, func() (int, error) { return f.store.CountDocuments(ctx, kind) })
}

func (f *Faulty) ReadSecretUses(ctx context.Context, clients []store.Client) error {
	return f.hooked(ctx, Client, grant.Grant{}, func() error { return f.store.ReadSecretUses(ctx, clients) })
}

func (f *Faulty) Client(ctx context.Context, id string) (store.Client, error) {
	return read(f, ctx, Client, func() (store.Client, error) { return f.store.Client(ctx, id) })
}

func (f *Faulty) NoteSecretUses(ctx context.Context, uses map[string]grant.Instant) error {
	return f.call(ctx, NoteSecretUses, func() error { return f.store.NoteSecretUses(ctx, uses) })
}

func (f *Faulty) Events(ctx context.Context, about string, limit int) ([]store.Event, error) {
	return read(f, ctx, Events, func() ([]store.Event, error) { return f.store.Events(ctx, about, limit) })
}

func (f *Faulty) Revocations(ctx context.Context, since grant.Instant, limit int) (list []store.Revocation, from grant.Instant, err error) {
	list, err = read(f, ctx, Revocations, func() (list []store.Revocation, err error) {
		list, from, err = f.store.Revocations(ctx, since, limit)
		return list, err
	})
	if err != nil {
		from = 0
	}
	return list, from, err
}

func (f *Faulty) Document(ctx context.Context, key store.DocumentKey) (store.Document, error) {
	return read(f, ctx, Document, func() (store.Document, error) { return f.store.Document(ctx, key) })
}

func (f *Faulty) Documents(ctx context.Context, filter store.DocumentFilter) ([]store.Document, error) {
	return read(f, ctx, Documents, func() ([]store.Document, error) { return f.store.Documents(ctx, filter) })
}

func (f *Faulty) Commit(ctx context.Context, c store.Change) error {
	return f.call(ctx, methodOf(c), func() error { return f.store.Commit(ctx, c) })
}

func (f *Faulty) Sweep(ctx context.Context, table store.SweptTable, after string, now grant.Instant, limit int) (next string, deleted int, err error) {
	m := SweepGrants
	if table == store.SweptDocuments {
		m = SweepDocuments
	}
	next, err = read(f, ctx, m, func() (next string, err error) {
		next, deleted, err = f.store.Sweep(ctx, table, after, now, limit)
		return next, err
	})
	if err != nil {
		deleted = 0
	}
	return next, deleted, err
}

func (f *Faulty) Heartbeat(ctx context.Context, self store.Node) ([]store.Node, error) {
	return read(f, ctx, Heartbeat, func() ([]store.Node, error) { return f.store.Heartbeat(ctx, self) })
}

func (f *Faulty) Ready(ctx context.Context) error {
	return f.call(ctx, Ready, func() error { return f.store.Ready(ctx) })
}

// Load has no faults.
func (f *Faulty) Load() store.Load { return f.store.Load() }

// Close has no faults: it closes the real store.
func (f *Faulty) Close() error { return f.store.Close() }
