package restore

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// An API that was deleted or narrowed since the backup is so in the restored store, too;
// the operator must repeat all other changes.
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
		var p Since
		p.ofAPI(APIChange{Was: tt.was, Is: tt.is})
		if !reflect.DeepEqual(p.Ended.APIs, tt.ended) || len(p.Missing) > 1 || (len(p.Missing) == 1) != (tt.missing != "") || !strings.Contains(strings.Join(p.Missing, ""), tt.missing) {
			t.Errorf("%s: ended %+v, missing %q", name, p.Ended.APIs, p.Missing)
		}
	}

	p, err := InAuditLog(t.Context(), []audit.Entry{
		{Event: audit.Name(store.EventAPIDeleted), Time: time.UnixMilli(7), Detail: "api https://api.example:8443/orders: Orders: all"},
		{Event: audit.Name(store.EventAPIChanged), Detail: `api https://api.example: self registered clients "false", was "true"`},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []admin.EndedAPI{{ID: "https://api.example:8443/orders", Deleted: true, At: 7}}; !reflect.DeepEqual(p.Ended.APIs, want) || len(p.Missing) != 1 || !strings.Contains(p.Missing[0], "self registered clients") {
		t.Errorf("from the audit log: %+v, missing %q", p.Ended.APIs, p.Missing)
	}
}

// A self-registered client that was disabled since the backup stays disabled in the
// restored store, even if that has no record of it; the operator need not repeat
// anything.
func TestARestoreLetsNoClientInAgainThatRegisteredItself(t *testing.T) {
	with := func(state store.ClientState) *store.Client {
		return &store.Client{ID: "https://agent.example/client.json", RegisteredBy: store.ByDocument, State: state}
	}
	disabled, enabled := with(store.ClientDisabled), with(store.ClientEnabled)
	for name, tt := range map[string]struct {
		was, is *store.Client
		ended   []admin.EndedClient
		missing string // part of the only line
	}{
		"disabled":       {nil, disabled, []admin.EndedClient{{ID: disabled.ID, State: store.ClientDisabled, Own: disabled}}, ""},
		"disabled again": {enabled, disabled, []admin.EndedClient{{ID: disabled.ID, State: store.ClientDisabled, Own: disabled}}, ""},
		"enabled":        {disabled, enabled, nil, "was enabled"},
		"both since":     {nil, enabled, nil, ""},
	} {
		var s Since
		s.ofClient(ClientChange{Was: tt.was, Is: tt.is})
		if !reflect.DeepEqual(s.Ended.Clients, tt.ended) || (len(s.Missing) == 1) != (tt.missing != "") || !strings.Contains(strings.Join(s.Missing, ""), tt.missing) {
			t.Errorf("%s: ended %+v, missing %q", name, s.Ended.Clients, s.Missing)
		}
	}
}

// Everything that has ended by the audit log is ended again, in each way in which it can
// end.
func TestTheAuditLogShowsAllThatHasEnded(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	one, two, three := grant.ID{1}, grant.ID{2}, grant.ID{3}
	entry := func(name store.EventName, change audit.Entry) audit.Entry {
		change.Event, change.Outcome, change.Time = audit.Name(name), audit.Success, at
		return change
	}
	p, err := InAuditLog(t.Context(), []audit.Entry{
		entry(store.EventGrantRevoked, audit.Entry{GrantID: one.String()}),
		entry(store.EventAccessRevoked, audit.Entry{GrantID: two.String()}),
		entry(store.EventAccessRevoked, audit.Entry{GrantID: three.String()}),
		entry(store.EventRefreshReplayed, audit.Entry{GrantID: three.String()}),
		entry(store.EventCutoff, audit.Entry{Subject: "alice"}),
		entry(store.EventCutoff, audit.Entry{Subject: "alice", Detail: admin.MergedDetail}),
		entry(store.EventCutoff, audit.Entry{Subject: "grace", Detail: admin.MergedDetail}), // from another node's audit log
		entry(store.EventDisconnected, audit.Entry{Subject: "bob", ClientID: "mail"}),
		entry(store.EventKeyWithdrawn, audit.Entry{Detail: "key 0000002a: mac key"}),
		entry(store.EventClientDeleted, audit.Entry{ClientID: "a", Detail: "A"}),
		entry(store.EventClientChanged, audit.Entry{ClientID: "b", Detail: "disabled"}),
		entry(store.EventClientChanged, audit.Entry{ClientID: "c", Detail: `disabled; name "C", was "c...`}),
		entry(store.EventClientChanged, audit.Entry{ClientID: "d", Detail: "disabled"}),
		entry(store.EventClientChanged, audit.Entry{ClientID: "d", Detail: "enabled"}),
		entry(store.EventSecretRevoked, audit.Entry{ClientID: "e", Detail: "secret s1"}),
		entry(store.EventAPIDeleted, audit.Entry{Detail: "api https://api.example: Orders"}),
		entry(store.EventUserDisabled, audit.Entry{Subject: "carol", Detail: "grants ended"}),
		entry(store.EventUserDisabled, audit.Entry{Subject: "dave", Detail: "grants ended"}),
		entry(store.EventUserEnabled, audit.Entry{Subject: "dave"}),
		// These two were disabled before the backup.
		entry(store.EventClientChanged, audit.Entry{ClientID: "f", Detail: "enabled"}),
		entry(store.EventUserEnabled, audit.Entry{Subject: "heidi"}),
		entry(store.EventAdminTokenRevoked, audit.Entry{Detail: "watch"}),
		entry(store.EventOperatorRemoved, audit.Entry{Detail: "alice: was admin"}),
		entry(store.EventAdminTokenCreated, audit.Entry{Detail: "watch: auditor, expires 2026-12-01T00:00:00Z"}),
		entry(store.EventPasswordChanged, audit.Entry{Subject: "erin", Detail: "sessions and grants ended"}),
		entry(store.EventPasswordChanged, audit.Entry{Subject: "frank", Detail: "sessions ended"}),
		entry(store.EventClientChanged, audit.Entry{ClientID: "g", Detail: `name "G", was "g"; disabled`}), // of an earlier version
		// The same name in another realm is another thing.
		entry(store.EventClientChanged, audit.Entry{Realm: "/staff", ClientID: "d", Detail: "disabled"}),
		entry(store.EventUserDisabled, audit.Entry{Realm: "/staff", Subject: "dave", Detail: "grants ended"}),
		entry(store.EventAPIDeleted, audit.Entry{Realm: "/staff", Detail: "api https://api.example: Orders"}),
		entry(store.EventClientCreated, audit.Entry{Realm: "/staff", ClientID: "new", Detail: "New"}),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var grants []grant.Grant
	if err := p.Ended.Grants(t.Context(), func(g grant.Grant) error { grants = append(grants, g); return nil }); err != nil {
		t.Fatal(err)
	}
	p.Ended.Grants = nil
	now := grant.At(at)
	if want := []grant.Grant{
		{ID: one, State: grant.Revoked, Reason: grant.ReasonOperator},
		{ID: two, State: grant.Active, AccessFloor: now},
		{ID: three, State: grant.Revoked, Reason: grant.ReasonRefreshReplayed, AccessFloor: now},
	}; !reflect.DeepEqual(grants, want) || p.EndedGrants != 2 {
		t.Errorf("%d grants: %+v", p.EndedGrants, grants)
	}
	cut := func(subject, client string) store.Cutoff {
		return store.Cutoff{Realm: "/api", Subject: subject, ClientID: client, At: now}
	}
	if want := (admin.Ended{
		Keys: []grant.KeyID{0x2a}, APIs: []admin.EndedAPI{{ID: "https://api.example", Deleted: true, At: now}, {Realm: "/staff", ID: "https://api.example", Deleted: true, At: now}},
		Cutoffs: []store.Cutoff{cut("alice", ""), cut("grace", ""), cut("bob", "mail"), cut("carol", ""), cut("dave", ""), cut("erin", ""), {Realm: "/staff", Subject: "dave", At: now}},
		Clients: []admin.EndedClient{{ID: "a", State: store.ClientDeleted}, {ID: "b", State: store.ClientDisabled}, {ID: "c", State: store.ClientDisabled}, {ID: "d"}, {ID: "e", Secrets: []string{"s1"}}, {ID: "f"}, {ID: "g", State: store.ClientDisabled}, {Realm: "/staff", ID: "d", State: store.ClientDisabled}},
		Users:   []admin.EndedUser{{Subject: "carol", Disabled: true}, {Realm: "/staff", Subject: "dave", Disabled: true}},
		Tokens:  []admin.EndedEntry{{Name: "watch", At: now}}, Operators: []admin.EndedEntry{{Name: "alice", At: now}},
	}); !reflect.DeepEqual(p.Ended, want) {
		t.Errorf("%+v\nwant\n%+v", p.Ended, want)
	}
	if len(p.Missing) != 8 || !strings.Contains(p.Missing[1], "client_changed f ") || !strings.Contains(p.Missing[2], "user_enabled heidi") || !strings.HasPrefix(p.Missing[7], "realm staff: ") {
		t.Errorf("to be repeated: %q", p.Missing)
	}
	// The end of a grant that the backup lacks is not needed.
	revoked := []audit.Entry{entry(store.EventGrantRevoked, audit.Entry{GrantID: one.String()}), entry(store.EventGrantRevoked, audit.Entry{GrantID: two.String()})}
	p, err = InAuditLog(t.Context(), revoked, func(_ context.Context, id grant.ID) (bool, error) { return id == two, nil })
	if err != nil || p.EndedGrants != 1 {
		t.Errorf("%d grants of the backup have ended, %v", p.EndedGrants, err)
	}
	fault := errors.New("no answer")
	if _, err = InAuditLog(t.Context(), revoked, func(context.Context, grant.ID) (bool, error) { return false, fault }); err != fault {
		t.Errorf("a backup that cannot be read: %v", err)
	}
}

// Each kind of thing that has ended since the backup is found in the present store
// separately: none is mistaken for another.
func TestTheStoreShowsEachThingThatHasEnded(t *testing.T) {
	client := func(change func(*store.Client)) *store.Client {
		c := &store.Client{ID: "shop", Settings: store.Settings{Name: "Shop"}, State: store.ClientEnabled, Secrets: []store.Secret{{ID: "one"}, {ID: "two"}}}
		change(c)
		return c
	}
	api := func(change func(*store.API)) *store.API {
		a := &store.API{ID: "https://api.example", Number: 1, Version: 1, Open: true, Scopes: []store.APIScope{{Name: "a", Number: 1}, {Name: "b", Number: 2}}, LastScope: 2}
		change(a)
		return a
	}
	user := func(change func(*account.User)) (u account.User) {
		u = account.User{Username: "alice", Subject: "s-alice", State: account.Enabled, Password: "hash", Epoch: 1, TOTP: []byte("sealed")}
		change(&u)
		return u
	}
	clients := func(change func(*store.Client)) Lost {
		return Lost{Clients: []ClientChange{{Was: client(func(*store.Client) {}), Is: client(change)}}}
	}
	apis := func(change func(*store.API)) Lost {
		return Lost{APIs: []APIChange{{Was: api(func(*store.API) {}), Is: api(change)}}}
	}
	users := func(change func(*account.User)) (Lost, admin.Ended) {
		was, is := user(func(*account.User) {}), user(change)
		return Lost{Users: []UserChange{{Was: &was, Is: &is}}}, admin.Ended{Users: []admin.EndedUser{{Username: "alice", Disabled: is.State == account.Disabled, Now: &is}}}
	}
	ended := func(c admin.EndedClient) admin.Ended { return admin.Ended{Clients: []admin.EndedClient{c}} }
	endedAPI := func(a admin.EndedAPI) admin.Ended { return admin.Ended{APIs: []admin.EndedAPI{a}} }
	cut := store.Cutoff{Realm: "/api", Subject: "s-alice", At: 7}
	key := store.KeyOf(store.DocumentSession, "/api", "out")
	disabled, forDisabled := users(func(u *account.User) { u.State = account.Disabled })
	password, forPassword := users(func(u *account.User) { u.Password = "another" })
	factor, forFactor := users(func(u *account.User) { u.TOTP = []byte("another") })
	epoch, forEpoch := users(func(u *account.User) { u.Epoch = 2 })
	agent := &store.Client{ID: "https://agent.example/client.json", RegisteredBy: store.ByDocument, State: store.ClientDisabled}
	tokens := func(secrets ...string) (l Lost) {
		token := func(secret string) admin.Token {
			name, _, _ := strings.Cut(secret, " ")
			return admin.Token{Name: name, Digest: []byte(secret)}
		}
		l.Tokens.Was = []admin.Token{token("alice"), token("watch")}
		for _, secret := range secrets {
			l.Tokens.Is = append(l.Tokens.Is, token(secret))
		}
		return l
	}

	operators := func(now ...operator.Operator) (l Lost) {
		l.Operators.Was, l.Operators.Is = []operator.Operator{{Name: "alice", Role: operator.Admin, CreatedAt: 1}, {Name: "bob", Role: operator.Auditor, CreatedAt: 2}}, now
		return l
	}
	alice, bob := operator.Operator{Name: "alice", Role: operator.Admin, CreatedAt: 1, SeenAt: 9}, operator.Operator{Name: "bob", Role: operator.Auditor, CreatedAt: 2}

	for name, tt := range map[string]struct {
		lost Lost
		want admin.Ended
	}{
		"keys":                           {Lost{Withdrawn: []grant.KeyID{42}}, admin.Ended{Keys: []grant.KeyID{42}}},
		"cutoffs":                        {Lost{Cutoffs: []store.Cutoff{cut}}, admin.Ended{Cutoffs: []store.Cutoff{cut}}},
		"sessions":                       {Lost{SignedOut: []store.DocumentKey{key}}, admin.Ended{Sessions: []store.DocumentKey{key}}},
		"a client is disabled":           {clients(func(c *store.Client) { c.State = store.ClientDisabled }), ended(admin.EndedClient{ID: "shop", State: store.ClientDisabled})},
		"a client is deleted":            {clients(func(c *store.Client) { c.State, c.Secrets = store.ClientDeleted, nil }), ended(admin.EndedClient{ID: "shop", State: store.ClientDeleted})},
		"a secret is revoked":            {clients(func(c *store.Client) { c.Secrets = c.Secrets[1:] }), ended(admin.EndedClient{ID: "shop", Secrets: []string{"one"}})},
		"a self-registered client":       {Lost{Clients: []ClientChange{{Is: agent}}}, ended(admin.EndedClient{ID: agent.ID, State: store.ClientDisabled, Own: agent})},
		"an API is deleted":              {apis(func(a *store.API) { a.Deleted, a.Scopes = true, nil }), endedAPI(admin.EndedAPI{ID: "https://api.example", Deleted: true})},
		"an API is closed":               {apis(func(a *store.API) { a.Open = false }), endedAPI(admin.EndedAPI{ID: "https://api.example", Closed: true})},
		"an API has lost a scope":        {apis(func(a *store.API) { a.Scopes = a.Scopes[1:] }), endedAPI(admin.EndedAPI{ID: "https://api.example", Scope: "a"})},
		"a trust is deleted":             {Lost{Trusts: []TrustChange{{&store.Trust{ID: "t"}, &store.Trust{ID: "t", Deleted: true}}}}, admin.Ended{Trusts: []admin.EndedTrust{{ID: "t", Deleted: true}}}},
		"a user is disabled":             {disabled, forDisabled},
		"a user has another password":    {password, forPassword},
		"a user has another factor":      {factor, forFactor},
		"a user's sessions have ended":   {epoch, forEpoch},
		"an admin token is revoked":      {tokens("watch"), admin.Ended{Tokens: []admin.EndedEntry{{Name: "alice"}}}},
		"an admin token is another":      {tokens("watch", "alice anew"), admin.Ended{Tokens: []admin.EndedEntry{{Name: "alice"}}}},
		"an operator is removed":         {operators(bob), admin.Ended{Operators: []admin.EndedEntry{{Name: "alice"}}}},
		"an operator has another role":   {operators(operator.Operator{Name: "alice", Role: operator.Auditor, CreatedAt: 7}, bob), admin.Ended{Operators: []admin.EndedEntry{{Name: "alice"}}}},
		"an operator has signed in":      {operators(alice, bob), admin.Ended{}},
		"a login, which changes no more": {func() Lost { l, _ := users(func(u *account.User) { u.TOTPStep = 9 }); return l }(), admin.Ended{}},
	} {
		if s := InStore(tt.lost, nil); !reflect.DeepEqual(s.Ended, tt.want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", name, s.Ended, tt.want)
		}
	}
	called := false
	s := InStore(Lost{Ended: 3}, func(context.Context, func(grant.Grant) error) error { called = true; return nil })
	if s.EndedGrants != 3 || s.Ended.Grants == nil || s.Ended.Grants(t.Context(), nil) != nil || !called {
		t.Errorf("grants: %+v", s)
	}
}

// Whatever was created or allowed since the backup is listed for the operator, once.
func TestWhatWasMadeSinceIsMissing(t *testing.T) {
	client := store.Client{ID: "shop", State: store.ClientEnabled, Settings: store.Settings{Name: "Shop"}}
	with := func(change func(*store.Client)) *store.Client {
		c := client
		change(&c)
		return &c
	}
	disabled := with(func(c *store.Client) { c.State = store.ClientDisabled })
	off, on := account.User{Username: "bob", State: account.Disabled}, account.User{Username: "bob", State: account.Enabled}
	for want, lost := range map[string]Lost{
		`client shop ("Shop") was registered`: {Clients: []ClientChange{{nil, &client}}},
		"client shop was enabled":             {Clients: []ClientChange{{disabled, &client}}},
		"client shop got the secret s1":       {Clients: []ClientChange{{&client, with(func(c *store.Client) { c.Secrets = []store.Secret{{ID: "s1"}} })}}},
		"registration of client shop was":     {Clients: []ClientChange{{&client, with(func(c *store.Client) { c.Name = "Sale" })}}},
		"user bob was made":                   {Users: []UserChange{{nil, &on}}},
		"user bob was enabled":                {Users: []UserChange{{&off, &on}}},
		"second factor of user bob was":       {Users: []UserChange{{&on, &account.User{Username: "bob", State: account.Enabled, TOTP: []byte("x")}}}},
		"":                                    {Clients: []ClientChange{{nil, with(func(c *store.Client) { c.State = store.ClientDeleted })}, {&client, with(func(c *store.Client) { c.State, c.Name = store.ClientDeleted, "" })}, {&client, disabled}}},
	} {
		if s := InStore(lost, nil); (len(s.Missing) == 1) != (want != "") || !strings.Contains(strings.Join(s.Missing, ""), want) {
			t.Errorf("missing %q, want %q", s.Missing, want)
		}
	}
}

// A store that another process writes to while it is read is read again.
func TestAStoreThatIsWrittenToIsReadAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		writes int
		open   bool // afterwards, with the change in its write-ahead log
		reads  int  // 0 if it cannot be read
	}{"never": {0, false, 1}, "once": {1, false, 2}, "once, and is in use": {1, true, 2}, "always": {99, false, 0}} {
		dir, reads := t.TempDir(), 0
		write := func(n int) error {
			st, err := sqlite.Create(t.Context(), dir)
			if err != nil {
				return err
			}
			if tt.open {
				t.Cleanup(func() { st.Close() })
			} else {
				defer st.Close()
			}
			return st.Commit(t.Context(), store.Change{Documents: []store.Document{{Kind: store.DocumentUser, Key: store.DocumentKey{byte(n)}, Version: 1, Body: []byte("{}")}}})
		}
		st, err := sqlite.Create(t.Context(), dir)
		if err == nil {
			err = st.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		err = readUntouched(t.Context(), filepath.Join(dir, sqlite.FileName), func(*sql.DB) error {
			if reads++; reads <= tt.writes {
				return write(reads)
			}
			return nil
		})
		if (err == nil) != (tt.reads > 0) || tt.reads > 0 && reads != tt.reads {
			t.Errorf("%s: read %d times, %v", name, reads, err)
		}
	}
}

// A change that an operator must repeat in another realm names the realm in the command.
// What ended before the backup is not listed.
func TestWhatIsMissingInARealmIsRepeatedThere(t *testing.T) {
	is := account.User{Realm: "/staff", Username: "bob", Name: "Bob", State: account.Disabled}
	was := is
	was.Name = "Robert"
	var s Since
	s.ofUser(UserChange{&was, &is})
	if want := []string{"realm staff: the name or the claims of user bob were changed: mintage user update bob --realm staff"}; !slices.Equal(s.Missing, want) || len(s.Ended.Users) != 0 {
		t.Errorf("missing %q, ended %+v", s.Missing, s.Ended.Users)
	}
	is.Password = "another"
	if s.ofUser(UserChange{&was, &is}); len(s.Ended.Users) != 1 || s.Ended.Users[0].Disabled {
		t.Errorf("a new password: ended %+v", s.Ended.Users)
	}
	is.Realm = "/api"
	s = Since{}
	if s.ofUser(UserChange{&was, &is}); !slices.Equal(s.Missing, []string{"the name or the claims of user bob were changed: mintage user update bob"}) {
		t.Errorf("in the default realm: %q", s.Missing)
	}
}
