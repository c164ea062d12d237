package main

import (
	"testing"
	"time"

	"github.com/mintage/mintage/bench"
)

func TestARowComparesWithMintageInTheSameRound(t *testing.T) {
	runs := func(requests ...int64) map[bench.Operation][]measured {
		var list []measured
		for _, n := range requests {
			m := measured{Result: &bench.Result{Requests: n, Elapsed: time.Second, Server: &bench.Usage{CPU: time.Duration(n) * 50 * time.Microsecond, Peak: 40e6 + n}}, database: time.Duration(n) * 20 * time.Microsecond}
			m.Latency.Add(time.Millisecond)
			list = append(list, m)
		}
		return map[bench.Operation][]measured{bench.Refresh: list}
	}
	base := &contender{name: "Mintage", store: "SQLite", connections: 64, runs: runs(1000, 4000, 2000)}
	other := &contender{name: "other", store: "PostgreSQL", connections: 64, base: base, runs: runs(500, 1000, 200)}
	latency := milliseconds(base.runs[bench.Refresh][0].Latency.Quantile(.5))
	for _, tt := range []struct {
		c    *contender
		want string
	}{
		{base, "| refresh | Mintage | SQLite | 64 | 2,000 (1,000 to 4,000) |  | 50.0 (50.0 to 50.0) |  | " + latency + " | " + latency + " | 40 MB |"},
		{other, "| refresh | other | PostgreSQL | 64 | 500 (200 to 1,000) | 0.250 (0.100 to 0.500) | 50.0 (50.0 to 50.0) | 20.0 (20.0 to 20.0) | " + latency + " | " + latency + " | 40 MB |"},
	} {
		if got := tt.c.row(bench.Refresh); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestABrowserIsSentToAPageOrToTheClient(t *testing.T) {
	for location, want := range map[string][2]string{
		"https://pages.example/login?login_challenge=a%3D":              {"login", "a="},
		"https://pages.example/consent?consent_challenge=b":             {"consent", "b"},
		"https://client.example/callback?code=ory_ac_c&scope=a&state=s": {"code", "ory_ac_c"},
	} {
		if next, value, err := step(location); err != nil || next != want[0] || value != want[1] {
			t.Errorf("%s: %s %s %v", location, next, value, err)
		}
	}
	for _, location := range []string{"", "https://client.example/callback?error=access_denied", "%"} {
		if next, value, err := step(location); err == nil {
			t.Errorf("%q: %s %s", location, next, value)
		}
	}
}
