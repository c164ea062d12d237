package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// allocated is the Go runtime's metric of all objects that the server has allocated.
const allocated = "go_memstats_mallocs_total"

// An age is one of the two programs that are compared: before and now.
type age struct {
	name    string
	program string
	suite   *suite
	runs    map[string][]measured
	objects map[string][]float64 // allocated objects per request
}

// measurePairs compares two programs, each with its own stores, in alternating runs, to
// show what a change of the server costs.
func measurePairs(ctx context.Context, opt options) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	ages := []*age{{name: "before", program: opt.before}, {name: "now"}}
	defer func() {
		for _, a := range ages {
			if a.suite != nil {
				a.suite.kill()
			}
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if ages[1].program, err = opt.build(ctx, dir); err != nil {
		return err
	}
	for _, a := range ages {
		program, err := filepath.Abs(a.program)
		if err != nil {
			return err
		}
		a.runs, a.objects = map[string][]measured{}, map[string][]float64{}
		a.suite = &suite{options: opt, dir: filepath.Join(dir, a.name), program: program, report: newReport(opt), codeRate: map[string]float64{}}
		if err := a.suite.prepare(ctx); err != nil {
			return err
		}
	}
	now := ages[1]
	names := now.suite.wanted()
	for round := range opt.rounds + 1 { // the first round is a warm-up
		for _, name := range names {
			// The order alternates between rounds.
			turns := slices.Clone(ages)
			if round%2 == 1 {
				slices.Reverse(turns)
			}
			for _, a := range turns {
				if a != now && yardstick[name] == "" {
					continue // the yardstick is the same for both
				}
				m, objects, err := a.run(ctx, name)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", name, a.name, err)
				}
				if round > 0 {
					a.runs[name] = append(a.runs[name], m)
					a.objects[name] = append(a.objects[name], objects)
				}
			}
		}
		note("round %d/%d", round, opt.rounds)
	}
	fmt.Printf("%s. %d connections, %d rounds of runs of %s in turn; median (smallest to largest). A ratio is the median of the ratios within each round.\n\n", machine(), opt.connections, opt.rounds, opt.duration)
	fmt.Println("| measurement | program | requests/s | server CPU µs/request | of bare | of the program before | allocations/request | p99 ms |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, name := range names {
		for _, a := range ages {
			if len(a.runs[name]) > 0 {
				fmt.Println(a.row(name, ages[0], now))
			}
		}
	}
	return nil
}

// row returns a line of the table, with the yardstick of the same runs as now.
func (a *age) row(name string, before, now *age) string {
	values := func(runs []measured, value func(measured) float64) (list []float64) {
		for _, m := range runs {
			list = append(list, value(m))
		}
		return list
	}
	own := values(a.runs[name], measured.cpu)
	of := func(base []measured) string {
		if len(base) == 0 {
			return ""
		}
		var ratios []float64
		for i, cost := range values(base, measured.cpu) {
			ratios = append(ratios, own[i]/cost)
		}
		return between(ratios, twoDigits)
	}
	bare, old := "", ""
	if yardstick[name] != "" {
		bare = of(now.runs[yardstick[name]])
	}
	if a == now {
		old = of(before.runs[name])
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |", a.suite.report.title(name), a.name,
		between(values(a.runs[name], measured.Throughput), thousands), between(own, oneDigit), bare, old, between(a.objects[name], oneDigit),
		between(values(a.runs[name], func(m measured) float64 { return m.Latency.Quantile(.99).Seconds() * 1000 }), oneDigit))
}

// run makes one run, and returns the server's allocated objects per request.
func (a *age) run(ctx context.Context, name string) (m measured, objects float64, err error) {
	h := a.suite.hostOf(name)
	before, err := h.allocated(ctx)
	if err != nil {
		return m, 0, err
	}
	if m, err = a.suite.run(ctx, name, a.suite.duration); err != nil {
		return m, 0, err
	}
	after, err := h.allocated(ctx)
	return m, (after - before) / float64(m.Requests), err
}

// management returns the address of a server's metrics, or "" for the yardstick, which
// has none.
func (h *host) management() (address string, err error) {
	log, err := os.ReadFile(h.log)
	for line := range bytes.Lines(log) {
		var record struct{ Msg, Management string }
		if json.Unmarshal(line, &record) == nil && record.Msg == "serving" {
			address = record.Management
		}
	}
	return address, err
}

// allocated returns how many objects a server has allocated so far; 0 for the yardstick.
func (h *host) allocated(ctx context.Context) (float64, error) {
	address, err := h.management()
	if address == "" || err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), allocated+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s is not among the metrics of %s", allocated, address)
}
