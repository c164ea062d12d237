package keys_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// frozenSums are the first bytes of the SHA-256 of what the frozen ring seals.
var frozenSums = map[string]string{
	"refresh token": "\xde\xa0\xc6\x8b",
	"access token":  "\x56\x1c\xc9\xf3",
	"code":          "\x8b\x5c\x5f\xac",
}

func TestCodeRoundTrip(t *testing.T) {
	r := newRing(t)
	id := r.Current(keys.Seal, frozenAt)
	challenged := theCode()
	challenged.Challenged, challenged.Challenge = true, [32]byte{9, 31: 9}
	empty := grant.Code{Realm: "/api"}
	longest := grant.Code{
		GrantID: grant.ID{15: 0xff}, Realm: "/api", ClientID: strings.Repeat("c", 32), Subject: strings.Repeat("s", 255),
		Scope:        oauth.Scope(strings.Repeat("x", oauth.MaxScopeLength)),
		RedirectHash: [32]byte{0xff}, Challenged: true, Challenge: [32]byte{0xff}, AuthorizedAt: lastTime, ExpiresAt: lastTime,
	}
	zeroChallenge := theCode()
	zeroChallenge.Challenged = true
	for name, want := range map[string]grant.Code{
		"plain": theCode(), "challenged": challenged, "challenge of zeros": zeroChallenge, "empty": empty, "longest that is issued": longest,
	} {
		text, err := r.SealCode(id, want, nonce)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(text) > keys.MaxCode {
			t.Errorf("%s: %d characters", name, len(text))
		}
		if got, err := r.OpenCode("/api", text); err != nil || got != want {
			t.Errorf("%s: read as %+v, %v", name, got, err)
		}
	}
}

// A code that would not fit is a clear error, never a text that clients or
// proxies cut off.
func TestCodeThatDoesNotFit(t *testing.T) {
	r := newRing(t)
	id := r.Current(keys.Seal, frozenAt)
	longest := 0
	for n := range 400 {
		c := theCode()
		c.ClientID, c.Subject, c.Challenged = strings.Repeat("c", 255), strings.Repeat("s", 255), true
		c.Scope = oauth.Scope(strings.Repeat("x", n))
		text, err := r.SealCode(id, c, nonce)
		if err == nil {
			longest = max(longest, len(text))
			if got, err := r.OpenCode("/api", text); err != nil || got != c {
				t.Fatalf("scope of %d bytes: %v", n, err)
			}
			continue
		}
		if !strings.Contains(err.Error(), fmt.Sprint(keys.MaxCode)) || text != "" {
			t.Fatalf("scope of %d bytes: %q of %d characters", n, err, len(text))
		}
	}
	if longest > keys.MaxCode || longest < keys.MaxCode-3 {
		t.Errorf("the longest code has %d characters", longest)
	}
	for name, edit := range map[string]func(*grant.Code){
		"client id": func(c *grant.Code) { c.ClientID = strings.Repeat("c", 256) },
		"subject":   func(c *grant.Code) { c.Subject = strings.Repeat("s", 256) },
	} {
		c := theCode()
		edit(&c)
		if text, err := r.SealCode(id, c, nonce); err == nil || text != "" {
			t.Errorf("%s of 256 bytes is sealed", name)
		}
	}
}

func TestCodesWithDifferentNoncesShareNothing(t *testing.T) {
	r := newRing(t)
	id := r.Current(keys.Seal, frozenAt)
	other := nonce
	other[0]++ // selects another key
	third := nonce
	third[23]++ // GCM's own nonce
	var texts []string
	for _, n := range [][keys.NonceSize]byte{nonce, other, third} {
		text, err := r.SealCode(id, theCode(), n)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text[len(text)-100:])
	}
	for i, a := range texts {
		for _, b := range texts[i+1:] {
			same := 0
			for j := range a {
				if a[j] == b[j] {
					same++
				}
			}
			if same > 20 { // by chance, 100/64
				t.Errorf("two codes agree in %d of 100 characters", same)
			}
		}
	}
}

// A code tells nothing to whoever reads it in a log or a Referer.
func TestCodeIsSealed(t *testing.T) {
	text := kinds(t, newRing(t))[2].text
	raw, err := base64.RawURLEncoding.DecodeString(text[len(keys.CodePrefix):])
	if err != nil {
		t.Fatal(err)
	}
	c := theCode()
	for _, part := range []string{c.ClientID, c.Subject, string(c.Scope), string(c.GrantID[:]), string(c.RedirectHash[:])} {
		if bytes.Contains(raw, []byte(part)) {
			t.Errorf("the code shows %q", part)
		}
	}
}
