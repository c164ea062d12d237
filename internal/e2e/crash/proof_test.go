//go:build e2e

package crash

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/testkit"
)

// TestAProofFromBeforeARestartIsOfNoUse repeats a request with its proof after the server was
// killed, where proofs must contain a nonce.
func TestAProofFromBeforeARestartIsOfNoUse(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *binary.Server, _ ...string) {
		web := &http.Client{Transport: s.Transport(t, ""), Timeout: 20 * time.Second}
		address, _, _ := strings.Cut(s.TokenEndpoint, "?")
		key := testkit.NewProver(t)
		proof := func(nonce string) string {
			return key.Proof("POST", address, "", time.Now(), testkit.WithNonce(nonce))
		}
		code := s.ExchangeForm(s.Code(t, "alice"))
		a, err := s.PostProven(t.Context(), web, code, proof(""))
		if err != nil || a.Error != "use_dpop_nonce" {
			t.Fatalf("%v, %d %s", err, a.Status, a.Error)
		}
		used := proof(a.Nonce)
		pair, err := s.PostProven(t.Context(), web, code, used)
		if err != nil || pair.TokenType != "DPoP" {
			t.Fatalf("%v, %d %s", err, pair.Status, pair.Error)
		}
		s.Kill()
		if err := s.Restart(t); err != nil {
			t.Fatal(err)
		}
		form := s.RefreshForm(pair.RefreshToken)
		a, err = s.PostProven(t.Context(), web, form, used)
		if err != nil || a.Status != http.StatusBadRequest {
			t.Errorf("the proof again: %v, %d %s", err, a.Status, a.Error)
		}
		if a, err = s.PostProven(t.Context(), web, form, proof(a.Nonce)); err != nil || a.TokenType != "DPoP" {
			t.Errorf("a new proof: %v, %d %s", err, a.Status, a.Error)
		}
	}, "--authorization-dpop-nonce", "all")
}
