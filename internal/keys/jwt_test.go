package keys_test

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

// frozenSigning is a key of each algorithm, wrapped by frozenKEK: a line of
// algorithm, kid and record for each.
//
//go:embed testdata/signing
var frozenSigning string

var libraryAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256}

// noRotation is a schedule under which a retired key is kept for an hour.
var noRotation = keys.Schedule{Retention: 3600e9}

// signingRecords returns the frozen keys of the algorithms, or of all.
func signingRecords(t testing.TB, algorithms ...keys.Purpose) (list []keys.Stored) {
	t.Helper()
	for line := range strings.Lines(frozenSigning) {
		r := keys.Stored{CreatedAt: frozenAt, ActiveAt: frozenAt}
		if _, err := fmt.Sscanf(line, "%s %x %x", &r.Purpose, &r.ID, &r.Wrapped); err != nil {
			t.Fatal(err)
		}
		for _, alg := range algorithms {
			if r.Purpose == alg {
				list = append(list, r)
			}
		}
	}
	if len(list) != len(algorithms) {
		t.Fatalf("%d frozen keys for %q", len(list), algorithms)
	}
	return list
}

// signingRing returns the frozen ring with a signing key of each algorithm, and more
// records.
func signingRing(t testing.TB, more []keys.Stored, algorithms ...keys.Purpose) *keys.Ring {
	t.Helper()
	r, err := keys.Open(parseKEK(t, frozenKEK), append(append(frozenRecords(), signingRecords(t, algorithms...)...), more...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sign(t testing.TB, r *keys.Ring, alg keys.Purpose) string {
	t.Helper()
	text, err := r.Sign(alg, "at+jwt", benchClaims, frozenAt)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestJWTRoundTrip(t *testing.T) {
	r := signingRing(t, nil, keys.SigningAlgorithms...)
	longest := strings.Repeat("t", 64)
	for _, alg := range keys.SigningAlgorithms {
		for typ, claims := range map[string]string{
			"at+jwt": string(benchClaims), "JWT": `{}`, "token-introspection+jwt": `{"a":"é"}`, longest: strings.Repeat("x", 4000), "a.b": "",
		} {
			text, err := r.Sign(alg, typ, []byte(claims), frozenAt)
			if err != nil {
				t.Fatal(err)
			}
			gotType, got, _, err := r.Verify(text)
			if err != nil || gotType != typ || string(got) != claims {
				t.Errorf("%s of type %s is read as type %s with %d bytes, %v", alg, typ, gotType, len(got), err)
			}
			if again, err := r.Sign(alg, typ, []byte(claims), frozenAt+1); err != nil || again != text {
				t.Errorf("%s: two texts of one input, or %v", alg, err)
			}
		}
	}
}

// The JOSE library verifies every JWT, and reads the same claims.
func TestTheLibraryReadsTheSameJWTs(t *testing.T) {
	r := signingRing(t, nil, keys.SigningAlgorithms...)
	set := jose.JSONWebKeySet{Keys: r.JWKS(frozenAt, noRotation)}
	for _, alg := range keys.SigningAlgorithms {
		jws, err := jose.ParseSignedCompact(sign(t, r, alg), libraryAlgorithms)
		if err != nil {
			t.Fatal(err)
		}
		h := jws.Signatures[0].Protected
		kid := r.Current(alg, frozenAt).String()
		if h.Algorithm != string(alg) || h.KeyID != kid || h.ExtraHeaders[jose.HeaderType] != "at+jwt" || len(h.ExtraHeaders) != 1 {
			t.Errorf("%s: header %+v", alg, h)
		}
		found := set.Key(kid)
		if len(found) != 1 || found[0].Algorithm != string(alg) {
			t.Fatalf("%s: %d keys of this kid", alg, len(found))
		}
		if claims, err := jws.Verify(found[0].Key); err != nil || !bytes.Equal(claims, benchClaims) {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

// The signatures of the frozen keys never change, because verifiers have the public keys.
func TestFrozenJWTs(t *testing.T) {
	r := signingRing(t, nil, keys.SigningAlgorithms...)
	for alg, want := range map[keys.Purpose]string{
		keys.ES256: "740490ad", keys.EdDSA: "c02e9875", keys.RS256: "7a463f54",
	} {
		text, err := r.Sign(alg, "at+jwt", []byte(`{"sub":"alice"}`), frozenAt)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256([]byte(text)); fmt.Sprintf("%x", sum[:4]) != want {
			t.Errorf("%s: the digest begins %x", alg, sum[:4])
		}
	}
}

func TestSignUsesTheKeyThatIsActive(t *testing.T) {
	follower := newKey(t, parseKEK(t, frozenKEK), keys.ES256, frozenAt+1000)
	r := signingRing(t, []keys.Stored{follower}, keys.ES256)
	first := signingRecords(t, keys.ES256)[0].ID
	for now, want := range map[grant.Instant]grant.KeyID{
		0: first, frozenAt: first, frozenAt + 999: first, frozenAt + 1000: follower.ID, frozenAt + 1_000_000: follower.ID,
	} {
		text, err := r.Sign(keys.ES256, "JWT", benchClaims, now)
		if err != nil {
			t.Fatal(err)
		}
		header, _, _ := strings.Cut(text, ".")
		if got, err := base64.RawURLEncoding.DecodeString(header); err != nil || string(got) != `{"alg":"ES256","kid":"`+want.String()+`","typ":"JWT"}` {
			t.Errorf("at %d: header %s, %v", now, got, err)
		}
		if _, _, _, err := r.Verify(text); err != nil {
			t.Errorf("at %d: %v", now, err)
		}
	}
}

func TestSignWithoutAKeyOrWithAnOddType(t *testing.T) {
	r := signingRing(t, nil, keys.ES256)
	for _, alg := range []keys.Purpose{keys.EdDSA, keys.RS256, keys.MAC, keys.Pepper, "none", "HS256", ""} {
		if text, err := r.Sign(alg, "JWT", benchClaims, frozenAt); !errors.Is(err, keys.ErrUnknownKey) || text != "" {
			t.Errorf("%s: %v", alg, err)
		}
	}
	for _, typ := range []string{"", `a"b`, `a\b`, "a b", "a\n", "é", "application/jwt", strings.Repeat("t", 65)} {
		if text, err := r.Sign(keys.ES256, typ, benchClaims, frozenAt); err == nil || text != "" {
			t.Errorf("type %q is signed", typ)
		}
	}
}

// A key opens only under its own purpose, and so signs only for its algorithm.
func TestAKeyOfAnotherTypeDoesNotOpen(t *testing.T) {
	kek := parseKEK(t, frozenKEK)
	for _, tt := range []struct{ made, called keys.Purpose }{
		{keys.EdDSA, keys.ES256}, {keys.ES256, keys.EdDSA}, {keys.ES256, keys.RS256}, {keys.MAC, keys.ES256},
	} {
		d, err := keys.NewDraft(tt.made)
		if err != nil {
			t.Fatal(err)
		}
		d.Purpose = tt.called
		rec := d.Wrap(kek, frozenAt, frozenAt)
		if _, err := keys.Open(kek, append(frozenRecords(), rec)); err == nil || !strings.Contains(err.Error(), rec.ID.String()) {
			t.Errorf("%s key as %s: %v; want it named", tt.made, tt.called, err)
		}
	}
}

// VerifyAt accepts a JWT by a retired key until the key's retention has passed.
func TestVerifyUntilTheKeyIsGone(t *testing.T) {
	follower := newKey(t, parseKEK(t, frozenKEK), keys.ES256, frozenAt+1000)
	r := signingRing(t, []keys.Stored{follower}, keys.ES256)
	text := sign(t, r, keys.ES256)
	end := frozenAt + 1000 + 3600_000
	for now, want := range map[grant.Instant]error{
		0: nil, frozenAt: nil, frozenAt + 1000: nil, end: nil, end + 1: keys.ErrNotAuthentic, end * 2: keys.ErrNotAuthentic,
	} {
		if _, _, _, err := r.VerifyAt(text, now, noRotation); err != want {
			t.Errorf("at %d: %v, want %v", now, err, want)
		}
		// Verify does not check whether the key is in force.
		if _, _, _, err := r.Verify(text); err != nil {
			t.Errorf("at %d: %v", now, err)
		}
	}
}
