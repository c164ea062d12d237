package keys_test

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

func TestACopyOfTheRingIsCompleteUntilAKeyIsUsedThatItLacks(t *testing.T) {
	const made = grant.Instant(1_700_000_000_000)
	week := 7 * 24 * time.Hour
	s := keys.Schedule{Lifetime: 90 * 24 * time.Hour, Lead: week, MaxAge: time.Hour}
	key := func(p keys.Purpose, id grant.KeyID, activeAt grant.Instant) keys.Stored {
		return keys.Stored{ID: id, Purpose: p, CreatedAt: activeAt, ActiveAt: activeAt}
	}
	old, audit := made.Add(-80*24*time.Hour), key(keys.Audit, 9, made)
	for _, tt := range []struct {
		name    string
		records []keys.Stored
		s       keys.Schedule
		want    grant.Instant
	}{
		{"the purpose that rotates first counts", []keys.Stored{key(keys.MAC, 1, old), key(keys.Seal, 2, made), audit}, s, old.Add(s.Lifetime)},
		{"the next key is in the copy", []keys.Stored{key(keys.MAC, 1, old), key(keys.MAC, 3, old.Add(s.Lifetime)), key(keys.Seal, 2, made), audit}, s, made.Add(s.Lifetime)},
		{"a key planned for later fills no gap", []keys.Stored{key(keys.MAC, 1, old), key(keys.MAC, 3, old.Add(2*s.Lifetime)), key(keys.Seal, 2, made), audit}, s, old.Add(s.Lifetime)},
		{"a key that is overdue is made at once", []keys.Stored{key(keys.MAC, 1, old.Add(-s.Lifetime)), key(keys.Seal, 2, made), audit}, s, made.Add(s.Notice(keys.MAC))},
		{"a purpose without a key gets its first at once", []keys.Stored{key(keys.MAC, 1, old)}, s, made},
		{"the key of the audit log counts", []keys.Stored{key(keys.MAC, 1, made), key(keys.Seal, 2, made), key(keys.Audit, 3, old)}, s, old.Add(s.Lifetime)},
		{"nothing rotates", []keys.Stored{key(keys.MAC, 1, old), key(keys.Seal, 2, made)}, keys.Schedule{}, 0},
	} {
		if got := keys.NewTimeline(tt.records).CompleteUntil(made, tt.s); got != tt.want {
			t.Errorf("%s: %v after the copy, want %v", tt.name, got.Since(made), tt.want.Since(made))
		}
	}
}

func TestARecordNamesTheKeyEncryptionKeyThatItNeeds(t *testing.T) {
	var list []*keys.KEK
	for range 2 {
		kek, err := keys.ParseKEK(keys.NewKEKText())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, kek)
	}
	r, err := keys.New(list[0], keys.MAC, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.WrappedBy() != list[0].Fingerprint() || r.WrappedBy() == list[1].Fingerprint() || len(r.WrappedBy()) != 8 {
		t.Errorf("wrapped by %q; the keys are %q and %q", r.WrappedBy(), list[0].Fingerprint(), list[1].Fingerprint())
	}
	if by := (keys.Stored{Wrapped: []byte{2, 0, 0, 0, 0, 0}}).WrappedBy(); by != "" {
		t.Errorf("an unknown form is wrapped by %q", by)
	}
}
