package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// A faulty store is a real one with a hook before and after each operation on
// grants. A hook may fail, panic, count or wait.
type faulty struct {
	store.Store
	before, after atomic.Pointer[hook]
}

type hook func(operation string, g grant.Grant) error

// faults gives a deployment a faulty store, without a fault yet.
func faults(f *faulty) func(*options) {
	return func(o *options) {
		o.wrap = func(st store.Store) store.Store {
			f.Store = st
			return f
		}
	}
}

func (f *faulty) setBefore(h hook) { f.before.Store(&h) }
func (f *faulty) setAfter(h hook)  { f.after.Store(&h) }

// heal takes every fault away.
func (f *faulty) heal() {
	f.before.Store(nil)
	f.after.Store(nil)
}

func (f *faulty) around(operation string, g grant.Grant, do func() error) error {
	if h := f.before.Load(); h != nil {
		if err := (*h)(operation, g); err != nil {
			return err
		}
	}
	err := do()
	if h := f.after.Load(); h != nil && err == nil {
		return (*h)(operation, g)
	}
	return err
}

func (f *faulty) Changes(ctx context.Context, since int64) (ch store.Changes, err error) {
	err = f.around("changes", grant.Grant{}, func() error {
		ch, err = f.Store.Changes(ctx, since)
		return err
	})
	return ch, err
}

func (f *faulty) Grant(ctx context.Context, id grant.ID) (g grant.Grant, err error) {
	err = f.around("read", grant.Grant{ID: id}, func() error {
		g, err = f.Store.Grant(ctx, id)
		return err
	})
	return g, err
}

func (f *faulty) CreateGrant(ctx context.Context, g grant.Grant) error {
	return f.around("create", g, func() error { return f.Store.CreateGrant(ctx, g) })
}

func (f *faulty) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	return f.around("update", grant.Grant{ID: id}, func() error { return f.Store.UpdateGrant(ctx, id, decide) })
}

// failing is a hook that fails the named operations.
func failing(operations ...string) hook {
	return func(op string, _ grant.Grant) error {
		if slices.Contains(operations, op) {
			return errDown
		}
		return nil
	}
}

var errDown = errors.New("the disk at /var/lib/secret-place is gone")

// gather is a hook that holds the first n of an operation until all have come,
// so that each has decided on the same row before any of them writes.
func gather(n int, operation string) hook {
	var mu sync.Mutex
	come, all := 0, make(chan struct{})
	return func(op string, _ grant.Grant) error {
		if op != operation {
			return nil
		}
		mu.Lock()
		come++
		if come == n {
			close(all)
		}
		held := come <= n
		mu.Unlock()
		if held {
			<-all
		}
		return nil
	}
}
