package sqlite

import (
	"context"
	"sync"

	"github.com/mintage/mintage/internal/store"
)

// An inbox is the queue of the reader's or the writer's goroutine.
type inbox[T any] struct {
	queue  chan T
	closed chan struct{} // no further operations are accepted
	done   chan struct{} // the goroutine has ended, with an empty queue
	once   sync.Once
}

func newInbox[T any]() inbox[T] {
	return inbox[T]{queue: make(chan T, queueLength), closed: make(chan struct{}), done: make(chan struct{})}
}

// submit queues op and waits for its result. It returns store.ErrBusy
// if the queue is full, errClosed if the store was closed before op was done, and
// the context's error if ctx ends first.
func (q *inbox[T]) submit(ctx context.Context, op T, result <-chan struct{}) error {
	select {
	case <-q.closed:
		return errClosed
	default:
	}
	select {
	case q.queue <- op:
	default:
		return store.ErrBusy
	}
	// An operation that was queued before the inbox closed gets its result before done is
	// closed. The select then needs no case for done, which would cost each request time.
	done := q.done
	select {
	case <-q.closed:
	default:
		done = nil
	}
	select {
	case <-result:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		select {
		case <-result:
			return nil
		default:
			return errClosed
		}
	}
}

// next waits for an operation. ok is false if the inbox is closed and empty.
func (q *inbox[T]) next() (op T, ok bool) {
	select {
	case op = <-q.queue:
		return op, true
	case <-q.closed:
	}
	select {
	case op = <-q.queue:
		return op, true
	default:
		return op, false
	}
}

// stop closes the inbox and waits for the operations that are queued.
func (q *inbox[T]) stop() {
	q.once.Do(func() { close(q.closed) })
	<-q.done
}
