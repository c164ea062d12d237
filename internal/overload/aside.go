package overload

import (
	"context"
	"net/netip"
)

// asideKey is the context key of the function with which Await returns a slot.
type asideKey struct{}

// Aside returns a context for a request of class Own. With it, Await returns the request's
// slot while it waits, so that a client's slow host does not block the others, and sets
// held accordingly. Fair limits such requests of one client and of one network.
func (q *Queue) Aside(ctx context.Context, of netip.Prefix, client string, held *bool) context.Context {
	return context.WithValue(ctx, asideKey{}, func(wait func() error) error {
		if !q.stepAside(of, client, 1) {
			q.shed(shedRequests)
			return ErrShed
		}
		q.Leave(Own, of)
		*held = false
		err := wait()
		q.stepAside(of, client, -1)
		if late := q.Enter(ctx, Own, of); late != nil {
			return late
		}
		*held = true
		return err
	})
}

// Await waits until done is closed or ctx ends. If ctx is from Aside, it returns the slot
// before it waits, and takes one afterwards. After ErrShed, stop working on the request.
func Await(ctx context.Context, done <-chan struct{}) error {
	wait := func() error {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if outside, ok := ctx.Value(asideKey{}).(func(func() error) error); ok {
		return outside(wait)
	}
	return wait()
}

// stepAside adds n, which is 1 or -1, to the number of requests that have returned their
// slots in Await. It returns false if the client or the network has its share of them.
func (q *Queue) stepAside(of netip.Prefix, client string, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.ownRoom() - q.asides
	if n > 0 && (!Fair(q.aside[client], n, room, networkShare) || of.IsValid() && !Fair(q.networks[of].aside, n, room, networkShare)) {
		return false
	}
	q.asides += n
	if q.aside[client] += n; q.aside[client] == 0 {
		delete(q.aside, client)
	}
	q.count(of, network{aside: n})
	return true
}
