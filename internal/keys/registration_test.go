package keys

import (
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// registrationKeys has a key of each purpose, that for registrations last.
func registrationKeys(t *testing.T, at grant.Instant) (*KEK, []Stored) {
	t.Helper()
	kek, err := ParseKEK(NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	var records []Stored
	for _, p := range append(Purposes, Registration) {
		rec, err := New(kek, p, at, at)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	return kek, records
}

// registrationRing has two keys for registrations: the second is used a day after the
// first.
func registrationRing(t *testing.T, at grant.Instant) *Ring {
	t.Helper()
	kek, records := registrationKeys(t, at)
	rec, err := New(kek, Registration, at, at.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := Open(kek, append(records, rec))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestARegistrationIsItsClientID(t *testing.T) {
	const at grant.Instant = 1_800_000_000_000
	ring := registrationRing(t, at)
	full := SealedRegistration{Method: 2, Name: strings.Repeat("名", 21) + "x", At: at}
	for _, uri := range []string{"a", "b", "c", "d", "e"} {
		full.Redirects = append(full.Redirects, RedirectDigest("https://client.example/"+uri))
	}
	for _, s := range []SealedRegistration{full, {Redirects: full.Redirects[:1], At: at}, {Redirects: full.Redirects[:1], At: at, Method: 2, Bound: true}, {Redirects: full.Redirects[:1], At: at, Device: true, Bound: true}} {
		id, err := ring.Registrations("/api").Seal(s)
		if err != nil {
			t.Fatal(err)
		}
		if len(id) > 255 {
			t.Errorf("%d characters", len(id))
		}
		got, err := ring.Registrations("/api").Open(id, at)
		if err != nil || got.Name != s.Name || got.Method != s.Method || got.At != s.At || len(got.Redirects) != len(s.Redirects) || got.Redirects[0] != s.Redirects[0] {
			t.Fatalf("%+v, %v", got, err)
		}
		if _, err := ring.Registrations("/other").Open(id, at); err == nil {
			t.Error("accepted in another realm")
		}
		for i := range id {
			altered := []byte(id)
			altered[i] ^= 1
			if _, err := ring.Registrations("/api").Open(string(altered), at); err == nil {
				t.Errorf("accepted with another character at %d", i)
			}
		}
		secret, err := ring.Registrations("/api").Secret(id)
		again, _ := ring.Registrations("/api").Secret(id)
		if err != nil || secret != again || len(secret) < 43 || strings.Contains(id, string(secret)) {
			t.Errorf("secret: %v, %d characters", err, len(secret))
		}
		// Its key is retired after a day, and forgotten a year later.
		if _, err := ring.Registrations("/api").Open(id, at.Add(24*time.Hour+RegistrationRetention)); err != nil {
			t.Errorf("after a year: %v", err)
		}
		if _, err := ring.Registrations("/api").Open(id, at.Add(25*time.Hour+RegistrationRetention)); err == nil {
			t.Error("accepted for ever")
		}
	}
	for what, s := range map[string]SealedRegistration{
		"no redirect URI":   {At: at},
		"six":               {At: at, Redirects: append(full.Redirects, full.Redirects[0])},
		"a long name":       {At: at, Redirects: full.Redirects, Name: full.Name + "x"},
		"a name of garbage": {At: at, Redirects: full.Redirects, Name: "\xff"},
	} {
		if _, err := ring.Registrations("/api").Seal(s); err == nil {
			t.Errorf("%s is sealed", what)
		}
	}
}

func TestRegistrationsOfAWithdrawnKeyAreRefused(t *testing.T) {
	const at grant.Instant = 1_800_000_000_000
	kek, records := registrationKeys(t, at)
	opens := func(id string) (string, error) {
		ring, err := Open(kek, records)
		if err != nil {
			t.Fatal(err)
		}
		if id == "" {
			return ring.Registrations("/api").Seal(SealedRegistration{Redirects: [][16]byte{{1}}, At: at})
		}
		_, err = ring.Registrations("/api").Open(id, at)
		return id, err
	}
	id, err := opens("")
	if _, late := opens(id); err != nil || late != nil {
		t.Fatal(err, late)
	}
	last := &records[len(records)-1]
	if *last, err = kek.Withdraw(*last, at+1); err != nil {
		t.Fatal(err)
	}
	if _, err := opens(id); err != ErrNotAuthentic {
		t.Errorf("after its key was withdrawn: %v", err)
	}
}
