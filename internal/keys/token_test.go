package keys_test

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

const (
	// alphabet has the characters of all texts: none of them needs escaping.
	alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	lastTime = grant.Instant(1<<48 - 1)
)

func aToken() keys.Token {
	return keys.Token{
		GrantID: grant.ID{0xde, 0xad, 15: 0xbe}, Generation: 7, IssuedAt: frozenAt + 1, ExpiresAt: frozenAt + 300_000, Bits: 0b101,
	}
}

func forAPIs() keys.Token {
	t := aToken()
	t.APIs = 0b10001
	return t
}

func theCode() grant.Code {
	return grant.Code{
		GrantID: grant.ID{0xde, 0xad, 15: 0xbe}, Realm: "/api", ClientID: "shop", Subject: "älice", Scope: "read write",
		RedirectHash: grant.HashRedirectURI("https://shop.example/cb"), AuthorizedAt: frozenAt, ExpiresAt: frozenAt + 60_000,
	}
}

var nonce = [keys.NonceSize]byte{1, 2, 3, 23: 24}

// A kind is one of the three kinds of texts, with the function that opens it.
type kind struct {
	name, prefix, text string
	open               func(r *keys.Ring, realm, text string) error
}

func kinds(t testing.TB, r *keys.Ring) []kind {
	t.Helper()
	seal := func(text string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	mac, sealing := r.Current(keys.MAC, frozenAt), r.Current(keys.Seal, frozenAt)
	return []kind{
		{"refresh token", keys.RefreshPrefix, seal(r.SealRefresh(mac, "/api", aToken())),
			func(r *keys.Ring, realm, text string) error { _, err := r.OpenRefresh(realm, text); return err }},
		{"access token", keys.AccessPrefix, seal(r.SealAccess(mac, "/api", aToken())),
			func(r *keys.Ring, realm, text string) error {
				got, err := r.OpenAccess(realm, text)
				if err == nil && got.APIs != 0 {
					err = keys.ErrNotAuthentic // the token is for APIs
				}
				return err
			}},
		{"code", keys.CodePrefix, seal(r.SealCode(sealing, theCode(), nonce)),
			func(r *keys.Ring, realm, text string) error { _, err := r.OpenCode(realm, text); return err }},
		{"access token for APIs", keys.AccessPrefix, seal(r.SealAccess(mac, "/api", forAPIs())),
			func(r *keys.Ring, realm, text string) error {
				got, err := r.OpenAccess(realm, text)
				if err == nil && got.APIs == 0 {
					err = keys.ErrNotAuthentic // the token is of the other kind
				}
				return err
			}},
	}
}

func TestTokenRoundTrip(t *testing.T) {
	r := newRing(t)
	id := r.Current(keys.MAC, frozenAt)
	for _, want := range []keys.Token{
		{},
		aToken(),
		forAPIs(),
		{GrantID: grant.ID{0: 0xff, 15: 0xff}, Generation: 1<<32 - 1, IssuedAt: lastTime, ExpiresAt: lastTime, Bits: 1<<64 - 1},
	} {
		want.Key = id
		text, err := r.SealAccess(id, "/api", want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.OpenAccess("/api", text); err != nil || got != want {
			t.Errorf("access token %+v is read as %+v, %v", want, got, err)
		}
		if text, err = r.SealRefresh(id, "/api", want); err != nil {
			t.Fatal(err)
		}
		want.Bits, want.APIs = 0, 0
		if got, err := r.OpenRefresh("/api", text); err != nil || got != want {
			t.Errorf("refresh token %+v is read as %+v, %v", want, got, err)
		}
	}
}

func TestTextsNeedNoEscaping(t *testing.T) {
	for _, k := range kinds(t, newRing(t)) {
		most := 255
		if k.name == "code" {
			most = keys.MaxCode
		}
		if len(k.text) > most || !strings.HasPrefix(k.text, k.prefix) {
			t.Errorf("%s has %d characters and begins %.11s", k.name, len(k.text), k.text)
		}
		if strings.Trim(k.text, alphabet) != "" || strings.ContainsFunc(k.text, func(r rune) bool { return !strings.ContainsRune(alphabet, r) }) {
			t.Errorf("%s holds a character outside A-Z a-z 0-9 - _ .", k.name)
		}
	}
}

func TestEqualInputsGiveEqualTexts(t *testing.T) {
	r := frozenRing(t)
	again := kinds(t, frozenRing(t))
	for i, k := range kinds(t, r) {
		if k.text != again[i].text {
			t.Errorf("%s: two texts of one input", k.name)
		}
		// If the digest changes, every text that was issued before becomes invalid.
		sum := sha256.Sum256([]byte(k.text))
		if got, want := sum[:4], frozenSums[k.name]; string(got) != want {
			t.Errorf("%s: format has changed: digest begins %x", k.name, got)
		}
	}
}

func TestEveryInputChangesTheText(t *testing.T) {
	r := frozenRing(t)
	seen := map[string]bool{}
	for _, edit := range []func(*keys.Token){
		func(*keys.Token) {}, func(t *keys.Token) { t.GrantID[0]++ }, func(t *keys.Token) { t.Generation++ },
		func(t *keys.Token) { t.IssuedAt++ }, func(t *keys.Token) { t.ExpiresAt++ }, func(t *keys.Token) { t.Bits++ },
	} {
		tok := aToken()
		edit(&tok)
		for _, realm := range []string{"/api", "/apj", "/ap", ""} {
			text, err := r.SealAccess(frozenMAC, realm, tok)
			if err != nil || seen[text] {
				t.Errorf("realm %q, %+v: text seen before, or %v", realm, tok, err)
			}
			seen[text] = true
		}
	}
}

func TestKindsAreNeverConfused(t *testing.T) {
	r := newRing(t)
	all := kinds(t, r)
	for _, k := range all {
		for _, opener := range all {
			err := opener.open(r, "/api", k.text)
			if k.name == opener.name {
				if err != nil {
					t.Errorf("%s does not open: %v", k.name, err)
				}
				continue
			}
			if err != keys.ErrNotAuthentic {
				t.Errorf("%s opened as %s: %v", k.name, opener.name, err)
			}
			if err := opener.open(r, "/api", opener.prefix+k.text[len(k.prefix):]); err != keys.ErrNotAuthentic {
				t.Errorf("%s with the prefix of %s: %v", k.name, opener.name, err)
			}
		}
	}
}

func TestTextsOfAnotherRealmRingOrKeyAreRefused(t *testing.T) {
	r := newRing(t)
	for _, k := range kinds(t, r) {
		for _, realm := range []string{"", "/", "/ap", "/apI", "/api/", "/api\x00", "/other"} {
			if err := k.open(r, realm, k.text); err != keys.ErrNotAuthentic {
				t.Errorf("%s in realm %q: %v", k.name, realm, err)
			}
		}
		if err := k.open(newRing(t), "/api", k.text); err != keys.ErrNotAuthentic {
			t.Errorf("%s and another ring: %v", k.name, err)
		}
	}
	mac, sealing := r.Current(keys.MAC, frozenAt), r.Current(keys.Seal, frozenAt)
	for name, err := range map[string]error{
		"refresh token with the sealing key":   second(r.SealRefresh(sealing, "/api", aToken())),
		"access token with the sealing key":    second(r.SealAccess(sealing, "/api", aToken())),
		"code with the MAC key":                second(r.SealCode(mac, theCode(), nonce)),
		"refresh token with an unknown key":    second(r.SealRefresh(mac+1, "/api", aToken())),
		"code with an unknown key":             second(r.SealCode(sealing+1, theCode(), nonce)),
		"refresh token with the pepper":        second(r.SealRefresh(r.Current(keys.Pepper, 0), "/api", aToken())),
		"access token with no key in the ring": second(r.SealAccess(0, "/api", aToken())),
	} {
		if !errors.Is(err, keys.ErrUnknownKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ string, err error) error { return err }

func TestEveryChangedCharacterIsRefused(t *testing.T) {
	r := frozenRing(t)
	for _, k := range kinds(t, r) {
		for i := range k.text {
			for _, c := range []byte(alphabet + "=+/ \n\x00\xff") {
				if c == k.text[i] {
					continue
				}
				if err := k.open(r, "/api", k.text[:i]+string([]byte{c})+k.text[i+1:]); err != keys.ErrNotAuthentic {
					t.Fatalf("%s with character %d made %q: %v", k.name, i, c, err)
				}
			}
		}
	}
}

func TestOtherSpellingsAreRefused(t *testing.T) {
	r := newRing(t)
	for _, k := range kinds(t, r) {
		for i := range k.text {
			if err := k.open(r, "/api", k.text[:i]); err != keys.ErrNotAuthentic {
				t.Fatalf("%s cut to %d characters: %v", k.name, i, err)
			}
			for _, extra := range []string{"\n", "\r", "\r\n", "A", "=", " "} {
				if err := k.open(r, "/api", k.text[:i]+extra+k.text[i:]); err != keys.ErrNotAuthentic {
					t.Fatalf("%s with %q put in at %d: %v", k.name, extra, i, err)
				}
			}
			// The decoder skips line breaks: the text has the same length, but fewer
			// bytes.
			if err := k.open(r, "/api", k.text[:i]+"\n"+k.text[i+1:]); err != keys.ErrNotAuthentic {
				t.Fatalf("%s with a line break at %d: %v", k.name, i, err)
			}
		}
		for _, extra := range []string{"A", "AA", "AAAA", "=", "==", "\n", " ", "\x00", strings.Repeat("A", 5000)} {
			if err := k.open(r, "/api", k.text+extra); err != keys.ErrNotAuthentic {
				t.Errorf("%s and %.5q after it: %v", k.name, extra, err)
			}
		}
		for _, text := range []string{strings.ToUpper(k.text), strings.ToLower(k.text), k.prefix, k.prefix + k.text, k.text + k.text} {
			if err := k.open(r, "/api", text); err != keys.ErrNotAuthentic {
				t.Errorf("%s spelled in %d characters: %v", k.name, len(text), err)
			}
		}
	}
}

func BenchmarkSealOpenRefresh(b *testing.B) {
	r := newRing(b)
	id := r.Current(keys.MAC, frozenAt)
	tok := aToken()
	b.ReportAllocs()
	for b.Loop() {
		tok.Generation++
		text, err := r.SealRefresh(id, "/api", tok)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.OpenRefresh("/api", text); err != nil {
			b.Fatal(err)
		}
	}
}
