package account

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

func patchOf(t *testing.T, object string) (p claims.Claims) {
	t.Helper()
	if err := json.Unmarshal([]byte(object), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func textOf(t *testing.T, c claims.Claims) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestProfileOfAUser(t *testing.T) {
	t.Parallel()
	u, err := NewUser(Registration{Username: "alice", Password: right, Claims: patchOf(t, `{"email":"a@example.com","email_verified":true}`)}, started)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := textOf(t, u.StandardClaims()), `{"email":"a@example.com","email_verified":true,"preferred_username":"alice","updated_at":1700000000}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	name := "Alice Cooper"
	next, err := u.SetProfile(&name, patchOf(t, `{"email":"b@example.com","nickname":"ali"}`), started.Add(5000_000_000))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := textOf(t, next.StandardClaims()), `{"email":"b@example.com","name":"Alice Cooper","nickname":"ali","preferred_username":"alice","updated_at":1700000005}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if next.Epoch != u.Epoch || next.SessionsEnd != 0 || next.Password != u.Password {
		t.Error("a profile ends no session")
	}
	long := strings.Repeat("x", 101)
	for about, err := range map[string]error{
		"a name that is too long": second(u.SetProfile(&long, nil, started)), "the name as a claim": second(u.SetProfile(nil, patchOf(t, `{"name":"A"}`), started)),
		"the username as a claim": second(u.SetProfile(nil, patchOf(t, `{"preferred_username":"A"}`), started)), "a time": second(u.SetProfile(nil, patchOf(t, `{"updated_at":1}`), started)),
		"no claim": second(u.SetProfile(nil, patchOf(t, `{"tenant":"t"}`), started)),
	} {
		if invalid := new(oauth.Invalid); !errors.As(err, &invalid) || invalid.Field != "name" && invalid.Field != "claims" {
			t.Errorf("%s: %v", about, err)
		}
	}
	if _, err := NewUser(Registration{Username: "alice", Password: right, Claims: patchOf(t, `{"email":"x"}`)}, started); err == nil {
		t.Error("a user with a malformed claim is created")
	}
}

func second(_ User, err error) error { return err }

// Access tokens contain only the subject.
func TestClaimsAreFoundBySubject(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	add := func(r Registration) {
		t.Helper()
		r.Realm, r.Password = realm, right
		u, err := NewUser(r, started)
		if err != nil {
			t.Fatal(err)
		}
		if err := Create(t.Context(), h.Store, u); err != nil {
			t.Fatal(err)
		}
	}
	add(Registration{Username: "alice", Name: "Alice"})
	add(Registration{Username: "bob", Subject: "u-1", Name: "Bob"})
	add(Registration{Username: "u-2", Subject: "bob", Name: "Eve"}) // its username is another user's subject
	for subject, want := range map[string]string{"alice": "Alice", "u-1": "Bob", "bob": "Eve"} {
		if c, err := h.Claims(t.Context(), subject); err != nil || string(c["name"]) != `"`+want+`"` {
			t.Errorf("%s: %v, %v, want %s", subject, c, err, want)
		}
	}
	for _, subject := range []string{"u-2", "ALICE", " alice", "nobody", ""} {
		if c, err := h.Claims(t.Context(), subject); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q: %v, %v", subject, c, err)
		}
	}
}
