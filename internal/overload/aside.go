package overload

import (
	"context"
	"net/netip"
)

// asideKey is the key of a context's value that lets Await give a slot back.
type asideKey struct{}

// Aside returns a context for a request of class Own: while Await waits, the request has
// no slot, as held then says, so that a slow host of one client does not keep the others
// waiting. One client and one network have their share of the requests that wait so.
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

// Await waits until done is closed or ctx ends. If ctx is one of Aside, the slot is given
// back meanwhile; after ErrShed, do not go on.
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

// stepAside counts one more request that waits without a slot, if there is room, or one
// less.
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
