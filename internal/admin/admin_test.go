package admin_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// newAdmin returns an Admin on a new store with keys, and the number of calls of its
// hook.
func newAdmin(t testing.TB) (a *admin.Admin, changes *int) {
	t.Helper()
	st, kek := testkit.Create(t, t.TempDir()), testkit.KEK(t)
	at := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	now := func() time.Time { at = at.Add(time.Millisecond); return at }
	schedule := keys.Schedule{Lifetime: 30 * 24 * time.Hour, Lead: 24 * time.Hour, MaxAge: time.Hour, Retention: time.Hour, Algorithms: testkit.Schedule().Algorithms}
	dir, err := directory.Open(t.Context(), st, kek, schedule, slog.New(slog.DiscardHandler), now)
	if err != nil {
		t.Fatal(err)
	}
	changes = new(int)
	return &admin.Admin{
		Store: st, Realm: "/api", Actor: admin.ByUser("test"), Now: now, Policy: grant.Policy{AccessLifetime: 5 * time.Minute}, Schedule: schedule,
		KEK:  func(context.Context) (*keys.KEK, error) { return kek, nil },
		Ring: func(context.Context) (*keys.Ring, error) { return dir.Ring(), nil }, Changed: func(context.Context) { *changes++ },
	}, changes
}

func billing() client.Registration {
	return client.Registration{ID: "billing", Settings: store.Settings{Name: "Billing", RedirectURIs: []string{"https://billing.example/callback"}, Scope: "read", Auth: store.AuthEither}, Secret: "an imported secret"}
}

func codeOf(err error) admin.Code {
	var e *admin.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// The hook makes the server read a change of the directory at once. Users and single
// grants are not in the directory.
func TestTheHookIsCalledAfterEachChangeOfTheDirectory(t *testing.T) {
	a, changes := newAdmin(t)
	ctx := t.Context()
	var secret string
	for _, step := range []struct {
		name string
		want int
		do   func() error
	}{
		{"create a client", 1, func() error { _, _, err := a.Clients().Create(ctx, billing(), store.ClientEnabled); return err }},
		{"create it again", 0, func() error {
			if _, _, err := a.Clients().Create(ctx, billing(), store.ClientEnabled); codeOf(err) != admin.Taken {
				return errors.New("the id was not taken")
			}
			return nil
		}},
		{"update to the same", 0, func() error {
			_, err := rename(t, a, "billing", "", "")
			return err
		}},
		{"update", 1, func() error { _, err := rename(t, a, "billing", "", "Invoices"); return err }},
		{"add a secret", 1, func() (err error) { secret, _, err = a.Clients().AddSecret(ctx, "billing", time.Hour); return err }},
		{"revoke it", 1, func() error { return a.Clients().RevokeSecret(ctx, "billing", secret, false) }},
		{"disable", 1, func() error { _, err := a.Clients().SetState(ctx, "billing", "", store.ClientDisabled); return err }},
		{"disable again", 0, func() error { _, err := a.Clients().SetState(ctx, "billing", "", store.ClientDisabled); return err }},
		{"cut off a subject", 1, func() error { _, err := a.Grants().CutOff(ctx, "alice", ""); return err }},
		{"rotate a key", 1, func() error { _, err := a.Keys().Rotate(ctx, []string{"mac"}, 0); return err }},
		{"create a user", 0, func() error { _, _, err := a.Users().Create(ctx, account.Registration{Username: "alice"}); return err }},
		{"enable it", 0, func() error { _, err := a.Users().Enable(ctx, "alice", ""); return err }},
		{"set a password", 0, func() error { _, _, err := a.Users().SetPassword(ctx, "alice", "", "", false); return err }},
		{"end the grants", 1, func() error { _, _, err := a.Users().SetPassword(ctx, "alice", "", "", true); return err }},
		{"disable the user", 1, func() error { _, err := a.Users().Disable(ctx, "alice", ""); return err }},
		{"delete the client", 1, func() error { _, err := a.Clients().Delete(ctx, "billing", ""); return err }},
	} {
		*changes = 0
		if err := step.do(); err != nil || *changes != step.want {
			t.Errorf("%s: %v, the hook was called %d times, want %d", step.name, err, *changes, step.want)
		}
	}
	if _, err := a.Clients().Read(ctx, "billing"); codeOf(err) != admin.Deleted {
		t.Errorf("a deleted client: %v", err)
	}
	events, err := a.Events(ctx, "billing")
	var names []string
	for _, e := range events {
		names = append(names, e.Name)
	}
	want := []string{"client_created", "client_changed", "secret_added", "secret_revoked", "client_changed", "client_deleted"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("events %v, %v, want %v", names, err, want)
	}
}

// rename changes a client's name, or attempts no change, as a command does.
func rename(t *testing.T, a *admin.Admin, id, etag, name string) (store.Client, error) {
	t.Helper()
	c, err := a.Clients().Read(t.Context(), id)
	if err != nil {
		return c, err
	}
	in := admin.ViewClient(c, 0)
	in.Name = cmp.Or(name, in.Name)
	c, _, _, err = a.Clients().Apply(t.Context(), id, cmp.Or(etag, admin.ClientETag(c)), in)
	return c, err
}

// A cutoff of a whole subject deletes the claims of its logins. One for a single client
// keeps them, because other clients still need them.
func TestACutoffOfASubjectErasesItsClaims(t *testing.T) {
	a, _ := newAdmin(t)
	ctx := t.Context()
	if _, _, err := a.Clients().Create(ctx, billing(), store.ClientEnabled); err != nil {
		t.Fatal(err)
	}
	var documents []store.Document
	for _, subject := range []string{"alice", "bob"} {
		documents = append(documents, store.Document{
			Kind: store.DocumentClaims, Key: store.ClaimsKey("/api", subject), Version: 1, Owner: store.OwnerOf("/api", subject), Body: []byte("sealed"),
		})
	}
	if err := a.Store.Commit(ctx, store.Change{Documents: documents}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		subject, client string
		alice           error // of reading alice's claims afterwards
	}{{"", "billing", nil}, {"alice", "billing", nil}, {"alice", "", store.ErrNotFound}, {"alice", "", store.ErrNotFound}} {
		if _, err := a.Grants().CutOff(ctx, step.subject, step.client); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Store.Document(ctx, store.ClaimsKey("/api", "alice")); !errors.Is(err, step.alice) {
			t.Errorf("after a cutoff of %q and %q: %v, want %v", step.subject, step.client, err, step.alice)
		}
	}
	if _, err := a.Store.Document(ctx, store.ClaimsKey("/api", "bob")); err != nil {
		t.Errorf("the claims of another subject: %v", err)
	}
}

// A tool that applies a registration sends the ETag that it has read. The first use of an
// imported secret rewrites the row, but does not change the ETag.
func TestAnETagIsMadeOfTheRegistration(t *testing.T) {
	a, _ := newAdmin(t)
	c, _, err := a.Clients().Create(t.Context(), billing(), store.ClientEnabled)
	if err != nil {
		t.Fatal(err)
	}
	etag := admin.ClientETag(c)
	ring, _ := a.Ring(t.Context())
	used := c.Clone()
	used.Secrets[0].Slow, used.Secrets[0].Digest = "", ring.Digest(oauth.Secret("an imported secret"))
	used.Version++
	if err := a.Store.Commit(t.Context(), store.Change{Entries: []store.Entry{used.Entry()}}); err != nil {
		t.Fatal(err)
	}
	c, err = rename(t, a, "billing", etag, "Invoices")
	if err != nil || c.Name != "Invoices" || admin.ClientETag(c) == etag {
		t.Errorf("after the first use of its secret: %v, %s", err, c.Name)
	}
	if _, err = rename(t, a, "billing", etag, "Bills"); codeOf(err) != admin.Changed {
		t.Errorf("with the ETag of before a change: %v", err)
	}
	if _, err := a.Clients().Delete(t.Context(), "billing", etag); codeOf(err) != admin.Changed {
		t.Errorf("deleted with the ETag of before a change: %v", err)
	}
}

func TestWithoutTheKeyEncryptionKeyAnOperatorCanLookDisableAndRevoke(t *testing.T) {
	a, _ := newAdmin(t)
	if _, _, err := a.Clients().Create(t.Context(), billing(), store.ClientEnabled); err != nil {
		t.Fatal(err)
	}
	second, _, err := a.Clients().AddSecret(t.Context(), "billing", 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("the key is lost")
	a.KEK = func(context.Context) (*keys.KEK, error) { return nil, lost }
	a.Ring = func(context.Context) (*keys.Ring, error) { return nil, lost }
	if _, _, err := a.Clients().AddSecret(t.Context(), "billing", 0); !errors.Is(err, lost) {
		t.Errorf("a secret was made: %v", err)
	}
	_, _, listed := a.Clients().List(t.Context(), adminapi.Page{Limit: 10}, false)
	_, keyed := a.Keys().List(t.Context())
	_, disabled := a.Clients().SetState(t.Context(), "billing", "", store.ClientDisabled)
	_, cut := a.Grants().CutOff(t.Context(), "", "billing")
	if err := errors.Join(listed, keyed, disabled, cut, a.Clients().RevokeSecret(t.Context(), "billing", second, true)); err != nil {
		t.Error(err)
	}
}

func TestEveryClientFollowsTheProfileOfTheDeployment(t *testing.T) {
	a, _ := newAdmin(t)
	ctx := t.Context()
	before, _, err := a.Clients().Create(ctx, billing(), store.ClientEnabled)
	if err != nil {
		t.Fatal(err)
	}
	a.Profile = store.ProfileFAPI2
	other := billing()
	other.ID = "other"
	var invalid *oauth.Invalid
	if _, _, err := a.Clients().Create(ctx, other, store.ClientEnabled); !errors.As(err, &invalid) || invalid.Field != "profile" {
		t.Errorf("a client without the profile: %v", err)
	}
	d := adminapi.Client{Registration: client.Registered(before), State: store.ClientEnabled}
	d.Name = "Other"
	if _, _, _, err := a.Clients().Apply(ctx, before.ID, "", d); !errors.As(err, &invalid) || invalid.Field != "profile" {
		t.Errorf("a change of one without the profile: %v", err)
	}
	if _, err := a.Clients().SetState(ctx, before.ID, "", store.ClientDisabled); err != nil {
		t.Errorf("disabling it: %v", err)
	}
	const orders = "https://orders.example"
	if _, err := a.APIs().Create(ctx, adminapi.API{ID: orders, Name: "Orders", Scopes: []adminapi.APIScope{{Name: "order"}}}); err != nil {
		t.Fatal(err)
	}
	reader := client.Registration{ID: "api", Settings: store.Settings{Name: "API", Auth: store.AuthEither, Introspect: true, APIs: []string{orders}}}
	if _, _, err := a.Clients().Create(ctx, reader, store.ClientEnabled); err != nil {
		t.Errorf("a resource server, which gets no tokens: %v", err)
	}
	exchanges := client.Registration{ID: "exchanges", Settings: store.Settings{Name: "Exchanges", Auth: store.AuthEither, ExchangeFrom: []string{before.ID}, ServesAPIs: []string{orders}, ExchangeAPIs: []string{orders}}}
	if _, _, err := a.Clients().Create(ctx, exchanges, store.ClientEnabled); !errors.As(err, &invalid) || invalid.Field != "profile" {
		t.Errorf("a client that gets tokens by exchanges alone: %v", err)
	}
	trust := adminapi.Trust{Issuer: "https://cluster.example", Kind: "workload", ClientID: "api", Subjects: []string{"ns:shop:orders"}, APIs: []string{orders}}
	if _, err := a.Trusts().Create(ctx, trust); !errors.As(err, &invalid) || invalid.Field != "client_id" {
		t.Errorf("a trust by which a client without the profile gets tokens: %v", err)
	}
	other.Profile, other.Secret = store.ProfileFAPI2, ""
	other.Follow()
	other.Assertion.KeysURI = "https://billing.example/keys"
	if _, _, err := a.Clients().Create(ctx, other, store.ClientEnabled); err != nil {
		t.Errorf("a client of the profile: %v", err)
	}
}

// An actor of one realm cannot name anything in another realm, even a realm that only the
// store still has.
func TestNoNameLeadsToAnotherRealm(t *testing.T) {
	a, _ := newAdmin(t)
	other := *a
	other.Realm, other.Store = "/staff", &store.RealmStore{Store: a.Store, Name: "/staff"}
	if _, _, err := other.Clients().Create(t.Context(), billing(), store.ClientEnabled); err != nil {
		t.Fatal(err)
	}
	key := store.InRealm("/staff", "billing")
	if c, err := a.Clients().Read(t.Context(), key); codeOf(err) != admin.NotFound {
		t.Errorf("the client %q: %+v, %v", key, c, err)
	}
	if _, _, err := a.Clients().AddSecret(t.Context(), key, 0); codeOf(err) != admin.NotFound {
		t.Errorf("a secret of %q: %v", key, err)
	}
	if list, err := a.Events(t.Context(), key); err != nil || len(list) != 0 {
		t.Errorf("events of %q: %+v, %v", key, list, err)
	}
}
