//go:build e2e

package clients

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A boundReport is the last output of proofs.mjs. The libraries lower-case token types.
type boundReport struct {
	Types         []string `json:"types"`
	RefreshTokens []string `json:"refreshTokens"`
	AccessToken   string   `json:"accessToken"`
	Subject       string   `json:"subject"`
	Thief         string   `json:"thief"` // a refresh with another key: the error, or the token type
}

// TestLibrariesGetTokensThatAreBoundToAKey configures unmodified libraries with the
// issuer, the client's id and its key. They push their request, prove possession of a
// DPoP key, redeem the code, refresh and read userinfo: with and without nonces, as a
// public client, with client assertions, and by the FAPI 2.0 Security Profile.
func TestLibrariesGetTokensThatAreBoundToAKey(t *testing.T) {
	install(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := publicKeys(t, key.Public())
	private, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: "k1", Algorithm: "ES256"})
	if err != nil {
		t.Fatal(err)
	}
	for _, nonces := range []string{"off", "all"} {
		s := binary.Start(t, t.TempDir(), "--authorization-dpop-nonce", nonces)
		withUser(t, s)
		for name, flags := range map[string][]string{
			"public":          {"--public", "--dpop", "required", "--require-par"},
			"private_key_jwt": {"--auth-method", "private_key_jwt", "--jwks", keys},
			"fapi2":           {"--profile", "fapi2", "--jwks", keys},
		} {
			s.Run(t, append([]string{"client", "create", "--id", name, "--name", name, "--redirect-uri", redirect, "--scope", "openid read"}, flags...)...)
			for _, library := range libraries {
				t.Run(library+"/"+name+"/nonces "+nonces, func(t *testing.T) {
					job := map[string]any{"library": library, "issuer": s.Issuer, "client_id": name, "redirect_uri": redirect, "scope": "openid read"}
					if name != "public" {
						job["jwk"] = json.RawMessage(private)
					}
					checkBound(t, name, liveBound(t, s, job))
				})
			}
		}
	}
}

func checkBound(t *testing.T, name string, r boundReport) {
	t.Helper()
	if !slices.Equal(r.Types, []string{"dpop", "dpop"}) || r.Subject != "alice" || !strings.HasPrefix(r.AccessToken, "mintage_at_") {
		t.Errorf("token types %v, userinfo about %q", r.Types, r.Subject)
	}
	// Refresh tokens of confidential clients are bound to the client, which may change
	// its key (RFC 9449 section 5).
	thief := map[string]string{"public": "invalid_grant"}[name]
	if thief == "" {
		thief = "dpop"
	}
	if r.Thief != thief {
		t.Errorf("a refresh by another key: %s, not %s", r.Thief, thief)
	}
	if same := r.RefreshTokens[0] == r.RefreshTokens[1]; same != (name == "fapi2") {
		t.Errorf("a refresh returned the same refresh token: %t", same)
	}
}

// liveBound passes a job to proofs.mjs, and opens in a browser the address that the
// program prints.
func liveBound(t *testing.T, s *binary.Server, job map[string]any) (r boundReport) {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "node", "proofs.mjs", string(text))
	cmd.Dir, cmd.Stderr = "js", &stderr
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+s.CAFile)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "https://") {
			fmt.Fprintln(in, allowInBrowser(t, s, lines.Text()))
		} else if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Errorf("%v in %q", err, lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("node proofs.mjs: %v\n%s", err, &stderr)
	}
	s.Leaks.Know("access token", r.AccessToken)
	s.Leaks.Know("refresh token", r.RefreshTokens...)
	return r
}

const password = "Correct-Horse-1 with a key"

// withUser creates the user alice with a password.
func withUser(t *testing.T, s *binary.Server) {
	t.Helper()
	add := binary.Command(t, "user", "create", "alice", "--data", s.Dir, "--password-stdin")
	add.Stdin = strings.NewReader(password)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)

// allowInBrowser signs alice in at an address and approves the request. It returns the
// client's callback address to which the browser is redirected.
func allowInBrowser(t *testing.T, s *binary.Server, address string) (callback string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: s.Transport(t, ""), CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirect) {
			callback = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	for range 4 {
		if err != nil {
			t.Fatal(err)
		}
		res, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode >= 400 {
			t.Fatalf("status %d, %v:\n%s", res.StatusCode, err, body)
		}
		if callback != "" {
			return callback
		}
		form := url.Values{"username": {"alice"}, "password": {password}}
		if strings.Contains(string(body), `name="decision"`) {
			form = url.Values{"decision": {"allow"}}
		}
		for _, m := range hiddenField.FindAllStringSubmatch(string(body), -1) {
			form.Set(m[1], m[2])
		}
		at := res.Request.URL
		r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, at.Scheme+"://"+at.Host+"/oauth2/interaction", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", at.Scheme+"://"+at.Host)
	}
	t.Fatal("the login does not end")
	return ""
}
