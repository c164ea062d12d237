package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// Faulty is a store that fails when it is told to, and counts its calls.
type Faulty struct {
	store store.Store

	mu     sync.Mutex
	faults map[Method][]Fault
	calls  map[Method]int
}

var _ store.Store = (*Faulty)(nil)

// NewFaulty wraps a store that works.
func NewFaulty(st store.Store) *Faulty {
	return &Faulty{store: st, faults: map[Method][]Fault{}, calls: map[Method]int{}}
}

// A Method is a method of store.Store, by its name.
type Method string

const (
	Grant          Method = "Grant"
	CreateGrant    Method = "CreateGrant"
	UpdateGrant    Method = "UpdateGrant"
	Grants         Method = "Grants"
	SweepGrants    Method = "SweepGrants"
	Changes        Method = "Changes"
	Client         Method = "Client"
	CreateClient   Method = "CreateClient"
	UpdateClient   Method = "UpdateClient"
	NoteSecretUses Method = "NoteSecretUses"
	AddCutoff      Method = "AddCutoff"
	AddRestore     Method = "AddRestore"
	AddKeys        Method = "AddKeys"
	ChangeKeys     Method = "ChangeKeys"
	Events         Method = "Events"
	Revocations    Method = "Revocations"
	Document       Method = "Document"
	PutDocument    Method = "PutDocument"
	DeleteDocument Method = "DeleteDocument"
	Documents      Method = "Documents"
	SweepDocuments Method = "SweepDocuments"
	Meet           Method = "Meet"
	Commit         Method = "Commit"
	Sweep          Method = "Sweep"
	Heartbeat      Method = "Heartbeat"
	Ready          Method = "Ready"
)

// Methods lists those that can fail.
var Methods = []Method{
	Grant, CreateGrant, UpdateGrant, Grants, SweepGrants, Changes, Client,
	CreateClient, UpdateClient, NoteSecretUses, AddCutoff, AddRestore, AddKeys, ChangeKeys, Events, Revocations,
	Document, PutDocument, DeleteDocument, Documents, SweepDocuments, Meet,
	Commit, Sweep, Heartbeat, Ready,
}

// A Fault takes the place of one call. Calling do makes the real one.
type Fault func(ctx context.Context, do func() error) error

// ErrInjected is the fault of a store that nobody expected.
var ErrInjected = errors.New("injected fault")

// Lost fails before anything happens. The caller is not told that: for all it
// knows, the write may have been committed.
func Lost(context.Context, func() error) error { return ErrInjected }

// Unanswered fails after the call has happened, whatever came of it: the answer
// was lost on the way.
func Unanswered(_ context.Context, do func() error) error {
	do()
	return ErrInjected
}

// Conflicts loses a compare-and-swap: somebody else was faster.
func Conflicts(context.Context, func() error) error { return store.ErrConflict }

// Full refuses: too many operations wait.
func Full(context.Context, func() error) error { return store.ErrBusy }

// Panics is a bug in the store.
func Panics(context.Context, func() error) error { panic("injected panic") }

// Hangs answers nothing, and does nothing, until the context ends.
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

// Meanwhile lets something else happen before the call.
func Meanwhile(first func()) Fault {
	return func(_ context.Context, do func() error) error {
		first()
		return do()
	}
}

// Inject makes the next n calls of a method fail, after those for which
// something was injected before.
func (f *Faulty) Inject(m Method, n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		f.faults[m] = append(f.faults[m], fault)
	}
}

// Heal forgets every fault that has not happened.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.faults)
}

// Calls takes the number of calls of each method since it was last asked.
func (f *Faulty) Calls() map[Method]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = map[Method]int{}
	return calls
}

func (f *Faulty) call(ctx context.Context, m Method, do func() error) error {
	f.mu.Lock()
	f.calls[m]++
	var fault Fault
	if list := f.faults[m]; len(list) > 0 {
		fault, f.faults[m] = list[0], list[1:]
	}
	f.mu.Unlock()
	if fault == nil {
		return do()
	}
	return fault(ctx, do)
}

// read is call for methods that also return a value, which a fault takes away.
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
func (f *Faulty) Grant(ctx context.Context, id grant.ID) (grant.Grant, error) {
	return read(f, ctx, Grant, func() (grant.Grant, error) { return f.store.Grant(ctx, id) })
}

func (f *Faulty) CreateGrant(ctx context.Context, g grant.Grant) error {
	return f.call(ctx, CreateGrant, func() error { return f.store.CreateGrant(ctx, g) })
}

func (f *Faulty) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	return f.call(ctx, UpdateGrant, func() error { return f.store.UpdateGrant(ctx, id, decide) })
}

func (f *Faulty) Grants(ctx context.Context, filter store.GrantFilter) ([]grant.Grant, error) {
	return read(f, ctx, Grants, func() ([]grant.Grant, error) { return f.store.Grants(ctx, filter) })
}

func (f *Faulty) SweepGrants(ctx context.Context, after grant.ID, now grant.Instant, limit int) (grant.ID, int, error) {
	return sweep(f, ctx, SweepGrants, func() (grant.ID, int, error) { return f.store.SweepGrants(ctx, after, now, limit) })
}

// sweep is read for methods that also count what they deleted.
func sweep[K any](f *Faulty, ctx context.Context, m Method, do func() (K, int, error)) (next K, deleted int, err error) {
	next, err = read(f, ctx, m, func() (next K, err error) {
		next, deleted, err = do()
		return next, err
	})
	if err != nil {
		deleted = 0
	}
	return next, deleted, err
}

func (f *Faulty) Changes(ctx context.Context, since int64) (store.Changes, error) {
	return read(f, ctx, Changes, func() (store.Changes, error) { return f.store.Changes(ctx, since) })
}

func (f *Faulty) Client(ctx context.Context, id string) (store.Client, error) {
	return read(f, ctx, Client, func() (store.Client, error) { return f.store.Client(ctx, id) })
}

func (f *Faulty) CreateClient(ctx context.Context, c store.Client, events ...store.Event) error {
	return f.call(ctx, CreateClient, func() error { return f.store.CreateClient(ctx, c, events...) })
}

func (f *Faulty) UpdateClient(ctx context.Context, c store.Client, cutoffs []store.Cutoff, events ...store.Event) error {
	return f.call(ctx, UpdateClient, func() error { return f.store.UpdateClient(ctx, c, cutoffs, events...) })
}

func (f *Faulty) NoteSecretUses(ctx context.Context, uses map[string]grant.Instant) error {
	return f.call(ctx, NoteSecretUses, func() error { return f.store.NoteSecretUses(ctx, uses) })
}

func (f *Faulty) AddCutoff(ctx context.Context, c store.Cutoff, events ...store.Event) error {
	return f.call(ctx, AddCutoff, func() error { return f.store.AddCutoff(ctx, c, events...) })
}

func (f *Faulty) AddRestore(ctx context.Context, r grant.Restore, events ...store.Event) error {
	return f.call(ctx, AddRestore, func() error { return f.store.AddRestore(ctx, r, events...) })
}

func (f *Faulty) ChangeKeys(ctx context.Context, version int64, changed, added []keys.Record, events ...store.Event) error {
	return f.call(ctx, ChangeKeys, func() error { return f.store.ChangeKeys(ctx, version, changed, added, events...) })
}

func (f *Faulty) AddKeys(ctx context.Context, version int64, records []keys.Record, events ...store.Event) error {
	return f.call(ctx, AddKeys, func() error { return f.store.AddKeys(ctx, version, records, events...) })
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

func (f *Faulty) PutDocument(ctx context.Context, d store.Document, cutoffs []store.Cutoff, events ...store.Event) error {
	return f.call(ctx, PutDocument, func() error { return f.store.PutDocument(ctx, d, cutoffs, events...) })
}

func (f *Faulty) DeleteDocument(ctx context.Context, key store.DocumentKey) error {
	return f.call(ctx, DeleteDocument, func() error { return f.store.DeleteDocument(ctx, key) })
}

func (f *Faulty) Documents(ctx context.Context, kind store.DocumentKind, after store.DocumentKey, limit int) ([]store.Document, error) {
	return read(f, ctx, Documents, func() ([]store.Document, error) { return f.store.Documents(ctx, kind, after, limit) })
}

func (f *Faulty) SweepDocuments(ctx context.Context, after store.DocumentKey, now grant.Instant, limit int) (store.DocumentKey, int, error) {
	return sweep(f, ctx, SweepDocuments, func() (store.DocumentKey, int, error) {
		return f.store.SweepDocuments(ctx, after, now, limit)
	})
}

func (f *Faulty) Meet(ctx context.Context, self store.Node) ([]store.Node, error) {
	return read(f, ctx, Meet, func() ([]store.Node, error) { return f.store.Meet(ctx, self) })
}

func (f *Faulty) Commit(ctx context.Context, c store.Change) error {
	return f.call(ctx, Commit, func() error { return f.store.Commit(ctx, c) })
}

func (f *Faulty) Sweep(ctx context.Context, table store.SweptTable, after string, now grant.Instant, limit int) (string, int, error) {
	return sweep(f, ctx, Sweep, func() (string, int, error) { return f.store.Sweep(ctx, table, after, now, limit) })
}

func (f *Faulty) Heartbeat(ctx context.Context, self store.Node) ([]store.Node, error) {
	return read(f, ctx, Heartbeat, func() ([]store.Node, error) { return f.store.Heartbeat(ctx, self) })
}

func (f *Faulty) Ready(ctx context.Context) error {
	return f.call(ctx, Ready, func() error { return f.store.Ready(ctx) })
}

// Load never fails.
func (f *Faulty) Load() store.Load { return f.store.Load() }

// Close never fails on purpose.
func (f *Faulty) Close() error { return f.store.Close() }
