package sweep_test

import (
	"sync/atomic"
	"testing"

	"github.com/mintage/mintage/internal/testkit"
)

const (
	realm = testkit.Realm
)

// A service is the shared fixture with additions for these tests.
type service struct {
	*testkit.Service
	clockOff atomic.Bool // set by comparison with the other nodes' clocks
}

func newService(t *testing.T) *service {
	t.Helper()
	return &service{Service: testkit.NewService(t)}
}
