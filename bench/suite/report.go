package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/bench"
)

// A report collects the runs and turns them into tables.
type report struct {
	options
	disk    time.Duration // see probeDisk
	runs    map[string][]measured
	usage   map[string]bench.Usage // of each server, at the end
	total   int                    // all rotations of the large store
	alone   int                    // rotations during which nothing else was written
	written int64                  // bytes that the disk wrote during these
	sizes   *sizes                 // of the large store
}

func newReport(opt options) report {
	return report{options: opt, runs: map[string][]measured{}, usage: map[string]bench.Usage{}}
}

func (r *report) add(name string, m measured) { r.runs[name] = append(r.runs[name], m) }

// finish measures what can only be known at the end: rotations up to a million in all,
// final memory, and sizes once the server has stopped.
func (s *suite) finish(ctx context.Context, rotated int) error {
	if s.large != nil {
		n, err := s.rotate(ctx, s.grants-rotated)
		if err != nil {
			return err
		}
		s.report.total = rotated + n
	}
	for name, h := range map[string]*host{"bare": s.bare, "small": s.small, "codes": s.codes, "large": s.large} {
		if h == nil {
			continue
		}
		u, err := bench.ReadUsage(h.pid())
		if err != nil {
			return err
		}
		s.report.usage[name] = u
	}
	for _, h := range []*host{s.small, s.codes, s.idTokens, s.large, s.jwts} {
		if h == nil {
			continue
		}
		if err := h.stop(); err != nil {
			return err
		}
	}
	if s.large == nil {
		return nil
	}
	sizes, err := readSizes(ctx, s.large.data.dir)
	s.report.sizes = &sizes
	return err
}

// title returns a measurement's name in the table.
func (r *report) title(name string) string {
	switch name {
	case bareRefresh:
		return "bare `net/http` handler"
	case bareTuned:
		return "bare handler with the server's own GOGC and GOMAXPROCS"
	case refresh:
		return "refresh, opaque tokens, " + thousands(smallGrants) + " grants"
	case code:
		return "code exchange"
	case large:
		return "refresh, opaque tokens, " + thousands(float64(r.grants)) + " grants"
	case introspect:
		return "introspection, opaque access token"
	case verify:
		return "verification for a proxy, opaque access token"
	case service:
		return "token of a client for itself, opaque"
	case authorized:
		return "authorization, signed in and agreed before"
	case devicePoll:
		return "poll of a device whose user has not answered"
	case exchanged:
		return "token exchange, opaque"
	case bareSigning:
		return "bare handler and one ES256 signature"
	case bareVerifying:
		return "bare handler that verifies one ES256 signature"
	case refreshBound:
		return "refresh with a DPoP proof, opaque tokens"
	case introspectBound:
		return "introspection, access token that is bound to a key"
	case verifyBound:
		return "verification for a proxy, bound access token and proof"
	case jwt:
		return "refresh, ES256 JWT access token"
	case idToken:
		return "code exchange with an ES256 id_token"
	case bareConnect:
		return "bare handler, new TLS connection each"
	}
	return "refresh, new TLS connection each"
}

// print writes the report in Markdown.
func (r *report) print(w io.Writer) {
	if r.quick {
		fmt.Fprintln(w, "\nA smoke test: too short for its figures to mean anything.")
	}
	fmt.Fprintf(w, "\n%s; fsync of 4 KiB %s (median). %d connections, %d rounds of runs of %s in turn; median (smallest to largest). "+
		"A ratio is the median of the ratios within each round.\n\n", machine(), milliseconds(r.disk), r.connections, r.rounds, r.duration)
	fmt.Fprintln(w, "| measurement | requests/s | of bare | server CPU µs/request | of bare | p50 | p99 | requests/commit |")
	fmt.Fprintln(w, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, name := range names {
		runs := r.runs[name]
		if len(runs) == 0 {
			continue
		}
		var latency bench.Histogram
		var requests, commits float64
		for _, m := range runs {
			latency.Merge(&m.Latency)
			requests += float64(m.Requests)
			commits += float64(m.commits)
		}
		speedRatio, cpuRatio, batch := "", "", ""
		if base := yardstick[name]; base != "" {
			speedRatio = fmt.Sprintf("%.2f", r.ratio(name, base, measured.Throughput))
			cpuRatio = fmt.Sprintf("%.2f", r.ratio(name, base, measured.cpu))
			if commits > 0 {
				batch = fmt.Sprintf("%.1f", requests/commits)
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.title(name),
			spread(runs, measured.Throughput, thousands), speedRatio,
			spread(runs, measured.cpu, func(v float64) string { return fmt.Sprintf("%.1f", v) }), cpuRatio,
			milliseconds(latency.Quantile(.5)), milliseconds(latency.Quantile(.99)), batch)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "| figure | measured | bar | |")
	fmt.Fprintln(w, "| --- | ---: | ---: | --- |")
	for _, b := range r.bars() {
		verdict := "missed"
		switch {
		case b.bar == "":
			verdict = ""
		case b.met:
			verdict = "met"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", b.what, b.measured, b.bar, verdict)
	}
}

// A bar is a figure with its limit.
type bar struct {
	what, measured, bar string
	met                 bool
}

func (r *report) bars() (list []bar) {
	atLeast := func(what, name, base string, least float64) {
		if len(r.runs[name]) > 0 && len(r.runs[base]) > 0 {
			v := r.ratio(name, base, measured.Throughput)
			list = append(list, bar{what, fmt.Sprintf("%.3f", v), fmt.Sprintf("≥ %.2f", least), v >= least})
		}
	}
	atMost := func(what, name, base string, most float64) {
		if len(r.runs[name]) > 0 && len(r.runs[base]) > 0 {
			v := r.ratio(name, base, measured.cpu)
			list = append(list, bar{what + ", CPU per request", fmt.Sprintf("%.3f", v), fmt.Sprintf("≤ %.2f", most), v <= most})
		}
	}
	atLeast("refresh, throughput of bare", refresh, bareRefresh, 0.5)
	atMost("refresh of bare", refresh, bareRefresh, 2.1)
	if len(r.runs[refresh]) > 0 && len(r.runs[bareTuned]) > 0 {
		list = append(list,
			bar{what: "the same of the bare handler with the server's settings, throughput", measured: fmt.Sprintf("%.3f", r.ratio(refresh, bareTuned, measured.Throughput))},
			bar{what: "the same, CPU per request", measured: fmt.Sprintf("%.3f", r.ratio(refresh, bareTuned, measured.cpu))})
	}
	atLeast("introspection, throughput of bare", introspect, bareRefresh, 0.6)
	atMost("introspection of bare", introspect, bareRefresh, 1.35)
	atLeast("verification, throughput of bare", verify, bareRefresh, 0.7)
	atMost("verification of bare", verify, bareRefresh, 1.35)
	atLeast("token of a client for itself, throughput of bare", service, bareRefresh, 0.75)
	atMost("authorization of bare", authorized, bareRefresh, 2.8)
	atLeast("poll of a device, throughput of bare", devicePoll, bareRefresh, 0.7)
	atLeast("token exchange, throughput of bare", exchanged, bareRefresh, 0.6)
	signed := func(what, name string, most float64) {
		if len(r.runs[name]) > 0 {
			v := r.ratio(bareSigning, name, measured.Throughput)
			list = append(list, bar{what + ", cost of bare and one signature (inverse throughput)", fmt.Sprintf("%.3f", v), fmt.Sprintf("≤ %.2f", most), v <= most})
		}
		atMost(what+" of bare and one signature", name, bareSigning, most)
	}
	signed("refresh with a JWT", jwt, 1.5)
	for _, name := range []string{refreshBound, introspectBound, verifyBound} {
		if len(r.runs[name]) > 0 {
			v := r.ratio(bareVerifying, name, measured.Throughput)
			list = append(list, bar{r.title(name) + ", cost of bare and one verification (inverse throughput)", fmt.Sprintf("%.3f", v), "≤ 1.30", v <= 1.3})
		}
		atMost(r.title(name)+" of bare and one verification", name, bareVerifying, 1.3)
	}
	signed("code exchange with an id_token", idToken, 1.65)
	atLeast("code exchange, throughput of bare", code, bareRefresh, 0.4)
	atMost("code exchange of bare", code, bareRefresh, 2.9)
	atLeast(thousands(float64(r.grants))+" grants, throughput of "+thousands(smallGrants), large, refresh, leastOfSmall(r.grants))
	if r.alone > 0 {
		per := float64(r.written) / float64(r.alone)
		list = append(list, bar{fmt.Sprintf("bytes that the disk wrote for each of %s rotations of %s grants, audit log included", thousands(float64(r.alone)), thousands(float64(r.grants))),
			thousands(per), "≤ 2,400", per <= 2400})
	}
	if s := r.sizes; s != nil && s.grants > 0 {
		per := func(n int64) float64 { return float64(n) / float64(s.grants) }
		list = append(list,
			bar{fmt.Sprintf("bytes on disk for each of %s grants after %s rotations, table", thousands(float64(s.grants)), thousands(float64(r.total))),
				fmt.Sprintf("%.1f", per(s.table)), "≤ 250", per(s.table) <= 250},
			bar{what: "the same, content without free space in pages", measured: fmt.Sprintf("%.1f", per(s.payload))},
			bar{what: "the same, its indexes", measured: fmt.Sprintf("%.1f", per(s.index))},
			bar{what: "the same, whole file", measured: fmt.Sprintf("%.1f", per(s.file))})
	}
	for _, u := range []struct{ name, what string }{
		{"small", "resident memory after " + thousands(smallGrants) + " grants"},
		{"codes", "resident memory after code exchanges"},
		{"large", "resident memory after " + thousands(float64(r.grants)) + " grants"},
		{"bare", "resident memory of the bare handler"},
	} {
		usage, ok := r.usage[u.name]
		if !ok {
			continue
		}
		b := bar{what: u.what + " (peak)", measured: fmt.Sprintf("%s (%s) MB", megabytes(usage.Resident), megabytes(usage.Peak))}
		if u.name != "bare" {
			b.bar, b.met = "< 100 MB", usage.Peak < 100e6
		}
		list = append(list, b)
	}
	return list
}

// leastOfSmall returns the share of the small store's throughput that a store with this
// many grants must reach.
func leastOfSmall(grants int) float64 {
	if grants > 1_000_000 {
		return 0.5
	}
	return 0.8
}

// ratio returns the median over the rounds of one measurement's value relative to
// another's in the same round.
func (r *report) ratio(name, base string, value func(measured) float64) float64 {
	var list []float64
	for i, m := range r.runs[name] {
		list = append(list, value(m)/value(r.runs[base][i]))
	}
	return median(list)
}

func spread(runs []measured, value func(measured) float64, format func(float64) string) string {
	var list []float64
	for _, m := range runs {
		list = append(list, value(m))
	}
	return fmt.Sprintf("%s (%s to %s)", format(median(list)), format(slices.Min(list)), format(slices.Max(list)))
}

func median[T ~int64 | ~float64](list []T) T {
	slices.Sort(list)
	n := len(list)
	return (list[n/2] + list[(n-1)/2]) / 2
}

// machine describes this machine.
func machine() string {
	model := runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s", model, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// thousands groups digits: 1,234,567.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
func megabytes(n int64) string            { return fmt.Sprintf("%.0f", float64(n)/1e6) }
func percent(v float64) string            { return fmt.Sprintf("%.0f %%", v*100) }
