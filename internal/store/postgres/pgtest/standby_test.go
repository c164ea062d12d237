package pgtest_test

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// The primary's word is only worth as much as this: what it has answered is
// there after its loss, and what it makes up alone is never answered.
func TestAStandbyHasWhatThePrimaryHasAnswered(t *testing.T) {
	t.Parallel()
	primary, err := pgtest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	stopped := func(s *pgtest.Server) {
		t.Cleanup(func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	stopped(primary)
	standby, err := pgtest.StartStandby(primary, primary.Address())
	if err != nil {
		t.Fatal(err)
	}
	stopped(standby)
	primary.Run(t, "postgres", `CREATE TABLE words (word text); INSERT INTO words VALUES ('answered')`)

	if err := standby.Freeze(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() { answered <- primary.Run(t, "postgres", `INSERT INTO words VALUES ('held') RETURNING word`) }()
	waiting := func() bool {
		return primary.Run(t, "postgres", `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`) == "1"
	}
	for end := time.Now().Add(time.Minute); !waiting() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	select {
	case <-answered:
		t.Error("a commit was answered while the standby was frozen")
	default:
	}
	if err := standby.Thaw(); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != "held" {
		t.Errorf("%q", got)
	}

	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	if got := standby.Run(t, "postgres", `INSERT INTO words VALUES ('new'); SELECT string_agg(word, ' ') FROM words`); got != "answered held new" {
		t.Errorf("the new primary has %q", got)
	}
	// The old one comes back and does not know.
	if err := primary.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := primary.Run(t, "postgres", `SELECT pg_is_in_recovery(), string_agg(word, ' ') FROM words`); got != "f|answered held" {
		t.Errorf("the old primary says %q", got)
	}
}
