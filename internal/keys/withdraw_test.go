package keys_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// kekPair returns an old key-encryption key, a new one, and the contents of the key file
// while the new one replaces the old one.
func kekPair(t *testing.T) (old, fresh, both *keys.KEK) {
	t.Helper()
	a, b := keys.NewKEKText(), keys.NewKEKText()
	var list []*keys.KEK
	for _, text := range []string{a, b, a + b} {
		k, err := keys.ParseKEK(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, k)
	}
	if list[2].Fingerprint() != list[0].Fingerprint() || list[2].Next().Fingerprint() != list[1].Fingerprint() || list[0].Next() != nil {
		t.Fatal("the first line is the old key, and the second the new one")
	}
	return list[0], list[1], list[2]
}

// wrappedRing returns a key of each purpose that a ring needs, in use since frozenAt.
func wrappedRing(t *testing.T, kek *keys.KEK) (records []keys.Stored) {
	t.Helper()
	for _, p := range []keys.Purpose{keys.MAC, keys.Seal, keys.Pepper, keys.ES256} {
		r, err := keys.New(kek, p, frozenAt, frozenAt)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func TestKeysAreRewrappedByANewKeyEncryptionKey(t *testing.T) {
	old, fresh, both := kekPair(t)
	records := wrappedRing(t, old)
	was, err := keys.Open(old, records)
	if err != nil {
		t.Fatal(err)
	}
	text, err := was.SealRefresh(records[0].ID, "/api", aToken())
	if err != nil {
		t.Fatal(err)
	}
	if both.Of(records).Fingerprint() != old.Fingerprint() || both.Of(nil).Fingerprint() != old.Fingerprint() {
		t.Error("keys that are added before the rewrapping must be wrapped by the old key, because some nodes may have only that")
	}
	records[3], err = old.Withdraw(records[3], frozenAt+5)
	if err != nil {
		t.Fatal(err)
	}
	var wrapped []keys.Stored
	for i, r := range records {
		// A second time, because a rewrapping may be repeated after a crash.
		for range 2 {
			if r, err = both.Next().Rewrap(both, r); err != nil {
				t.Fatal(err)
			}
		}
		if again, err := both.Next().Rewrap(both, r); err != nil || bytes.Equal(again.Wrapped, r.Wrapped) {
			t.Errorf("%s key: a nonce is used twice (%v)", r.Purpose, err)
		}
		if r.WrappedBy() != fresh.Fingerprint() || r.WithdrawnAt() != records[i].WithdrawnAt() {
			t.Errorf("%s key: wrapped by %s, withdrawn at %d", r.Purpose, r.WrappedBy(), r.WithdrawnAt())
		}
		wrapped = append(wrapped, r)
	}
	if both.Of(wrapped).Fingerprint() != fresh.Fingerprint() {
		t.Error("a key that is added after the rewrapping is wrapped by the old key")
	}
	for name, kek := range map[string]*keys.KEK{"the new key": fresh, "a file with both": both} {
		ring, err := keys.Open(kek, wrapped)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := ring.OpenRefresh("/api", text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var other *keys.OtherKEK
	if _, err := keys.Open(old, wrapped); !errors.As(err, &other) || other.Needs != fresh.Fingerprint() || other.Given != old.Fingerprint() {
		t.Errorf("the old key alone: %v", err)
	}
}

func TestAFileOfKeyEncryptionKeysHoldsOneOrTwo(t *testing.T) {
	one := keys.NewKEKText()
	for name, text := range map[string]string{
		"none": "", "only a break": "\n", "three": one + one + one, "a second that is none": one + "AAAA\n", "a first that is none": "AAAA\n" + one,
	} {
		if _, err := keys.ParseKEK(text); err == nil || strings.Contains(err.Error(), strings.TrimSpace(one)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A withdrawal is authenticated: a thief with write access to the store alone can neither
// create nor move nor change one.
func TestAWithdrawalCannotBeAlteredWithoutTheKeyEncryptionKey(t *testing.T) {
	old, _, _ := kekPair(t)
	r := wrappedRing(t, old)[0]
	gone, err := old.Withdraw(r, frozenAt+7)
	if err != nil || gone.WithdrawnAt() != frozenAt+7 || r.WithdrawnAt() != 0 || gone.WrappedBy() != old.Fingerprint() {
		t.Fatalf("withdrawn at %d, %v", gone.WithdrawnAt(), err)
	}
	open := func(wrapped []byte) error {
		r := gone
		r.Wrapped = wrapped
		_, err := old.Rewrap(old, r)
		return err
	}
	if err := open(gone.Wrapped); err != nil {
		t.Fatal(err)
	}
	later := append([]byte{}, gone.Wrapped...)
	later[12]++
	undone := append(append([]byte{1}, gone.Wrapped[1:5]...), gone.Wrapped[13:]...)
	made := append(append(append([]byte{2}, r.Wrapped[1:5]...), make([]byte, 8)...), r.Wrapped[5:]...)
	for name, wrapped := range map[string][]byte{"another instant": later, "undone": undone, "made": made, "cut": gone.Wrapped[:20]} {
		if err := open(wrapped); err == nil {
			t.Errorf("%s: it opens", name)
		}
	}
}

func TestAWithdrawnKeyHasASuccessorAtOnceAndMakesNothing(t *testing.T) {
	old, _, _ := kekPair(t)
	at := frozenAt.Add(time.Hour)
	newKey := func(activeAt grant.Instant) keys.Stored {
		r, err := keys.New(old, keys.ES256, frozenAt, activeAt)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	withdraw := func(r keys.Stored) keys.Stored {
		r, err := old.Withdraw(r, at)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	base := wrappedRing(t, old)[:3]
	first, second, planned := newKey(frozenAt), newKey(frozenAt.Add(30*time.Minute)), newKey(at.Add(24*time.Hour))
	successor := newKey(at)
	ring, err := keys.Open(old, append(base, first, withdraw(second), withdraw(planned), successor))
	if err != nil {
		t.Fatal(err)
	}
	s := keys.Schedule{MaxAge: time.Hour, Retention: 2 * time.Hour, Lifetime: 90 * day, Lead: 7 * day, Algorithms: []keys.Purpose{keys.ES256}}
	for name, now := range map[string]grant.Instant{
		"at once": at, "by a clock that is behind": at - 2000, "when a withdrawn key was to be used": planned.ActiveAt.Add(time.Minute),
	} {
		if got := ring.Current(keys.ES256, now); got != successor.ID {
			t.Errorf("%s: key %s is used, want the successor", name, got)
		}
	}
	if m := ring.Maker(first.ID); m.Withdrawn || m.Until != second.ActiveAt.Add(10*time.Second) {
		t.Errorf("the key before: %+v", m)
	}
	if m := ring.Maker(second.ID); !m.Withdrawn {
		t.Error("the withdrawn key seals or signs")
	}
	if m := ring.Maker(successor.ID); m.Withdrawn || m.Until != 0 {
		t.Errorf("the successor: %+v; a key that was withdrawn before its use does not follow it", m)
	}
	published := map[string]bool{}
	for _, k := range ring.JWKS(at, s) {
		published[k.KeyID] = true
	}
	if !published[first.ID.String()] || !published[successor.ID.String()] || len(published) != 2 {
		t.Errorf("published: %v", published)
	}
	if _, ok := ring.PublicPEM(second.ID.String(), at, s); ok {
		t.Error("a withdrawn key is published as PEM")
	}
	jwt, err := ring.SignHeader(second.ID, `{"alg":"ES256","kid":"`+second.ID.String()+`","typ":"at+jwt"}`, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := ring.VerifyAt(jwt, at, s); err != keys.ErrNotAuthentic {
		t.Errorf("a JWT by a withdrawn key: %v", err)
	}
	for _, l := range ring.Lives(at, s) {
		if want := l.ID == second.ID || l.ID == planned.ID; (l.Phase == keys.Withdrawn) != want {
			t.Errorf("key %s is %s", l.ID, l.Phase)
		}
	}
	for _, due := range ring.Due(at, s) {
		if due.Purpose == keys.ES256 {
			t.Errorf("a key is due: %+v", due)
		}
	}
}

func TestATextNamesAKeyThatTheRingLacks(t *testing.T) {
	r, other := newRing(t), newRing(t)
	for _, k := range kinds(t, other) {
		if !names(r, k.text) || names(other, k.text) {
			t.Errorf("%s: %t, and its own ring %t", k.name, names(r, k.text), names(other, k.text))
		}
	}
	// Bound tokens and service tokens have format versions of their own.
	mac, key := other.Current(keys.MAC, frozenAt), oauth.JKT{1}
	for name, seal := range map[string]func() (string, error){
		"bound access token": func() (string, error) { return other.SealAccess(mac, "/api", keys.Token{JKT: key}) },
		"service token":      func() (string, error) { return other.SealService(mac, "/api", keys.ServiceToken{ClientID: "c"}) },
		"bound service token": func() (string, error) {
			return other.SealService(mac, "/api", keys.ServiceToken{ClientID: "c", JKT: key})
		},
		"exchanged token": func() (string, error) {
			return other.SealService(mac, "/api", keys.ServiceToken{ClientID: "c", GrantID: grant.ID{1}})
		},
	} {
		if text, err := seal(); err != nil || !names(r, text) || names(other, text) {
			t.Errorf("%s: %t, and its own ring %t; %v", name, names(r, text), names(other, text), err)
		}
	}
	for _, text := range []string{"", "x", ".", keys.RefreshPrefix, keys.CodePrefix + "AAAA", keys.AccessPrefix + "????????", "eyJhbGciOiJub25lIn0.e30."} {
		if names(r, text) {
			t.Errorf("%q names a key", text)
		}
	}
}

func names(r *keys.Ring, text string) bool {
	_, unknown := r.UnknownKey(text)
	return unknown
}
