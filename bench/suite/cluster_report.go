package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mintage/mintage/bench"
)

// A clusterReport is a report of runs on PostgreSQL.
type clusterReport struct {
	report
	costs       []cost
	rows        rows
	connections int // of three nodes to the database
}

// A cost is what the requests of a number of callers cost the database.
type cost struct {
	callers int
	images  bool // after a checkpoint
	measured
	work work
}

// best is the run of pgbench with the highest median.
func (r *clusterReport) best() (name string) {
	var names []string
	for n := range r.runs {
		if strings.HasPrefix(n, "pgbench-") {
			names = append(names, n)
		}
	}
	return slices.MaxFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.rate(a), r.rate(b)), cmp.Compare(a, b))
	})
}

func (r *clusterReport) rate(name string) float64 {
	var list []float64
	for _, m := range r.runs[name] {
		list = append(list, m.Throughput())
	}
	return median(list)
}

// databaseCPU returns microseconds of the database's processors per request.
func (m measured) databaseCPU() float64 {
	return float64(m.database.Nanoseconds()) / 1000 / float64(m.Requests)
}

func tenths(v float64) string { return fmt.Sprintf("%.1f", v) }

func (m measured) tail() float64 { return float64(m.Latency.Quantile(.99)) }

// ofPgbench is the share of pgbench's throughput that a node must reach. ofOne is the
// share of one node's throughput that several nodes must reach: they share the machine's
// processors, and their rows travel in smaller batches.
const ofPgbench = 0.92

var ofOne = map[string]float64{twoNodes: 0.9, threeNodes: 0.95}

// print writes the report in Markdown.
func (r *clusterReport) print(w io.Writer) {
	if r.quick {
		fmt.Fprintln(w, "\nA smoke test: too short for its figures to mean anything.")
	}
	fmt.Fprintf(w, "\n%s; fsync of 4 KiB %s (median). PostgreSQL 15 as Debian configures it, on the same machine; %s grants, %d connections, %d rounds of runs of %s "+
		"in turn; median (smallest to largest). A ratio is the median of the ratios within each round.\n\n",
		machine(), milliseconds(r.disk), thousands(float64(r.grants)), r.options.connections, r.rounds, r.duration)
	best := r.best()
	fmt.Fprintln(w, "| measurement | per second | of pgbench | nodes: CPU µs/request | database: CPU µs/request | p50 | p99 |")
	fmt.Fprintln(w, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	line := func(name, title string) {
		runs := r.runs[name]
		var latency bench.Histogram
		for _, m := range runs {
			latency.Merge(&m.Latency)
		}
		ratio, cpu, database, p50, p99 := "", "", "", "", ""
		if runs[0].Server != nil {
			ratio = fmt.Sprintf("%.2f", r.ratio(name, best, measured.Throughput))
			cpu = spread(runs, measured.cpu, tenths)
			if runs[0].database > 0 {
				database = spread(runs, measured.databaseCPU, tenths)
			}
			p50, p99 = milliseconds(latency.Quantile(.5)), milliseconds(latency.Quantile(.99))
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", title, spread(runs, measured.Throughput, thousands), ratio, cpu, database, p50, p99)
	}
	for _, clients := range []int{1, 2, 4, 8, 16, 32, 64} {
		if name := pgbenchName(clients); len(r.runs[name]) > 0 {
			title := fmt.Sprintf("pgbench, the same update, prepared, clients: %d", clients)
			if name == best {
				title += " (the best)"
			}
			line(name, title)
		}
	}
	line(onSQLite, "refresh on the embedded store")
	line(oneNode, "refresh on PostgreSQL, 1 node")
	if len(r.runs[oneBefore]) > 0 {
		line(oneBefore, "the same, of the program before")
	}
	line(twoNodes, "the same, 2 nodes")
	line(threeNodes, "the same, 3 nodes")
	line(threeFull, fmt.Sprintf("3 nodes, %d connections to each", r.options.connections))
	line(halfOnSQLite, "half of that load, embedded store")
	line(halfOnOne, "half of that load, PostgreSQL, 1 node")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "| figure | measured | bar | |")
	fmt.Fprintln(w, "| --- | ---: | ---: | --- |")
	for _, b := range r.bars(best) {
		verdict := "missed"
		switch {
		case b.bar == "":
			verdict = ""
		case b.met:
			verdict = "met"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", b.what, b.measured, b.bar, verdict)
	}
	r.printCosts(w)
}

func (r *clusterReport) bars(best string) (list []bar) {
	between := func(name, base string, value func(measured) float64) (v float64, text string) {
		var ratios []float64
		for i, m := range r.runs[name] {
			ratios = append(ratios, value(m)/value(r.runs[base][i]))
		}
		return median(ratios), fmt.Sprintf("%.2f (%.2f to %.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
	}
	v, text := between(oneNode, best, measured.Throughput)
	list = append(list, bar{"refresh over HTTPS, 1 node, throughput of " + best, text, fmt.Sprintf("≥ %.2f", ofPgbench), v >= ofPgbench})
	v, text = between(halfOnOne, halfOnSQLite, measured.tail)
	list = append(list, bar{"p99 at half load, of the embedded store's", text, "< 3.00", v < 3})
	for name, nodes := range map[string]int{twoNodes: 2, threeNodes: 3} {
		v, text = between(name, oneNode, measured.Throughput)
		list = append(list, bar{fmt.Sprintf("%d nodes, throughput of one", nodes), text, fmt.Sprintf("≥ %.2f", ofOne[name]), v >= ofOne[name]})
	}
	slices.SortStableFunc(list[2:], func(a, b bar) int { return cmp.Compare(a.what, b.what) })
	compare := func(what, name, base string, value func(measured) float64) {
		_, text := between(name, base, value)
		list = append(list, bar{what: what, measured: text})
	}
	compare("3 nodes with as many connections to each, throughput of one", threeFull, oneNode, measured.Throughput)
	if len(r.runs[oneBefore]) > 0 {
		compare("1 node, throughput of the program before", oneNode, oneBefore, measured.Throughput)
		compare("the same, CPU of the node per request", oneNode, oneBefore, measured.cpu)
		compare("the same, CPU of the database per request", oneNode, oneBefore, measured.databaseCPU)
	}
	return list
}

func (r *clusterReport) printCosts(w io.Writer) {
	fmt.Fprintln(w)
	fmt.Fprintln(w, "| callers at a time | refreshes/s | p50 | commits per refresh | syncs of the log per refresh | bytes of log per refresh | whole pages in it per refresh |")
	fmt.Fprintln(w, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, c := range r.costs {
		per := func(n int64) float64 { return float64(n) / float64(c.Requests) }
		callers := fmt.Sprint(c.callers)
		if c.images {
			callers += ", after a checkpoint"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %.3f | %.3f | %.0f | %.3f |\n", callers, thousands(c.Throughput()), milliseconds(c.Latency.Quantile(.5)),
			per(c.work.commits), per(c.work.syncs), per(c.work.wal), per(c.work.images))
	}
	per := func(n int64) float64 { return float64(n) / float64(r.rows.grants) }
	fmt.Fprintf(w, "\nBytes on disk for each of %s grants: table %.0f, primary key %.0f, indexes by subject and client %.0f. Connections of three nodes: %d.\n",
		thousands(float64(r.rows.grants)), per(r.rows.table), per(r.rows.key), per(r.rows.indexes), r.connections)
}
