package admin_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

const realm = "/api"

var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func clock() time.Time { return now }

// must requires that all errors are nil.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// aCopy returns a store as in a backup, in which nothing has ended.
func aCopy(t *testing.T) (store.Store, *keys.KEK, []grant.Grant) {
	t.Helper()
	st, err := sqlite.Create(t.Context(), t.TempDir())
	must(t, err)
	t.Cleanup(func() { st.Close() })
	kek, err := keys.ParseKEK(keys.NewKEKText())
	must(t, err)
	var records []keys.Stored
	for _, p := range keys.Purposes {
		draft, err := keys.NewDraft(p)
		must(t, err)
		records = append(records, draft.Wrap(kek, grant.At(now), grant.At(now)))
	}
	ch, err := st.Changes(t.Context(), 0)
	must(t, err, st.Commit(t.Context(), store.Change{Expect: ch.Version, Keys: records}))
	secrets := []store.Secret{{ID: "one"}, {ID: "two"}}
	for _, id := range []string{"deleted", "disabled", "revoked", "kept"} {
		must(t, st.Commit(t.Context(), store.Change{Entries: []store.Entry{store.Client{ID: id, Realm: realm, State: store.ClientEnabled, Version: 1, Secrets: slices.Clone(secrets)}.Entry()}}))
	}
	for _, name := range []string{"alice", "bob", "carol"} {
		u, err := account.NewUser(account.Registration{Realm: realm, Username: name, Subject: "s-" + name, Password: "correct horse battery"}, grant.At(now))
		must(t, err)
		u.Version = 1
		d, err := u.Document()
		must(t, err)
		must(t, st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}))
	}
	var grants []grant.Grant
	for i := range byte(3) {
		g := grant.Grant{ID: grant.ID{i + 1}, Realm: realm, ClientID: "kept", Subject: "s-alice", Scope: "read", Version: 1, Generation: 1,
			State: grant.Active, AuthorizedAt: grant.At(now), RotatedAt: grant.At(now), ExpiresAt: grant.At(now) + 1e6, DeleteAfter: grant.At(now) + 2e6}
		must(t, st.CreateGrant(t.Context(), g))
		grants = append(grants, g)
	}
	return st, kek, grants
}

func session(name string) store.Document {
	return store.Document{Kind: store.DocumentSession, Key: store.KeyOf(store.DocumentSession, realm, name), Version: 1, ExpiresAt: grant.At(now) + 1e6, Body: []byte(name)}
}

func TestWhatHasEndedSinceABackupIsEndedInItsCopy(t *testing.T) {
	st, kek, grants := aCopy(t)
	must(t, st.Commit(t.Context(), store.Change{Documents: []store.Document{session("out")}}), st.Commit(t.Context(), store.Change{Documents: []store.Document{session("in")}}))
	ch, err := st.Changes(t.Context(), 0)
	must(t, err)
	withdrawn := ch.Keys[slices.IndexFunc(ch.Keys, func(r keys.Stored) bool { return r.Purpose == keys.MAC })].ID
	present, err := account.Find(t.Context(), st, realm, "bob")
	must(t, err)
	present, err = present.SetPassword("another battery staple", grant.At(now)+5)
	must(t, err)

	floor := grant.At(now) + 9
	cut := store.Cutoff{Realm: realm, Subject: "s-carol", At: grant.At(now) + 3}
	e := admin.Ended{
		Keys: []grant.KeyID{withdrawn, 0xdead}, Cutoffs: []store.Cutoff{cut},
		Clients: []admin.EndedClient{
			{ID: "deleted", State: store.ClientDeleted}, {ID: "disabled", State: store.ClientDisabled},
			{ID: "revoked", Secrets: []string{"one"}}, {ID: "made since", State: store.ClientDeleted},
		},
		Users:    []admin.EndedUser{{Subject: "s-alice", Disabled: true}, {Username: "bob", Now: &present}, {Username: "made since", Disabled: true}},
		Sessions: []store.DocumentKey{session("out").Key},
		Grants: func(_ context.Context, f func(grant.Grant) error) error {
			return errors.Join(
				f(grant.Grant{ID: grants[0].ID, State: grant.Revoked, Reason: grant.ReasonRefreshReplayed}),
				f(grant.Grant{ID: grants[1].ID, State: grant.Active, AccessFloor: floor}),
				f(grant.Grant{ID: grant.ID{99}, State: grant.Revoked}))
		},
	}
	for range 2 { // the second merge has nothing to do
		must(t, e.Merge(t.Context(), st, kek, "operator:root", clock))
	}

	for id, want := range map[string]struct {
		state   store.ClientState
		secrets int
		version int64
	}{"deleted": {store.ClientDeleted, 0, 2}, "disabled": {store.ClientDisabled, 2, 2}, "revoked": {store.ClientEnabled, 1, 2}, "kept": {store.ClientEnabled, 2, 1}} {
		c, err := st.Client(t.Context(), id)
		must(t, err)
		if c.State != want.state || len(c.Secrets) != want.secrets || c.Version != want.version {
			t.Errorf("client %s: %s with %d secrets, version %d", id, c.State, len(c.Secrets), c.Version)
		}
		if id == "revoked" && c.Secrets[0].ID != "two" {
			t.Errorf("secret %s is left", c.Secrets[0].ID)
		}
	}
	for name, want := range map[string]account.User{
		"alice": {State: account.Disabled, Epoch: 1}, "bob": {State: account.Enabled, Epoch: 1}, "carol": {State: account.Enabled},
	} {
		u, err := account.Find(t.Context(), st, realm, name)
		must(t, err)
		if u.State != want.State || u.Epoch != want.Epoch || (name == "bob") != (u.Password == present.Password) {
			t.Errorf("user %s: %s in epoch %d, password %s", name, u.State, u.Epoch, u.Password)
		}
	}
	for i, want := range []grant.Grant{{State: grant.Revoked, Reason: grant.ReasonRefreshReplayed}, {State: grant.Active, AccessFloor: floor}, {State: grant.Active}} {
		g, err := st.Grant(t.Context(), grants[i].ID)
		must(t, err)
		if g.State != want.State || g.Reason != want.Reason || g.AccessFloor != want.AccessFloor {
			t.Errorf("grant %d: %+v", i, g)
		}
	}
	ch, err = st.Changes(t.Context(), 0)
	must(t, err)
	if !slices.Contains(ch.Cutoffs, cut) {
		t.Errorf("cutoffs %v", ch.Cutoffs)
	}
	gone := 0
	for _, r := range ch.Keys {
		if r.WithdrawnAt() != 0 {
			gone++
			if r.ID != withdrawn {
				t.Errorf("key %s is withdrawn", r.ID)
			}
		}
	}
	if gone != 1 {
		t.Errorf("%d keys are withdrawn", gone)
	}
	if _, err := st.Document(t.Context(), session("out").Key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the session that was signed out: %v", err)
	}
	if _, err := st.Document(t.Context(), session("in").Key); err != nil {
		t.Errorf("the session that goes on: %v", err)
	}
	// Each end is recorded once, so that the revocation feed contains it.
	for about, want := range map[string]store.EventName{
		grants[0].ID.String(): store.EventGrantRevoked, grants[1].ID.String(): store.EventAccessRevoked, "deleted": store.EventClientDeleted,
		"revoked": store.EventSecretRevoked, store.AboutSubject("s-alice"): store.EventUserDisabled, withdrawn.String(): store.EventKeyWithdrawn,
	} {
		list, err := st.Events(t.Context(), about, 10)
		must(t, err)
		n := 0
		for _, e := range list {
			if e.Name == want && e.Actor == "operator:root" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %v", about, list)
		}
	}
}

func TestAFaultOfTheListOfEndedGrantsEndsTheMerge(t *testing.T) {
	st, kek, grants := aCopy(t)
	damaged := errors.New("damaged")
	e := admin.Ended{Grants: func(_ context.Context, f func(grant.Grant) error) error {
		return errors.Join(f(grant.Grant{ID: grants[0].ID, State: grant.Revoked}), damaged)
	}}
	if err := e.Merge(t.Context(), st, kek, "operator:root", clock); !errors.Is(err, damaged) {
		t.Errorf("got %v", err)
	}
	must(t, st.Close())
	e.Grants = func(_ context.Context, f func(grant.Grant) error) error {
		for {
			if err := f(grant.Grant{ID: grants[0].ID, State: grant.Revoked}); err != nil {
				return err
			}
		}
	}
	if err := e.Merge(t.Context(), st, kek, "operator:root", clock); err == nil {
		t.Error("a store that is closed has merged")
	}
}

func TestWhatHasEndedOfAPIsSinceABackupIsEndedInItsCopy(t *testing.T) {
	st, kek, _ := aCopy(t)
	for i, id := range []string{"https://deleted.example", "https://narrowed.example/", "https://kept.example", "https://again.example"} {
		must(t, st.Commit(t.Context(), store.Change{Entries: []store.Entry{store.API{
			ID: id, Realm: realm, Number: uint16(i + 1), CreatedAt: grant.Instant(i + 1), Version: 1, Open: true, DefaultScope: "a b", Scopes: []store.APIScope{{Name: "a", Number: 1}, {Name: "b", Number: 2}},
		}.Entry()}}))
	}
	e := admin.Ended{APIs: []admin.EndedAPI{
		{ID: "https://deleted.example", Deleted: true, At: 1}, {ID: "https://again.example", Deleted: true, At: 3}, {ID: "https://narrowed.example", Closed: true, Scope: "a gone"}, {ID: "https://young.example", Deleted: true},
	}}
	for range 2 { // the second merge has nothing to do
		must(t, e.Merge(t.Context(), st, kek, "operator:root", clock))
	}
	ch, err := st.Changes(t.Context(), 0)
	must(t, err)
	for id, want := range map[string]struct {
		deleted, open   bool
		scope, fallback string
		version         int64
		event           store.EventName
	}{
		"https://deleted.example":   {true, false, "", "", 2, store.EventAPIDeleted},
		"https://narrowed.example/": {false, false, "b", "b", 2, store.EventAPIChanged},
		"https://kept.example":      {false, true, "a b", "a b", 1, ""},
		"https://again.example":     {false, true, "a b", "a b", 1, ""}, // registered since
	} {
		a := ch.APIRow(id)
		if a.Deleted != want.deleted || !a.Deleted && a.Open != want.open || string(a.Scope()) != want.scope || string(a.DefaultScope) != want.fallback || a.Version != want.version {
			t.Errorf("%s: %+v", id, a)
		}
		list, err := st.Events(t.Context(), id, 10)
		must(t, err)
		if want.event == "" && len(list) > 0 || want.event != "" && (len(list) != 1 || list[0].Name != want.event || list[0].Actor != "operator:root") {
			t.Errorf("events of %s: %v", id, list)
		}
	}
	if len(ch.APIs) != 4 {
		t.Errorf("%d APIs", len(ch.APIs))
	}
}

// The end of something in one realm does not affect another realm with the same name.
func TestEndsAreMergedIntoTheirRealm(t *testing.T) {
	st, kek, _ := aCopy(t)
	const other = "/staff"
	of := &store.RealmStore{Store: st, Name: other}
	for _, name := range []string{realm, other} {
		if name == other {
			must(t, st.Commit(t.Context(), store.Change{Entries: []store.Entry{store.Client{ID: "kept", Realm: other, State: store.ClientEnabled, Version: 1, Secrets: []store.Secret{{ID: "one"}}}.Entry()}}))
		}
		must(t, st.Commit(t.Context(), store.Change{Entries: []store.Entry{store.API{ID: "https://api.example", Realm: name, Number: 1, CreatedAt: 1, Version: 1}.Entry()}}))
	}
	u, err := account.NewUser(account.Registration{Realm: other, Username: "alice", Subject: "s-alice", Password: "correct horse battery"}, grant.At(now))
	must(t, err)
	u.Version = 1
	d, err := u.Document()
	must(t, err, st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}))
	cut := store.Cutoff{Realm: other, Subject: "s-carol", At: grant.At(now)}
	e := admin.Ended{
		Cutoffs: []store.Cutoff{cut}, Clients: []admin.EndedClient{{Realm: other, ID: "kept", State: store.ClientDeleted}},
		APIs: []admin.EndedAPI{{Realm: other, ID: "https://api.example", Deleted: true}}, Users: []admin.EndedUser{{Realm: other, Subject: "s-alice", Disabled: true}},
	}
	must(t, e.Merge(t.Context(), st, kek, "operator:root", clock))
	ch, err := st.Changes(t.Context(), 0)
	must(t, err)
	for name, ended := range map[string]bool{realm: false, other: true} {
		own := ch.OfRealm(name)
		i := slices.IndexFunc(own.Clients, func(c store.Client) bool { return c.ID == "kept" })
		u, err := account.Find(t.Context(), st, name, "alice")
		must(t, err)
		if (own.Clients[i].State == store.ClientDeleted) != ended || own.APIs[0].Deleted != ended || (u.State == account.Disabled) != ended || slices.Contains(own.Cutoffs, cut) != ended {
			t.Errorf("realm %s: client %s, API deleted %t, user %s, cutoffs %v", name, own.Clients[i].State, own.APIs[0].Deleted, u.State, own.Cutoffs)
		}
		list, err := (&store.RealmStore{Store: st, Name: name}).Events(t.Context(), "kept", 9)
		if must(t, err); (len(list) > 0) != ended {
			t.Errorf("events of the client of %s: %v", name, list)
		}
	}
	if list, err := of.Events(t.Context(), store.AboutSubject("s-alice"), 9); err != nil || len(list) != 1 || list[0].Name != store.EventUserDisabled {
		t.Errorf("events of the user: %v, %v", list, err)
	}
}
