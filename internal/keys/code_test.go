package keys_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// frozenSums are the first bytes of the SHA-256 of the texts that the frozen ring seals.
var frozenSums = map[string]string{
	"refresh token":         "\xde\xa0\xc6\x8b",
	"access token":          "\x56\x1c\xc9\xf3",
	"access token for APIs": "\xcc\xd2\xdb\x93",
	"code":                  "\x8b\x5c\x5f\xac",
}

// fullCode returns a code with the optional members.
func fullCode() grant.Code {
	c := theCode()
	c.AuthTime, c.Claims = frozenAt-5000, `{"tenant":"t1"}`
	return c
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
	// The limit is 128 bytes of claims, with a subject of the usual length.
	full := longest
	full.Subject, full.AuthTime, full.Claims = strings.Repeat("s", 160), lastTime, fullCode().Claims+strings.Repeat("x", 128-len(fullCode().Claims))
	timed, claiming := theCode(), theCode()
	timed.AuthTime, claiming.Claims = 1, "{}"
	for name, want := range map[string]grant.Code{
		"full": full, "everyday with all": fullCode(), "with its time": timed, "with claims": claiming,
		"plain": theCode(), "challenged": challenged, "challenge of zeros": zeroChallenge, "empty": empty, "longest that is issued": longest,
	} {
		want.KeyID = id
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

// Sealing a code that is too long is an error: clients or proxies could truncate it.
func TestCodeThatDoesNotFit(t *testing.T) {
	r := newRing(t)
	id := r.Current(keys.Seal, frozenAt)
	longest := 0
	for n := range 400 {
		c := theCode()
		c.ClientID, c.Subject, c.Challenged = strings.Repeat("c", 255), strings.Repeat("s", 255), true
		c.Scope = oauth.Scope(strings.Repeat("x", n))
		c.KeyID = id
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
		"claims":    func(c *grant.Code) { c.Claims = strings.Repeat("c", 256) },
	} {
		c := theCode()
		edit(&c)
		if text, err := r.SealCode(id, c, nonce); err == nil || text != "" {
			t.Errorf("%s of 256 bytes is sealed", name)
		}
	}
}

// oldRecord builds a code's record by hand, in the layout before codes had auth_time and
// claims.
func oldRecord(c grant.Code) []byte {
	rec := []byte{0}
	if c.Challenged {
		rec[0] = 1
	}
	rec = append(rec, c.GrantID[:]...)
	rec = append(rec, c.RedirectHash[:]...)
	for _, at := range []grant.Instant{c.AuthorizedAt, c.ExpiresAt} {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(at))
		rec = append(rec, b[2:]...)
	}
	if c.Challenged {
		rec = append(rec, c.Challenge[:]...)
	}
	rec = append(rec, byte(len(c.ClientID)))
	rec = append(rec, c.ClientID...)
	rec = append(rec, byte(len(c.Subject)))
	rec = append(rec, c.Subject...)
	return append(rec, c.Scope...)
}

func TestCodesOfTheOldLayoutOpenAndAreWrittenAsTheyWere(t *testing.T) {
	r := frozenRing(t)
	challenged := theCode()
	challenged.Challenged, challenged.Challenge = true, [32]byte{9, 31: 9}
	for _, want := range []grant.Code{theCode(), challenged, {Realm: "/api"}} {
		want.KeyID = frozenSeal
		old := r.SealRecord(frozenSeal, want.Realm, oldRecord(want), nonce)
		if got, err := r.OpenCode(want.Realm, old); err != nil || got != want {
			t.Errorf("read as %+v, %v", got, err)
		}
		// Without the new members, not a byte is added.
		if text, err := r.SealCode(frozenSeal, want, nonce); err != nil || text != old {
			t.Errorf("%d characters, %v; want the %d of the old layout", len(text), err, len(old))
		}
	}
}

func TestRecordsThatAreCutOrOfALaterVersionAreRefused(t *testing.T) {
	r := frozenRing(t)
	rec := append([]byte{7}, oldRecord(theCode())[1:61]...)
	rec = append(rec, bytes.Repeat([]byte{9}, 32)...) // challenge
	rec = append(rec, 0, 0, 0, 0, 0, 8)               // authenticated
	rec = append(rec, "\x02{}\x04shop\x05alice"...)
	want := theCode()
	want.Challenged, want.Challenge, want.AuthTime = true, [32]byte(bytes.Repeat([]byte{9}, 32)), 8
	want.Claims, want.Subject, want.Scope, want.KeyID = "{}", "alice", "", frozenSeal
	if got, err := r.OpenCode("/api", r.SealRecord(frozenSeal, "/api", rec, nonce)); err != nil || got != want {
		t.Errorf("the whole record is read as %+v, %v", got, err)
	}
	for n := range rec {
		if c, err := r.OpenCode("/api", r.SealRecord(frozenSeal, "/api", rec[:n], nonce)); err != keys.ErrNotAuthentic || c != (grant.Code{}) {
			t.Errorf("cut to %d bytes: %+v, %v", n, c, err)
		}
	}
	for _, flag := range []byte{8, 16, 32, 64, 128} {
		later := append([]byte{rec[0] | flag}, rec[1:]...)
		if c, err := r.OpenCode("/api", r.SealRecord(frozenSeal, "/api", later, nonce)); err != keys.ErrNotAuthentic || c != (grant.Code{}) {
			t.Errorf("flag %d, which is undefined: %+v, %v", flag, c, err)
		}
	}
}

func TestEveryMemberOfACodeChangesItsText(t *testing.T) {
	r := frozenRing(t)
	seen := map[string]bool{}
	for i, edit := range []func(*grant.Code){
		func(*grant.Code) {}, func(c *grant.Code) { c.GrantID[0]++ }, func(c *grant.Code) { c.Realm += "x" },
		func(c *grant.Code) { c.ClientID += "x" }, func(c *grant.Code) { c.Subject += "x" }, func(c *grant.Code) { c.Scope += "x" },
		func(c *grant.Code) { c.RedirectHash[0]++ }, func(c *grant.Code) { c.Challenged = true },
		func(c *grant.Code) { c.Challenged, c.Challenge[0] = true, 1 }, func(c *grant.Code) { c.AuthorizedAt++ },
		func(c *grant.Code) { c.ExpiresAt++ }, func(c *grant.Code) { c.AuthTime++ }, func(c *grant.Code) { c.AuthTime = 0 },
		func(c *grant.Code) { c.Claims = `{"tenant":"t2"}` }, func(c *grant.Code) { c.Claims = "" },
		func(c *grant.Code) { c.AuthTime, c.Claims = 0, "" },
	} {
		c := fullCode()
		edit(&c)
		text, err := r.SealCode(frozenSeal, c, nonce)
		if err != nil || seen[text] {
			t.Errorf("edit %d: a text seen before, or %v", i, err)
		}
		seen[text] = true
	}
}

func TestCodesWithDifferentNoncesShareNothing(t *testing.T) {
	r := newRing(t)
	id := r.Current(keys.Seal, frozenAt)
	other := nonce
	other[0]++ // derives another key
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

// A code reveals nothing to a reader of a log or a Referer header.
func TestCodeIsSealed(t *testing.T) {
	r := newRing(t)
	text, err := r.SealCode(r.Current(keys.Seal, frozenAt), fullCode(), nonce)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(text[len(keys.CodePrefix):])
	if err != nil {
		t.Fatal(err)
	}
	c := fullCode()
	for _, part := range []string{c.Claims, c.ClientID, c.Subject, string(c.Scope), string(c.GrantID[:]), string(c.RedirectHash[:])} {
		if bytes.Contains(raw, []byte(part)) {
			t.Errorf("the code shows %q", part)
		}
	}
}

// A code with the scope openid also has a nonce and facts. With all of them at their
// maximum length it stays below MaxOpenIDCode. Without the scope, no code is longer than
// before.
func TestCodeOfAnAuthenticationRequest(t *testing.T) {
	r := newRing(t)
	id := r.Current(keys.Seal, frozenAt)
	longest := grant.Code{
		GrantID: grant.ID{15: 0xff}, Realm: "/api", ClientID: strings.Repeat("c", 255), Subject: strings.Repeat("s", 255),
		Scope:        oauth.Scope("openid " + strings.Repeat("x", oauth.MaxScopeLength-7)),
		RedirectHash: [32]byte{0xff}, Challenged: true, Challenge: [32]byte{0xff}, AuthorizedAt: lastTime, ExpiresAt: lastTime, AuthTime: lastTime,
		Nonce: strings.Repeat("n", 255),
		Facts: grant.Facts{Claims: "{" + strings.Repeat("x", 127), Session: [16]byte{0xff}, ACR: 0xff, AMR: 0xff, InUserInfo: 1, InIDToken: 1, APIs: grant.APIs{1, 2, 3, 4, 5, 0xfffe}},
	}
	// With an upstream provider, the facts have more about the login, but nothing that
	// tokens contain.
	said := longest
	said.Facts = grant.Facts{Session: [16]byte{0xff}, ReportedACR: strings.Repeat("a", grant.MaxReportedACR), ReportedAMR: strings.Repeat("m", grant.MaxReportedAMR), InUserInfo: 1<<32 - 1, InIDToken: 1, APIs: longest.APIs, JKT: oauth.JKT{0xff}}
	// This is more than any authorization has: every field has its maximum length.
	most := said
	most.Claims, most.ACR, most.AMR = longest.Claims, 0xff, 0xff
	// Codes with APIs get more room too, even without openid.
	apis := longest
	apis.Scope, apis.Nonce, apis.Facts = oauth.Scope(strings.Repeat("x", oauth.MaxScopeLength)), "", grant.Facts{Claims: longest.Claims, APIs: longest.APIs}
	// So do codes with a key, and codes with openid but with neither.
	bound, openID := apis, longest
	bound.APIs, bound.JKT, openID.APIs = grant.APIs{}, oauth.JKT{0xff}, grant.APIs{}
	nonceOnly, factsOnly := theCode(), theCode()
	nonceOnly.Nonce, factsOnly.Session = "n", [16]byte{1}
	for name, want := range map[string]grant.Code{"longest": longest, "said": said, "most": most, "APIs": apis, "bound": bound, "openid": openID, "nonce": nonceOnly, "facts": factsOnly} {
		want.KeyID = id
		text, err := r.SealCode(id, want, nonce)
		if err != nil || len(text) > keys.MaxOpenIDCode {
			t.Errorf("%s: %d characters, %v", name, len(text), err)
			continue
		}
		if got, err := r.OpenCode("/api", text); err != nil || got != want {
			t.Errorf("%s: read as %+v, %v", name, got, err)
		}
	}
	if text, _ := r.SealCode(id, most, nonce); len(text) != 2041 {
		t.Errorf("the longest code has %d characters, and 2041 are documented", len(text))
	}
	for name, edit := range map[string]func(*grant.Code){
		"without openid": func(c *grant.Code) {
			c.Scope, c.APIs = oauth.Scope(strings.Repeat("x", oauth.MaxScopeLength)), grant.APIs{}
		},
		"nonce of 256": func(c *grant.Code) { c.Nonce = strings.Repeat("n", 256) },
	} {
		c := longest
		edit(&c)
		if text, err := r.SealCode(id, c, nonce); err == nil || text != "" {
			t.Errorf("%s: sealed in %d characters", name, len(text))
		}
	}
}
