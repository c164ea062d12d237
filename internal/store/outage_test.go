package store_test

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store"
)

// An outage has one beginning, and ends with its length and the number of failures.
func TestAnOutageHasOneBeginningAndOneEnd(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	after := func(d time.Duration) time.Time { return at.Add(d) }
	var o store.Outage
	if o.Quiet(at, 0) {
		t.Error("an outage before anything has failed")
	}
	for n := range 128 {
		if first := o.Begins(after(time.Duration(n) * 100 * time.Millisecond)); first != (n == 0) {
			t.Errorf("failure %d begins an outage: %t", n, first)
		}
	}
	if o.Quiet(after(13*time.Second), time.Second) || !o.Quiet(after(14*time.Second), time.Second) {
		t.Error("it is quiet at another time than a second after the last failure")
	}
	if lasted, failed := o.End(); lasted != 12700*time.Millisecond || failed != 128 {
		t.Errorf("%s, %d failures", lasted, failed)
	}
	if o.Quiet(after(time.Hour), time.Second) || !o.Begins(after(time.Hour)) {
		t.Error("the next outage is part of the one before")
	}
	var none *store.Outage
	if !none.Begins(at) || !none.Begins(at) {
		t.Error("without one, each failure is logged")
	}
}
