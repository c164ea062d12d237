package account

import (
	"bytes"
	"testing"
)

// Changes of a user since a backup also hold in the restored store: a replaced second
// factor stays invalid, and a second factor is never removed.
func TestARestoredUserHasTheLaterSecondFactor(t *testing.T) {
	t.Parallel()
	h, other := newFixture(t), newFixture(t)
	h.add("alice")
	h.withFactor("alice")
	old := h.stored("alice")
	ring, err := h.Ring()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Ring()
	if err != nil {
		t.Fatal(err)
	}
	now := h.clock() + 1
	replaced, _ := old.SetTOTP(ring, now)
	replaced.TOTPStep = 7
	unknown, _ := old.SetTOTP(foreign, now)
	passed, err := old.SetPassword("another long password", now)
	if err != nil {
		t.Fatal(err)
	}
	early := old
	early.Epoch--
	for name, c := range map[string]struct{ present, want *User }{
		"nothing known":           {nil, &old},
		"nothing changed":         {&old, &old},
		"an earlier epoch":        {&early, &old},
		"replaced":                {&replaced, &replaced},
		"replaced, key not there": {&unknown, &User{Password: old.Password, TOTP: old.TOTP, TOTPStep: old.TOTPStep, Epoch: unknown.Epoch, SessionsEnd: unknown.SessionsEnd}},
		"password":                {&passed, &passed},
	} {
		got := old.Superseded(c.present, ring, now)
		if w := c.want; got.Password != w.Password || got.Epoch != w.Epoch || got.SessionsEnd != w.SessionsEnd || !bytes.Equal(got.TOTP, w.TOTP) || got.TOTPStep != w.TOTPStep {
			t.Errorf("%s: %+v, want %+v", name, got, *w)
		}
		if changed := got.Version != old.Version; changed != (c.want != &old) {
			t.Errorf("%s: version %d of %d", name, got.Version, old.Version)
		}
	}
}
