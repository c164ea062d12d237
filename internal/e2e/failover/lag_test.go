//go:build e2e

package failover

import (
	"strconv"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestStandbyThatLagsLosesNothing makes the standby fall behind in both ways: it does not
// answer for a while, and it does not apply the WAL that it has received.
func TestStandbyThatLagsLosesNothing(t *testing.T) {
	t.Parallel()
	w := begin(t, 3)
	time.Sleep(time.Second)
	w.frozen(time.Duration(binary.Scaled(8, 30)) * time.Second)

	// The primary acknowledges a commit when the standby has flushed it. The standby need
	// not have applied it: a promotion applies all of its WAL first.
	w.new().server.Run(t, "postgres", `SELECT pg_wal_replay_pause()`)
	for end := time.Now().Add(patience); w.new().server.Run(t, "postgres",
		`SELECT pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn() > 100000`) != "t"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the standby does not fall behind: nothing was tested")
		}
	}
	w.must(w.old().server.Kill())
	w.load.Mark()
	time.Sleep(500 * time.Millisecond)
	w.unserved()
	w.must(w.new().server.Promote())
	w.load.Mark()
	w.recovered("killed with a standby behind it", 10*time.Second)
	w.remembered()
	w.finish()
}

// frozen stops the standby for a while. Commits wait for the standby meanwhile; the nodes
// must not pile up connections.
func (w *world) frozen(length time.Duration) {
	w.Helper()
	// The connections that a PostgreSQL with default settings accepts: 100, less 3
	// reserved.
	const limit = 97
	sessions := func() int {
		n, err := strconv.Atoi(w.old().server.Run(w, "mintage", `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`))
		w.must(err)
		return n
	}
	before, most := sessions(), 0
	w.must(w.new().server.Freeze())
	w.load.Mark()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		most = max(most, sessions())
	}
	for i, a := range w.load.Since() {
		w.Logf("standby frozen for %v: node %d answered %d requests 200 and %d 503", length, i, a.Issued, a.Unavailable)
		if a.Unavailable == 0 {
			w.Errorf("node %d has answered no request 503 in the %v without a commit", i, length)
		}
	}
	w.must(w.new().server.Thaw())
	w.load.Mark()
	// Sessions that waited for the standby all commit at once, while other tests use the
	// machine.
	w.recovered("standby thawed", 20*time.Second)
	w.Logf("sessions on the primary: %d before, %d at most while the standby was frozen, %d after", before, most, sessions())
	if most > limit {
		w.Errorf("the nodes had %d sessions on the primary, want %d at most", most, limit)
	}
	w.remembered()
}
