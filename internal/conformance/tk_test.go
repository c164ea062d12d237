package conformance_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// entropy is the conformance suites' measure: the Shannon entropy of the characters times
// their number.
func entropy(s string) float64 {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	bits := nLogN[len(s)]
	for _, n := range count {
		bits -= nLogN[n]
	}
	return bits
}

var nLogN = func() (table [1025]float64) {
	for n := range table {
		table[n] = float64(n) * math.Log2(float64(max(n, 1)))
	}
	return table
}()

// Tokens are computed: the grant's id has 96 random bits, and the MAC has 192 that nobody
// without the key can distinguish from random bits.
func TestTK01_TK02_TK04_TK05_TR33_ValuesAreRandomEnoughUniqueAndSafeToCarry(t *testing.T) {
	n := binary.Scaled(20_000, 100_000)
	d := start(t)
	ring := d.ring()
	now := grant.At(d.now())
	key := ring.Current(keys.MAC, now)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	seen := make(map[string]struct{}, 4*n)
	least := map[string]float64{}
	note := func(kind, prefix, text string, most int) {
		body, ok := strings.CutPrefix(text, prefix)
		if !ok || len(text) > most || strings.Trim(body, alphabet) != "" {
			t.Fatalf("%s: %d characters, or a character that needs escaping", kind, len(text))
		}
		if _, again := seen[body]; again {
			t.Fatalf("%s: repeated", kind)
		}
		seen[body] = struct{}{}
		if e := entropy(body); least[kind] == 0 || e < least[kind] {
			least[kind] = e
		}
	}
	for i := range n {
		tok := keys.Token{Generation: 1, IssuedAt: now, ExpiresAt: now.Add(time.Hour), Bits: 7}
		var random [16]byte
		rand.Read(random[:])
		tok.GrantID = grant.NewID(now, random)
		refresh, err := ring.SealRefresh(key, realm, tok)
		if err != nil {
			t.Fatal(err)
		}
		access, err := ring.SealAccess(key, realm, tok)
		if err != nil {
			t.Fatal(err)
		}
		note("refresh token", keys.RefreshPrefix, refresh, 255)
		note("access token", keys.AccessPrefix, access, 255)
		note("secret", "", string(keys.NewSecret()), 255)
		if i%10 == 0 {
			note("code", keys.CodePrefix, d.code(d.a).Code, keys.MaxCode)
		}
	}
	for kind, e := range least {
		// The specification requires 128 bits, the stricter suite 160.
		if e <= 160 {
			t.Errorf("%s: the least entropy of %d is %.1f bits", kind, n, e)
		}
	}
	if len(least) != 4 {
		t.Errorf("measured only %v", least)
	}
}

// The tokens of one grant are not predictable either: only the MAC distinguishes them
// from invented ones.
func TestTK02_SuccessiveTokensOfAGrantDifferInTheirMAC(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	tail := func(s string) string { return s[len(s)-32:] }
	seen := map[string]bool{tail(pair.RefreshToken): true, tail(pair.AccessToken): true}
	for range 20 {
		pair = d.alive(d.a, pair.RefreshToken)
		for _, s := range []string{pair.RefreshToken, pair.AccessToken} {
			if seen[tail(s)] || entropy(tail(s)) < 96 {
				t.Error("a MAC repeats or is no MAC")
			}
			seen[tail(s)] = true
		}
	}
}

func TestTK05_TheLongestCodeAndTokensFit(t *testing.T) {
	d := start(t)
	var scopes []string
	for i := range 64 {
		scopes = append(scopes, string(rune('A'+i%26))+string(rune('a'+i/26)))
	}
	scope := strings.Join(scopes, " ")
	long := client.Registration{ID: strings.Repeat("i", 64), Settings: store.Settings{Scope: oauth.Scope(scope), RedirectURIs: []string{"https://client.example/" + strings.Repeat("p", 1900)}}}
	c := d.client(long)
	code := d.code(c, pkce, func(a *issuer.Authorization) { a.Subject = strings.Repeat("s", 255) }).Code
	pair := d.mustIssue(d.post(with(c.redeem(code), "code_verifier", verifier)))
	if len(code) > 1000 || len(pair.AccessToken) > 255 || len(pair.RefreshToken) > 255 {
		t.Errorf("lengths %d, %d, %d", len(code), len(pair.AccessToken), len(pair.RefreshToken))
	}
	if pair.Scope != scope {
		t.Error("scopes were lost")
	}
}

// searchFiles searches the store's files for secrets, as text and as the bytes that they
// encode.
func (d *deployment) searchFiles(secrets []string) {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(d.dir, "*"))
	if err != nil || len(files) == 0 {
		d.t.Fatalf("no files: %v", err)
	}
	var rows int
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			d.t.Fatal(err)
		}
		rows += bytes.Count(content, []byte(d.a.ID))
		for _, secret := range secrets {
			for _, form := range spellings(secret) {
				if bytes.Contains(content, form) {
					d.t.Errorf("%s holds a secret of %d characters", filepath.Base(name), len(secret))
				}
			}
		}
	}
	if rows == 0 {
		d.t.Error("the files hold nothing of the client: the search searched nothing")
	}
}

// spellings returns the forms in which a secret is useful: the whole text, the text
// without its prefix, and the part that nobody can compute.
func spellings(secret string) [][]byte {
	forms := [][]byte{[]byte(secret)}
	for _, prefix := range []string{keys.CodePrefix, keys.RefreshPrefix, keys.AccessPrefix} {
		if body, ok := strings.CutPrefix(secret, prefix); ok {
			raw, err := base64.RawURLEncoding.DecodeString(body)
			if err == nil {
				forms = append(forms, []byte(body), raw, raw[len(raw)-16:])
			}
		}
	}
	return forms
}

func TestTK06_AnAccessTokenSaysItsFiveMinutes(t *testing.T) {
	d := start(t)
	for range 5 {
		d.step(333 * time.Millisecond)
		pair, _ := d.tokens(d.a)
		tok, err := d.ring().OpenAccess(realm, pair.AccessToken)
		if err != nil {
			t.Fatal(err)
		}
		if life := tok.ExpiresAt.Since(tok.IssuedAt); life < 300*time.Second || life >= 301*time.Second {
			t.Errorf("an access token lives %s", life)
		}
	}
}

func TestTK10_GeneratedIdsAreTheServersAndNeverComeBack(t *testing.T) {
	d := start(t)
	seen := map[string]bool{}
	for range 20 {
		c := d.client(client.Registration{})
		if len(c.ID) != 24 || seen[c.ID] {
			t.Errorf("id %q", c.ID)
		}
		seen[c.ID] = true
	}
	gone := d.change(d.b, func(c *store.Client) { c.State = store.ClientDeleted })
	again := gone.Client.Clone()
	again.Version = 1
	if err := d.sqlite.Commit(t.Context(), store.Change{Entries: []store.Entry{again.Entry()}}); err != store.ErrConflict {
		t.Errorf("a deleted client's id was given again: %v", err)
	}
}

func TestTK11_TK12_TokensSayNothingOfTheUserAndShowTheirKind(t *testing.T) {
	d := start(t)
	const subject = "alice@example.com"
	code := d.code(d.a, func(a *issuer.Authorization) { a.Subject = subject })
	pair := d.mustIssue(d.post(d.a.redeem(code.Code)))
	for prefix, text := range map[string]string{"mintage_ac_": code.Code, "mintage_rt_": pair.RefreshToken, "mintage_at_": pair.AccessToken} {
		body, ok := strings.CutPrefix(text, prefix)
		if !ok {
			t.Errorf("no prefix %s", prefix)
		}
		raw, err := base64.RawURLEncoding.DecodeString(body)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(subject)) || bytes.Contains(raw, []byte(d.a.ID)) {
			t.Errorf("%s can be read by whoever holds it", prefix)
		}
	}
}

// Use all of the endpoint, at log level debug, with faults and panics. Then search the
// log for every secret that was sent or received.
func TestTK13_NoSecretIsLogged(t *testing.T) {
	d := start(t)
	var secrets []string
	for _, r := range table() {
		kinds := r.kinds
		if kinds == nil {
			kinds = bothKinds
		}
		x := newFlow(d, kinds[len(kinds)-1])
		r.spoil(x)
		d.send(x.req)
		d.faulty.Heal()
		x.undo()
		secrets = append(secrets, x.client.secret, x.code, x.good.Get("refresh_token"), x.tokens.RefreshToken, x.tokens.AccessToken)
		for _, name := range []string{"client_secret", "code", "refresh_token", "code_verifier", "client_assertion"} {
			secrets = append(secrets, x.req.form.Get(name))
		}
		for _, line := range x.req.header {
			if value, ok := strings.CutPrefix(line, "Authorization: Basic "); ok {
				secrets = append(secrets, value)
			}
		}
	}
	log := d.log.String()
	for _, wanted := range []string{"token request answered", "token request refused", "bug", "stack"} {
		if !strings.Contains(log, wanted) {
			t.Errorf("the log has no %q: the search searched nothing", wanted)
		}
	}
	searched := 0
	for _, secret := range secrets {
		if len(secret) < 16 {
			continue // invented values such as "wrong" are also words of the log
		}
		searched++
		if strings.Contains(log, secret) {
			t.Errorf("the log holds a secret of %d characters, beginning with %q", len(secret), secret[:min(len(secret), 12)])
		}
	}
	if searched < 500 {
		t.Errorf("only %d secrets were searched for", searched)
	}
}
