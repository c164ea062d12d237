package bench

import (
	"net/http"
	"testing"
	"time"
)

func TestAtARateRequestsCountFromWhenTheyWereDue(t *testing.T) {
	const rate, requests, held = 200, 30, 100 * time.Millisecond
	e := endpoint{misbehave: func(n int64, _ http.ResponseWriter) bool {
		if n == 1 {
			time.Sleep(held) // the first makes those that come after it late
		}
		return false
	}}
	target, tokens := e.start(t, 1)
	load := Load{Target: target, Operation: Refresh, Connections: 1, Requests: requests, Rate: rate, Chains: Split(tokens, 1)}
	r, err := load.Run(t.Context())
	if err != nil || r.Requests != requests || r.Failed() != 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	// The last is due after 145 ms.
	if least := time.Second * (requests - 1) / rate; r.Elapsed < least {
		t.Errorf("%d requests at %d a second took %s, want %s", requests, rate, r.Elapsed, least)
	}
	// Ten more were due while the first was held, up to 50 ms before its end.
	if late := r.Latency.Quantile(.8); late < held/4 || r.Latency.Max() < held {
		t.Errorf("four of five took %s at most, the longest %s: those that were late do not count from when they were due", late, r.Latency.Max())
	}
	load.Requests, load.Duration = 0, held
	if r, err = load.Run(t.Context()); err != nil || r.Requests != 20 || r.Failed() != 0 {
		t.Errorf("%s at %d a second: %v, %+v; want 20 requests", held, rate, err, r)
	}
}
