package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

var listingPromises = []promise{
	{"Grants selects by realm, subject and client, and empty members select all", func(t *testing.T, db Database) {
		st := open(t, db)
		all := variety(t, st)
		for _, realm := range []string{"", "/api", "/other", "/none"} {
			for _, subject := range []string{"", "alice", "bob", "ALICE", "alice%"} {
				for _, client := range []string{"", "billing", "mail", "none"} {
					f := store.GrantFilter{Realm: realm, Subject: subject, ClientID: client, Limit: 1000}
					lists(t, st, f, slices.DeleteFunc(slices.Clone(all), func(g grant.Grant) bool {
						return realm != "" && g.Realm != realm || subject != "" && g.Subject != subject || client != "" && g.ClientID != client
					}))
				}
			}
		}
	}},
	{"Grants lists in the order of the ids, after an id, at most Limit", func(t *testing.T, db Database) {
		st := open(t, db)
		all := variety(t, st)
		for _, f := range []store.GrantFilter{{}, {Subject: "alice"}, {ClientID: "mail"}, {Realm: "/api", Subject: "bob", ClientID: "billing"}} {
			want := slices.DeleteFunc(slices.Clone(all), func(g grant.Grant) bool {
				return f.Realm != "" && g.Realm != f.Realm || f.Subject != "" && g.Subject != f.Subject || f.ClientID != "" && g.ClientID != f.ClientID
			})
			for _, size := range []int{1, 3, len(want), len(want) + 1} {
				f.Limit = size
				f.After = grant.ID{}
				for page := range slices.Chunk(want, size) {
					lists(t, st, f, page)
					f.After = page[len(page)-1].ID
				}
				lists(t, st, f, nil)
			}
		}
	}},
	{"Grants goes on after an id that is not, or no longer, in the store", func(t *testing.T, db Database) {
		st := open(t, db)
		all := variety(t, st)
		gap := all[10].ID
		gap[15] ^= 1
		from := 10
		if bytes.Compare(gap[:], all[10].ID[:]) > 0 {
			from = 11
		}
		lists(t, st, store.GrantFilter{After: gap, Limit: 1000}, all[from:])
	}},
	{"Events lists what is recorded of one grant or client, oldest first", func(t *testing.T, db Database) {
		st := open(t, db)
		g, other := newGrant(0), newGrant(0)
		create(t, st, g, other)
		about := g.ID.String()
		var want []store.Event
		// The order differs from that of the instants, as with nodes whose clocks differ.
		for n, at := range []grant.Instant{30, 10, 20, 50, 40} {
			e := event(about, base+at, n)
			want = append(want, e)
			g = rotated(g, uint64(n))
			update(t, st, g, e)
		}
		update(t, st, rotated(other, 1), event(other.ID.String(), base, 9))
		slices.SortFunc(want, func(a, b store.Event) int { return int(a.At - b.At) })
		if got := recorded(t, st, about); !slices.Equal(got, want) {
			t.Errorf("events\n%+v, want\n%+v", got, want)
		}
		if got, err := st.Events(t.Context(), about, 2); err != nil || !slices.Equal(got, want[:2]) {
			t.Errorf("Events, 2 of them: %+v, %v; want the two oldest", got, err)
		}
		if got := recorded(t, st, newID().String()); len(got) != 0 {
			t.Errorf("%d events about nothing", len(got))
		}
	}},
	{"an event is read back as it was written", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(0)
		create(t, st, g)
		want := store.Event{
			At: 1<<48 - 1, Name: store.EventRefreshReplayed, About: g.ID.String(), Actor: "operator:o'brien",
			Detail: `generation 4294967295 presented from 2001:db8::1, "request" 日本`,
		}
		update(t, st, rotated(g, 1), want, store.Event{About: g.ID.String()})
		if got := recorded(t, st, g.ID.String()); !slices.Equal(got, []store.Event{{About: g.ID.String()}, want}) {
			t.Errorf("events %+v", got)
		}
	}},
}

// variety stores grants of several realms, subjects and clients, and returns them in
// the order of their ids.
func variety(t *testing.T, st store.Store) (all []grant.Grant) {
	t.Helper()
	for n := range 40 {
		g := newGrant(uint64(n))
		g.Realm = []string{"/api", "/other"}[n%2]
		g.Subject = []string{"alice", "bob", "alice%"}[n%3]
		g.ClientID = []string{"billing", "mail"}[n/2%2]
		if n == 0 {
			g.ID = grant.ID{15: 1} // directly after the zero id, where a listing begins
		}
		all = append(all, g)
	}
	create(t, st, all...)
	slices.SortFunc(all, func(a, b grant.Grant) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return all
}

func lists(t *testing.T, st store.Store, f store.GrantFilter, want []grant.Grant) {
	t.Helper()
	got, err := st.Grants(t.Context(), f)
	if err != nil {
		t.Fatalf("Grants: %v", err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Grants(%+v): %d rows, want %d, or others", f, len(got), len(want))
	}
}

// sameEvents compares events in any order, because events of one instant have no
// order.
func sameEvents(t *testing.T, got, want []store.Event) {
	t.Helper()
	sorted := func(list []store.Event) []string {
		var text []string
		for _, e := range list {
			text = append(text, fmt.Sprintf("%+v", e))
		}
		slices.Sort(text)
		return text
	}
	if !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("events\n%+v, want\n%+v", got, want)
	}
}
