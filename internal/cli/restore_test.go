package cli

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

func TestAClockThatIsTooFarBehindIsTold(t *testing.T) {
	const now = grant.Instant(1_700_000_000_000)
	for ahead, told := range map[time.Duration]bool{-time.Hour: false, time.Minute: false, time.Minute + time.Millisecond: true} {
		var w strings.Builder
		warnOfClock(&w, now, grant.Issued{Latest: now.Add(ahead)})
		if strings.Contains(w.String(), "set the clock first") != told {
			t.Errorf("%s ahead: %q", ahead, &w)
		}
	}
}

// An API that was deleted since the backup, or narrowed, is so in the restored store
// as well; the rest is for the operator to repeat.
func TestARestoreTakesNoEndOfAnAPIBack(t *testing.T) {
	const id = "https://api.example"
	scopes := func(names ...string) (list []store.APIScope) {
		for i, name := range names {
			list = append(list, store.APIScope{Name: name, Number: uint16(i + 1)})
		}
		return list
	}
	was := store.API{ID: id, Name: "Orders", Number: 1, Version: 1, Open: true, DefaultScope: "a", Scopes: scopes("a", "b")}
	with := func(change func(*store.API)) *store.API {
		a := was
		a.Version++
		change(&a)
		return &a
	}
	for name, tt := range map[string]struct {
		was, is *store.API
		ended   []admin.EndedAPI
		missing string // part of the only line
	}{
		"deleted":              {&was, with(func(a *store.API) { a.Deleted, a.Scopes = true, nil }), []admin.EndedAPI{{ID: id, Deleted: true}}, ""},
		"and registered again": {&was, with(func(a *store.API) { a.Number = 2 }), []admin.EndedAPI{{ID: id, Deleted: true}}, "was registered"},
		"closed":               {&was, with(func(a *store.API) { a.Open = false }), []admin.EndedAPI{{ID: id, Closed: true}}, ""},
		"without a scope":      {&was, with(func(a *store.API) { a.Scopes, a.LastScope = scopes("a"), 2 }), []admin.EndedAPI{{ID: id, Scope: "b"}}, ""},
		"renamed":              {&was, with(func(a *store.API) { a.Name = "Sales" }), nil, "was changed"},
		"closed and renamed":   {&was, with(func(a *store.API) { a.Name, a.Open = "Sales", false }), []admin.EndedAPI{{ID: id, Closed: true}}, "was changed"},
		"made":                 {nil, &was, nil, "was registered"},
		"made and deleted":     {nil, with(func(a *store.API) { a.Deleted = true }), nil, ""},
	} {
		var p plan
		p.ofAPI(backup.APIChange{Was: tt.was, Is: tt.is})
		if !reflect.DeepEqual(p.ended.APIs, tt.ended) || len(p.missing) > 1 || (len(p.missing) == 1) != (tt.missing != "") || !strings.Contains(strings.Join(p.missing, ""), tt.missing) {
			t.Errorf("%s: ended %+v, missing %q", name, p.ended.APIs, p.missing)
		}
	}

	p := plan{auditLog: []audit.Entry{
		{Event: audit.Name(store.EventAPIDeleted), Detail: "api https://api.example:8443/orders: Orders: all"},
		{Event: audit.Name(store.EventAPIChanged), Detail: `api https://api.example: self registered clients "false", was "true"`},
	}}
	if err := p.ofAuditLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []admin.EndedAPI{{ID: "https://api.example:8443/orders", Deleted: true}}; !reflect.DeepEqual(p.ended.APIs, want) || len(p.missing) != 1 || !strings.Contains(p.missing[0], "self registered clients") {
		t.Errorf("from the audit log: %+v, missing %q", p.ended.APIs, p.missing)
	}
	var w strings.Builder
	p.ended.APIs = append(p.ended.APIs, admin.EndedAPI{ID: id, Closed: true, Scope: "b"})
	p.printEnded(&w)
	for _, line := range []string{"API https://api.example:8443/orders, deleted", "API https://api.example, closed to clients", "scope b of API https://api.example, removed"} {
		if !strings.Contains(w.String(), line) {
			t.Errorf("%q lacks %q", w.String(), line)
		}
	}
}
