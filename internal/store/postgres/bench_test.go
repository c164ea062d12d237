package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

// BenchmarkRotations shows what it is worth that those who wait travel together.
// Each iteration is a round that runs every form in turn.
func BenchmarkRotations(b *testing.B) {
	const grants, callers, length = 10_000, 64, time.Second
	forms := []struct {
		unit  string
		lanes int // 0: together
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

// rotationRate is how many grants so many callers rotate in a second.
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
