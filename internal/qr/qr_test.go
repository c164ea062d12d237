package qr

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// One text for each version. jsQR 1.4.0 has decoded each of these codes.
func TestCodesThatAnotherProgramHasRead(t *testing.T) {
	text := "otpauth://totp/Example:alice?secret=ABCDEFGHIJKLMNOPQRSTUVWXYZ234567&issuer=Example" + strings.Repeat("x7", 100)
	sizes := map[int]bool{}
	for length, want := range map[int]string{
		5:   "3a427bfb5c19ad53",
		14:  "b76459c8631ed815",
		20:  "055f30615411bc87",
		30:  "758c8183935c1a7b",
		50:  "5e013b7f9736543a",
		70:  "3696abbd59b553ca",
		90:  "89468fbbb7d541c6",
		110: "a31de2da80675fc6",
		140: "4e8551a7635513d1",
		170: "7330f1d87f9a54bc",
		200: "41b31b025f660db8",
	} {
		c, ok := Encode(text[:length])
		if !ok {
			t.Fatalf("%d bytes are too long", length)
		}
		sizes[c.View()] = true
		sum := sha256.Sum256([]byte(c.Path()))
		if got := fmt.Sprintf("%x", sum[:8]); got != want {
			t.Errorf("the code of %d bytes is %s, want %s", length, got, want)
		}
	}
	if len(sizes) != maxVersion {
		t.Errorf("%d of %d versions", len(sizes), maxVersion)
	}
}

func TestTooLong(t *testing.T) {
	if _, ok := Encode(strings.Repeat("a", 213)); !ok {
		t.Error("213 bytes do not fit")
	}
	if _, ok := Encode(strings.Repeat("a", 214)); ok {
		t.Error("214 bytes fit")
	}
}
