package admin_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/store"
)

// A counting store counts the directory rows that are read.
type counting struct {
	store.Store
	rows int
}

func (c *counting) Changes(ctx context.Context, since int64) (store.Changes, error) {
	ch, err := c.Store.Changes(ctx, since)
	c.rows += len(ch.Clients) + len(ch.APIs) + len(ch.Cutoffs)
	return ch, err
}

// With thousands of clients and APIs, a creation reads only its own row. A page or a
// search on a server reads none, because the directory is in memory.
func TestManyClients(t *testing.T) {
	const present = 2500
	a, _ := newAdmin(t)
	ctx := t.Context()
	var fill store.Change
	for n := range present {
		c := store.Client{ID: fmt.Sprintf("client-%04d", n*7919%present), Realm: a.Realm, Version: 1, State: store.ClientEnabled,
			Settings: store.Settings{Name: fmt.Sprint("Name ", n), Scope: "read", Auth: store.AuthBasic, RedirectURIs: []string{"https://client.example/callback"}}}
		if n%10 == 0 {
			c.State = store.ClientDisabled
		}
		api := store.API{ID: fmt.Sprintf("https://api-%04d.example", n), Realm: a.Realm, Name: "API", Number: uint16(n + 1), Version: 1, Scopes: []store.APIScope{{Name: fmt.Sprint("scope", n), Number: 1}}}
		fill.Entries = append(fill.Entries, c.Entry(), api.Entry())
	}
	if err := a.Store.Commit(ctx, fill); err != nil {
		t.Fatal(err)
	}
	known, err := directory.Read(ctx, a.Store, nil, a.Schedule, a.Now)
	if err != nil {
		t.Fatal(err)
	}
	rows := &counting{Store: a.Store}
	a.Store = rows
	server, err := directory.Read(ctx, rows, nil, a.Schedule, a.Now)
	if err != nil {
		t.Fatal(err)
	}
	a.Current = server.Current
	a.Changed = func(ctx context.Context) { _, _ = server.Current(ctx) }
	all := slices.Collect(known.Latest().Clients(a.Realm))

	rows.rows = 0
	step := func(name string, want int, do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if rows.rows != want {
			t.Errorf("%s read %d rows, want %d", name, rows.rows, want)
		}
		rows.rows = 0
	}
	page := func(p adminapi.Page) (ids []string, more bool) {
		list, more, err := a.Clients().List(ctx, p, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			ids = append(ids, c.ID)
		}
		return ids, more
	}
	step("every page of clients", 0, func() error {
		var got []string
		for after, more := "", true; more; after = got[len(got)-1] {
			var ids []string
			ids, more = page(adminapi.Page{After: after, Limit: 47})
			got = append(got, ids...)
		}
		slices.SortFunc(all, func(a, b *store.Client) int {
			return strings.Compare(strings.ToLower(a.Name)+a.ID, strings.ToLower(b.Name)+b.ID)
		})
		for i, c := range all {
			if i >= len(got) || got[i] != c.ID {
				return fmt.Errorf("item %d of %d is another client than %s", i, len(got), c.ID)
			}
		}
		return nil
	})
	step("a search", 0, func() error {
		ids, more := page(adminapi.Page{Match: "NAME 2499", Limit: 5})
		if len(ids) != 1 || more {
			return fmt.Errorf("found %v, %t", ids, more)
		}
		return nil
	})
	step("the disabled clients", 0, func() error {
		if ids, more := page(adminapi.Page{State: "disabled", Limit: present}); len(ids) != present/10 || more {
			return fmt.Errorf("%d of them, %t", len(ids), more)
		}
		return nil
	})
	step("a page of APIs", 0, func() error {
		list, more, err := a.APIs().List(ctx, adminapi.Page{After: "https://api-2400.example", Limit: 50})
		if err == nil && (len(list) != 50 || !more || list[0].ID != "https://api-2401.example") {
			err = fmt.Errorf("%d APIs, %t", len(list), more)
		}
		return err
	})
	step("a page after an API that is not there", 0, func() error {
		if _, _, err := a.APIs().List(ctx, adminapi.Page{After: "https://api-2400.example/", Limit: 50}); err == nil {
			return fmt.Errorf("the request succeeds")
		}
		return nil
	})
	step("a new client", 1, func() error {
		_, _, err := a.Clients().Create(ctx, client.Registration{Settings: store.Settings{Name: "New", RedirectURIs: []string{"https://new.example/callback"},
			Scope: "read", Auth: store.AuthBasic, APIs: []string{"https://api-0007.example"}}}, store.ClientEnabled)
		return err
	})
	step("a client with the scope of an API", 0, func() error {
		_, _, err := a.Clients().Create(ctx, client.Registration{Settings: store.Settings{Name: "New", RedirectURIs: []string{"https://new.example/callback"},
			Scope: "scope9", Auth: store.AuthBasic}}, store.ClientEnabled)
		if err == nil || !strings.Contains(err.Error(), "belongs to the API https://api-0009.example: leave it out here") {
			return fmt.Errorf("it is not refused: %w", cmp.Or(err, fmt.Errorf("no error")))
		}
		return nil
	})
	step("a new API", 1, func() error {
		api, err := a.APIs().Create(ctx, adminapi.API{ID: "https://new.example", Name: "New", Scopes: []adminapi.APIScope{{Name: "new"}}})
		if err == nil && api.Number != present+1 {
			err = fmt.Errorf("its number is %d", api.Number)
		}
		return err
	})
	step("an API with the scope of another", 0, func() error {
		_, err := a.APIs().Create(ctx, adminapi.API{ID: "https://newer.example", Name: "Newer", Scopes: []adminapi.APIScope{{Name: "scope100"}}})
		if codeOf(err) != admin.Conflict {
			return fmt.Errorf("it is not refused: %v", err)
		}
		return nil
	})
	step("an API with the scope of clients", 0, func() error {
		_, err := a.APIs().Create(ctx, adminapi.API{ID: "https://newer.example", Name: "Newer", Scopes: []adminapi.APIScope{{Name: "read"}}})
		if codeOf(err) != admin.Conflict {
			return fmt.Errorf("it is not refused: %v", err)
		}
		return nil
	})
	step("another state", 1, func() error {
		i := slices.IndexFunc(all, func(c *store.Client) bool { return c.State == store.ClientEnabled })
		_, err := a.Clients().SetState(ctx, all[i].ID, "", store.ClientDisabled)
		return err
	})
}
