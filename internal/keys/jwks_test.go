package keys_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

// fourKeys returns a ring with the frozen ES256 key and three successor keys, an hour
// apart.
func fourKeys(t *testing.T) (*keys.Ring, []grant.KeyID) {
	t.Helper()
	ids := []grant.KeyID{signingRecords(t, keys.ES256)[0].ID}
	var followers []keys.Stored
	for i := range 3 {
		followers = append(followers, newKey(t, parseKEK(t, frozenKEK), keys.ES256, frozenAt+grant.Instant(i+1)*3600_000))
		ids = append(ids, followers[i].ID)
	}
	return signingRing(t, followers, keys.SigningAlgorithms...), ids
}

func kids(set []jose.JSONWebKey) (list []string) {
	for _, k := range set {
		list = append(list, k.KeyID)
	}
	return list
}

func TestJWKSHoldsWhatIsNextActiveAndRetired(t *testing.T) {
	r, es := fourKeys(t)
	others := []string{r.Current(keys.EdDSA, frozenAt).String(), r.Current(keys.RS256, frozenAt).String()}
	const hour = 3600_000
	for _, tt := range []struct {
		name string
		now  grant.Instant
		want []grant.KeyID // of ES256: the active one, and then the newest first
	}{
		{"before the first, for a clock behind", 0, []grant.KeyID{es[0], es[3], es[2], es[1]}},
		{"first", frozenAt, []grant.KeyID{es[0], es[3], es[2], es[1]}},
		{"second", frozenAt + hour, []grant.KeyID{es[1], es[3], es[2], es[0]}},
		{"the first one's last moment", frozenAt + 2*hour, []grant.KeyID{es[2], es[3], es[1], es[0]}},
		{"the first one is gone", frozenAt + 2*hour + 1, []grant.KeyID{es[2], es[3], es[1]}},
		{"long after", frozenAt + 100*hour, []grant.KeyID{es[3]}},
	} {
		var want []string
		for _, id := range tt.want {
			want = append(want, id.String())
		}
		want = append(want, others...)
		if got := kids(r.JWKS(tt.now, noRotation)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
		// PublicPEM has the same keys, and no others.
		for _, id := range es {
			if _, found := r.PublicPEM(id.String(), tt.now, noRotation); found != slices.Contains(want, id.String()) {
				t.Errorf("%s: PEM of %s: %t", tt.name, id, found)
			}
		}
	}
}

func TestJWKSIsPublicAndComplete(t *testing.T) {
	r := signingRing(t, nil, keys.SigningAlgorithms...)
	set := r.JWKS(frozenAt, noRotation)
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: set})
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Keys []map[string]string }
	if err := json.Unmarshal(text, &read); err != nil || len(read.Keys) != len(keys.SigningAlgorithms) {
		t.Fatalf("%d keys, %v", len(read.Keys), err)
	}
	for i, want := range []map[string]string{
		{"alg": "ES256", "kty": "EC", "crv": "P-256", "use": "sig"},
		{"alg": "EdDSA", "kty": "OKP", "crv": "Ed25519", "use": "sig"},
		{"alg": "RS256", "kty": "RSA", "use": "sig"},
	} {
		k := read.Keys[i]
		for name, value := range want {
			if k[name] != value {
				t.Errorf("%s: %s is %q", want["alg"], name, k[name])
			}
		}
		for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
			if _, there := k[private]; there {
				t.Errorf("%s: the private member %q is published", want["alg"], private)
			}
		}
		if !set[i].IsPublic() || !set[i].Valid() || k["kid"] != set[i].KeyID {
			t.Errorf("%s: not a public key with its kid", want["alg"])
		}
	}
	if got := signingRing(t, nil).JWKS(frozenAt, noRotation); got == nil || len(got) != 0 {
		t.Errorf("without signing keys: %v; want an empty list, which is written []", got)
	}
}

func TestPublicPEM(t *testing.T) {
	r := signingRing(t, nil, keys.SigningAlgorithms...)
	for _, k := range r.JWKS(frozenAt, noRotation) {
		text, found := r.PublicPEM(k.KeyID, frozenAt, noRotation)
		block, rest := pem.Decode(text)
		if !found || block == nil || block.Type != "PUBLIC KEY" || len(rest) != 0 {
			t.Fatalf("%s: not one PEM block", k.Algorithm)
		}
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		equal := false
		switch p := public.(type) {
		case *ecdsa.PublicKey:
			equal = p.Equal(k.Key)
		case ed25519.PublicKey:
			equal = p.Equal(k.Key)
		case *rsa.PublicKey:
			equal = p.Equal(k.Key)
		}
		if !equal {
			t.Errorf("%s: not the key of the set", k.Algorithm)
		}
	}
	es := r.Current(keys.ES256, frozenAt).String()
	for _, kid := range []string{
		"", "0", "00000000", frozenMAC.String(), frozenSeal.String(), frozenPepper.String(),
		strings.ToUpper(es), "0x" + es, es + " ", " " + es, es + ".pem", es[1:], fmt.Sprintf("%010s", es), "../" + es, "zzzzzzzz",
	} {
		if text, found := r.PublicPEM(kid, frozenAt, noRotation); found || text != nil {
			t.Errorf("there is a PEM of %q", kid)
		}
	}
}
