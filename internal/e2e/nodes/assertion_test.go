//go:build e2e

package nodes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// TestOneAssertionOnTwoNodesIsUsedOnce sends each client assertion several times to both
// nodes simultaneously (RFC 7523 section 3, item 7).
func TestOneAssertionOnTwoNodesIsUsedOnce(t *testing.T) {
	t.Parallel()
	nodes := start(t, 2)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, set, 0o600); err != nil {
		t.Fatal(err)
	}
	nodes[0].Run(t, "client", "create", "--id", "orders", "--name", "Orders", "--grant-types", "client_credentials", "--scope", "read",
		"--auth-method", "private_key_jwt", "--jwks", file)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	form := func(jti string) url.Values {
		now := time.Now().Unix()
		text, err := jwt.Signed(signer).Claims(map[string]any{"iss": "orders", "sub": "orders", "aud": nodes[0].Issuer, "jti": jti, "iat": now, "exp": now + 60}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return url.Values{"grant_type": {"client_credentials"}, "client_id": {"orders"}, "client_assertion": {text}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}}
	}
	web := make([]*http.Client, len(nodes))
	for i, n := range nodes {
		web[i] = &http.Client{Transport: n.Transport(t, ""), Timeout: 20 * time.Second}
		for began, try := time.Now(), 0; ; try++ { // until the node knows the client
			a, err := n.Post(t.Context(), web[i], form(fmt.Sprintf("warm-%d-%d", i, try)))
			if err != nil {
				t.Fatal(err)
			}
			if a.Status == http.StatusOK {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("node %d: %d %s", i, a.Status, a.Error)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	for round := range 4 { // few enough failures of the client to escape the throttle
		f := form(fmt.Sprint("once-", round))
		var mu sync.Mutex
		var all sync.WaitGroup
		answers := map[string]int{}
		for i := range 6 {
			all.Go(func() {
				a, err := nodes[i%2].Post(t.Context(), web[i%2], f)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				answers[fmt.Sprint(a.Status, " ", a.Error)]++
				mu.Unlock()
			})
		}
		all.Wait()
		if answers["200 "] != 1 || answers["400 invalid_client"] != 5 {
			t.Errorf("one assertion, sent 6 times to 2 nodes: %v", answers)
		}
	}
}
