package keys_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

func segment(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func notGenuine(t *testing.T, r *keys.Ring, name, text string) {
	t.Helper()
	if typ, claims, _, err := r.Verify(text); err != keys.ErrNotAuthentic || typ != "" || claims != nil {
		t.Errorf("%s: type %q, %d bytes of claims, %v", name, typ, len(claims), err)
	}
	if typ, claims, _, err := r.VerifyAt(text, frozenAt, noRotation); err != keys.ErrNotAuthentic || typ != "" || claims != nil {
		t.Errorf("%s, at an instant: type %q, %d bytes of claims, %v", name, typ, len(claims), err)
	}
}

// Each of these headers has a valid signature: only the header is wrong.
func TestHeadersOfAnotherFormAreRefused(t *testing.T) {
	r := signingRing(t, nil, keys.SigningAlgorithms...)
	id := func(alg keys.Purpose) string { return r.Current(alg, frozenAt).String() }
	es, ed, rs := id(keys.ES256), id(keys.EdDSA), id(keys.RS256)
	signed := func(alg keys.Purpose, header string) string {
		t.Helper()
		text, err := r.SignHeader(r.Current(alg, frozenAt), header, benchClaims)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := `{"alg":"ES256","kid":"` + es + `","typ":"at+jwt"}`
	if _, _, _, err := r.Verify(signed(keys.ES256, good)); err != nil {
		t.Fatalf("the header of the right form: %v", err)
	}
	extra := func(member string) string { return good[:len(good)-1] + "," + member + "}" }
	for name, header := range map[string]string{
		"alg none":              strings.Replace(good, "ES256", "none", 1),
		"alg NonE":              strings.Replace(good, "ES256", "NonE", 1),
		"empty alg":             strings.Replace(good, "ES256", "", 1),
		"alg in lower case":     strings.Replace(good, "ES256", "es256", 1),
		"alg HS256":             strings.Replace(good, "ES256", "HS256", 1),
		"alg ES384":             strings.Replace(good, "ES256", "ES384", 1),
		"alg PS256":             strings.Replace(good, "ES256", "PS256", 1),
		"alg of another type":   strings.Replace(good, "ES256", "RS256", 1),
		"alg of a third type":   strings.Replace(good, "ES256", "EdDSA", 1),
		"alg that is a purpose": strings.Replace(good, "ES256", "mac", 1),
		"a MAC key as alg":      strings.NewReplacer("ES256", "mac", es, frozenMAC.String()).Replace(good),
		"the pepper as alg":     strings.NewReplacer("ES256", "pepper", es, frozenPepper.String()).Replace(good),
		"no alg":                `{"kid":"` + es + `","typ":"at+jwt"}`,
		"no kid":                `{"alg":"ES256","typ":"at+jwt"}`,
		"no typ":                `{"alg":"ES256","kid":"` + es + `"}`,
		"empty typ":             strings.Replace(good, "at+jwt", "", 1),
		"kid in upper case":     strings.Replace(good, es, strings.ToUpper(es), 1),
		"kid cut off":           strings.Replace(good, es, es[:7], 1),
		"kid with more":         strings.Replace(good, es, es+"0", 1),
		"empty kid":             strings.Replace(good, es, "", 1),
		"kid of another alg":    strings.Replace(good, es, ed, 1),
		"kid of a MAC key":      strings.Replace(good, es, frozenMAC.String(), 1),
		"kid of the pepper":     strings.Replace(good, es, frozenPepper.String(), 1),
		"kid of nobody":         strings.Replace(good, es, "00000000", 1),
		"RS256 over ES256":      strings.NewReplacer("ES256", "RS256", es, rs).Replace(good),
		"crit":                  extra(`"crit":["exp"]`),
		"crit that is empty":    extra(`"crit":[]`),
		"b64":                   extra(`"b64":false,"crit":["b64"]`),
		"jku":                   extra(`"jku":"https://evil.example/jwks"`),
		"jwk":                   extra(`"jwk":{"kty":"oct","k":"AAAA"}`),
		"x5u":                   extra(`"x5u":"https://evil.example/cert"`),
		"x5c":                   extra(`"x5c":["AAAA"]`),
		"alg twice":             extra(`"alg":"none"`),
		"kid twice":             extra(`"kid":"` + ed + `"`),
		"zip":                   extra(`"zip":"DEF"`),
		"crit as the type":      strings.Replace(good, "at+jwt", `at+jwt","crit":["x"],"y":"`, 1),
		"escaped":               strings.Replace(good, "ES256", `ES\u0032\u0035\u0036`, 1),
		"spaces":                strings.ReplaceAll(good, ":", ": "),
		"line break after it":   good + "\n",
		"other order":           `{"kid":"` + es + `","alg":"ES256","typ":"at+jwt"}`,
		"a list":                "[" + good + "]",
		"twice":                 good + good,
		"nothing":               "",
		"no object":             `null`,
	} {
		notGenuine(t, r, name, signed(keys.ES256, header))
	}
	notGenuine(t, r, "EdDSA over ES256's kid", signed(keys.EdDSA, good))
	notGenuine(t, r, "RS256 over ES256's kid", signed(keys.RS256, strings.Replace(good, "ES256", "RS256", 1)))
}

// The public key must not be accepted as an HMAC secret (RFC 8725 section 2.1).
func TestThePublicKeyIsNoSecret(t *testing.T) {
	r := signingRing(t, nil, keys.SigningAlgorithms...)
	for _, k := range r.JWKS(frozenAt, noRotation) {
		text, found := r.PublicPEM(k.KeyID, frozenAt, noRotation)
		block, _ := pem.Decode(text)
		raw, err := k.MarshalJSON()
		if !found || block == nil || err != nil {
			t.Fatalf("no PEM or JWK of %s", k.KeyID)
		}
		for form, secret := range map[string][]byte{"PEM": text, "DER": block.Bytes, "JWK": raw, "nothing": {}} {
			for _, alg := range []string{"HS256", k.Algorithm} {
				body := segment([]byte(`{"alg":"`+alg+`","kid":"`+k.KeyID+`","typ":"at+jwt"}`)) + "." + segment(benchClaims)
				mac := hmac.New(sha256.New, secret)
				mac.Write([]byte(body))
				notGenuine(t, r, k.Algorithm+": "+form+" as the secret of "+alg, body+"."+segment(mac.Sum(nil)))
			}
		}
	}
}

func TestSignaturesOfOthersAreRefused(t *testing.T) {
	r := signingRing(t, nil, keys.SigningAlgorithms...)
	kid := r.Current(keys.ES256, frozenAt)
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, embed := range []bool{false, true} {
		opt := (&jose.SignerOptions{EmbedJWK: embed}).WithType("at+jwt")
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: k, KeyID: kid.String()}}, opt)
		if err != nil {
			t.Fatal(err)
		}
		jws, err := signer.Sign(benchClaims)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jws.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		notGenuine(t, r, fmt.Sprintf("a stranger's key, embedded %t", embed), text)
		notGenuine(t, r, "the JSON serialization", jws.FullSerialize())
	}
	// The same kid in another ring.
	other := newKey(t, parseKEK(t, frozenKEK), keys.ES256, frozenAt)
	stranger, err := signingRing(t, []keys.Stored{other}).SignHeader(other.ID, `{"alg":"ES256","kid":"`+kid.String()+`","typ":"at+jwt"}`, benchClaims)
	if err != nil {
		t.Fatal(err)
	}
	notGenuine(t, r, "another ring's key", stranger)
}

func TestOddSignaturesAreRefused(t *testing.T) {
	r := signingRing(t, nil, keys.SigningAlgorithms...)
	order := elliptic.P256().Params().N.FillBytes(make([]byte, 32))
	for _, alg := range keys.SigningAlgorithms {
		text := sign(t, r, alg)
		dot := strings.LastIndexByte(text, '.')
		signature, err := base64.RawURLEncoding.DecodeString(text[dot+1:])
		if err != nil {
			t.Fatal(err)
		}
		n := len(signature)
		for name, odd := range map[string][]byte{
			"empty": {}, "zeros": make([]byte, n), "ones": slices.Repeat([]byte{0xff}, n), "cut off": signature[:n-1], "half": signature[:n/2],
			"with a byte more": append(slices.Clone(signature), 0), "behind a zero": append([]byte{0}, signature...), "twice": slices.Repeat(signature, 2),
			"of the order": slices.Repeat(order, 2), "r zero": append(make([]byte, n/2), signature[n/2:]...), "s zero": append(slices.Clone(signature[:n/2]), make([]byte, n-n/2)...),
		} {
			notGenuine(t, r, string(alg)+" "+name, text[:dot+1]+segment(odd))
		}
		for i := range n {
			bent := slices.Clone(signature)
			bent[i] ^= 1
			notGenuine(t, r, fmt.Sprintf("%s with a bit of byte %d changed", alg, i), text[:dot+1]+segment(bent))
		}
		if alg != keys.ES256 {
			continue
		}
		k, err := x509.ParsePKIXPublicKey(publicDER(t, r, r.Current(alg, frozenAt)))
		if err != nil {
			t.Fatal(err)
		}
		// ASN.1, the form in which most libraries return signatures, is not the form of a
		// JWS.
		der := derOf(signature)
		digest := sha256.Sum256([]byte(text[:dot]))
		if !ecdsa.VerifyASN1(k.(*ecdsa.PublicKey), digest[:], der) {
			t.Fatal("the signature in ASN.1 is not good")
		}
		notGenuine(t, r, "a signature in ASN.1", text[:dot+1]+segment(der))
	}
}

func publicDER(t *testing.T, r *keys.Ring, id grant.KeyID) []byte {
	t.Helper()
	text, found := r.PublicPEM(id.String(), frozenAt, noRotation)
	block, _ := pem.Decode(text)
	if !found || block == nil {
		t.Fatalf("no PEM of %s", id)
	}
	return block.Bytes
}

// derOf encodes r and s as ASN.1 integers, with a zero byte if their first bit is set.
func derOf(signature []byte) []byte {
	var body []byte
	for _, half := range [][]byte{signature[:32], signature[32:]} {
		b := new(big.Int).SetBytes(half).Bytes()
		if b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		body = append(append(body, 2, byte(len(b))), b...)
	}
	return append([]byte{0x30, byte(len(body))}, body...)
}

func TestEveryChangeOfAJWTIsRefused(t *testing.T) {
	r := signingRing(t, nil, keys.EdDSA, keys.ES256)
	for _, alg := range []keys.Purpose{keys.EdDSA, keys.ES256} {
		text, err := r.Sign(alg, "JWT", []byte(`{"sub":"alice"}`), frozenAt)
		if err != nil {
			t.Fatal(err)
		}
		for i := range text {
			notGenuine(t, r, fmt.Sprintf("%s cut to %d characters", alg, i), text[:i])
			for _, c := range []byte("AB_-.= \n\x00\xff+/") {
				if c != text[i] {
					notGenuine(t, r, fmt.Sprintf("%s with character %d made %q", alg, i, c), text[:i]+string([]byte{c})+text[i+1:])
				}
				notGenuine(t, r, fmt.Sprintf("%s with %q put in at %d", alg, c, i), text[:i]+string([]byte{c})+text[i:])
			}
		}
		for _, c := range []string{".", "..", ".AAAA", "=", "==", "A", "\n", " ", "." + text} {
			notGenuine(t, r, fmt.Sprintf("%s and %q after it", alg, c[:1]), text+c)
			notGenuine(t, r, fmt.Sprintf("%s and %q before it", alg, c[:1]), c+text)
		}
		parts := strings.Split(text, ".")
		notGenuine(t, r, "no signature", parts[0]+"."+parts[1])
		notGenuine(t, r, "an empty signature", parts[0]+"."+parts[1]+".")
		notGenuine(t, r, "no claims", parts[0]+".."+parts[2])
		notGenuine(t, r, "no header", "."+parts[1]+"."+parts[2])
		notGenuine(t, r, "five parts", text+"."+parts[1]+"."+parts[2])
	}
	for _, text := range []string{"", ".", "..", "...", "mintage_at_AAAA", "Bearer x"} {
		notGenuine(t, r, "odd text", text)
	}
}

// A text that is longer than any JWT of the server is refused without reading it.
func TestALongTextIsRefusedWithoutReadingIt(t *testing.T) {
	r := signingRing(t, nil, keys.ES256)
	longest, shortest := 0, 1<<20
	for size := range 200 {
		text, err := r.Sign(keys.ES256, "JWT", make([]byte, size+keys.MaxJWT*3/4-200), frozenAt)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := r.Verify(text); err == nil {
			longest = max(longest, len(text))
		} else {
			shortest = min(shortest, len(text))
		}
	}
	if longest > keys.MaxJWT || longest < keys.MaxJWT-1 || shortest <= longest || shortest > keys.MaxJWT+2 {
		t.Errorf("%d characters are read, and %d are not", longest, shortest)
	}
}
