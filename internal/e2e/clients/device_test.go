//go:build e2e

package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestSignInFromATerminal runs the unchanged programs of sign-in-from-a-terminal.md: a
// shell script, and golang.org/x/oauth2 without an AuthStyle, which sends each poll in
// two forms.
func TestSignInFromATerminal(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/sign-in-from-a-terminal.md")
	if err != nil {
		t.Fatal(err)
	}
	s := binary.Start(t, t.TempDir())
	s.Run(t, "client", "create", "--data", s.Dir, "--name", "Example CLI", "--id", "example-cli", "--public", "--grant-types", "device_code,refresh_token", "--scope", "read write")
	user := s.DeviceUser(t, "alice")
	dir := t.TempDir()
	block := func(language, begins string) string {
		t.Helper()
		m := regexp.MustCompile("(?s)```" + language + "\n(" + regexp.QuoteMeta(begins) + ".*?)```").FindSubmatch(page)
		if m == nil {
			t.Fatalf("the page has no block of %s that begins with %s", language, begins)
		}
		return string(m[1])
	}
	// In a directory of this module, so that the program uses the library version of
	// go.mod.
	source, err := os.MkdirTemp(".", "terminal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(source) })
	file := filepath.Join(source, "main.go")
	if err := os.WriteFile(file, []byte(block("go", "package main")), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "terminal")
	if out, err := exec.Command("go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, cmd := range map[string]*exec.Cmd{
		"Go":    exec.Command(program, s.Issuer, "example-cli"),
		"shell": exec.Command("sh", "-c", block("sh", "field()")),
	} {
		t.Run(name, func(t *testing.T) {
			cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+s.CAFile, "CA="+s.CAFile, "ISSUER="+s.Issuer, "CLIENT=example-cli")
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			m := regexp.MustCompile(`^Open (\S+) and enter (\S+)$`).FindStringSubmatch(lines.Text())
			if m == nil {
				t.Fatalf("the program prints %q", lines.Text())
			}
			if err := user.Allow(m[1], m[2]); err != nil {
				t.Fatal(err)
			}
			lines.Scan()
			last := lines.Text()
			if err := cmd.Wait(); err != nil || !strings.HasPrefix(last, "signed in until") && !strings.HasPrefix(last, "mintage_at_") {
				t.Errorf("%v: the program ends with %q", err, last)
			}
			s.Leaks.Know("access token", strings.TrimPrefix(last, "signed in until"))
		})
	}
}

// deviceClients returns clients for the device grant, by their authentication method.
func deviceClients(t *testing.T, s *binary.Server) map[string]registered {
	t.Helper()
	grants := []string{"--grant-types", "device_code,refresh_token", "--scope", "openid read"}
	return map[string]registered{
		"none":                register(t, s, "", append(grants, "--public")...),
		"client_secret_basic": register(t, s, "", append(grants, "--auth-method", "basic")...),
		"client_secret_post":  register(t, s, "", append(grants, "--auth-method", "post")...),
	}
}

// TestNodeLibrariesSignInADevice performs the device grant with each library as its
// documentation shows it: discovery, codes, polls until the user approves, signature of
// the id_token, and a refresh.
func TestNodeLibrariesSignInADevice(t *testing.T) {
	install(t)
	s := binary.Start(t, t.TempDir())
	user := s.DeviceUser(t, "alice")
	for method, c := range deviceClients(t, s) {
		for _, library := range libraries {
			t.Run(library+"/"+method, func(t *testing.T) {
				in, err := json.Marshal(map[string]string{
					"library": library, "issuer": s.Issuer, "client_id": c.id, "client_secret": c.secret, "auth_method": method, "scope": "openid read",
				})
				if err != nil {
					t.Fatal(err)
				}
				var stderr bytes.Buffer
				cmd := exec.CommandContext(t.Context(), "node", "device.mjs")
				cmd.Dir, cmd.Stdin, cmd.Stderr = "js", bytes.NewReader(in), &stderr
				cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+s.CAFile)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				said := json.NewDecoder(out)
				var codes binary.Device
				if err := said.Decode(&codes); err != nil {
					cmd.Wait()
					t.Fatalf("%v\n%s", err, &stderr)
				}
				if err := user.Allow(codes.Page, codes.UserCode); err != nil {
					t.Error(err)
				}
				var got struct {
					Subject   string `json:"sub"`
					Token     string `json:"access_token"`
					Refreshed string `json:"refreshed"`
					Scope     string `json:"scope"`
				}
				err = said.Decode(&got)
				if wait := cmd.Wait(); err != nil || wait != nil {
					t.Fatalf("%v, %v\n%s", err, wait, &stderr)
				}
				if got.Subject == "" || got.Scope != "openid read" || !strings.HasPrefix(got.Token, "mintage_at_") || !strings.HasPrefix(got.Refreshed, "mintage_at_") || got.Token == got.Refreshed {
					t.Errorf("the program got %+v", got)
				}
				s.Leaks.Know("access token", got.Token, got.Refreshed)
			})
		}
	}
}

// TestOAuth2LibrarySignsInADevice uses golang.org/x/oauth2 without an AuthStyle. The
// library requests codes without the client's secret, unless the program adds the line
// that the error description shows; it sends each poll in two forms.
func TestOAuth2LibrarySignsInADevice(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	user := s.DeviceUser(t, "alice")
	for method, c := range deviceClients(t, s) {
		t.Run(method, func(t *testing.T) {
			conf, ctx, n := library(t, s, c, s.TokenEndpoint, oauth2.AuthStyleAutoDetect)
			conf.Endpoint.DeviceAuthURL, conf.Scopes = s.Issuer+"/device_authorization", []string{"openid", "read"}
			var remedy []oauth2.AuthCodeOption
			if c.secret != "" {
				_, err := conf.DeviceAuth(ctx)
				var refused *oauth2.RetrieveError
				if !errors.As(err, &refused) || refused.ErrorCode != "invalid_client" || !strings.Contains(refused.ErrorDescription, "SetAuthURLParam of client_secret") {
					t.Errorf("without the secret: %v", err)
				}
				remedy = append(remedy, oauth2.SetAuthURLParam("client_secret", conf.ClientSecret))
			}
			codes, err := conf.DeviceAuth(ctx, remedy...)
			if err != nil {
				if method != "client_secret_basic" {
					t.Fatal(err)
				}
				return // the library never sends the header here: such a client registers "either" or "post"
			}
			s.Leaks.Know("device code", codes.DeviceCode)
			before := n.requests.Load()
			allowed := make(chan error, 1)
			n.RoundTripper = afterPolls{n.RoundTripper, n, before + 2, func() { allowed <- user.Allow(codes.VerificationURI, codes.UserCode) }}
			token, err := conf.DeviceAccessToken(ctx, codes)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-allowed; err != nil {
				t.Fatal(err)
			}
			if !token.Valid() || token.RefreshToken == "" {
				t.Error("the library reports an invalid token")
			}
		})
	}
}

// afterPolls calls then after a number of requests; until then, the polls are pending.
type afterPolls struct {
	http.RoundTripper
	n    *counter
	most int64
	then func()
}

func (a afterPolls) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := a.RoundTripper.RoundTrip(r)
	if a.n.requests.Load() == a.most {
		body, read := io.ReadAll(res.Body)
		if read != nil {
			return nil, read
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
		a.then()
	}
	return res, err
}
