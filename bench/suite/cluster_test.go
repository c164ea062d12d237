package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/bench"
)

func TestAVerdictOnPostgreSQLIsWhatTheFigureSays(t *testing.T) {
	verdicts := func(one, two, three int64, tail time.Duration) string {
		r := clusterReport{report: newReport(options{rounds: 3}), rows: rows{grants: 1}}
		// The machine is slower in each round, but the ratios are equal.
		for slow := range int64(3) {
			slow++
			for name, n := range map[string]int64{
				"pgbench-1": 10, "pgbench-8": 12_000, "pgbench-64": 11_000, onSQLite: 9000, halfOnSQLite: 4500, halfOnOne: 3000,
				oneNode: one, twoNodes: two, threeNodes: three, threeFull: one, oneBefore: 2 * one,
			} {
				m := runOf(n/slow, 100)
				m.Latency.Add(time.Millisecond * time.Duration(slow))
				if name == halfOnOne {
					m.Result = &bench.Result{Requests: m.Requests, Elapsed: m.Elapsed, Server: m.Server}
					m.Latency.Add(tail * time.Duration(slow))
				}
				r.add(name, m)
			}
		}
		var b strings.Builder
		r.print(&b)
		if !strings.Contains(b.String(), "clients: 8 (the best)") {
			t.Errorf("the best of pgbench is not the one with 8 clients:\n%s", b.String())
		}
		if !strings.Contains(b.String(), "throughput of the program before | 0.50 (") {
			t.Errorf("half of the program before is not said:\n%s", b.String())
		}
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
	// throughput, p99, 2 nodes, 3 nodes
	if got, want := verdicts(11_040, 9936, 10_488, 2900*time.Microsecond), "met met met met"; got != want {
		t.Errorf("at the bars: %s", got)
	}
	if got, want := verdicts(10_900, 9700, 10_900, 2900*time.Microsecond), "missed met missed met"; got != want {
		t.Errorf("less than pgbench, and two nodes slower: %s", got)
	}
	if got, want := verdicts(11_100, 11_100, 10_500, 3100*time.Microsecond), "met missed met missed"; got != want {
		t.Errorf("slow answers, and three nodes slower: %s", got)
	}
}

func TestWhatPgbenchSaysIsRead(t *testing.T) {
	const text = `pgbench (15.9 (Debian 15.9-0+deb12u1))
transaction type: /tmp/script
scaling factor: 1
query mode: prepared
number of clients: 8
number of transactions actually processed: 19952
number of failed transactions: %d (0.000%%)
latency average = 4.010 ms
initial connection time = 12.345 ms
tps = 9976.000000 (without initial connection time)
`
	m, err := readPgbench(fmt.Appendf(nil, text, 0))
	if err != nil || m.Requests != 19952 || m.Elapsed != 2*time.Second || m.Latency.Max() != 4010*time.Microsecond {
		t.Errorf("%+v, %v", m.Result, err)
	}
	if _, err := readPgbench(fmt.Appendf(nil, text, 1)); err == nil || !strings.Contains(err.Error(), "1 transactions failed") {
		t.Errorf("a failed transaction: %v", err)
	}
	if _, err := readPgbench([]byte("pgbench: error: connection refused")); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("no figures: %v", err)
	}
}

func TestANodesAddressIsReadFromItsLog(t *testing.T) {
	log := `{"level":"WARN","msg":"departure from the specification","what":"serving"}` + "\n"
	if got := listening([]byte(log)); got != "" {
		t.Errorf("before it serves: %q", got)
	}
	log += `{"level":"INFO","msg":"serving","listen":"127.0.0.1:4711","management":"127.0.0.1:4712"}` + "\n"
	if got := listening([]byte(log)); got != "127.0.0.1:4711" {
		t.Errorf("address %q", got)
	}
}
