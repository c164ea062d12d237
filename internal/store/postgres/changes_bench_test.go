package postgres_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/mintage/mintage/internal/store"
)

// BenchmarkClientsAreCreated has four operators create clients concurrently, each one
// after the other.
func BenchmarkClientsAreCreated(b *testing.B) {
	_, url := server.Schema(b)
	st := open(b, url)
	var made atomic.Int64
	b.SetParallelism(2) // four operators on two processors
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := store.Client{ID: fmt.Sprint("client-", made.Add(1)), Realm: "/api", Version: 1, State: store.ClientEnabled, CreatedAt: base, UpdatedAt: base}
			change := store.Change{Entries: []store.Entry{c.Entry()}, Events: []store.Event{{At: base, Name: store.EventClientCreated, About: c.ID}}}
			if err := st.Commit(b.Context(), change); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "clients/s")
}
