package directory

import (
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

func clientNumber(n int) store.Client {
	return store.Client{ID: fmt.Sprintf("client-%06d", n), Realm: "/many", State: store.ClientEnabled, Version: 1, Settings: store.Settings{
		Name: fmt.Sprintf("Client %d", n), Scope: "read write", Auth: store.AuthBasic, GrantTypes: store.DefaultGrantTypes,
		RedirectURIs: []string{"https://client.example/callback"}, APIs: []string{"https://api-000001.example"}}}
}

func apiNumbered(n int) store.API {
	return store.API{ID: fmt.Sprintf("https://api-%06d.example", n), Realm: "/many", Number: uint16(n), Version: 1, Open: n < 3,
		Scopes: []store.APIScope{{Name: fmt.Sprintf("scope%d", n), Number: 1}}}
}

// holding returns a directory of n clients, APIs and cutoffs.
func holding(t *testing.T, n int) (*Directory, *View) {
	t.Helper()
	d := New(nil, nil, keys.Schedule{}, slog.New(slog.DiscardHandler), time.Now)
	ch := store.Changes{Version: 1}
	for i := range n {
		ch.Clients = append(ch.Clients, clientNumber(i+1))
		ch.APIs = append(ch.APIs, apiNumbered(i+1))
		ch.Cutoffs = append(ch.Cutoffs, store.Cutoff{Realm: "/many", Subject: fmt.Sprint("user", i), At: grant.Instant(i + 1)})
	}
	v, err := d.apply(noView(), ch)
	if err != nil {
		t.Fatal(err)
	}
	return d, v
}

// The cost of a change does not grow with the size of the directory. The test measures
// allocated bytes, which are the same on every machine.
func TestAChangeCostsWhatHasChanged(t *testing.T) {
	changes := map[string]store.Changes{
		"client": {Version: 2, Clients: []store.Client{clientNumber(500000)}},
		"API":    {Version: 2, APIs: []store.API{apiNumbered(60001)}},
		"cutoff": {Version: 2, Cutoffs: []store.Cutoff{{Realm: "/many", Subject: "somebody", At: 7}}},
	}
	cost := func(d *Directory, v *View, ch store.Changes) uint64 {
		const rounds = 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			if _, err := d.apply(v, ch); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / rounds
	}
	few, ofFew := holding(t, 100)
	many, ofMany := holding(t, 20000)
	for name, ch := range changes {
		low, high := cost(few, ofFew, ch), cost(many, ofMany, ch)
		t.Logf("a %s: %d bytes with 100, %d with 20,000", name, low, high)
		// A directory 200 times as large may cost more for the index of blocks and for
		// larger shards.
		if high > 3*low {
			t.Errorf("a changed %s takes %d bytes with 20,000 and %d with 100", name, high, low)
		}
	}
}

// A client's scope is computed from the APIs of the view on demand, so that a change of
// an API need not read the clients.
func TestTheScopeOfAClientFollowsItsAPIs(t *testing.T) {
	d, before := holding(t, 10)
	api := apiNumbered(1)
	api.Scopes = append(api.Scopes, store.APIScope{Name: "more", Number: 2})
	after, err := d.apply(before, store.Changes{Version: 2, APIs: []store.API{api}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, the other view's scope was computed last
		for v, want := range map[*View]string{before: "read write scope1", after: "read write scope1 more"} {
			if c, ok := v.Client("/many", "client-000007"); !ok || string(c.Scope) != want {
				t.Errorf("scope %q, want %q", c.Scope, want)
			}
		}
	}
	for c := range after.Clients("/many") {
		if c.Scope != "read write" {
			t.Fatalf("the registration of %s has the scope %q", c.ID, c.Scope)
		}
	}
}

// A list continues after an item in a fixed order, whatever has changed meanwhile.
func TestListsOfAView(t *testing.T) {
	d, v := holding(t, 700)
	rename := clientNumber(5)
	rename.Name = "aaa"
	v, err := d.apply(v, store.Changes{Version: 2, Clients: []store.Client{rename}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for c := range v.Clients("/many") {
		all = append(all, c.ID)
	}
	if len(all) != 700 || all[0] != "client-000005" || all[1] != "client-000100" {
		t.Errorf("%d clients, the first are %v", len(all), all[:2])
	}
	for _, after := range []string{all[0], all[255], all[256], all[698], all[699]} {
		rest, ok := v.ClientsAfter("/many", after, "")
		var got []string
		for c := range rest {
			got = append(got, c.ID)
		}
		if want := all[slices.Index(all, after)+1:]; !ok || !slices.Equal(got, want) {
			t.Errorf("after %s: %d clients, want %d", after, len(got), len(want))
		}
	}
	if _, ok := v.ClientsAfter("/many", "nobody", ""); ok {
		t.Error("there is a list after a client that is not there")
	}
	if n := len(slices.Collect(v.Clients("/other"))); n != 0 {
		t.Errorf("%d clients of another realm", n)
	}
	if open := v.OpenAPIs("/many"); len(open) != 2 || v.LastAPI("/many") != 700 {
		t.Errorf("%d open APIs, the last is %d", len(open), v.LastAPI("/many"))
	}
}

// Clients with a given property are found without reading the others, and after each
// change.
func TestClientsAreFoundByTheirMarks(t *testing.T) {
	d, v := holding(t, 3)
	ids := func(list iter.Seq[*store.Client]) (found []string) {
		for c := range list {
			found = append(found, c.ID)
		}
		slices.Sort(found)
		return found
	}
	check := func(notified, stopped []string, ends bool, departures int) {
		t.Helper()
		if got := ids(v.Marked(Notified, "/many")); !slices.Equal(got, notified) {
			t.Errorf("%v are told of logouts, want %v", got, notified)
		}
		if got := ids(v.Marked(Stopped, "/many")); !slices.Equal(got, stopped) {
			t.Errorf("%v are stopped, want %v", got, stopped)
		}
		if got := ids(v.Marked(Ending, "/many")); len(got) > 0 != ends {
			t.Errorf("logouts end the grants of %v, want any: %t", got, ends)
		}
		if got := ids(v.Marked(departed, "/many")); len(got) != departures {
			t.Errorf("%v deviate, want %d", got, departures)
		}
		for other := range v.Marked(Notified, "/other") {
			t.Errorf("%s is of another realm", other.ID)
		}
	}
	apply := func(n int, change func(*store.Client)) {
		t.Helper()
		c := clientNumber(n)
		change(&c)
		var err error
		if v, err = d.apply(v, store.Changes{Version: v.version + 1, Clients: []store.Client{c}}); err != nil {
			t.Fatal(err)
		}
	}
	check(nil, nil, false, 0)
	apply(1, func(c *store.Client) { c.LogoutURI, c.LogoutEndsGrants = "https://client.example/logout", true })
	apply(2, func(c *store.Client) { c.LogoutURI, c.State = "https://client.example/logout", store.ClientDisabled })
	apply(3, func(c *store.Client) { c.NoRotation = true })
	check([]string{"client-000001", "client-000002"}, []string{"client-000002"}, true, 1)
	apply(1, func(*store.Client) {})
	apply(2, func(c *store.Client) { c.State = store.ClientDeleted })
	apply(3, func(c *store.Client) { c.NoRotation, c.State = true, store.ClientDisabled })
	check(nil, []string{"client-000002", "client-000003"}, false, 0)
}
