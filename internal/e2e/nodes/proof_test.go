//go:build e2e

package nodes

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/testkit"
)

// TestOneProofOnTwoNodesIsUsedOnce sends each request with its proof several times to both
// nodes simultaneously, where proofs must contain a nonce (RFC 9449 section 11.1).
func TestOneProofOnTwoNodesIsUsedOnce(t *testing.T) {
	t.Parallel()
	nodes := start(t, 2, "--authorization-dpop-nonce", "all")
	address, _, _ := strings.Cut(nodes[0].TokenEndpoint, "?")
	key := testkit.NewProver(t)
	web := make([]*http.Client, len(nodes))
	for i, n := range nodes {
		web[i] = &http.Client{Transport: n.Transport(t, ""), Timeout: 20 * time.Second}
	}
	proof := func(nonce string) string {
		return key.Proof("POST", address, "", time.Now(), testkit.WithNonce(nonce))
	}
	code := nodes[0].ExchangeForm(nodes[0].Code(t, "alice"))
	a, err := nodes[0].PostProven(t.Context(), web[0], code, proof(""))
	if err != nil || a.Error != "use_dpop_nonce" || a.Nonce == "" {
		t.Fatalf("%v, %d %s", err, a.Status, a.Error)
	}
	pair, err := nodes[1].PostProven(t.Context(), web[1], code, proof(a.Nonce)) // a nonce of the other node
	if err != nil || pair.TokenType != "DPoP" {
		t.Fatalf("%v, %d %s", err, pair.Status, pair.Error)
	}
	for range 8 {
		form, once := nodes[0].RefreshForm(pair.RefreshToken), proof(pair.Nonce)
		var mu sync.Mutex
		var all sync.WaitGroup
		answers := map[string]int{}
		for i := range 6 {
			all.Go(func() {
				a, err := nodes[i%2].PostProven(t.Context(), web[i%2], form, once)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				answers[fmt.Sprint(a.Status, " ", a.Error)]++
				if a.Status == http.StatusOK {
					pair = a
				}
			})
		}
		all.Wait()
		if answers["200 "] != 1 || answers["400 invalid_dpop_proof"] != 5 {
			t.Errorf("one proof, sent 6 times to 2 nodes: %v", answers)
		}
	}
}
