package conformance_test

import (
	"errors"
	"slices"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store/storetest"
)

// failing returns a hook that makes the named operations fail.
func failing(operations ...storetest.Method) storetest.Hook {
	return func(op storetest.Method, _ grant.Grant) error {
		if slices.Contains(operations, op) {
			return errDown
		}
		return nil
	}
}

// panicking returns a hook that panics in every operation of a request. It excludes the
// directory's poll, which runs in its own goroutine.
func panicking(text string) storetest.Hook {
	return func(op storetest.Method, _ grant.Grant) error {
		if op != storetest.Changes {
			panic(text)
		}
		return nil
	}
}

var errDown = errors.New("the disk at /var/lib/secret-place is gone")

// gather returns a hook that holds the first n calls of an operation until all have
// arrived, so that all decide on the same row before one of them writes.
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
