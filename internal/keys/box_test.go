package keys_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

const boxLabel = "interaction"

// frozenBox and frozenTag were made once with the frozen ring.
const (
	frozenBox = "0142305e7f412d6805f833b1dda4b3113c94b3768f98204220b378bbed4dd9fc32355ffb624198f85e50489c43f4c84deddc0f"
	frozenTag = "3a312990ab082b6a0aa12adea0fd7039064b65fe893a5628eae719cb7d39d9f0"
)

func TestBoxRoundTrip(t *testing.T) {
	r := frozenRing(t)
	for _, plain := range [][]byte{{}, {0}, []byte("state"), bytes.Repeat([]byte{0xff}, 16<<10)} {
		box := r.SealBox(boxLabel, plain, frozenAt)
		got, err := r.OpenBox(boxLabel, box)
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes: %d come out, %v", len(plain), len(got), err)
		}
		if len(plain) > 4 && bytes.Contains(box, plain[:5]) {
			t.Errorf("a box of %d bytes shows what is in it", len(plain))
		}
		if again := r.SealBox(boxLabel, plain, frozenAt); bytes.Equal(again, box) {
			t.Error("the same text sealed twice gives the same box, which shows that both are equal")
		}
	}
}

// A secret of one user must not open as the secret of another, nor a second factor as an
// interaction.
func TestBoxOpensOnlyUnderItsLabel(t *testing.T) {
	r := frozenRing(t)
	box := r.SealBox("totp/alice", []byte("secret"), frozenAt)
	for _, label := range []string{"", "totp/", "totp/alic", "totp/alice ", "totp/alice\x01", "totp/bob", "Totp/alice", "totp/alice" + string(box[:5])} {
		if plain, err := r.OpenBox(label, box); err != keys.ErrNotAuthentic || plain != nil {
			t.Errorf("label %q: %d bytes, %v", label, len(plain), err)
		}
	}
}

func TestBoxTamperedWithIsRefused(t *testing.T) {
	r := frozenRing(t)
	box := r.SealBox(boxLabel, []byte("what a user is asked"), frozenAt)
	for i := range box {
		spoilt := bytes.Clone(box)
		spoilt[i] ^= 1
		if _, err := r.OpenBox(boxLabel, spoilt); err != keys.ErrNotAuthentic {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for n := range box {
		if _, err := r.OpenBox(boxLabel, box[:n]); err != keys.ErrNotAuthentic {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := r.OpenBox(boxLabel, append(bytes.Clone(box), 0)); err != keys.ErrNotAuthentic {
		t.Errorf("a byte more: %v", err)
	}
	if _, err := newRing(t).OpenBox(boxLabel, box); err != keys.ErrNotAuthentic {
		t.Errorf("another deployment's ring: %v", err)
	}
}

// A box from before a rotation opens as long as the old key is kept.
func TestBoxOfAnOlderKeyOpensAfterRotation(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	fresh := newKey(t, kek, keys.Seal, frozenAt+1000)
	r, err := keys.Open(kek, append(frozenRecords(), fresh))
	if err != nil {
		t.Fatal(err)
	}
	before, after := r.SealBox(boxLabel, []byte("before"), frozenAt+999), r.SealBox(boxLabel, []byte("after"), frozenAt+1000)
	if bytes.Equal(before[1:5], after[1:5]) {
		t.Fatal("both boxes are under one key")
	}
	for want, box := range map[string][]byte{"before": before, "after": after} {
		if got, err := r.OpenBox(boxLabel, box); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", want, got, err)
		}
	}
	old := frozenRing(t)
	if got, err := old.OpenBox(boxLabel, before); err != nil || string(got) != "before" {
		t.Errorf("before the rotation: %q, %v", got, err)
	}
	if _, err := old.OpenBox(boxLabel, after); err != keys.ErrNotAuthentic {
		t.Errorf("a key that the ring does not hold: %v", err)
	}
}

// A key of another purpose opens no box, whatever key id the box contains.
func TestBoxUnderAKeyOfAnotherPurposeIsRefused(t *testing.T) {
	r := frozenRing(t)
	box := r.SealBox(boxLabel, []byte("x"), frozenAt)
	for _, id := range []grant.KeyID{frozenMAC, frozenPepper, 0} {
		spoilt := bytes.Clone(box)
		for i := range 4 {
			spoilt[1+i] = byte(uint32(id) >> (24 - 8*i))
		}
		if _, err := r.OpenBox(boxLabel, spoilt); err != keys.ErrNotAuthentic {
			t.Errorf("key %s: %v", id, err)
		}
	}
}

// Boxes and codes use keys of different labels: neither opens as the other, although they
// begin with the same bytes.
func TestBoxIsNoCode(t *testing.T) {
	r := frozenRing(t)
	box := r.SealBox(boxLabel, oldRecord(theCode()), frozenAt)
	if _, err := r.OpenCode("/api", keys.CodePrefix+base64.RawURLEncoding.EncodeToString(box)); err != keys.ErrNotAuthentic {
		t.Errorf("a box opens as a code: %v", err)
	}
}

// Boxes and tags from earlier releases must be readable for ever: sessions and second
// factors are stored with them.
func TestFrozenBoxAndTag(t *testing.T) {
	r := frozenRing(t)
	box, err := hex.DecodeString(frozenBox)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := r.OpenBox("totp/alice", box); err != nil || string(plain) != "frozen" {
		t.Errorf("%q, %v", plain, err)
	}
	if got := hex.EncodeToString(r.Tag("session", []byte("one"), []byte("two"))); got != frozenTag {
		t.Errorf("the tag is %s", got)
	}
}

func TestTagsDifferByPartsAndLabel(t *testing.T) {
	r := frozenRing(t)
	b := func(s string) []byte { return []byte(s) }
	marks := map[string]string{}
	for name, m := range map[string][]byte{
		"one part":            r.Tag("l", b("ab")),
		"two parts":           r.Tag("l", b("a"), b("b")),
		"an empty part first": r.Tag("l", nil, b("ab")),
		"an empty part last":  r.Tag("l", b("ab"), nil),
		"none":                r.Tag("l"),
		"one empty part":      r.Tag("l", nil),
		"the other order":     r.Tag("l", b("b"), b("a")),
		"another label":       r.Tag("m", b("ab")),
		"no label":            r.Tag("", b("ab")),
		"label and part run":  r.Tag("la", b("b")),
		"realm and name":      r.Tag("known browser", b("/api"), b("alice")),
		"realm runs on":       r.Tag("known browser", b("/apia"), b("lice")),
		"a length in a part":  r.Tag("l", b("a\x00\x00\x00\x01b")),
		"another deployment":  newRing(t).Tag("l", b("ab")),
	} {
		if len(m) != keys.TagSize {
			t.Errorf("%s: a tag of %d bytes", name, len(m))
		}
		if other, ok := marks[string(m)]; ok {
			t.Errorf("%q and %q have the same tag", name, other)
		}
		marks[string(m)] = name
	}
	if !bytes.Equal(r.Tag("l", b("ab")), frozenRing(t).Tag("l", b("ab"))) {
		t.Error("two tags of the same input differ")
	}
}

// Tags do not depend on the keys that rotate: a known browser is recognized for a year.
func TestTagsDoNotChangeWithRotations(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	r, err := keys.Open(kek, append(frozenRecords(), newKey(t, kek, keys.Seal, frozenAt), newKey(t, kek, keys.MAC, frozenAt)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(r.Tag("l", []byte("x")), frozenRing(t).Tag("l", []byte("x"))) {
		t.Error("another sealing key changes tags")
	}
}

// Each process of the fuzzer runs the setup before f.Fuzz, so the authentic box must be a
// constant.
func FuzzOpenBox(f *testing.F) {
	r := frozenRing(f)
	genuine, err := hex.DecodeString(frozenBox)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("totp/alice", genuine)
	f.Add(boxLabel, genuine)
	f.Add("totp/alice", genuine[:len(genuine)-1])
	f.Add("totp/alice", append(bytes.Clone(genuine), 0))
	f.Add("", []byte{})
	f.Fuzz(func(t *testing.T, label string, box []byte) {
		plain, err := r.OpenBox(label, box)
		switch {
		case err == nil && (label != "totp/alice" || !bytes.Equal(box, genuine) || string(plain) != "frozen"):
			t.Fatal("a box opens that was not sealed so")
		case err != nil && (err != keys.ErrNotAuthentic || plain != nil):
			t.Fatalf("a refused box returns %d bytes, %v", len(plain), err)
		}
	})
}
