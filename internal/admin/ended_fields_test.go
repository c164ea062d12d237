package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// fieldsOf returns the fields of Ended, by path, except those that only identify the
// thing that has ended.
func fieldsOf(of reflect.Type, path string) (fields []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		switch {
		case slices.Contains([]string{"Realm", "ID", "Username", "Subject", "Name"}, f.Name):
		case f.Type.Kind() == reflect.Slice && strings.HasPrefix(f.Type.Elem().Name(), "Ended"):
			fields = append(fields, fieldsOf(f.Type.Elem(), f.Name+".")...)
		default:
			fields = append(fields, path+f.Name)
		}
	}
	return fields
}

// Each kind of ended thing is ended separately; none is mistaken for another. If any call
// of the store fails, the merge fails, and the next merge ends the rest.
func TestEachThingThatHasEndedIsEndedOrTheMergeFails(t *testing.T) {
	plain, kek, grants := aCopy(t)
	st := storetest.NewFaulty(plain)
	for i, id := range []string{"https://deleted.example", "https://again.example", "https://closed.example", "https://narrowed.example"} {
		must(t, st.Commit(t.Context(), store.Change{Entries: []store.Entry{store.API{
			ID: id, Realm: realm, Number: uint16(i + 1), CreatedAt: 5, Version: 1, Open: true, Scopes: []store.APIScope{{Name: "a", Number: 1}, {Name: "b", Number: 2}},
		}.Entry()}}))
	}
	var trusts []store.Trust
	for _, id := range []string{"deleted", "disabled"} {
		next := store.Trust{ID: store.TrustID("https://idp.example", store.TrustIDJAG, id), Realm: realm, ClientID: id, CreatedAt: 5, Version: 1}
		must(t, st.Commit(t.Context(), store.Change{Entries: []store.Entry{next.Entry()}}))
		trusts = append(trusts, next)
	}
	must(t, st.Commit(t.Context(), store.Change{Documents: []store.Document{session("out")}}))
	for i := range byte(150) { // more than one commit
		g := grants[0]
		g.ID = grant.ID{7, i}
		must(t, plain.CreateGrant(t.Context(), g))
	}
	changes := func() store.Changes {
		ch, err := plain.Changes(t.Context(), 0)
		must(t, err)
		return ch
	}
	trust := func(i int) store.Trust {
		list := changes().Trusts
		return list[slices.IndexFunc(list, func(is store.Trust) bool { return is.ID == trusts[i].ID })]
	}
	client := func(id string) store.Client {
		c, err := plain.Client(t.Context(), id)
		must(t, err)
		return c
	}
	user := func(name string) account.User {
		u, err := account.Find(t.Context(), plain, realm, name)
		must(t, err)
		return u
	}
	every := func(f func(grant.Grant) bool) bool {
		for i := range byte(150) {
			g, err := plain.Grant(t.Context(), grant.ID{7, i})
			must(t, err)
			if !f(g) {
				return false
			}
		}
		return true
	}
	key := changes().Keys[slices.IndexFunc(changes().Keys, func(r keys.Stored) bool { return r.Purpose == keys.MAC })].ID
	present, err := user("bob").SetPassword("another battery staple", grant.At(now)+5)
	must(t, err)
	cut := store.Cutoff{Realm: realm, Subject: "s-carol", At: grant.At(now) + 3}
	own := store.Client{ID: "https://agent.example/client.json", Realm: realm, RegisteredBy: store.ByDocument, State: store.ClientDisabled, Settings: store.Settings{Name: "Agent", Auth: store.AuthNone}, Secrets: []store.Secret{}}

	tokens := []admin.Token{{Name: "again", CreatedAt: 5}, {Name: "kept", CreatedAt: 5}, {Name: "later", CreatedAt: 9}}
	body, err := json.Marshal(tokens)
	must(t, err, st.Commit(t.Context(), store.Change{Documents: []store.Document{{Kind: store.DocumentAdminTokens, Key: store.KeyOf(store.DocumentAdminTokens, "", ""), Version: 1, Body: body}}}))

	must(t, operator.Add(t.Context(), st, operator.Operator{Name: "admin", Role: operator.Admin, CreatedAt: 5}), operator.Add(t.Context(), st, operator.Operator{Name: "later", Role: operator.Auditor, CreatedAt: 9}))

	covered := map[string]bool{}
	for _, tt := range []struct {
		field string
		e     admin.Ended
		ended func() bool
	}{
		{"Keys", admin.Ended{Keys: []grant.KeyID{key}}, func() bool {
			return slices.ContainsFunc(changes().Keys, func(r keys.Stored) bool { return r.ID == key && r.WithdrawnAt() != 0 })
		}},
		{"Cutoffs", admin.Ended{Cutoffs: []store.Cutoff{cut}}, func() bool { return slices.Contains(changes().Cutoffs, cut) }},
		{"Clients.State", admin.Ended{Clients: []admin.EndedClient{{ID: "disabled", State: store.ClientDisabled}}}, func() bool {
			return client("disabled").State == store.ClientDisabled
		}},
		// Grants of the backup that the other store lacks ended with their client.
		{"Clients.State", admin.Ended{Clients: []admin.EndedClient{{ID: "deleted", State: store.ClientDeleted}}}, func() bool {
			c := client("deleted")
			return c.State == store.ClientDeleted && len(c.Secrets) == 0 && slices.Contains(changes().Cutoffs, store.Cutoff{Realm: realm, ClientID: "deleted", At: grant.At(now)})
		}},
		{"Clients.Secrets", admin.Ended{Clients: []admin.EndedClient{{ID: "revoked", Secrets: []string{"one"}}}}, func() bool {
			c := client("revoked")
			return len(c.Secrets) == 1 && c.Secrets[0].ID == "two"
		}},
		{"Clients.Own", admin.Ended{Clients: []admin.EndedClient{{ID: own.ID, State: store.ClientDisabled, Own: &own}}}, func() bool {
			c, err := plain.Client(t.Context(), own.ID)
			return err == nil && c.State == store.ClientDisabled
		}},
		{"APIs.Deleted", admin.Ended{APIs: []admin.EndedAPI{{ID: "https://deleted.example", Deleted: true}}}, func() bool { return changes().APIRow("https://deleted.example").Deleted }},
		{"APIs.At", admin.Ended{APIs: []admin.EndedAPI{{ID: "https://again.example", Deleted: true, At: 5}}}, func() bool { return changes().APIRow("https://again.example").Deleted }},
		{"APIs.Closed", admin.Ended{APIs: []admin.EndedAPI{{ID: "https://closed.example", Closed: true}}}, func() bool { return !changes().APIRow("https://closed.example").Open }},
		{"Trusts.Deleted", admin.Ended{Trusts: []admin.EndedTrust{{ID: trusts[0].ID, Deleted: true}}}, func() bool { return trust(0).Deleted }},
		{"Trusts.At", admin.Ended{Trusts: []admin.EndedTrust{{ID: trusts[1].ID, At: 5}}}, func() bool { return trust(1).Disabled }},
		{"APIs.Scope", admin.Ended{APIs: []admin.EndedAPI{{ID: "https://narrowed.example", Scope: "a"}}}, func() bool { return changes().APIRow("https://narrowed.example").Scope() == "b" }},
		{"Users.Disabled", admin.Ended{Users: []admin.EndedUser{{Username: "alice", Disabled: true}}}, func() bool { return user("alice").State == account.Disabled && user("alice").Epoch == 1 }},
		{"Users.Disabled", admin.Ended{Users: []admin.EndedUser{{Subject: "s-carol", Disabled: true}}}, func() bool { return user("carol").State == account.Disabled }},
		{"Users.Now", admin.Ended{Users: []admin.EndedUser{{Username: "bob", Now: &present}}}, func() bool {
			return user("bob").Password == present.Password && user("bob").Epoch == present.Epoch && user("bob").State == account.Enabled
		}},
		{"Sessions", admin.Ended{Sessions: []store.DocumentKey{session("out").Key}}, func() bool {
			_, err := plain.Document(t.Context(), session("out").Key)
			return errors.Is(err, store.ErrNotFound)
		}},
		// A later token has the name of a revoked one.
		{"Tokens.At", admin.Ended{Tokens: []admin.EndedEntry{{Name: "again", At: 5}, {Name: "later", At: 8}, {Name: "none"}}}, func() bool {
			list, err := (&admin.Admin{Store: plain, Now: clock}).Tokens().List(t.Context())
			must(t, err)
			events, err := plain.Events(t.Context(), "admin tokens", 9)
			must(t, err)
			return len(list) == 2 && list[0].Name == "kept" && list[1].Name == "later" && len(events) == 1 && events[0].Detail == "again"
		}},
		{"Operators.At", admin.Ended{Operators: []admin.EndedEntry{{Name: "admin", At: 5}, {Name: "later", At: 8}, {Name: "none"}}}, func() bool {
			list, err := operator.List(t.Context(), plain)
			must(t, err)
			events, err := plain.Events(t.Context(), operator.About, 9)
			must(t, err)
			return len(list) == 1 && list[0].Name == "later" && slices.ContainsFunc(events, func(e store.Event) bool { return e.Name == store.EventOperatorRemoved })
		}},
		{"Grants", admin.Ended{Grants: all(func(g *grant.Grant) { g.AccessFloor = grant.At(now) + 9 })}, func() bool {
			return every(func(g grant.Grant) bool { return g.AccessFloor == grant.At(now)+9 && g.State == grant.Active })
		}},
		{"Grants", admin.Ended{Grants: all(func(g *grant.Grant) { g.State, g.Reason = grant.Revoked, grant.ReasonOperator })}, func() bool {
			return every(func(g grant.Grant) bool { return g.State == grant.Revoked })
		}},
	} {
		covered[tt.field] = true
		merge := func() error { return tt.e.Merge(t.Context(), st, kek, "operator:root", clock) }
		if tt.ended() {
			t.Fatalf("%s has ended before", tt.field)
		}
		// Inject faults of writes first: when a later call fails, earlier writes are done.
		methods := slices.Clone(storetest.Methods)
		slices.SortStableFunc(methods, func(a, b storetest.Method) int { return commits(b) - commits(a) })
		failed := 0
		for _, m := range methods {
			for call := 0; ; call++ {
				st.Heal()
				st.Calls()
				st.Inject(m, call, func(_ context.Context, do func() error) error { return do() })
				st.Inject(m, 1, storetest.Lost)
				err := merge()
				if st.Calls()[m] <= call {
					break // there are not so many calls
				}
				if failed++; !errors.Is(err, storetest.ErrInjected) {
					t.Errorf("%s: call %d of %s failed, and the merge says %v", tt.field, call+1, m, err)
				}
				if tt.field == "Grants" && call == 3 {
					call = 148 // skip to the last call, at the end of the list
				}
			}
		}
		st.Heal()
		if err := merge(); err != nil || !tt.ended() || failed < 2 {
			t.Errorf("%s: has ended: %t, after %d faults: %v", tt.field, tt.ended(), failed, err)
		}
	}
	for _, field := range fieldsOf(reflect.TypeFor[admin.Ended](), "") {
		if !covered[field] {
			t.Errorf("no test covers the end of %s", field)
		}
	}
}

func commits(m storetest.Method) int {
	if strings.HasPrefix(string(m), "Commit") || m == storetest.UpdateGrant {
		return 1
	}
	return 0
}

// all returns a list of 150 ended grants.
func all(end func(*grant.Grant)) func(context.Context, func(grant.Grant) error) error {
	return func(_ context.Context, f func(grant.Grant) error) error {
		for i := range byte(150) {
			g := grant.Grant{ID: grant.ID{7, i}, State: grant.Active}
			end(&g)
			if err := f(g); err != nil {
				return fmt.Errorf("grant %d: %w", i, err)
			}
		}
		return nil
	}
}
