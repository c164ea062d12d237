package admin_test

import (
	"errors"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// Imported users keep their passwords. An import can be repeated, and each list is stored
// as a whole or not at all.
func TestUsersAreImported(t *testing.T) {
	a, _ := newAdmin(t)
	ctx := t.Context()
	const password = "ivory-lighthouse-42"
	good := []account.Registration{
		{Username: "Carol", Subject: "u-1", PasswordHash: keys.HashSlow(password)}, {Username: "dave"}, {Username: "dave", Name: "Another"},
	}
	imports := func(about string, list []account.Registration, dry bool, want int) {
		t.Helper()
		a.DryRun = dry
		if n, err := a.Users().Import(ctx, list); n != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", about, n, err, want)
		}
	}
	imports("tried", good, true, 2)
	if _, err := a.Users().Read(ctx, "carol"); codeOf(err) != admin.NotFound {
		t.Errorf("a dry run has stored a user: %v", err)
	}
	imports("imported", good, false, 2)
	imports("again", append(good, account.Registration{Username: "erin"}), false, 1)
	matches := func(name string, want bool) {
		t.Helper()
		u, err := a.Users().Read(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := keys.MatchSlow(u.Password, oauth.Secret(password)); ok != want || err != nil {
			t.Errorf("%s: the password fits: %t, %v", name, ok, err)
		}
	}
	matches("carol", true)
	matches("dave", false)
	var wrong *admin.ImportError
	if _, err := a.Users().Import(ctx, []account.Registration{{Username: "frank"}, {Username: "no space"}}); !errors.As(err, &wrong) || wrong.Index != 1 {
		t.Errorf("%v", err)
	}
	if _, err := a.Users().Import(ctx, []account.Registration{{Username: "frank"}, {Username: "gina", Subject: "u-1"}}); err == nil {
		t.Error("two users have one subject")
	}
	for _, a.DryRun = range []bool{true, false} {
		if _, err := a.Users().Import(ctx, []account.Registration{{Username: "frank", Subject: "u-2"}, {Username: "gina", Subject: "u-2"}}); err == nil {
			t.Errorf("two users of one list have one subject (dry: %t)", a.DryRun)
		}
		if _, err := a.Users().Import(ctx, []account.Registration{{Username: "frank", Subject: "gina"}, {Username: "gina"}}); err == nil {
			t.Errorf("a username is the subject of another user of the list (dry: %t)", a.DryRun)
		}
	}
	if _, err := a.Users().Read(ctx, "frank"); codeOf(err) != admin.NotFound {
		t.Errorf("a part of a list was stored: %v", err)
	}
	// The API creates users one by one.
	u, generated, err := a.Users().Create(ctx, account.Registration{Username: "hugo", PasswordHash: keys.HashSlow(password)})
	if err != nil || generated != "" || u.Username != "hugo" {
		t.Fatalf("%v, %q", err, generated)
	}
	matches("hugo", true)
	if _, _, err := a.Users().Create(ctx, account.Registration{Username: "iris", PasswordHash: keys.UnmatchableHash(), Password: password}); err == nil {
		t.Error("a password and a hash")
	}
}
