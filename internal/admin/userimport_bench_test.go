package admin_test

import (
	"fmt"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/store"
)

// BenchmarkUsersAreImported imports 10,000 users in lists of 100 into a store with 2,000
// clients.
func BenchmarkUsersAreImported(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		a, _ := newAdmin(b)
		var c store.Change
		for i := range 2000 {
			c.Entries = append(c.Entries, store.Client{ID: fmt.Sprintf("client-%d", i), Realm: a.Realm, Version: 1, State: store.ClientEnabled}.Entry())
		}
		if err := a.Store.Commit(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for n := 0; n < 10000; n += 100 {
			list := make([]account.Registration, 100)
			for i := range list {
				list[i].Username = fmt.Sprintf("user-%d", n+i)
			}
			if created, err := a.Users().Import(b.Context(), list); created != 100 || err != nil {
				b.Fatal(created, err)
			}
		}
	}
}
