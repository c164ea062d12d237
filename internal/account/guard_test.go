package account

import "testing"

func TestFailuresCountOnUnderAnotherConfiguration(t *testing.T) {
	t.Parallel()
	guard := NewGuard(3)
	old := New(Users{Guard: guard})
	for range 3 {
		if !old.passwords.fails(alice, home, started) || !old.codes.fails(alice, home, started) {
			t.Fatal("the first failures are not free")
		}
	}
	same := New(Users{Guard: guard})
	guard.SetFailures(3)
	if same.passwords.wait(alice, home, started) == 0 || same.codes.wait(alice, home, started) == 0 {
		t.Error("failures are forgotten")
	}
	if same.passwords.wait(bob, elsewhere, started) != 0 {
		t.Error("a user without failures must wait")
	}
	if same.pool != old.pool {
		t.Error("the two configurations do not share one pool of password checks")
	}
	fewer := New(Users{Guard: guard})
	guard.SetFailures(1)
	if !fewer.passwords.fails(bob, elsewhere, started) || fewer.passwords.fails(bob, elsewhere, started) {
		t.Error("the new limit is not in force")
	}
	if old.passwords.wait(bob, elsewhere, started) == 0 {
		t.Error("requests that run on are not counted together with the others")
	}
}
