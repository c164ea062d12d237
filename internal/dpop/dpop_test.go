package dpop

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var now = time.Unix(1_800_000_000, 0)

// readOnce reads a proof without the cache of known keys.
func readOnce(fields []string) (*Proof, error) { return read(fields, readHeader) }

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// A signer makes proofs with one key.
type signer struct {
	alg  string
	jwk  map[string]any
	sign func(text []byte) []byte
}

func es256(t testing.TB) signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return signer{"ES256", map[string]any{"kty": "EC", "crv": "P-256", "x": b64(point[1:33]), "y": b64(point[33:])}, func(text []byte) []byte {
		sum := sha256.Sum256(text)
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}}
}

func eddsa() signer {
	public, private, _ := ed25519.GenerateKey(nil)
	return signer{"EdDSA", map[string]any{"kty": "OKP", "crv": "Ed25519", "x": b64(public)}, func(text []byte) []byte { return ed25519.Sign(private, text) }}
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func ps256() signer {
	key := rsaKey()
	return signer{"PS256", map[string]any{"kty": "RSA", "n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes())}, func(text []byte) []byte {
		sum := sha256.Sum256(text)
		s, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: 32})
		if err != nil {
			panic(err)
		}
		return s
	}}
}

const address = "https://auth.example/oauth2/api/access_token"

// proof returns a valid proof; edit changes header and claims before they are signed.
func (s signer) proof(edit func(h, c map[string]any)) string {
	h := map[string]any{"typ": "dpop+jwt", "alg": s.alg, "jwk": maps.Clone(s.jwk)}
	c := map[string]any{"jti": "one", "htm": "POST", "htu": address, "iat": now.Unix()}
	if edit != nil {
		edit(h, c)
	}
	head, _ := json.Marshal(h)
	claims, _ := json.Marshal(c)
	text := b64(head) + "." + b64(claims)
	return text + "." + b64(s.sign([]byte(text)))
}

var wanted = Request{Method: "POST", URI: address}

func verify(fields []string, r Request) (*Proof, error) {
	p, err := readOnce(fields)
	if err == nil {
		err = p.Verify(r, now)
	}
	return p, err
}

func TestProofsOfEveryAlgorithm(t *testing.T) {
	seen := map[[32]byte]bool{}
	for _, s := range []signer{es256(t), eddsa(), ps256()} {
		p, err := verify([]string{s.proof(nil)}, wanted)
		if err != nil {
			t.Fatalf("%s: %v", s.alg, err)
		}
		// RFC 7638 section 3: the required members, sorted, without spaces.
		canonical, _ := json.Marshal(s.jwk)
		if p.Key != sha256.Sum256(canonical) || seen[p.Key] || p.ID != "one" {
			t.Errorf("%s: thumbprint %x of %s", s.alg, p.Key, canonical)
		}
		seen[p.Key] = true
	}
}

// The example of RFC 7638 section 3.1.
func TestThumbprintOfTheRFC(t *testing.T) {
	const n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
	_, print, err := readKey("PS256", []byte(`{"kty":"RSA","n":"`+n+`","e":"AQAB","alg":"RS256","kid":"2011-04-29"}`))
	if err != nil || b64(print[:]) != "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs" {
		t.Errorf("%s, %v", b64(print[:]), err)
	}
}

func TestProofsThatAreRefused(t *testing.T) {
	s, other := es256(t), es256(t)
	good, ed, ps := s.proof(nil), eddsa().proof(nil), ps256().proof(nil)
	var knowing Seen
	if p, err := verify([]string{good}, wanted); err != nil || !knowing.First(p, now) {
		t.Fatal(err)
	}
	type m = map[string]any
	h := func(name string, value any) func(h, c m) { return func(h, _ m) { h[name] = value } }
	c := func(name string, value any) func(h, c m) { return func(_, c m) { c[name] = value } }
	k := func(name string, value any) func(h, c m) { return func(h, _ m) { h["jwk"].(m)[name] = value } }
	signedAs := func(text, other string) string {
		return text[:strings.LastIndexByte(text, '.')] + other[strings.LastIndexByte(other, '.'):]
	}
	cases := map[string][]string{
		"none": nil, "two": {good, good}, "two in one": {good + "," + good}, "empty": {""}, "no JWT": {"x"}, "four parts": {good + ".x"},
		"altered": {signedAs(good, ed)}, "JSON form": {`{"payload":"x"}`}, "long": {strings.Repeat("x", 64<<10)}, "line break": {strings.Replace(good, ".", "\n.", 1)}, "line break at the end": {good + "\n"},
		"altered EdDSA": {signedAs(ed, good)}, "altered PS256": {signedAs(ps, ps256().proof(c("jti", "two")))}, "short signature": {signedAs(good, ".AAAA")},
		"EdDSA as ES256": {eddsa().proof(h("alg", "ES256"))}, "short EdDSA key": {eddsa().proof(k("x", "AAAA"))}, "another curve": {eddsa().proof(k("crv", "X25519"))}, "another type": {eddsa().proof(k("kty", "EC"))},
		"RS256": {ps256().proof(h("alg", "RS256"))},
	}
	for name, edit := range map[string]func(h, c m){
		"alg none": h("alg", "none"), "alg nOnE": h("alg", "nOnE"), "HS256": h("alg", "HS256"), "alg of another key": h("alg", "EdDSA"), "ES384": h("alg", "ES384"), "alg missing": func(h, _ m) { delete(h, "alg") },
		"typ": h("typ", "JWT"), "typ missing": func(h, _ m) { delete(h, "typ") }, "at+jwt": h("typ", "at+jwt"),
		"crit": h("crit", []string{"b64"}), "empty crit": h("crit", []string{}), "b64": h("b64", false), "zip": h("zip", "DEF"),
		"x5c": h("x5c", []string{"MII"}), "x5u": h("x5u", "https://x"), "jku": h("jku", "https://x"), "x5c in the key": k("x5c", []string{"MII"}), "x5u in the key": k("x5u", "https://x"),
		"no key": func(h, _ m) { delete(h, "jwk") }, "key is null": h("jwk", nil), "key is a text": h("jwk", "x"), "private": k("d", "AAAA"), "private p": k("p", "AAAA"), "private q": k("q", "AAAA"), "private k": k("k", "AAAA"), "another kty": k("kty", "OKP"), "symmetric": h("jwk", m{"kty": "oct", "k": "AAAA"}),
		"another key": h("jwk", other.jwk), "off the curve": k("x", b64(make([]byte, 32))), "short x": k("x", "AAAA"), "x with a line break": k("x", s.jwk["x"].(string)+"\n"), "P-384": k("crv", "P-384"),
		"small RSA": func(h, _ m) {
			h["alg"], h["jwk"] = "PS256", m{"kty": "RSA", "n": b64(rsaKey().N.Bytes()[:128]), "e": "AQAB"}
		},
		"RSA e=1": func(h, _ m) { h["alg"], h["jwk"] = "PS256", m{"kty": "RSA", "n": b64(rsaKey().N.Bytes()), "e": "AQ"} },
		"RSA zeros": func(h, _ m) {
			h["alg"], h["jwk"] = "PS256", m{"kty": "RSA", "n": "AAAA" + b64(rsaKey().N.Bytes()), "e": "AQAB"}
		},
		"jti missing": func(_, c m) { delete(c, "jti") }, "jti empty": c("jti", ""), "jti long": c("jti", strings.Repeat("x", 257)), "jti number": c("jti", 1), "nonce number": c("nonce", 1), "long claims": c("x", strings.Repeat("x", maxProof)),
		"htm missing": func(_, c m) { delete(c, "htm") }, "htm": c("htm", "GET"), "htm lower case": c("htm", "post"),
		"htu missing": func(_, c m) { delete(c, "htu") }, "htu empty": c("htu", ""), "htu list": c("htu", []string{address}), "htu number": c("htu", 1), "htu relative": c("htu", "/oauth2/api/access_token"),
		"htu host": c("htu", "https://other.example/oauth2/api/access_token"), "htu scheme": c("htu", "http://auth.example/oauth2/api/access_token"), "htu port": c("htu", "https://auth.example:444/oauth2/api/access_token"),
		"htu path": c("htu", address+"/"), "htu path case": c("htu", strings.ToUpper(address)), "htu encoded slash": c("htu", "https://auth.example/oauth2/api%2Faccess_token"), "htu user": c("htu", "https://u@auth.example/oauth2/api/access_token"),
		"iat missing": func(_, c m) { delete(c, "iat") }, "iat text": c("iat", fmt.Sprint(now.Unix())), "iat old": c("iat", now.Unix()-3600), "iat 61 s ago": c("iat", now.Unix()-61), "iat ahead": c("iat", now.Unix()+60),
		"iat huge": c("iat", 1e20), "iat negative": c("iat", -1),
	} {
		cases[name] = []string{s.proof(edit)}
	}
	for name, fields := range cases {
		p, err := verify(fields, wanted)
		if err == nil {
			t.Errorf("%s: accepted, %+v", name, p)
		} else if fault, ok := err.(Fault); !ok || strings.Contains(string(fault), "auth.example") {
			t.Errorf("%s: %v", name, err)
		}
		// A verifier that has cached the proof's key returns the same.
		p, again := knowing.Read(fields)
		if again == nil {
			again = p.Verify(wanted, now)
		}
		if again != err {
			t.Errorf("%s: %v, and of a known key %v", name, err, again)
		}
	}
	twice := strings.Split(good, ".")
	claims := b64([]byte(`{"jti":"a","jti":"b","htm":"POST","htu":"` + address + `","iat":1800000000}`))
	if _, err := verify([]string{twice[0] + "." + claims + "." + b64(s.sign([]byte(twice[0]+"."+claims)))}, wanted); err == nil {
		t.Error("a claim that is there twice is accepted")
	}
}

func TestProofsThatAreAccepted(t *testing.T) {
	s := es256(t)
	type m = map[string]any
	for name, edit := range map[string]func(h, c m){
		"10 s ago": func(_, c m) { c["iat"] = now.Unix() - 10 }, "10 s ahead": func(_, c m) { c["iat"] = now.Unix() + 10 }, "fraction": func(_, c m) { c["iat"] = float64(now.Unix()) + 0.5 },
		"query": func(_, c m) { c["htu"] = address + "?realm=/api#x" }, "host case": func(_, c m) { c["htu"] = "HTTPS://AUTH.example/oauth2/api/access_token" },
		"port": func(_, c m) { c["htu"] = "https://auth.example:443/oauth2/api/access_token" }, "encoded": func(_, c m) { c["htu"] = "https://auth.example/oauth2/api/%61ccess%5ftoken" },
		"dots": func(_, c m) { c["htu"] = "https://auth.example/oauth2/x/../api/./access_token" }, "long typ": func(h, _ m) { h["typ"] = "application/DPoP+jwt" },
		"60 s ago": func(_, c m) { c["iat"] = now.Unix() - 60 }, "59 s ahead": func(_, c m) { c["iat"] = now.Unix() + 59 }, "longest jti": func(_, c m) { c["jti"] = strings.Repeat("x", maxJTI) },
		"more": func(h, c m) { h["kid"], c["extra"] = "x", m{"a": 1} },
	} {
		if _, err := verify([]string{s.proof(edit)}, wanted); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATokenIsNamedByItsHash(t *testing.T) {
	s := es256(t)
	// The example of RFC 9449 section 7.1.
	const token, hash = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU", "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
	with := wanted
	with.Token = token
	if _, err := verify([]string{s.proof(func(_, c map[string]any) { c["ath"] = hash })}, with); err != nil {
		t.Error(err)
	}
	for _, ath := range []any{"", hash[:42] + "A", token} {
		if _, err := verify([]string{s.proof(func(_, c map[string]any) { c["ath"] = ath })}, with); err == nil {
			t.Errorf("ath %q is accepted", ath)
		}
	}
	if _, err := verify([]string{s.proof(nil)}, with); err == nil {
		t.Error("without ath")
	}
}

func TestAProofCountsOnce(t *testing.T) {
	var seen Seen
	s := es256(t)
	p, err := readOnce([]string{s.proof(nil)})
	if err != nil {
		t.Fatal(err)
	}
	other := *p
	other.Key[0]++
	for i, c := range []struct {
		p     *Proof
		after time.Duration
		first bool
	}{{p, 0, true}, {p, time.Second, false}, {&other, time.Second, true}, {p, 2 * time.Minute, false}, {p, 3 * time.Minute, false}, {&other, 6 * time.Minute, true}, {p, 9 * time.Minute, true}} {
		if got := seen.First(c.p, now.Add(c.after)); got != c.first {
			t.Errorf("%d: first %t", i, got)
		}
	}
	var wins sync.Map
	var all sync.WaitGroup
	fresh := *p
	fresh.ID = "another"
	for i := range 50 {
		all.Go(func() {
			if seen.First(&fresh, now) {
				wins.Store(i, true)
			}
		})
	}
	all.Wait()
	n := 0
	wins.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d of 50 were first", n)
	}
	for i := range 3 * maxSeen {
		fresh.ID = fmt.Sprint(i)
		seen.First(&fresh, now)
	}
	if n := seen.present.count + seen.last.count; n > 2*maxSeen || n < maxSeen {
		t.Errorf("%d are remembered", n)
	}
}

func TestKeysOfVerifiedProofsAreRemembered(t *testing.T) {
	var seen Seen
	s := es256(t)
	text := []string{s.proof(nil)}
	p, err := seen.Read(text)
	if err != nil || len(seen.keys) != 0 {
		t.Fatalf("%d keys before a proof was verified, %v", len(seen.keys), err)
	}
	for _, after := range []time.Duration{0, 3 * time.Minute} { // the second step begins another period
		seen.First(p, now.Add(after))
		p, err = seen.Read(text)
		if err != nil || len(seen.keys) != 1 || p.Key != seen.keys[p.header].print || p.Verify(wanted, now) != nil {
			t.Errorf("after %s: %d keys, %+v, %v", after, len(seen.keys), p, err)
		}
	}
	for i := range 2 * maxKeys {
		another := *p
		another.header = fmt.Sprint(i)
		seen.First(&another, now)
	}
	long := *p
	long.header = strings.Repeat("x", maxHeader+1)
	seen.First(&long, now.Add(6*time.Minute))
	if len(seen.keysOfLast) != maxKeys || len(seen.keys) != 0 {
		t.Errorf("%d and %d keys are remembered", len(seen.keysOfLast), len(seen.keys))
	}
}

func TestNonces(t *testing.T) {
	mac := func(key byte) Nonces {
		return func(minute int64) []byte { s := sha256.Sum256(fmt.Append(nil, key, minute)); return s[:] }
	}
	n, other := mac(1), mac(2)
	nonce := n.At(now)
	if len(nonce) != 22 || nonce != n.At(now.Add(59*time.Second)) || nonce == n.At(now.Add(time.Minute)) {
		t.Errorf("nonce %q", nonce)
	}
	for after, want := range map[time.Duration]bool{0: true, time.Minute: true, 2 * time.Minute: false, -time.Minute: true, -2 * time.Minute: false} {
		if n.Valid(nonce, now.Add(after)) != want {
			t.Errorf("%s later: valid %t", after, !want)
		}
	}
	if other.Valid(nonce, now) || n.Valid("", now) {
		t.Error("a nonce of nobody is valid")
	}
}

// Each key is refused because of the key itself, before its signature is verified.
func TestKeysThatAreRefused(t *testing.T) {
	n, point := rsaKey().N.Bytes(), es256(t).jwk
	x, _ := decode(point["x"].(string))
	y, _ := decode(point["y"].(string))
	ec := func(x, y string) string { return `{"kty":"EC","crv":"P-256","x":"` + x + `","y":"` + y + `"}` }
	ps := func(n []byte, e string) string { return `{"kty":"RSA","n":"` + b64(n) + `","e":"` + e + `"}` }
	for alg, texts := range map[string][]string{
		// A key must have exactly one thumbprint.
		"ES256": {ec(b64(x), b64(y)+`\n`), ec(b64(slices.Concat(x, y[:1])), b64(y[1:])), ec(b64(x[:31]), b64(slices.Concat(x[31:], y)))},
		"EdDSA": {`{"kty":"OKP","crv":"Ed25519","x":"` + eddsa().jwk["x"].(string) + `\n"}`},
		"PS256": {
			ps(n[:255], "AQAB"), ps(slices.Concat([]byte{1}, n[1:]), "AQAB"), strings.Replace(ps(n, "AQAB"), `"n":"`, `"n":"\n`, 1), ps(n, `AQAB\n`), strings.Replace(ps(n, "AQAB"), "}", `,"crv":1}`, 1), ps(append([]byte{0}, n...), "AQAB"), ps(slices.Concat(n, n, n[:1]), "AQAB"), ps(nil, "AQAB"), ps(n, ""), ps(n, "AQ"), ps(n, "Ag"), ps(n, "AQAA"), ps(n, "AAED"), ps(n, "AQAAAQ"), ps(n, "A"),
			strings.Replace(ps(n, "AQAB"), "RSA", "EC", 1), `[` + ps(n, "AQAB") + `]`, `"x"`,
		},
		"RS256": {ps(n, "AQAB")},
	} {
		for _, text := range texts {
			if _, _, err := readKey(alg, []byte(text)); err == nil {
				t.Errorf("%s: accepted %s", alg, text)
			}
		}
	}
	if _, _, err := readKey("PS256", []byte(ps(slices.Concat(n, n), "Aw"))); err != nil {
		t.Errorf("4096 bits, exponent 3: %v", err)
	}
}

func TestAddressesAreNormalized(t *testing.T) {
	for uri, want := range map[string]string{
		"HTTP://A.example:80": "http://a.example/", "https://a:443/x?y#z": "https://a/x", "http://a:443/": "http://a:443/", "https://a:": "https://a/",
		"https://a/%7ax%5AX%30%39%2d%2f%3a%40%5b%60%7b%c3%a9": "https://a/zxZX09-%2F%3A%40%5B%60%7B%C3%A9", "https://a/%41%61%2E/x": "https://a/Aa./x",
		"https://a/b/./c/../..": "https://a/", "https://a/b/c/.": "https://a/b/c/", "https://a/../b": "https://a/b", "https://a/.b": "https://a/.b",
		"ftp://a/": "", "https:///x": "", "https:a": "", "https://u@a/": "", "https://a/%": "", "/x": "",
	} {
		if got, ok := normalize(uri); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	s := eddsa()
	good := s.proof(nil)
	for _, text := range []string{good, good[:len(good)-1], "", "..", strings.Replace(good, ".", "..", 1), ps256().proof(nil), es256(f).proof(nil)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := verify([]string{text}, wanted)
		if err == nil && (p.Key == [32]byte{} || p.ID == "") {
			t.Errorf("accepted %+v", p)
		}
	})
}

func FuzzSameURI(f *testing.F) {
	f.Add(address)
	f.Add("HTTPS://a:443/%7e/../%2f?x")
	f.Fuzz(func(t *testing.T, uri string) {
		one, ok := normalize(uri)
		if again, same := normalize(one); ok && (!same || again != one) {
			t.Errorf("%q is %q, and that is %q", uri, one, again)
		}
	})
}

func TestSignaturesInASN1(t *testing.T) {
	for i := range 33 * 33 { // numbers of all lengths, zero among them
		signature := make([]byte, 64)
		rand.Read(signature)
		clear(signature[:i%33])
		clear(signature[32 : 32+i/33])
		want, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])})
		if err != nil {
			t.Fatal(err)
		}
		if text := inASN1(signature); !bytes.Equal(text, want) {
			t.Fatalf("%x: %x, want %x", signature, text, want)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	s := es256(b)
	text := []string{s.proof(nil)}
	for b.Loop() {
		if _, err := verify(text, wanted); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKnown reads another proof of a client without verifying the signature.
func BenchmarkKnown(b *testing.B) {
	var seen Seen
	text := []string{es256(b).proof(nil)}
	p, err := readOnce(text)
	if err != nil {
		b.Fatal(err)
	}
	seen.First(p, now)
	for b.Loop() {
		if _, err := seen.Read(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSignature measures the lower limit of a proof's cost.
func BenchmarkSignature(b *testing.B) {
	p, err := readOnce([]string{es256(b).proof(nil)})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !p.verifies() {
			b.Fatal()
		}
	}
}
