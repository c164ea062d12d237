package resource_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/keys"
)

func (p *publicSide) keySet() jose.JSONWebKeySet {
	p.t.Helper()
	body, _ := p.get("/oauth2/jwks")
	return read[jose.JSONWebKeySet](p.t, body)
}

func kids(set jose.JSONWebKeySet) (list []string) {
	for _, k := range set.Keys {
		list = append(list, k.KeyID)
	}
	return list
}

func TestMD18_TheSetHasThePublicPartsOfStrongKeys(t *testing.T) {
	p := newPublicSide(t, allAlgorithms)
	// The members of a public key by RFC 7518 section 6 and RFC 8037 section 2. A number is
	// the length of a text.
	public := map[string]map[string]any{
		"ES256": {"kty": "EC", "crv": "P-256", "x": 43, "y": 43},
		"EdDSA": {"kty": "OKP", "crv": "Ed25519", "x": 43},
		"RS256": {"kty": "RSA", "n": 342, "e": "AQAB"},
	}
	body, header := p.get("/oauth2/jwks")
	if media := header.Get("Content-Type"); media != "application/json" {
		t.Errorf("Content-Type %s", media)
	}
	set := read[map[string][]map[string]any](t, body)
	if len(set) != 1 || len(set["keys"]) != len(public) {
		t.Fatalf("%d keys in %d members", len(set["keys"]), len(set))
	}
	seen := map[any]bool{}
	for _, k := range set["keys"] {
		want := public[k["alg"].(string)]
		if want == nil || k["use"] != "sig" || seen[k["kid"]] || seen[k["alg"]] || !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(k["kid"].(string)) {
			t.Errorf("alg %v, use %v, kid %v", k["alg"], k["use"], k["kid"])
		}
		seen[k["kid"]], seen[k["alg"]] = true, true
		if len(k) != len(want)+3 {
			t.Errorf("%s has %d members, want %d", k["alg"], len(k), len(want)+3)
		}
		for name, value := range want {
			// A number is the length of what must be there: 32 bytes, or 2048 bits.
			text, _ := k[name].(string)
			if size, ok := value.(int); ok && len(text) != size || !ok && text != value {
				t.Errorf("%s: %s is %q, want %v", k["alg"], name, text, value)
			}
		}
	}
	document, _ := p.get("/oauth2/.well-known/openid-configuration")
	algorithms := read[struct {
		Introspection []string `json:"introspection_signing_alg_values_supported"`
	}](t, document).Introspection
	if !slices.Equal(algorithms, []string{"ES256", "EdDSA", "RS256"}) {
		t.Errorf("introspection is signed with %q", algorithms)
	}
}

// signedBy returns the key of the revocation list, which is signed anew; a published key
// must verify the signature.
func (p *publicSide) signedBy() string {
	p.t.Helper()
	p.advance(time.Second)
	body, _ := p.get("/oauth2/revocations")
	signed, err := jose.ParseSigned(body, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := signed.Verify(p.keySet()); err != nil {
		p.t.Errorf("signed by a key that is not published: %v", err)
	}
	return signed.Signatures[0].Protected.KeyID
}

func TestMD19_AKeyIsPublishedBeforeItsUseAndKeptAfterIt(t *testing.T) {
	p := newPublicSide(t)
	_, header := p.get("/oauth2/jwks")
	maxAge := maxAgeOf(t, header)
	schedule := p.kit.Directory.Schedule
	old := p.signedBy()
	before := kids(p.keySet())

	records, err := directory.RotateKeys(t.Context(), p.kit.Engine, p.kit.KEK, schedule, directory.Rotation{Purposes: []keys.Purpose{keys.ES256}}, p.now)
	if err != nil {
		t.Fatal(err)
	}
	p.advance(0)
	next := records[0].ID.String()
	if set := kids(p.keySet()); !slices.Contains(set, next) || !slices.Contains(set, old) || len(set) != len(before)+1 {
		t.Fatalf("published: %v; it was %v, and %s is to come", set, before, next)
	}
	if _, h := p.get("/oauth2/jwks"); h.Get("Etag") == header.Get("Etag") {
		t.Error("another set has the same ETag")
	}
	published := p.now()
	for p.signedBy() == old {
		p.advance(5 * time.Second)
	}
	if waited := p.now().Sub(published); waited < maxAge {
		t.Errorf("used %s after its publication; a set may be kept for %s", waited, maxAge)
	}
	if by := p.signedBy(); by != next {
		t.Errorf("signed by %s, want %s", by, next)
	}
	retired := p.now()
	for slices.Contains(kids(p.keySet()), old) {
		if p.now().Sub(retired) > time.Hour {
			t.Fatal("a key without valid signatures stays published for ever")
		}
		p.advance(5 * time.Second)
	}
	if kept, least := p.now().Sub(retired), maxAge+p.kit.Policy.AccessLifetime; kept < least {
		t.Errorf("withdrawn %s after its last use; what it signed lives for %s, in caches of %s", kept, p.kit.Policy.AccessLifetime, maxAge)
	}
	if resp := p.do("GET", "/oauth2/jwks/"+old+".pem"); resp.StatusCode != 404 {
		t.Errorf("the PEM of a key that is gone: %d", resp.StatusCode)
	}
}

func maxAgeOf(t *testing.T, h http.Header) time.Duration {
	t.Helper()
	m := regexp.MustCompile(`max-age=(\d+)`).FindStringSubmatch(h.Get("Cache-Control"))
	if m == nil {
		t.Fatalf("Cache-Control %q", h.Get("Cache-Control"))
	}
	seconds, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds) * time.Second
}

func TestEachKeyOfTheSetIsThereInPEM(t *testing.T) {
	p := newPublicSide(t)
	set := p.keySet()
	if len(set.Keys) != 2 {
		t.Fatalf("%d keys", len(set.Keys))
	}
	for _, k := range set.Keys {
		body, _ := p.get("/oauth2/jwks/" + k.KeyID + ".pem")
		block, rest := pem.Decode([]byte(body))
		if block == nil || block.Type != "PUBLIC KEY" || len(rest) != 0 {
			t.Fatalf("%s: not one PEM block", k.Algorithm)
		}
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil || !reflect.DeepEqual(public, k.Key) {
			t.Errorf("%s: another key, %v", k.Algorithm, err)
		}
		if same, _ := p.get("/oauth2/api/jwks/" + k.KeyID + ".pem"); same != body {
			t.Errorf("%s: another file where the path names the realm", k.Algorithm)
		}
	}
	for _, name := range []string{"00000000.pem", set.Keys[0].KeyID, set.Keys[0].KeyID + ".PEM", set.Keys[0].KeyID + ".pem.pem", ".pem", "x", "x.pem/y"} {
		if resp := p.do("GET", "/oauth2/jwks/"+name); resp.StatusCode != 404 || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
}

// MAC, sealing and pepper keys are in the same ring, and must never be published.
func TestMD24_NoOtherKeyOfTheRingIsPublished(t *testing.T) {
	p := newPublicSide(t)
	ch, err := p.kit.Engine.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	set := kids(p.keySet())
	secret := 0
	for _, k := range ch.Keys {
		if k.Purpose.Signs() {
			continue
		}
		secret++
		if slices.Contains(set, k.ID.String()) {
			t.Errorf("the set has the %s key", k.Purpose)
		}
		if resp := p.do("GET", "/oauth2/jwks/"+k.ID.String()+".pem"); resp.StatusCode != 404 {
			t.Errorf("the PEM of the %s key: %d", k.Purpose, resp.StatusCode)
		}
	}
	if secret < 3 {
		t.Fatalf("%d secret keys", secret)
	}
}
