package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

// BenchmarkRotations compares rotations that share batches with single statements. Each
// iteration is a round that runs every form in turn.
func BenchmarkRotations(b *testing.B) {
	const grants, callers, length = 10_000, 64, time.Second
	forms := []struct {
		unit  string
		lanes int // 0: in batches
		rates []float64
	}{{unit: "together/s"}, {unit: "singly-2/s", lanes: 2}, {unit: "singly-16/s", lanes: 16}, {unit: "singly-64/s", lanes: 64}}
	stores := make([]*postgres.Store, len(forms))
	_, url := server.Schema(b, "pool_max_conns=70")
	for i, f := range forms {
		stores[i] = open(b, url)
		if f.lanes > 0 {
			stores[i].Singly(f.lanes)
		}
	}
	ids := make([]grant.ID, grants)
	atOnce(b, grants, func(i int) error {
		g := newGrant(uint64(i))
		ids[i] = g.ID
		return stores[0].CreateGrant(b.Context(), g)
	})
	for b.Loop() {
		for i := range forms {
			forms[i].rates = append(forms[i].rates, rotationRate(b, stores[i], ids, callers, length))
		}
	}
	var medians []float64
	for _, f := range forms {
		slices.Sort(f.rates)
		medians = append(medians, f.rates[len(f.rates)/2])
		b.ReportMetric(medians[len(medians)-1], f.unit)
	}
	b.ReportMetric(medians[0]/slices.Max(medians[1:]), "times-as-many")
	b.ReportMetric(0, "ns/op")
}

// rotationRate returns the number of rotations per second with this many callers.
func rotationRate(b *testing.B, st *postgres.Store, ids []grant.ID, callers int, length time.Duration) float64 {
	var n atomic.Int64
	var done sync.WaitGroup
	begin := time.Now()
	for range callers {
		done.Go(func() {
			for time.Since(begin) < length {
				err := st.UpdateGrant(b.Context(), ids[rand.IntN(len(ids))], func(g grant.Grant) (grant.Grant, []store.Event) {
					return rotated(g, rand.Uint64()), nil
				})
				if err != nil {
					b.Error(fmt.Errorf("rotation: %w", err))
					return
				}
				n.Add(1)
			}
		})
	}
	done.Wait()
	return float64(n.Load()) / time.Since(begin).Seconds()
}

// BenchmarkPreparedRotations measures what prepared statements save: it runs pairs of
// runs, in both orders, on two stores that differ only in this setting. It reports the
// median, smallest and largest ratio, within a pair, of the processor time for a rotation.
func BenchmarkPreparedRotations(b *testing.B) {
	const grants, callers, length = 10_000, 64, 500 * time.Millisecond
	_, url := server.Schema(b)
	described, prepared := open(b, url+"&default_query_exec_mode=cache_describe"), open(b, url)
	ids := make([]grant.ID, grants)
	atOnce(b, grants, func(i int) error {
		g := newGrant(uint64(i))
		ids[i] = g.ID
		return prepared.CreateGrant(b.Context(), g)
	})
	var ofServer, ofNode, rates []float64
	for round := 0; b.Loop(); round++ {
		var rate, server, node [2]float64
		for i := range 2 {
			which := (i + round) % 2
			st := []*postgres.Store{described, prepared}[which]
			serverBefore, nodeBefore := processorTime(b, st)
			rate[which] = rotationRate(b, st, ids, callers, length)
			serverAfter, nodeAfter := processorTime(b, st)
			done := rate[which] * length.Seconds()
			server[which], node[which] = float64(serverAfter-serverBefore)/done, float64(nodeAfter-nodeBefore)/done
		}
		rates, ofServer, ofNode = append(rates, rate[1]/rate[0]), append(ofServer, server[1]/server[0]), append(ofNode, node[1]/node[0])
	}
	for name, list := range map[string][]float64{"rate": rates, "server-cpu": ofServer, "node-cpu": ofNode} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
		b.ReportMetric(list[0], name+"-least")
		b.ReportMetric(list[len(list)-1], name+"-most")
	}
	b.ReportMetric(0, "ns/op")
}

// processorTime returns the processor time used so far by the database processes of this
// schema's connections, and by this process.
func processorTime(b *testing.B, st *postgres.Store) (server, node time.Duration) {
	b.Helper()
	err := st.Run(b.Context(), false, func(q store.Query) error {
		return q(func(row store.Scanner) error {
			var pid int
			err := row.Scan(&pid)
			if u, gone := bench.ReadUsage(pid); gone == nil {
				server += u.CPU
			}
			return err
		}, `SELECT pid FROM pg_stat_activity`)
	})
	own, failed := bench.ReadUsage(os.Getpid())
	if err = errors.Join(err, failed); err != nil {
		b.Fatal(err)
	}
	return server, own.CPU
}
