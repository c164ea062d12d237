package client

import (
	"strconv"
	"testing"
	"time"
)

// What is remembered of assertions is bounded, for all clients and for each: one that
// floods the server leaves room for the others, and nothing that was used is forgotten
// while it could be presented again.
func TestUsedAssertionsAreBounded(t *testing.T) {
	t.Parallel()
	var u used
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	note := func(clientID, jti string, wantFirst, wantFull bool) {
		t.Helper()
		if first, full := u.note(clientID, jti, now); first != wantFirst || full != wantFull {
			t.Fatalf("%s of %s: first %t, full %t", jti, clientID, first, full)
		}
	}
	for _, clientID := range []string{"a", "b", "c", "d"} {
		for i := range maxUsedOfOne {
			note(clientID, strconv.Itoa(i), true, false)
		}
		note(clientID, "one more", false, true)
		note(clientID, "0", false, false)
	}
	if len(u.present) != maxUsed {
		t.Errorf("%d are remembered, and %d are the bound", len(u.present), maxUsed)
	}
	note("e", "0", false, true)
	now = now.Add(usedPeriod)
	note("e", "0", true, false)
	note("a", "0", false, false)
	note("a", "one more", true, false)
	now = now.Add(usedPeriod)
	note("a", "0", true, false) // every assertion of then has expired
}
