//go:build e2e

package nodes

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestACommandOnAMachineWhoseClockIsBehindEndsEverything runs a command in its own
// process, while a node's clock is a minute ahead. The cutoff must also cover tokens that
// this node has issued.
func TestACommandOnAMachineWhoseClockIsBehindEndsEverything(t *testing.T) {
	t.Parallel()
	schema, url := database.Schema(t)
	s := binary.Start(t, t.TempDir(), "--store", url)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	const ahead = time.Minute
	beat := func() {
		database.Run(t, "postgres", fmt.Sprintf(`INSERT INTO %s.nodes (id, name, since, clock, forms) VALUES (decode('%032x', 'hex'), 'ahead', 0, %d, 7)
			ON CONFLICT (id) DO UPDATE SET clock = excluded.clock`, schema, 1, time.Now().Add(ahead).UnixMilli()))
	}
	beat()
	done := make(chan string)
	go func() {
		out, text, err := s.Try(t, "grant", "revoke", "--subject", "alice")
		done <- fmt.Sprintln(out, text, err)
	}()
	for out := ""; out == ""; beat() {
		select {
		case out = <-done:
			until, err := time.Parse(time.RFC3339, regexp.MustCompile(`20\S+Z`).FindString(out))
			if err != nil || time.Until(until) < ahead {
				t.Errorf("the cutoff is %v from now, %v: %s", time.Until(until), err, out)
			}
		case <-time.After(300 * time.Millisecond):
		}
	}
}
