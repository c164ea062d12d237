package bench

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestAtARateRequestsCountFromWhenTheyWereDue(t *testing.T) {
	const rate, requests, held = 200, 30, 100 * time.Millisecond
	e := endpoint{misbehave: func(n int64, _ http.ResponseWriter) bool {
		if n == 1 {
			time.Sleep(held) // the first request delays those after it
		}
		return false
	}}
	target, tokens := e.start(t, 1)
	load := Load{Target: target, Operation: Refresh, Connections: 1, Requests: requests, Rate: rate, Chains: Split(tokens, 1)}
	r, err := load.Run(t.Context())
	if err != nil || r.Requests != requests || r.Failed() != 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	// The last request is due after 145 ms.
	if least := time.Second * (requests - 1) / rate; r.Elapsed < least {
		t.Errorf("%d requests at %d a second took %s, want %s", requests, rate, r.Elapsed, least)
	}
	// Ten more requests were due while the first one was held, up to 50 ms before its
	// end.
	if late := r.Latency.Quantile(.8); late < held/4 || r.Latency.Max() < held {
		t.Errorf("four of five took %s at most, the longest %s: those that were late do not count from when they were due", late, r.Latency.Max())
	}
	// With one request a minute for a minute, the second one is due after the end: the
	// run does not wait for it.
	load.Requests, load.Duration, load.Rate = 0, time.Minute, 1./60
	if r, err = load.Run(t.Context()); err != nil || r.Requests != 1 || r.Failed() != 0 {
		t.Errorf("a minute at one a minute: %v, %+v; want one request", err, r)
	}
}

// Requests are due at equal distances, and exactly those before the end of the load,
// however late a worker is.
func TestRequestsAreDueAtTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{run: &run{Load: &Load{Rate: 200, Duration: 100 * time.Millisecond}, begin: time.Now()}}
		for ticket := range int64(20) {
			want := w.begin.Add(time.Duration(ticket) * 5 * time.Millisecond)
			if ticket == 7 {
				time.Sleep(12 * time.Millisecond) // two requests are late
			}
			if at, due := w.await(t.Context(), ticket+1); !due || !at.Equal(want) || time.Now().Before(want) {
				t.Errorf("request %d: %s after the beginning, %t; want %s", ticket, at.Sub(w.begin), due, want.Sub(w.begin))
			}
		}
		if _, due := w.await(t.Context(), 21); due || time.Since(w.begin) > 95*time.Millisecond {
			t.Errorf("one more is due, %s after the beginning", time.Since(w.begin))
		}
	})
}
