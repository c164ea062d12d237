package main

import (
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/bench"
)

// runOf returns a run of one second with a number of requests, each of which took cpu
// microseconds of the server.
func runOf(requests int64, cpu int64) measured {
	return measured{Result: &bench.Result{Requests: requests, Elapsed: time.Second,
		Server: &bench.Usage{CPU: time.Duration(requests*cpu) * time.Microsecond}}, commits: 100}
}

func TestARatioComparesRunsOfTheSameRound(t *testing.T) {
	r := newReport(options{})
	// The machine is slower in each round, but the ratio is equal.
	for _, n := range []int64{4000, 3000, 2000} {
		r.add(bareRefresh, runOf(n, 50))
		r.add(refresh, runOf(n/2, 75))
	}
	if got := r.ratio(refresh, bareRefresh, measured.Throughput); got != 0.5 {
		t.Errorf("throughput ratio %v", got)
	}
	if got := r.ratio(refresh, bareRefresh, measured.cpu); got != 1.5 {
		t.Errorf("processor ratio %v", got)
	}
}

func TestAVerdictIsWhatTheFigureSays(t *testing.T) {
	verdicts := func(refreshes, cpu, codes, exchange, many, pages, peak, written int64) string {
		r := newReport(options{grants: 1_000_000})
		r.total, r.alone, r.written = 1000, 1000, written
		r.add(bareRefresh, runOf(1000, 100))
		r.add(refresh, runOf(refreshes, cpu))
		r.add(code, runOf(codes, exchange))
		r.add(large, runOf(many, 50))
		r.sizes = &sizes{grants: 10, table: pages, index: 1, payload: 1, file: 1}
		r.usage["small"] = bench.Usage{Resident: 1, Peak: peak}
		r.usage["bare"] = bench.Usage{Resident: 1, Peak: 200e6}
		var b strings.Builder
		r.print(&b)
		var got []string
		for line := range strings.Lines(b.String()) {
			for _, v := range []string{"met", "missed"} {
				if strings.HasSuffix(strings.TrimSpace(line), "| "+v+" |") {
					got = append(got, v)
				}
			}
		}
		return strings.Join(got, " ")
	}
	// refresh, its processor time, codes, their processor time, large, bytes of pages, memory, bytes written
	if got, want := verdicts(500, 210, 400, 290, 400, 2500, 99_999_999, 2_400_000), "met met met met met met met met"; got != want {
		t.Errorf("at the bars: %s", got)
	}
	if got, want := verdicts(499, 211, 399, 291, 399, 2501, 100_000_000, 2_401_000), "missed missed missed missed missed missed missed missed"; got != want {
		t.Errorf("just beyond them: %s", got)
	}
	if got, want := verdicts(1000, 100, 399, 100, 850, 2500, 1, 1), "met met missed met met met met met"; got != want {
		t.Errorf("one missed: %s", got)
	}
}

func TestFiguresAreGroupedForPeople(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 12345.6: "12,346", 1e6: "1,000,000"} {
		if got := thousands(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("median of three: %v", got)
	}
	if got := median([]float64{4, 1, 2, 9}); got != 3 {
		t.Errorf("median of four: %v", got)
	}
}

func TestAMeasurementIsMadeWithWhatItIsComparedWith(t *testing.T) {
	for only, want := range map[string]string{
		"":             "bare bare-tuned refresh introspect verify service authorize device-poll exchange bare-signing jwt bare-verifying refresh-bound introspect-bound verify-bound code id-token large bare-connect connect",
		"refresh":      "bare refresh",
		"large":        "bare refresh large",
		"jwt,verify":   "bare verify bare-signing jwt",
		"code,connect": "bare code bare-connect connect",
		"id-token":     "bare-signing id-token",
		"verify-bound": "bare-verifying verify-bound",
	} {
		s := suite{}
		if only != "" {
			s.only = strings.Split(only, ",")
		}
		if got := strings.Join(s.wanted(), " "); got != want {
			t.Errorf("-only %q measures %s", only, got)
		}
	}
}
