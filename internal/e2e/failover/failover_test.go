//go:build e2e

package failover

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/e2e/history"
)

// TestKilledPrimaryIsReplaced kills the primary, promotes its standby, and lets
// the old primary come back at its old address.
func TestKilledPrimaryIsReplaced(t *testing.T) {
	t.Parallel()
	begin(t, 3).killPrimaries(binary.Scaled(2, 10))
}

// TestKilledPrimaryIsReplacedUnderBoundClients is TestKilledPrimaryIsReplaced on two
// nodes, with public clients whose refresh tokens are bound to keys, and thieves with
// other keys.
func TestKilledPrimaryIsReplacedUnderBoundClients(t *testing.T) {
	t.Parallel()
	begin(t, 2, func(h *history.Habit) { h.Proofs, h.Steal = true, 20 }).killPrimaries(binary.Scaled(1, 4))
}

func (w *world) killPrimaries(rounds int) {
	w.Helper()
	for round := range rounds {
		time.Sleep(time.Second)
		w.must(w.old().server.Kill())
		w.load.Mark()
		time.Sleep(time.Second)
		w.down()
		w.unserved()
		w.must(w.new().server.Promote())
		w.load.Mark()
		w.recovered("killed", 10*time.Second)
		w.remembered()

		w.must(w.old().server.Restart())
		w.ignored(binary.Soak() || round == 0)
		if round < rounds-1 {
			w.standBy()
		}
	}
	w.finish()
}

// TestPrimaryThatIsCutOffIsReplaced cuts the running primary off from the nodes and from
// its standby. Later it is reachable again, and receives all that was sent to it.
func TestPrimaryThatIsCutOffIsReplaced(t *testing.T) {
	t.Parallel()
	w := begin(t, 3)
	for range binary.Scaled(1, 5) {
		time.Sleep(time.Second)
		w.old().line.Cut()
		w.wire.Cut()
		w.load.Mark()
		time.Sleep(2 * time.Second)
		w.unserved()
		w.must(w.new().server.Promote())
		w.load.Mark()
		w.recovered("cut off", 15*time.Second)
		w.remembered()

		// The old standby was promoted and has disconnected.
		w.wire.Sever()
		w.wire.Heal()
		w.old().line.Heal()
		w.ignored(binary.Soak())
		w.standBy()
	}
	for range binary.Scaled(1, 3) {
		w.isolated()
		w.standBy()
	}
	w.finish()
}

// isolated cuts the primary off from its standby alone, so that the nodes still reach the
// wrong server and could read from it for ever. Once a node has acknowledged a
// revocation, all nodes must respect it, however busy they are.
func (w *world) isolated() {
	w.Helper()
	a, err := w.nodes[0].Post(w.Context(), w.client, w.nodes[0].ExchangeForm(w.code()))
	if err != nil || a.Status != http.StatusOK {
		w.Fatalf("redeem a code: %d, %v", a.Status, err)
	}
	ctx, stop := context.WithCancel(w.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	var revoked atomic.Bool
	var late, alive atomic.Int64
	for _, n := range w.nodes {
		for range 8 {
			asking.Go(func() {
				for ctx.Err() == nil {
					after := revoked.Load()
					o, err := w.send(endpoint(n, "introspect"), about(n, a.AccessToken))
					if err != nil {
						w.Errorf("introspection: %v", err)
						return
					}
					switch {
					case o.status == http.StatusServiceUnavailable:
						time.Sleep(100 * time.Millisecond)
					case after && o.Active:
						late.Add(1)
					case o.Active:
						alive.Add(1)
					}
				}
			})
		}
	}
	time.Sleep(time.Second)
	w.wire.Cut()
	w.must(w.new().server.Promote())
	w.load.Mark()
	w.recovered("isolated from its standby", 15*time.Second)
	if o, err := w.send(endpoint(w.nodes[0], "revoke"), about(w.nodes[0], a.RefreshToken)); err != nil || o.status != http.StatusOK {
		w.Fatalf("revocation: %+v, %v", o, err)
	}
	revoked.Store(true)
	time.Sleep(2 * time.Second)
	w.remembered()
	if alive.Load() == 0 {
		w.Error("the token was never active: nothing was tested")
	}
	if n := late.Load(); n > 0 {
		w.Errorf("after its revocation, a token was reported active %d times", n)
	}
	w.wire.Sever()
	w.wire.Heal()
}

func (w *world) code() string {
	w.Helper()
	code, err := w.nodes[0].FastCode(w.Context(), "alice")
	w.must(err)
	return code
}
