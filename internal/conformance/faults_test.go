package conformance_test

import (
	"errors"
	"slices"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store/storetest"
)

// failing is a hook that fails the named operations.
func failing(operations ...storetest.Method) storetest.Hook {
	return func(op storetest.Method, _ grant.Grant) error {
		if slices.Contains(operations, op) {
			return errDown
		}
		return nil
	}
}

// panicking is a hook that panics with a text in every operation of a request: not in the
// directory's poll, which has a goroutine of its own.
func panicking(text string) storetest.Hook {
	return func(op storetest.Method, _ grant.Grant) error {
		if op != storetest.Changes {
			panic(text)
		}
		return nil
	}
}

var errDown = errors.New("the disk at /var/lib/secret-place is gone")

// gather is a hook that holds the first n of an operation until all have come,
// so that each has decided on the same row before any of them writes.
func gather(n int, operation storetest.Method) storetest.Hook {
	var mu sync.Mutex
	come, all := 0, make(chan struct{})
	return func(op storetest.Method, _ grant.Grant) error {
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
