package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/sweep"
)

// wholeGrants is how many grants -whole measures.
const wholeGrants = 10_000_000

// measureWhole measures all that an operator of a large embedded store waits or pays for:
// refreshes in turn with those of a small store, memory, backup, start, sizes, restore
// and sweep.
func measureWhole(ctx context.Context, opt options) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	opt.only = []string{large}
	s := &suite{options: opt, dir: dir, report: newReport(opt), codeRate: map[string]float64{}}
	defer func() {
		s.kill()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if s.report.disk, err = probeDisk(dir); err != nil {
		return err
	}
	if s.program, err = s.build(ctx, dir); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for round := range s.rounds + 1 { // the first round is a warm-up
		for _, name := range s.wanted() {
			r, err := s.run(ctx, name, s.duration)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if note("round %d/%d  %-8s %8s/s  %5.1f µs", round, s.rounds, name, thousands(r.Throughput()), r.cpu()); round > 0 {
				s.report.add(name, r)
			}
		}
	}
	w := &whole{suite: s, file: filepath.Join(dir, "backup.db")}
	if err := w.measure(ctx); err != nil {
		return err
	}
	s.report.print(os.Stdout)
	fmt.Printf("\n| %s grants | measured |\n| --- | ---: |\n", thousands(float64(s.grants)))
	for _, l := range w.lines {
		fmt.Printf("| %s | %s |\n", l.name, l.value)
	}
	return nil
}

// A whole is the measurement of the large store beside refreshes.
type whole struct {
	*suite
	file  string // of the backup
	lines []line
}

func (w *whole) add(name, value string) {
	note("  %s: %s", name, value)
	w.lines = append(w.lines, line{name: name, value: value})
}

// took reports how long f takes.
func (w *whole) took(name string, f func() error) error {
	began := time.Now()
	err := f()
	w.add(name, fmt.Sprintf("%.1f s", time.Since(began).Seconds()))
	return err
}

// command runs a command of the program on the large store.
func (w *whole) command(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, w.program, append(args, "--data", w.large.data.dir)...).CombinedOutput()
	if err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("mintage %s: %w\n%s", args[0], err, out))
	}
	return nil
}

// restart stops the server, calls between, and returns how long the start takes.
func (w *whole) restart(ctx context.Context, between func() error) (time.Duration, error) {
	target := w.large.target
	if err := errors.Join(w.large.stop(), between()); err != nil {
		return 0, err
	}
	began := time.Now()
	c, err := peer(ctx, w.program, w.large.data.dir, w.large.data, target)
	if err == nil {
		w.large.child = c
	}
	return time.Since(began), err
}

func (w *whole) measure(ctx context.Context) error {
	for name, h := range map[string]*host{"bare": w.bare, "small": w.small, "large": w.large} {
		u, err := bench.ReadUsage(h.pid())
		if err != nil {
			return err
		}
		w.report.usage[name] = u
	}
	if err := w.took("backup beside the running server", func() error { return w.command(ctx, "backup", w.file) }); err != nil {
		return err
	}
	if err := w.took("verifying the backup", func() error { return w.command(ctx, "backup", w.file, "--verify") }); err != nil {
		return err
	}
	info, err := os.Stat(w.file)
	if err != nil {
		return err
	}
	w.add("size of the backup", megabytes(info.Size())+" MB")
	var starts []time.Duration
	for range w.rounds {
		d, err := w.restart(ctx, func() error { return nil })
		if err != nil {
			return err
		}
		starts = append(starts, d)
	}
	w.add("start until it serves, median (largest)", fmt.Sprintf("%s (%s)", milliseconds(median(starts)), milliseconds(slices.Max(starts))))
	d, err := w.restart(ctx, func() error {
		s, err := readSizes(ctx, w.large.data.dir)
		if err != nil {
			return err
		}
		per := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/float64(s.grants)) }
		w.add("bytes on disk for each grant: table, index by subject, whole file", per(s.table)+", "+per(s.index)+", "+per(s.file))
		return w.took("restore, what was revoked since included", func() error { return w.command(ctx, "restore", w.file, "--yes") })
	})
	if err != nil {
		return err
	}
	w.add("start after it", milliseconds(d))
	if err := w.large.stop(); err != nil {
		return err
	}
	return w.sweep(ctx)
}

// sweep deletes what has expired at an instant, as the server does but without pauses:
// first nothing, and then many of the grants.
func (w *whole) sweep(ctx context.Context) (err error) {
	st, err := embedded(ctx, w.large.data.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	now := grant.At(time.Now())
	for _, at := range []struct {
		name string
		when grant.Instant
	}{
		{"in which no grant has expired", now},
		{"in which many have", now.Add(policy.RefreshLifetime - 10*day)}, // the grants are from the last twenty days
	} {
		began, pauses, deleted := time.Now(), time.Duration(0), 0
		for next := ""; pauses == 0 || next != ""; {
			n := 0
			if next, n, err = st.Sweep(ctx, store.SweptGrants, next, at.when, sweep.Slice); err != nil {
				return err
			}
			deleted += n
			pauses += sweep.Pause(n)
		}
		took := time.Since(began)
		w.add("sweep of a store "+at.name, fmt.Sprintf("%.1f s of work, %.0f min with the server's pauses (%s deleted)",
			took.Seconds(), (took+pauses).Minutes(), thousands(float64(deleted))))
	}
	return nil
}
