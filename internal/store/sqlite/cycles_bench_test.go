package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// BenchmarkCheckpointCycles rotates grants in random order until there have been six
// checkpoints. It reports what a rotation writes and costs, checkpoints included
// (docs/explanation/performance-history.md).
func BenchmarkCheckpointCycles(b *testing.B) {
	const grants, rotations = 100_000, 200_000
	dir := b.TempDir()
	st := create(b, dir)
	ids := make([]grant.ID, grants)
	eachOf(b, grants, func(i int) error {
		g := newGrant(uint64(i))
		for j := range g.ID {
			g.ID[j] = byte(rand.Uint32())
		}
		g.Subject, ids[i] = fmt.Sprintf("subject-%028d", i), g.ID
		return st.CreateGrant(b.Context(), g)
	})
	for b.Loop() {
		wrote, _ := bench.DiskWritten(dir)
		before, err := bench.ReadUsage(os.Getpid())
		if err != nil {
			b.Fatal(err)
		}
		eachOf(b, rotations, func(int) error {
			return st.UpdateGrant(b.Context(), ids[rand.IntN(grants)], func(g grant.Grant) (grant.Grant, []store.Event) { return rotated(g, rand.Uint64()), nil })
		})
		after, err := bench.ReadUsage(os.Getpid())
		if err != nil {
			b.Fatal(err)
		}
		if n, known := bench.DiskWritten(dir); known {
			b.ReportMetric(float64(n-wrote)/rotations, "written-B/rotation")
		}
		b.ReportMetric(float64((after.CPU-before.CPU).Nanoseconds())/1000/rotations, "cpu-µs/rotation")
	}
	info, err := os.Stat(filepath.Join(dir, sqlite.FileName))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/grants, "file-B/grant")
}

// eachOf calls f for each number below n, on 64 goroutines.
func eachOf(b *testing.B, n int, f func(i int) error) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := f(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
