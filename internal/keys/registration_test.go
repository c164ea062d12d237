package keys

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// registrationKeys returns a key of each purpose. The last one is for registrations.
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

// registrationRing returns a ring with two keys for registrations. The second is used a
// day after the first.
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
		if err != nil || !reflect.DeepEqual(got, s) {
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
		// The key is retired after a day, and deleted a year later.
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

// A thief of a withdrawn or retired key can make neither registrations nor device codes
// with a current date.
func TestAKeyOutOfUseMakesNothingWithACurrentDate(t *testing.T) {
	const at grant.Instant = 1_800_000_000_000
	const later = at + 3_600_000
	kek, records := registrationKeys(t, at)
	ring := func(records []Stored) *Ring {
		r, err := Open(kek, records)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var withdrawn []Stored
	successors := slices.Clone(records)
	for _, rec := range records {
		gone, err1 := kek.Withdraw(rec, later+1)
		next, err2 := New(kek, rec.Purpose, at, later-11_000) // a node may use the old key for 10 seconds more
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		withdrawn, successors = append(withdrawn, gone), append(successors, next)
	}
	id, err1 := ring(records).Registrations("/api").Seal(SealedRegistration{Redirects: [][16]byte{{1}}, At: later})
	code, err2 := SealDeviceCode(ring(records), "/api", DeviceCode{ClientID: "tv", IssuedAt: later})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for what, opens := range map[string]func(*Ring) error{
		"a registration": func(r *Ring) error { _, err := r.Registrations("/api").Open(id, later); return err },
		"a device code":  func(r *Ring) error { _, err := OpenDeviceCode(r, "/api", code); return err },
	} {
		if first, retired, gone := opens(ring(records)), opens(ring(successors)), opens(ring(withdrawn)); first != nil || retired != ErrNotAuthentic || gone != ErrNotAuthentic {
			t.Errorf("%s: %v, after its key was retired %v, and withdrawn %v", what, first, retired, gone)
		}
	}
}
