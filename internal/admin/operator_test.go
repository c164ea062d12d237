package admin_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store/storetest"
)

// With built-in users, every operator is one of them, and at least one admin who can sign
// in must remain.
func TestOperatorsAreUsersWhereUsersAreBuiltIn(t *testing.T) {
	a, _ := newAdmin(t)
	ctx := t.Context()
	add := func(name string) error {
		_, err := a.Console().AddOperator(ctx, adminapi.OperatorRequest{Name: name, Role: operator.Admin})
		return err
	}
	invite := func(name string) error {
		_, _, err := a.Console().InviteOperator(ctx, adminapi.InvitationRequest{Operator: name})
		return err
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Operators who were added while another system managed the users.
	for _, name := range []string{"other", "away"} {
		if err := add(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"real", "away"} {
		if _, _, err := a.Users().Create(ctx, account.Registration{Username: name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Users().Disable(ctx, "away", ""); err != nil {
		t.Fatal(err)
	}
	a.OperatorRealm = a.Realm
	refused(add("nobody"), "mintage user create nobody")
	refused(invite("nobody"), "there is no operator")
	refused(invite("other"), "mintage user create other")
	refused(invite("away"), "mintage user enable away")
	if err := add("Real"); err != nil {
		t.Fatal(err)
	}
	if err := invite("real"); err != nil {
		t.Error(err)
	}
	if err := a.Console().RemoveOperator(ctx, "real"); codeOf(err) != admin.InUse {
		t.Errorf("remove the only admin who can sign in: %v", err)
	}
	if _, err := a.Users().Disable(ctx, "real", ""); codeOf(err) != admin.InUse {
		t.Errorf("disable the only admin who can sign in: %v", err)
	}
	if _, err := a.Users().Disable(ctx, "away", ""); err != nil {
		t.Errorf("repeat the change: %v", err)
	}
	if _, err := a.Users().Enable(ctx, "away", ""); err != nil {
		t.Fatal(err)
	}
	if err := a.Console().RemoveOperator(ctx, "real"); err != nil {
		t.Errorf("while another admin can: %v", err)
	}
	if err := add("real"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Users().Disable(ctx, "away", ""); err != nil {
		t.Errorf("disable an admin, while another can sign in: %v", err)
	}
}

// Two nodes disable or remove the last two admins simultaneously, after each has read
// that the other admin can sign in.
func TestOneAdminStaysOfTwoWhoGoAtOnce(t *testing.T) {
	t.Parallel()
	disable := func(a *admin.Admin, name string) error {
		_, err := a.Users().Disable(t.Context(), name, "")
		return err
	}
	remove := func(a *admin.Admin, name string) error { return a.Console().RemoveOperator(t.Context(), name) }
	for _, c := range []struct {
		what          string
		first, second func(a *admin.Admin, name string) error
		want          admin.Code
	}{
		{"disabled both", disable, disable, admin.Changed},
		{"removed both", remove, remove, admin.InUse},
		{"disabled, then removed", disable, remove, admin.InUse},
		{"removed, then disabled", remove, disable, admin.Changed},
	} {
		a, _ := newAdmin(t)
		a.OperatorRealm = a.Realm
		for _, name := range []string{"alice", "bob"} {
			if _, _, err := a.Users().Create(t.Context(), account.Registration{Username: name}); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Console().AddOperator(t.Context(), adminapi.OperatorRequest{Name: name, Role: operator.Admin}); err != nil {
				t.Fatal(err)
			}
		}
		faulty := storetest.NewFaulty(a.Store)
		b := *a
		b.Store = faulty
		faulty.Inject(storetest.CommitDocument, 1, storetest.Meanwhile(func() {
			if err := c.first(a, "alice"); err != nil {
				t.Errorf("%s: the first: %v", c.what, err)
			}
		}))
		if err := c.second(&b, "bob"); codeOf(err) != c.want {
			t.Errorf("%s: the second: %v", c.what, err)
		}
		if err := c.second(&b, "bob"); codeOf(err) != admin.InUse {
			t.Errorf("%s: the second once more: %v", c.what, err)
		}
	}
}
