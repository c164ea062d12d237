package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store"
)

// The log has one line for the beginning of an outage, and one for its end, with its
// length and the number of failures.
func TestAnOutageHasOneBeginningAndOneEnd(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	after := func(d time.Duration) time.Time { return at.Add(d) }
	var log bytes.Buffer
	o := store.Outage{Log: slog.New(slog.NewTextHandler(&log, nil))}
	gone := store.Unavailable(errors.New("connection refused"))
	if o.Quiet(at, 0) {
		t.Error("an outage before anything has failed")
	}
	for n := range 128 {
		if !o.Combines(fmt.Errorf("a task: %w", gone), after(time.Duration(n)*100*time.Millisecond)) {
			t.Errorf("failure %d is not of the outage", n)
		}
		elsewhere := store.Unavailable(&store.ExternalFault{Cause: errors.New("fetch keys: no answer")})
		if o.Combines(errors.New("a document that cannot be read"), after(time.Hour)) || o.Combines(nil, after(time.Hour)) || o.Combines(elsewhere, after(time.Hour)) {
			t.Error("the outage combines what it does not cause")
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "answered 503") || !strings.Contains(text, "refused") {
		t.Errorf("the log of the outage is not one error:\n%s", text)
	}
	if o.Quiet(after(13*time.Second), time.Second) || !o.Quiet(after(14*time.Second), time.Second) {
		t.Error("it is quiet at another time than a second after the last failure")
	}
	if lasted, failed := o.End(after(14 * time.Second)); lasted != 14*time.Second || failed != 128 {
		t.Errorf("%s, %d failures", lasted, failed)
	}
	if o.Quiet(after(time.Hour), time.Second) || !o.Combines(gone, after(time.Hour)) || strings.Count(log.String(), "\n") != 2 {
		t.Error("the next outage is part of the one before")
	}
	var none *store.Outage
	if none.Combines(gone, at) || none.Combines(gone, at) {
		t.Error("without one, each failure is logged")
	}
}
