//go:build e2e

package failover

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestTheChecksNoticeLostWrites is the control experiment of the other tests: when
// the primary does not wait for its standby, acknowledged writes are lost, and the checks
// must notice.
func TestTheChecksNoticeLostWrites(t *testing.T) {
	t.Parallel()
	w := begin(t, 1)
	w.old().server.Run(t, "postgres", `ALTER SYSTEM SET synchronous_standby_names = ''`)
	w.old().server.Run(t, "postgres", `SELECT pg_reload_conf()`)
	w.wire.Cut() // nothing more reaches the standby
	// Wait until each client has completed a chain, from code to last token, since the
	// cut.
	for before, end := len(w.load.Finished()), time.Now().Add(patience); len(w.load.Finished()) < before+3*clients; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the load makes no progress: the primary may wait for its standby")
		}
	}
	w.stop()
	w.working.Wait()
	w.must(w.old().server.Kill())
	w.must(w.new().server.Promote())

	var broken atomic.Int64
	w.load.Fault = func(string, ...any) { broken.Add(1) }
	w.load.Patience = 4 * time.Second
	all := w.load.Finished()
	late := all[len(all)-clients:]
	w.load.Replay(w.client, late)
	if w.load.Judge() == 0 {
		t.Error("codes were redeemed twice, and Judge accepted the histories")
	}
	broken.Store(0)
	w.load.Verify(w.client, late)
	if broken.Load() == 0 {
		t.Error("tokens were lost, and Verify did not notice")
	}
}
