package keys_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// FuzzOpenToken uses the frozen ring, so that a finding is reproducible.

func FuzzOpenToken(f *testing.F) {
	r := frozenRing(f)
	var sealed []string
	for _, k := range kinds(f, r) {
		sealed = append(sealed, k.text)
		f.Add("/api", k.text)
		f.Add("", k.text)
		f.Add("/api", k.prefix)
		f.Add("/api", k.text[:len(k.text)-1]+"A")
		f.Add("/api", k.text+"=")
	}
	f.Fuzz(func(t *testing.T, realm, text string) {
		tok, err := r.OpenRefresh(realm, text)
		if err == nil && (realm != "/api" || !slices.Contains(sealed, text) || tok.Bits != 0) {
			t.Fatal("a refresh token is accepted that was not sealed")
		}
		if err != nil && (err != keys.ErrNotAuthentic || tok != keys.Token{}) {
			t.Fatalf("a refused refresh token returns %+v, %v", tok, err)
		}
		accessTok, accessErr := r.OpenAccess(realm, text)
		if accessErr == nil && (realm != "/api" || !slices.Contains(sealed, text)) {
			t.Fatal("an access token is accepted that was not sealed")
		}
		if accessErr != nil && (accessErr != keys.ErrNotAuthentic || accessTok != keys.Token{}) {
			t.Fatalf("a refused access token returns %+v, %v", accessTok, accessErr)
		}
		if err == nil && accessErr == nil {
			t.Fatal("one text is of two kinds")
		}
	})
}

func FuzzOpenCode(f *testing.F) {
	r := frozenRing(f)
	all := kinds(f, r)
	sealed := all[2].text
	full, err := r.SealCode(frozenSeal, fullCode(), nonce)
	if err != nil {
		f.Fatal(err)
	}
	genuine := map[string]grant.Code{sealed: theCode(), full: fullCode()}
	for text, c := range genuine {
		c.KeyID = frozenSeal
		genuine[text] = c
	}
	f.Add("/api", full)
	f.Add("/api", full[:len(full)-4])
	for _, k := range all {
		f.Add("/api", k.text)
		f.Add("/other", k.text)
		f.Add("/api", all[2].prefix+k.text[len(k.prefix):])
	}
	f.Add("/api", sealed[:60])
	f.Add("/api", sealed+"AAAA")
	f.Fuzz(func(t *testing.T, realm, text string) {
		c, err := r.OpenCode(realm, text)
		if want, ok := genuine[text]; err == nil && (realm != "/api" || !ok || c != want) {
			t.Fatal("a code is accepted that was not sealed")
		}
		if err != nil && err != keys.ErrNotAuthentic {
			t.Fatalf("a refused code: %v", err)
		}
	})
}

// Whatever can be sealed is read back. Whatever is read from a record of an allowed length
// can be sealed again.
func FuzzCodeRecord(f *testing.F) {
	r := frozenRing(f)
	f.Add(oldRecord(theCode()))
	long := theCode() // longer than what may be sealed
	long.Scope = oauth.Scope(strings.Repeat("scope", 200))
	f.Add(oldRecord(long))
	f.Add([]byte{})
	for flags := range byte(16) {
		f.Add(append([]byte{flags}, bytes.Repeat([]byte{1, 0, 3, 'a', 'b', 'c'}, 40)...))
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		c, err := r.OpenCode("/api", r.SealRecord(frozenSeal, "/api", rec, nonce))
		if err != nil {
			if err != keys.ErrNotAuthentic || c != (grant.Code{}) {
				t.Fatalf("a refused record returns %+v, %v", c, err)
			}
			return
		}
		text, err := r.SealCode(frozenSeal, c, nonce)
		if long := r.SealRecord(frozenSeal, "/api", rec, nonce); err != nil && len(long) > keys.MaxCode {
			return // this record is longer than sealing allows
		}
		if err != nil {
			t.Fatalf("what was read cannot be sealed: %v", err)
		}
		if again, err := r.OpenCode("/api", text); err != nil || again != c {
			t.Fatalf("sealed %+v and read %+v, %v", c, again, err)
		}
	})
}

func FuzzVerify(f *testing.F) {
	r := signingRing(f, nil, keys.SigningAlgorithms...)
	signed := map[string]bool{} // without the signature: an ECDSA signature has a second valid form
	for _, alg := range keys.SigningAlgorithms {
		text := sign(f, r, alg)
		dot := strings.LastIndexByte(text, '.')
		signed[text[:dot]] = true
		f.Add(text)
		f.Add(text[:dot])
		f.Add(text[:dot+1])
		f.Add(text + "=")
		f.Add(text[:dot+20] + text[dot+24:])
		f.Add("eyJhbGciOiJub25lIn0" + text[strings.IndexByte(text, '.'):])
	}
	f.Fuzz(func(t *testing.T, text string) {
		typ, claims, _, err := r.Verify(text)
		dot := strings.LastIndexByte(text, '.')
		if err == nil && (dot < 0 || !signed[text[:dot]] || typ != "at+jwt" || string(claims) != string(benchClaims)) {
			t.Fatal("a JWT is accepted that was not signed")
		}
		if err != nil && (err != keys.ErrNotAuthentic || typ != "" || claims != nil) {
			t.Fatalf("a refused JWT returns %q, %d bytes, %v", typ, len(claims), err)
		}
	})
}
