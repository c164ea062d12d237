package admin_test

import (
	"errors"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// A client's own tokens have its id as sub, which must not be a user's name.
func TestClientsAndUsersShareNoName(t *testing.T) {
	t.Parallel()
	a, _ := newAdmin(t)
	var invalid *oauth.Invalid
	if _, _, err := a.Clients().Create(t.Context(), billing(), store.ClientEnabled); err != nil {
		t.Fatal(err)
	}
	var user *oauth.Invalid
	if _, _, err := a.Users().Create(t.Context(), account.Registration{Username: "billing"}); !errors.As(err, &user) || user.Field != "subject" {
		t.Errorf("a user with a client's name: %v", err)
	}
	if _, err := a.Clients().Delete(t.Context(), "billing", ""); err != nil {
		t.Fatal(err)
	}
	for _, a.DryRun = range []bool{true, false} { // a deleted client's tokens may still be valid
		for _, r := range []account.Registration{{Username: "billing"}, {Username: "bob", Subject: "billing"}} {
			if n, err := a.Users().Import(t.Context(), []account.Registration{{Username: "carol"}, r}); n != 0 || !errors.As(err, &user) || user.Field != "subject" {
				t.Errorf("an imported user with a client's name (dry: %t): %d, %v", a.DryRun, n, err)
			}
		}
	}
	// A client that is registered during an import counts, too.
	if n, err := a.Users().Import(t.Context(), []account.Registration{{Username: "erin"}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	late := billing()
	late.ID, late.Secret = "late", ""
	if _, _, err := a.Clients().Create(t.Context(), late, store.ClientEnabled); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"late", "billing"} {
		if n, err := a.Users().Import(t.Context(), []account.Registration{{Username: "bob", Subject: subject}}); n != 0 || !errors.As(err, &user) || user.Field != "subject" {
			t.Errorf("a later list has a user with the name of the client %s: %d, %v", subject, n, err)
		}
	}
	if _, err := a.Users().Read(t.Context(), "carol"); codeOf(err) != admin.NotFound {
		t.Errorf("a part of the list was stored: %v", err)
	}
	if _, _, err := a.Users().Create(t.Context(), account.Registration{Username: "alice", Subject: "user-1"}); err != nil {
		t.Fatal(err)
	}
	r := billing()
	r.ID = "user-1"
	if _, _, err := a.Clients().Create(t.Context(), r, store.ClientEnabled); !errors.As(err, &invalid) || invalid.Field != "id" {
		t.Errorf("a client with a user's name: %v", err)
	}
}

// Two concurrent creations with one name have both checked before either one is stored.
func TestClientsAndUsersShareNoNameAtOnce(t *testing.T) {
	t.Parallel()
	a, _ := newAdmin(t)
	faulty := storetest.NewFaulty(a.Store)
	b := *a
	b.Store = faulty
	r := billing()
	faulty.Inject(storetest.CommitDocument, 1, storetest.Meanwhile(func() {
		if _, _, err := a.Clients().Create(t.Context(), r, store.ClientEnabled); err != nil {
			t.Error(err)
		}
	}))
	var invalid *oauth.Invalid
	if _, _, err := b.Users().Create(t.Context(), account.Registration{Username: "billing"}); !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("a user with a client's name: %v", err)
	}
	r.ID = "orders"
	faulty.Inject(storetest.CommitDocument, 1, storetest.Meanwhile(func() {
		if _, _, err := a.Users().Create(t.Context(), account.Registration{Username: "orders"}); err != nil {
			t.Error(err)
		}
	}))
	if _, _, err := b.Clients().Create(t.Context(), r, store.ClientEnabled); !errors.As(err, &invalid) || invalid.Field != "id" {
		t.Errorf("a client with a user's name: %v", err)
	}
}
