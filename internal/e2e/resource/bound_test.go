//go:build e2e

package resource

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/testkit"
)

// bound redeems a code of alice for a token that is bound to a DPoP key.
func bound(t *testing.T, s *binary.Server, post *http.Client, c client, p *testkit.Prover, scope string) string {
	t.Helper()
	code := s.Code(t, "alice", "--client", c.ID, "--redirect-uri", redirect, "--scope", scope)
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "client_id": {c.ID}, "client_secret": {c.Secret}}
	address, _, _ := strings.Cut(s.TokenEndpoint, "?")
	a, err := s.PostProven(t.Context(), post, form, p.Proof("POST", address, "", time.Now()))
	if err != nil || a.TokenType != "DPoP" {
		t.Fatalf("%v, status %d, %s, token type %q", err, a.Status, a.Error, a.TokenType)
	}
	s.Leaks.Know("access token", a.AccessToken)
	s.Leaks.Know("refresh token", a.RefreshToken)
	return a.AccessToken
}

// checkBound sends a key-bound token to a front, with valid and invalid proofs.
func (f *front) checkBound(t *testing.T, w *world, c client) {
	p, thief := testkit.NewProver(t), testkit.NewProver(t)
	token := bound(t, w.Server, w.post, c, p, "read")
	const path = "/reports/7"
	prove := func(p *testkit.Prover, method, address, of string) string {
		return p.Proof(method, address, of, time.Now())
	}
	good := func() string { return prove(p, "GET", audience+path, token) }
	ask := func(scheme string, proofs ...string) outcome {
		header := []string{"Authorization", scheme + " " + token}
		for _, proof := range proofs {
			header = append(header, "DPoP", proof)
		}
		return f.ask(t, "GET", path+"?month=5", "", header...)
	}
	once := good()
	o := ask("DPoP", once)
	if f.wantGood(t, o, c, "read"); o.seen != nil && (len(o.seen.Header["Dpop"]) > 0 || o.seen.URI != path+"?month=5") {
		t.Errorf("the API receives %s with %d proofs", o.seen.URI, len(o.seen.Header["Dpop"]))
	}
	for name, x := range map[string]struct {
		scheme, code string
		proofs       []string
	}{
		"as Bearer":               {"Bearer", "invalid_token", nil},
		"as Bearer, with a proof": {"Bearer", "invalid_token", []string{good()}},
		"no proof":                {"DPoP", "invalid_dpop_proof", nil},
		"again":                   {"DPoP", "invalid_dpop_proof", []string{once}},
		"another key":             {"DPoP", "invalid_token", []string{prove(thief, "GET", audience+path, token)}},
		"another method":          {"DPoP", "invalid_dpop_proof", []string{prove(p, "POST", audience+path, token)}},
		"another path":            {"DPoP", "invalid_dpop_proof", []string{prove(p, "GET", audience+"/reports/8", token)}},
		"the server's address":    {"DPoP", "invalid_dpop_proof", []string{prove(p, "GET", "https://auth.example.com/oauth2/verify", token)}},
		"another token":           {"DPoP", "invalid_dpop_proof", []string{prove(p, "GET", audience+path, token+"x")}},
	} {
		o := ask(x.scheme, x.proofs...)
		if o.seen != nil || o.status != http.StatusUnauthorized || !strings.HasPrefix(o.challenge, `DPoP realm="/api", algs="ES256 EdDSA PS256", error="`+x.code+`"`) {
			t.Errorf("%s: status %d, challenge %q, API reached: %t", name, o.status, o.challenge, o.seen != nil)
		}
	}
	// A client cannot override the method and URI of its own request by headers.
	o = f.ask(t, "GET", path, "", "Authorization", "DPoP "+token, "DPoP", prove(p, "POST", audience+"/transfers", token),
		"X-Original-Method", "POST", "X-Original-Uri", "/transfers", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/transfers")
	if o.seen != nil || o.status/100 != 4 {
		t.Errorf("another request in headers: status %d, API reached: %t", o.status, o.seen != nil)
	}
	// The required scope applies as for unbound tokens.
	o = f.ask(t, "POST", path, "", "Authorization", "DPoP "+token, "DPoP", prove(p, "POST", audience+path, token))
	if o.seen != nil || o.status != http.StatusForbidden || !strings.Contains(o.challenge, `error="insufficient_scope"`) {
		t.Errorf("without the scope: status %d, challenge %q", o.status, o.challenge)
	}
}
