package sweep_test

import (
	"sync/atomic"
	"testing"

	"github.com/mintage/mintage/internal/testkit"
)

const (
	realm = testkit.Realm
)

// A service is the fixture, with what these tests add.
type service struct {
	*testkit.Service
	clockOff atomic.Bool // by the other nodes' clocks
}

func newService(t *testing.T) *service {
	t.Helper()
	return &service{Service: testkit.NewService(t)}
}
