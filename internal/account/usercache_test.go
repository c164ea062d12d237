package account

import (
	"fmt"
	"testing"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

// Operators see every change at once, and an unchanged list of users is not read again.
func TestUsersAreReadAgainOnlyAfterAChange(t *testing.T) {
	_, st := testkit.Store(t)
	add := func(realm, name string) User {
		t.Helper()
		u, err := NewUser(Registration{Realm: realm, Username: name, PasswordHash: keys.UnmatchableHash()}, started)
		if err == nil {
			err = Create(t.Context(), st, u)
		}
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	var cache UserCache
	shows := func(what, want string, read bool) {
		t.Helper()
		st.Calls()
		list, err := cache.List(t.Context(), st, realm)
		have := ""
		for _, u := range list {
			have += fmt.Sprintf("%s %s;", u.Username, u.State)
		}
		// One call counts the users, and one more reads them.
		if calls := st.Calls()[storetest.Documents]; err != nil || have != want || (calls > 1) != read {
			t.Errorf("%s: %q, %v, by %d calls; want %q, read again: %v", what, have, err, calls, want, read)
		}
	}
	shows("nobody", "", true)
	b := add(realm, "b")
	shows("a user", "b enabled;", true)
	shows("no change", "b enabled;", false)
	add(realm, "a")
	shows("another user", "a enabled;b enabled;", true)
	if err := Put(t.Context(), st, b.Disable(started), store.Change{}); err != nil {
		t.Fatal(err)
	}
	shows("a change", "a enabled;b disabled;", true)
	shows("no change", "a enabled;b disabled;", false)
	add("/other", "c")
	shows("a user of another realm", "a enabled;b disabled;", true)
}

func BenchmarkACacheOfManyUsers(b *testing.B) {
	_, st := testkit.Store(b)
	var users []User
	for i := range 8000 {
		u, err := NewUser(Registration{Realm: realm, Username: fmt.Sprintf("user-%06d", i), Name: fmt.Sprintf("Person %06d", i), PasswordHash: keys.UnmatchableHash()}, started)
		if err != nil {
			b.Fatal(err)
		}
		users = append(users, u)
		if len(users) == 500 {
			if _, err := CreateAll(b.Context(), st, realm, users, false, func(User) (store.Event, error) { return store.Event{At: started, Name: store.EventUserCreated}, nil }); err != nil {
				b.Fatal(err)
			}
			users = nil
		}
	}
	for _, way := range []struct {
		name  string
		cache *UserCache
	}{{"each time", nil}, {"known", &UserCache{}}} {
		b.Run(way.name, func(b *testing.B) {
			if _, err := way.cache.List(b.Context(), st, realm); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := way.cache.List(b.Context(), st, realm); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
