package server

import (
	"fmt"
	"testing"
	"time"
)

// Requests are kept for operators who watch a client, in bounded memory, and only while
// they watch.
func TestWatches(t *testing.T) {
	var w Watches
	now := time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)
	w.note("/api", "shop", Sighting{RequestID: "before"})
	if seen, ok := w.Look("/api", "shop", now); !ok || len(seen) != 0 {
		t.Fatalf("at first: %v, %v", seen, ok)
	}
	w.note("/api", "shop", Sighting{RequestID: "one"})
	w.note("/api", "other", Sighting{RequestID: "of another"})
	w.note("/staff", "shop", Sighting{RequestID: "of another realm"})
	w.note("/api", unknownClient, Sighting{RequestID: "of nobody"})
	w.note("/staff", unknownClient, Sighting{RequestID: "of nobody there"})
	seen, _ := w.Look("/api", "shop", now)
	if len(seen) != 2 || seen[0].RequestID != "one" || seen[0].Unknown || seen[1].RequestID != "of nobody" || !seen[1].Unknown {
		t.Errorf("it has seen %+v", seen)
	}
	for i := range 2 * maxSeen {
		w.note("/api", "shop", Sighting{RequestID: fmt.Sprint(i)})
	}
	if seen, _ := w.Look("/api", "shop", now); len(seen) != maxSeen {
		t.Errorf("%d requests are kept", len(seen))
	}
	for i := range maxWatched - 1 {
		if _, ok := w.Look("/api", fmt.Sprint(i), now); !ok {
			t.Fatalf("client %d is not watched", i)
		}
	}
	if _, ok := w.Look("/api", "one more", now); ok {
		t.Error("more are watched than may be")
	}
	now = now.Add(watchTime + time.Second)
	if seen, ok := w.Look("/api", "shop", now); !ok || len(seen) != 0 {
		t.Errorf("after the time: %d, %v", len(seen), ok)
	}
	if n := w.watched.Load(); n != 1 {
		t.Errorf("%d are watched", n)
	}
}
