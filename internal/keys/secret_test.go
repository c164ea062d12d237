package keys_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

func TestRandomTextIsEven(t *testing.T) {
	for _, n := range []int{0, 1, 43, 64, 65, 1000} {
		if got := keys.RandomText(n); len(got) != n {
			t.Errorf("RandomText(%d) has %d characters", n, len(got))
		}
	}
	const draws = 620_000
	counts := map[byte]float64{}
	for _, c := range []byte(keys.RandomText(draws)) {
		counts[c]++
	}
	if len(counts) != 62 {
		t.Fatalf("%d different characters", len(counts))
	}
	chi := 0.0
	for c, n := range counts {
		if !strings.Contains(alphabet[:62], string(c)) {
			t.Errorf("character %q", c)
		}
		chi += (n - draws/62) * (n - draws/62) / (draws / 62)
	}
	// There are 61 degrees of freedom: a value above 140 happens once in ten million runs.
	// A byte modulo 62 would give over 4,000.
	if chi > 140 {
		t.Errorf("chi-square %.1f", chi)
	}
}

func TestNewSecretIs256Bits(t *testing.T) {
	a, b := keys.NewSecret(), keys.NewSecret()
	if a == b || len(a) != 43 {
		t.Errorf("secrets of %d and %d characters, equal: %t", len(a), len(b), a == b)
	}
}

func TestDigest(t *testing.T) {
	r := frozenRing(t)
	d := r.Digest("secret")
	if len(d) != 4+32 || fmt.Sprintf("%x", d[:4]) != frozenPepper.String() {
		t.Fatalf("digest of %d bytes begins %x, want the pepper's id", len(d), d[:4])
	}
	if !bytes.Equal(d, r.Digest("secret")) || !bytes.Equal(d, frozenRing(t).Digest("secret")) {
		t.Error("two digests of one secret")
	}
	for _, other := range []string{"", "Secret", "secret ", "secres"} {
		if bytes.Equal(d, r.Digest(oauth.Secret(other))) {
			t.Errorf("%q has the digest of another secret", other)
		}
	}
	if bytes.Equal(d[4:], newRing(t).Digest("secret")[4:]) {
		t.Error("another pepper gives the same digest")
	}
	if bytes.Contains(d, []byte("secret")) {
		t.Error("the digest holds the secret")
	}
}

// The pepper never rotates: another pepper would lock every client out.
func TestDigestKeepsTheFirstPepper(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	for _, activeAt := range []grant.Instant{frozenAt + 1, frozenAt + 1_000_000} {
		r, err := keys.Open(kek, append([]keys.Stored{newKey(t, kek, keys.Pepper, activeAt)}, frozenRecords()...))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.Digest("secret"), frozenRing(t).Digest("secret")) {
			t.Error("a second pepper changed the digest")
		}
	}
}

func TestHashSlow(t *testing.T) {
	phc := keys.HashSlow("hunter2")
	if !strings.HasPrefix(phc, "$argon2id$v=19$m=19456,t=2,p=1$") || strings.Contains(phc, "hunter2") {
		t.Fatalf("form %.31s", phc)
	}
	if phc == keys.HashSlow("hunter2") {
		t.Error("two hashes of one secret are equal: no salt")
	}
	for secret, want := range map[oauth.Secret]bool{"hunter2": true, "hunter3": false, "": false, "hunter2 ": false} {
		if got, err := keys.MatchSlow(phc, secret); err != nil || got != want {
			t.Errorf("match of a secret of %d bytes: %t, %v", len(secret), got, err)
		}
	}
}

// A damaged hash is an error, and neither matches nor exhausts the memory. A prefix of the
// hash does not match.
func TestMatchSlowComparesTheWholeHash(t *testing.T) {
	t.Parallel()
	salt, enc := []byte("0123456789abcdef"), base64.RawStdEncoding
	sum := argon2.IDKey([]byte("secret"), salt, 1, 8, 1, 32)
	matches := func(sum []byte) bool {
		t.Helper()
		ok, err := keys.MatchSlow("$argon2id$v=19$m=8,t=1,p=1$"+enc.EncodeToString(salt)+"$"+enc.EncodeToString(sum), "secret")
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !matches(sum) {
		t.Fatal("the hash itself does not match")
	}
	for i := range sum {
		other := slices.Clone(sum)
		if other[i] ^= 1; matches(other) {
			t.Errorf("a hash that differs in byte %d matches", i)
		}
	}
	for _, n := range []int{16, 31} {
		if matches(sum[:n]) {
			t.Errorf("the first %d bytes match", n)
		}
	}
}

func TestMatchSlowRefusesDamage(t *testing.T) {
	phc := keys.HashSlow("x")
	f := strings.Split(phc, "$")
	with := func(i int, s string) string {
		g := append([]string(nil), f...)
		g[i] = s
		return strings.Join(g, "$")
	}
	for name, bad := range map[string]string{
		"empty": "", "other scheme": with(1, "argon2i"), "bcrypt": "$2a$10$abc", "no version": strings.Join(append(f[:2:2], f[3:]...), "$"),
		"other version": with(2, "v=16"), "no numbers": with(3, "m=,t=,p="), "memory of a terabyte": with(3, "m=1073741824,t=2,p=1"),
		"no memory": with(3, "m=0,t=2,p=1"), "negative memory": with(3, "m=-8,t=2,p=1"), "no passes": with(3, "m=19456,t=0,p=1"),
		"many passes": with(3, "m=19456,t=17,p=1"), "no lanes": with(3, "m=19456,t=2,p=0"), "many lanes": with(3, "m=19456,t=2,p=256"),
		"overflow": with(3, "m=99999999999999999999,t=2,p=1"), "salt": with(4, "!"), "hash": with(5, "!"), "empty hash": with(5, ""),
		"short hash": with(5, "AAAA"), "long hash": with(5, strings.Repeat("A", 200)), "a field more": phc + "$x", "a field less": strings.Join(f[:5], "$"),
	} {
		if ok, err := keys.MatchSlow(bad, "x"); ok || err == nil {
			t.Errorf("%s: %t, %v", name, ok, err)
		} else if strings.Contains(err.Error(), f[5]) {
			t.Errorf("%s: the error repeats the hash", name)
		}
	}
}

// An imported hash must not make every login expensive.
func TestWhichHashesCanBeImported(t *testing.T) {
	const rest = "$c29tZXNhbHQxMjM0NTY3OA$/GwkAA8EEtr1ulDkyGxUfW0FDR0Tx6mN6ZSATCOyoxM"
	for phc, want := range map[string]bool{
		keys.HashSlow("x"): true, keys.UnmatchableHash(): true,
		"$argon2id$v=19$m=65536,t=4,p=4" + rest: true, "$argon2id$v=19$m=65537,t=1,p=1" + rest: false, "$argon2id$v=19$m=65536,t=5,p=1" + rest: false,
		"$argon2i$v=19$m=64,t=1,p=1" + rest: false, "$argon2id$v=16$m=64,t=1,p=1" + rest: false, "$2y$10$abcdefghijklmnopqrstuv": false, "": false,
		"$argon2id$v=19$m=64,t=1,p=1$c29tZQ$c2hvcnQ":    false,
		"$argon2id$v=19$m=64,t=1,p=1,keyid=a2V5" + rest: false, // made with a key that the server does not have
	} {
		if err := keys.CheckSlow(phc); (err == nil) != want {
			t.Errorf("%s: %v", phc, err)
		}
	}
	if ok, err := keys.MatchSlow(keys.UnmatchableHash(), ""); ok || err != nil {
		t.Errorf("the unmatchable hash matches: %t, %v", ok, err)
	}
}
