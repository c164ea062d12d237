package logout

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// A queue is what this node has read of a client's tokens in the store. Tokens are sent in
// the order in which sessions ended, until an attempt fails. After that, one token is
// tried at a time, round robin, so that a token that always fails does not block the
// others. Times are of the monotonic clock.
type queue struct {
	busy   bool
	added  bool          // a token was added since the tokens were last read
	due    time.Time     // when to read the tokens again
	oldest grant.Instant // end of the session that its first token is about; 0: unknown
	failed int           // failed attempts in a row, without those of fresh tokens
	tried  time.Time     // last attempt that failed
	retry  time.Time     // next attempt after a failure, of whichever token
	after  store.DocumentKey
	// fresh are tokens that were not tried yet. Each triggers an attempt even while the
	// client fails. Tokens beyond maxFresh are not in it, and wait for their turn.
	fresh []store.DocumentKey
}

// never is later than every time of a queue.
const never = 1 << 62

// next returns when to make the next attempt: after a failure, at most one each second.
func (q *queue) next() time.Time {
	switch {
	case q.failed == 0:
		return time.Time{}
	case len(q.fresh) > 0:
		return q.tried.Add(firstPause)
	}
	return q.retry
}

// serve delivers tokens of a queue, and sets when the queue is due again.
func (o *Outbox) serve(ctx context.Context, iss *issuer.Issuer, clientID string, q *queue) {
	more, err := o.deliver(ctx, iss, clientID, q)
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrConflict) && !o.Outage.Combines(err, o.Monotonic()) {
		o.Log.Warn("cannot deliver logout tokens to a client; retrying", "client_id", clientID, "error", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	q.busy = false
	switch {
	case err != nil:
		q.due = o.Monotonic().Add(pollInterval)
	case q.failed > 0 || more || q.added: // q.added: the token may have come after the tokens were read
		if q.due = q.next(); !q.due.After(o.Monotonic()) {
			o.Wake()
		}
	default:
		q.due = o.Monotonic().Add(never)
	}
}

// deliver sends tokens of a queue until one fails. It reports whether there are more.
func (o *Outbox) deliver(ctx context.Context, iss *issuer.Issuer, clientID string, q *queue) (more bool, err error) {
	read := func(after store.DocumentKey, limit int) ([]store.Document, error) {
		return o.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentLogoutToken, Owner: ownerQueue(o.Realm, clientID), After: after, Limit: limit})
	}
	list, err := read(store.DocumentKey{}, inARow)
	if err != nil {
		return false, err
	}
	after, fresh := o.note(q, list)
	if len(list) == 0 {
		return false, nil
	}
	if fresh != (store.DocumentKey{}) {
		d, err := o.Store.Document(ctx, fresh)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		if d.Owner != list[0].Owner {
			o.tried(q, fresh) // settled meanwhile
			return true, nil
		}
		if settled, err := o.settle(ctx, iss, q, d, true); err != nil || !settled {
			return false, err
		}
		o.mu.Lock()
		fails := q.failed > 0
		o.mu.Unlock()
		if fails {
			return true, nil // the client still fails: the other tokens wait for their turn
		}
	}
	whole := true // list is the whole queue, if it is shorter than inARow
	if after != (store.DocumentKey{}) {
		rest, err := read(after, inARow)
		if err != nil {
			return false, err
		}
		if whole = len(rest) == 0; !whole {
			list = rest
		}
	}
	for _, d := range list {
		if d.Key == fresh {
			continue // list was read before it was settled
		}
		if settled, err := o.settle(ctx, iss, q, d, false); err != nil || !settled {
			return false, err
		}
	}
	if len(list) == inARow {
		return true, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if q.after = (store.DocumentKey{}); whole {
		q.oldest = 0
	}
	return !whole, nil
}

// note updates the state of a queue, whose first tokens are in list. It returns the token
// after which to continue, and the fresh token to try first; zero: none.
func (o *Outbox) note(q *queue, list []store.Document) (after, fresh store.DocumentKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(list) == 0 {
		q.oldest, q.failed, q.after, q.fresh = 0, 0, after, nil
		return after, fresh
	}
	t, err := decode[Token](list[0])
	if q.oldest = t.At; err != nil || grant.At(o.Now()).Since(t.At) < giveUpAfter {
		after = q.after // else begin with the oldest, to give it up
	}
	if len(q.fresh) > 0 && q.failed > 0 && o.Monotonic().Before(q.retry) {
		fresh = q.fresh[0]
	}
	return after, fresh
}

// tried removes a token from the fresh ones.
func (o *Outbox) tried(q *queue, key store.DocumentKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q.fresh = slices.DeleteFunc(q.fresh, func(k store.DocumentKey) bool { return k == key })
}

// settle sends a token and stores the result. It reports whether the token is settled: if
// not, the client did not answer. A fresh token is sent out of turn.
func (o *Outbox) settle(ctx context.Context, iss *issuer.Issuer, q *queue, d store.Document, fresh bool) (settled bool, err error) {
	o.tried(q, d.Key)
	t, err := decode[Token](d)
	if err != nil {
		o.Log.Error("cannot decode a stored logout token: it is not sent", "error", err)
		return true, nil
	}
	o.mu.Lock()
	wait := pause(q.failed + 1)
	if fresh {
		wait = max(q.retry.Sub(o.Monotonic()), firstPause)
	} else {
		q.after = d.Key
	}
	o.mu.Unlock()
	if t.State == Pending && t.Until != 0 {
		instead, newer, err := o.narrow(ctx, d, t)
		if err != nil {
			return false, err
		}
		if newer {
			t.State, t.Answer = Dropped, "replaced by one token for each ended session, because the user has signed in again"
			if err := o.commit(ctx, instead, func() {}); err != nil {
				return false, err
			}
			for _, one := range instead {
				o.added(t.ClientID, one.Key)
			}
		}
	}
	if t.State == Pending {
		if t, err = o.attempt(ctx, iss, t, wait); err != nil {
			return false, err
		}
	}
	d.Version++
	d.Body = encode(t)
	if t.State != Pending {
		d.Owner, d.ExpiresAt = store.OwnerOf(o.Realm, t.Subject), grant.At(o.Now()).Add(shownFor)
	}
	if err := o.Store.Commit(ctx, store.Change{Documents: []store.Document{d}}); err != nil {
		return false, err // the token is sent once more
	}
	o.record(t)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case t.State == Delivered, t.State == Refused:
		q.failed = 0
		return true, nil
	case t.State != Pending:
		return true, nil // the client was not called, or has not answered: q.failed stays
	case !fresh:
		q.failed++
		q.retry = o.Monotonic().Add(wait)
	}
	q.tried = o.Monotonic()
	return false, nil
}
