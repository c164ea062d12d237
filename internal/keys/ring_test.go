package keys_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

// The frozen ring was written once. Deployments have such rings, so the ring and
// everything that it sealed must open for ever.
const frozenKEK = "M8jJ+nvL8emcy/6Jc4l7Vf52OHJbr51p3ffew/ZN8EY=\n"

const (
	frozenMAC    grant.KeyID   = 0x7d492396
	frozenSeal   grant.KeyID   = 0x42305e7f
	frozenPepper grant.KeyID   = 0xd0e114fb
	frozenAt     grant.Instant = 1_800_000_000_000
)

func frozenRecords() []keys.Stored {
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			panic(err)
		}
		return b
	}
	return []keys.Stored{
		{ID: frozenMAC, Purpose: keys.MAC, CreatedAt: frozenAt, ActiveAt: frozenAt,
			Wrapped: unhex("013415ac879706182a9ad3f222818f586c004ca4a6707c167107cb541c4203f30e0b13dfa3336a1a139f92a4596a72740660dd40366ff125df47293f17ba6bdb88")},
		{ID: frozenSeal, Purpose: keys.Seal, CreatedAt: frozenAt, ActiveAt: frozenAt,
			Wrapped: unhex("013415ac87982096ccfe529a7694f5a250ed0dbb8fd9d947026bb31e1a8ed1499f23864ad314ee40984c225cefb13e8e72af5178446d605f78f5db18b511c05ca3")},
		{ID: frozenPepper, Purpose: keys.Pepper, CreatedAt: frozenAt, ActiveAt: frozenAt,
			Wrapped: unhex("013415ac87625179d50cee1207c108b6d47d62076156ce8ead777570f558b6a1d2284080fcdf2b9a770016093702daad96aae1bd55f692c1cc1b8b2ce5084d7d1e")},
	}
}

func parseKEK(t testing.TB, text string) *keys.KEK {
	t.Helper()
	kek, err := keys.ParseKEK(text)
	if err != nil {
		t.Fatal(err)
	}
	return kek
}

func frozenRing(t testing.TB) *keys.Ring {
	t.Helper()
	r, err := keys.Open(parseKEK(t, frozenKEK), frozenRecords())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newRing returns a ring of new keys.
func newRing(t testing.TB) *keys.Ring {
	t.Helper()
	kek := parseKEK(t, keys.NewKEKText())
	var records []keys.Stored
	for _, p := range keys.Purposes {
		records = append(records, newKey(t, kek, p, frozenAt))
	}
	r, err := keys.Open(kek, records)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newKey(t testing.TB, kek *keys.KEK, p keys.Purpose, activeAt grant.Instant) keys.Stored {
	t.Helper()
	rec, err := keys.New(kek, p, frozenAt, activeAt)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestParseKEK(t *testing.T) {
	one, two := keys.NewKEKText(), keys.NewKEKText()
	if one == two || !strings.HasSuffix(one, "\n") {
		t.Error("two new key-encryption keys are equal, or do not end their line")
	}
	good := strings.TrimSpace(frozenKEK)
	for _, text := range []string{good, good + "\n", good + "\r\n", " " + good + " \n"} {
		parseKEK(t, text)
	}
	for name, text := range map[string]string{
		"empty": "", "cut off": good[:43], "no padding": good[:43], "31 bytes": "M8jJ+nvL8emcy/6Jc4l7Vf52OHJbr51p3ffew/ZN8A==",
		"33 bytes": "M8jJ+nvL8emcy/6Jc4l7Vf52OHJbr51p3ffew/ZN8EYA", "base64url": strings.ReplaceAll(strings.ReplaceAll(good, "+", "-"), "/", "_"),
		"hexadecimal": strings.Repeat("ab", 32), "stray bits": good[:42] + "Z=",
	} {
		if _, err := keys.ParseKEK(text); err == nil || !strings.Contains(err.Error(), "32 bytes in base64") {
			t.Errorf("%s: %v", name, err)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error repeats the key", name)
		}
	}
}

func TestWrongKEKIsNamed(t *testing.T) {
	_, err := keys.Open(parseKEK(t, keys.NewKEKText()), frozenRecords())
	if err == nil || !strings.Contains(err.Error(), "wrong key-encryption key") || !strings.Contains(err.Error(), "3415ac87") {
		t.Errorf("opening with another key: %v; want both fingerprints", err)
	}
}

func TestDamagedRecordIsRefused(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	for i := range frozenRecords()[0].Wrapped {
		records := frozenRecords()
		records[0].Wrapped = bytes.Clone(records[0].Wrapped)
		records[0].Wrapped[i] ^= 1
		if _, err := keys.Open(kek, records); err == nil {
			t.Errorf("a changed byte %d is not noticed", i)
		}
	}
	whole := frozenRecords()[0].Wrapped
	for _, n := range []int{0, 1, 5, 16, 17, 33, len(whole) - 1} {
		records := frozenRecords()
		records[0].Wrapped = whole[:n]
		if _, err := keys.Open(kek, records); err == nil {
			t.Errorf("a record of %d bytes is not noticed", n)
		}
	}
	records := frozenRecords()
	records[0].Wrapped = append([]byte{3}, whole[1:]...)
	if _, err := keys.Open(kek, records); err == nil || !strings.Contains(err.Error(), "cannot read") {
		t.Errorf("a form of a later version: %v", err)
	}
	records[0].Wrapped = append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1)
	if _, err := keys.Open(kek, records); err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), frozenMAC.String()) {
		t.Errorf("a damaged key: %v; want it named", err)
	}
}

// A thief with write access to the store, but without the key-encryption key, must not be
// able to replace one key by another.
func TestRecordsFieldsAreBoundToTheKey(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	for name, edit := range map[string]func(r []keys.Stored){
		"id":           func(r []keys.Stored) { r[0].ID++ },
		"purpose":      func(r []keys.Stored) { r[0].Purpose, r[1].Purpose = r[1].Purpose, r[0].Purpose },
		"created":      func(r []keys.Stored) { r[0].CreatedAt++ },
		"active":       func(r []keys.Stored) { r[0].ActiveAt-- },
		"wrapped text": func(r []keys.Stored) { r[0].Wrapped, r[1].Wrapped = r[1].Wrapped, r[0].Wrapped },
	} {
		records := frozenRecords()
		edit(records)
		if _, err := keys.Open(kek, records); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("changed %s: %v", name, err)
		}
	}
}

func TestRingNeedsAKeyOfEveryPurpose(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	for i, p := range keys.Purposes {
		records := frozenRecords()
		records = append(records[:i], records[i+1:]...)
		if _, err := keys.Open(kek, records); err == nil || !strings.Contains(err.Error(), "no "+string(p)+" key") {
			t.Errorf("ring without %s: %v", p, err)
		}
	}
	if _, err := keys.Open(kek, nil); err == nil {
		t.Error("an empty ring opens")
	}
}

func TestCurrentKey(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	past, future := newKey(t, kek, keys.MAC, frozenAt-1000), newKey(t, kek, keys.MAC, frozenAt+1000)
	// The order of the records does not matter.
	r, err := keys.Open(kek, append([]keys.Stored{future, past}, frozenRecords()...))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		now  grant.Instant
		want grant.KeyID
	}{
		{"before any: the first, for a clock behind", frozenAt - 5000, past.ID},
		{"at the first's instant", frozenAt - 1000, past.ID},
		{"a millisecond before the second's", frozenAt - 1, past.ID},
		{"at the second's", frozenAt, frozenMAC},
		{"a millisecond before the third's", frozenAt + 999, frozenMAC},
		{"at the third's", frozenAt + 1000, future.ID},
		{"long after", frozenAt + 1_000_000, future.ID},
	} {
		if got := r.Current(keys.MAC, tt.now); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := r.Current(keys.Seal, frozenAt+1_000_000); got != frozenSeal {
		t.Errorf("key for sealing: %s", got)
	}
	// Every key verifies at any time, even before it is active.
	for _, id := range []grant.KeyID{past.ID, frozenMAC, future.ID} {
		text, err := r.SealRefresh(id, "/api", keys.Token{Generation: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.OpenRefresh("/api", text); err != nil {
			t.Errorf("token of key %s: %v", id, err)
		}
		if !r.Has(id) {
			t.Errorf("the ring does not have %s", id)
		}
	}
	if r.Has(1) {
		t.Error("the ring has a key that nobody gave it")
	}
}

func TestNewKeysAreDistinct(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	ids := map[grant.KeyID]bool{}
	for range 200 {
		rec := newKey(t, kek, keys.MAC, frozenAt)
		if ids[rec.ID] || len(rec.Wrapped) != 1+4+12+32+16 {
			t.Fatalf("key %s of %d bytes", rec.ID, len(rec.Wrapped))
		}
		ids[rec.ID] = true
	}
}
