//go:build e2e

package clients

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A job is the input of a program in js.
type job struct {
	Issuer        string `json:"issuer"`
	TokenEndpoint string `json:"token_endpoint"`
	ClientID      string `json:"client_id"`
	ClientSecret  string `json:"client_secret,omitempty"`
	AuthMethod    string `json:"auth_method"`
	RedirectURI   string `json:"redirect_uri"`
	CallbackURL   string `json:"callback_url"`
	Verifier      string `json:"code_verifier,omitempty"`
	WrongVerifier string `json:"wrong_verifier,omitempty"`
	WrongSecret   string `json:"wrong_secret,omitempty"`
}

// A pair is a successful token response as the library returns it.
type pair struct {
	Scope        string `json:"scope"`
	ExpiresIn    int    `json:"expires_in"`
	TokenType    string `json:"token_type"`
	RefreshToken string `json:"refresh_token"`
	AccessToken  string `json:"access_token"`
}

// A refusal is an error as the library returns it.
type refusal struct {
	Status      int    `json:"status"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
	Challenge   string `json:"challenge"`
	Realm       string `json:"realm"`
}

// A report is what a program prints.
type report struct {
	WrongVerifier *refusal `json:"wrong_verifier"`
	WrongSecret   *refusal `json:"wrong_secret"`
	Exchanged     pair     `json:"exchanged"`
	Refreshed     pair     `json:"refreshed"`
	Repeated      pair     `json:"repeated"`
	Again         pair     `json:"again"`
	Replayed      refusal  `json:"replayed"`
	Dead          refusal  `json:"dead"`
}

var libraries = []string{"openid-client", "oauth4webapi"}

// install puts the pinned versions into js/node_modules, if they are not there.
func install(t *testing.T) {
	t.Helper()
	if !installed(t) {
		cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
		cmd.Dir = "js"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	if !installed(t) {
		t.Fatal("npm ci has not installed the versions that js/package.json names")
	}
}

func installed(t *testing.T) bool {
	t.Helper()
	var want struct {
		Dependencies    map[string]string `json:"dependencies"`
		DevDependencies map[string]string `json:"devDependencies"`
	}
	readJSON(t, filepath.Join("js", "package.json"), &want)
	maps.Copy(want.Dependencies, want.DevDependencies)
	for name, version := range want.Dependencies {
		var got struct {
			Version string `json:"version"`
		}
		file := filepath.Join("js", "node_modules", name, "package.json")
		if _, err := os.Stat(file); err != nil {
			return false
		}
		readJSON(t, file, &got)
		if got.Version != version {
			return false
		}
	}
	return true
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// run passes j to the program of a library. Node trusts the server's authority in
// addition to its own.
func run(t *testing.T, s *binary.Server, library string, j job) report {
	t.Helper()
	in, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "node", library+".mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = "js", bytes.NewReader(in), &stderr
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+s.CAFile)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node %s.mjs: %v\n%s", library, err, &stderr)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("node %s.mjs: %v", library, err)
	}
	return r
}

func TestNodeLibrariesLiveAGrant(t *testing.T) {
	install(t)
	s := binary.Start(t, t.TempDir())
	clients := map[string]registered{
		"client_secret_post":            demo(s),
		"client_secret_basic":           demo(s),
		"client_secret_post, imported":  register(t, s, importedSecret, "--id", "imported.post", "--secret-stdin", "--auth-method", "post"),
		"client_secret_basic, imported": register(t, s, importedSecret, "--id", "imported:basic", "--secret-stdin", "--auth-method", "basic"),
		"none":                          register(t, s, "", "--public"),
	}
	for _, library := range libraries {
		for name, c := range clients {
			for _, pkce := range []string{"no pkce", "pkce"} {
				method, _, _ := strings.Cut(name, ",")
				if method == "none" && pkce == "no pkce" {
					continue // the server issues no code for it: internal/cli/testdata/code.txtar
				}
				t.Run(library+"/"+name+"/"+pkce, func(t *testing.T) {
					t.Parallel()
					j := job{Issuer: s.Issuer, TokenEndpoint: s.TokenEndpoint, ClientID: c.id, ClientSecret: c.secret, AuthMethod: method, RedirectURI: c.redirect}
					args := []string{"--callback"}
					if pkce == "pkce" {
						j.Verifier, j.WrongVerifier = oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
						args = append(args, "--code-challenge", oauth2.S256ChallengeFromVerifier(j.Verifier))
					}
					if method != "none" {
						j.WrongSecret = "not the secret"
					}
					j.CallbackURL = code(t, s, c, args...)
					r := run(t, s, library, j)
					r.check(t)
					r.checkRefusals(t, j)
				})
			}
		}
	}
}

func TestNodeLibrariesReachEveryAddress(t *testing.T) {
	install(t)
	s := binary.Start(t, t.TempDir())
	for _, library := range libraries {
		for where, address := range addresses(s) {
			t.Run(library+"/"+where, func(t *testing.T) {
				t.Parallel()
				c := demo(s)
				run(t, s, library, job{
					Issuer: s.Issuer, TokenEndpoint: address, ClientID: c.id, ClientSecret: c.secret,
					AuthMethod: "client_secret_post", RedirectURI: c.redirect, CallbackURL: code(t, s, c, "--callback"),
				}).check(t)
			})
		}
	}
}

// check checks what every test of a grant has in common.
func (r report) check(t *testing.T) {
	t.Helper()
	for name, p := range map[string]pair{"exchanged": r.Exchanged, "refreshed": r.Refreshed, "repeated": r.Repeated, "again": r.Again} {
		// openid-client and oauth4webapi lower-case the token type.
		if p.Scope != "read write" || p.TokenType != "bearer" || p.ExpiresIn < 295 || p.ExpiresIn > 300 ||
			!strings.HasPrefix(p.AccessToken, "mintage_at_") || !strings.HasPrefix(p.RefreshToken, "mintage_rt_") {
			t.Errorf("%s: scope %q, token_type %q, expires_in %d and tokens of %d and %d characters; want read write, bearer, 300 and two tokens with their prefixes",
				name, p.Scope, p.TokenType, p.ExpiresIn, len(p.AccessToken), len(p.RefreshToken))
		}
	}
	if r.Refreshed.AccessToken == r.Exchanged.AccessToken || r.Refreshed.RefreshToken == r.Exchanged.RefreshToken {
		t.Error("a refresh must bring two new tokens")
	}
	if r.Repeated.AccessToken != r.Refreshed.AccessToken || r.Repeated.RefreshToken != r.Refreshed.RefreshToken {
		t.Error("a repeated refresh must bring the same pair")
	}
	if r.Again.RefreshToken == r.Refreshed.RefreshToken {
		t.Error("the second refresh must bring a new token")
	}
	dead := refusal{Status: 400, Error: "invalid_grant", Description: "grant is invalid"}
	if r.Replayed != dead {
		t.Errorf("a replayed refresh token is refused with %+v, want %+v", r.Replayed, dead)
	}
	if r.Dead != dead {
		t.Errorf("a refresh token after a replay in its family is refused with %+v, want %+v", r.Dead, dead)
	}
}

func (r report) checkRefusals(t *testing.T, j job) {
	t.Helper()
	if want := (refusal{Status: 400, Error: "invalid_grant", Description: "grant is invalid"}); j.WrongVerifier != "" && (r.WrongVerifier == nil || *r.WrongVerifier != want) {
		t.Errorf("a wrong verifier is refused with %+v, want %+v", r.WrongVerifier, want)
	}
	want := refusal{Status: 400, Error: "invalid_client", Description: "client authentication failed"}
	if j.AuthMethod == "client_secret_basic" {
		// RFC 6749 section 5.2: 401 with a challenge, because a header was sent.
		want = refusal{Status: 401, Challenge: "basic", Realm: "/api"}
	}
	if j.WrongSecret != "" && (r.WrongSecret == nil || *r.WrongSecret != want) {
		t.Errorf("a wrong secret is refused with %+v, want %+v", r.WrongSecret, want)
	}
}
