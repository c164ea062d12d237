//go:build e2e

package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A relyingParty is an application that signs its users in with OpenID Connect: a
// third-party one, or a small one over a third-party library. Its page shows the user's
// email address in #email, and links to #refresh and #logout. It has #sign-in, unless it
// redirects every visitor to the login.
type relyingParty struct {
	redirect string // the path of its redirect URI
	protects bool   // redirects every visitor to the login
	asked    bool   // sends no id_token_hint, so Mintage asks before a logout
	receives string // the path to which logout tokens go, or ""
	start    func(t *testing.T, w *world, c client, origin string)
}

var relyingParties = map[string]relyingParty{
	"go-oidc":          {redirect: "/callback", start: startSignin},
	"openid-client":    {redirect: "/callback", start: startNode("openid-client")},
	"oauth4webapi":     {redirect: "/callback", start: startNode("oauth4webapi")},
	"mod-auth-openidc": {redirect: "/oidc/callback", protects: true, receives: "/oidc/callback?logout=backchannel", start: startApache},
	"oauth2-proxy":     {redirect: "/oauth2/callback", protects: true, asked: true, start: startOAuth2Proxy},
}

// TestRelyingParties configures unmodified applications and libraries with only the
// issuer, the client's id and its secret; they read the rest from the metadata. Each
// signs a user in with a browser, reads the claims, refreshes, and signs the user out.
func TestRelyingParties(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost))
	for name, rp := range relyingParties {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			password := w.user(t, name, name)
			w.setEmail(t, name, name+"@example.com")
			address := binary.FreeAddress(t, "127.0.0.1")
			origin := "http://" + address
			register := []string{"--name", name, "--native", "--redirect-uri", origin + rp.redirect, "--post-logout-redirect-uri", origin + "/", "--scope", "openid profile email"}
			if rp.receives != "" {
				register = append(register, "--backchannel-logout-uri", origin+rp.receives)
			}
			c := w.create(t, origin+rp.redirect, register...)
			w.waitFor(t, c)
			rp.start(t, w, c, origin)

			b := newWindow(t)
			open := func() {
				b.open(origin + "/")
				if !rp.protects {
					b.click("#sign-in")
				}
			}
			open()
			b.signIn(name, password)
			b.reads("See your email address")
			b.click("#allow")
			b.reads(name + "@example.com")

			w.setEmail(t, name, "new."+name+"@example.com")
			b.wait("the claims after a refresh", func() bool {
				b.act(chromedp.Evaluate[chromedp.Void]("void (window.before = true)"))
				b.click("#refresh")
				b.until("the page that follows", "!window.before && document.readyState === 'complete' && document.querySelector('#email')")
				return b.holds(fmt.Sprintf("document.querySelector('#email').innerText.includes(%q)", "new."+name+"@example.com"))
			})
			if n := w.generation(t, name); n < 2 {
				t.Errorf("the grant is of generation %d: nothing was refreshed", n)
			}
			// The logout also ends the session at Mintage and returns to the application:
			// the next sign-in needs the password.
			b.click("#logout")
			if rp.asked {
				b.click("button#logout[value=logout]")
			}
			if !rp.protects {
				b.sees("#sign-in")
				b.click("#sign-in")
			}
			b.sees("#password")
			if b.cookie(w.origin, "__Host-mintage_session") {
				t.Error("the session's cookie is still there")
			}
			if rp.receives == "" {
				return
			}
			// A logout at Mintage notifies the application, whose own session ends.
			b.signIn(name, password)
			b.click("#allow")
			b.reads("new." + name + "@example.com")
			b.open(w.origin + "/account/logout")
			b.click("#logout")
			b.reads("You are signed out")
			b.wait("the end of the application's session", func() bool {
				b.open(origin + "/")
				return b.holds("document.querySelector('#password')")
			})
		})
	}
}

// setEmail gives a built-in user a verified email address.
func (w *world) setEmail(t *testing.T, username, address string) {
	t.Helper()
	w.Run(t, "user", "update", username, "--claim", "email="+address, "--claim", "email_verified=true")
}

// generation returns the generation of a subject's only grant.
func (w *world) generation(t *testing.T, subject string) int {
	t.Helper()
	var list []struct {
		Generation int `json:"generation"`
	}
	if err := json.Unmarshal([]byte(w.Run(t, "grant", "list", "--subject", subject, "--json")), &list); err != nil || len(list) != 1 {
		t.Fatalf("%d grants: %v", len(list), err)
	}
	return list[0].Generation
}

func secretFile(t *testing.T, c client) string {
	t.Helper()
	return writeFile(t, t.TempDir(), "secret", c.Secret)
}

func writeFile(t *testing.T, dir, name, text string) (file string) {
	t.Helper()
	file = filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// startSignin starts the program of docs/tutorials/sign-users-in.md.
func startSignin(t *testing.T, w *world, c client, origin string) {
	run(t, sampleCommand(t, "signin", "-issuer", w.Issuer, "-ca", w.CAFile, "-client-id", c.ID, "-client-secret-file", secretFile(t, c),
		"-listen", strings.TrimPrefix(origin, "http://"), "-origin", origin), "Open ")
}

// startNode returns a function that starts an application over an npm library.
func startNode(library string) func(*testing.T, *world, client, string) {
	return func(t *testing.T, w *world, c client, origin string) {
		cmd := exec.Command("node", "relying.mjs", library, w.Issuer, c.ID, c.Secret, origin)
		cmd.Dir = "../clients/js"
		cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+w.CAFile)
		run(t, cmd, "Open ")
	}
}

// shown returns the file of a how-to page with this name in its first line. pairs are
// texts to replace with this machine's addresses and paths; each must occur.
func shown(t *testing.T, page, name string, pairs ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../docs/how-to", page))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "\n# "+name+"\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !found || !closed {
		t.Fatalf("%s shows no %s", page, name)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(block, pairs[i]) {
			t.Fatalf("%s: %s has no %q", page, name, pairs[i])
		}
		block = strings.ReplaceAll(block, pairs[i], pairs[i+1])
	}
	return block + "\n"
}

// startApache runs Debian's Apache and mod_auth_openidc with the configuration of
// apache.md. Apache itself renders the page, from environment variables.
func startApache(t *testing.T, w *world, c client, origin string) {
	// Apache's workers do not run as root: they must be able to read this directory.
	dir, err := os.MkdirTemp("", "mintage-apache-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	site := shown(t, "apache.md", "/etc/apache2/conf-available/intranet.conf",
		"https://auth.example.com/oauth2/api", w.Issuer, "OIDCClientID            intranet", "OIDCClientID "+c.ID,
		"/etc/apache2/intranet-secret.conf", writeFile(t, dir, "secret.conf", `OIDCClientSecret "`+c.Secret+`"`),
		"/etc/apache2/intranet-passphrase", writeFile(t, dir, "passphrase", "a passphrase of the tests"),
		"https://intranet.example.com", origin,
		"BeforeExpiry 60", "BeforeExpiry 3600", "OIDCUserInfoRefreshInterval 300", "OIDCUserInfoRefreshInterval 1")
	authority, err := os.ReadFile(w.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "index.shtml", `<!DOCTYPE html><title>Intranet</title><p id="user"><!--#echo var="REMOTE_USER" -->
<p id="email"><!--#echo var="OIDC_CLAIM_email" --><p><a id="refresh" href="/">Refresh</a>
<a id="logout" href="/oidc/callback?logout=`+url.QueryEscape(origin+"/")+`">Sign out</a>`)
	modules := ""
	for _, name := range []string{"mpm_event", "authz_core", "authn_core", "authz_user", "dir", "include", "auth_openidc"} {
		modules += fmt.Sprintf("LoadModule %s_module /usr/lib/apache2/modules/mod_%[1]s.so\n", name)
	}
	conf := writeFile(t, dir, "httpd.conf", fmt.Sprintf(`ServerRoot %[1]s
ServerName localhost
Listen %[2]s
PidFile %[1]s/pid
ErrorLog |/bin/cat
LogLevel warn auth_openidc:info
%[3]s
DocumentRoot %[1]s
DirectoryIndex index.shtml
<Directory %[1]s>
	Options +Includes
	SetOutputFilter INCLUDES
	ForceType text/html
</Directory>
OIDCCABundlePath %[4]s
%[5]s`, dir, strings.TrimPrefix(origin, "http://"), modules, writeFile(t, dir, "authority", string(authority)), site))
	cmd := exec.Command("/usr/sbin/apache2", "-D", "FOREGROUND", "-f", conf)
	if os.Getuid() == 0 {
		cmd = exec.Command("setpriv", append([]string{"--reuid=nobody", "--regid=nogroup", "--clear-groups"}, cmd.Args...)...)
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	binary.Serve(t, cmd, strings.TrimPrefix(origin, "http://"))
}

// nobody is the id of Debian's user nobody and of its group nogroup.
const nobody = 65534

// buildApp builds a third-party program of the module in apps.
func buildApp(name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := samplePrograms()
		if err != nil {
			return "", err
		}
		cmd := exec.Command("go", "build", "-o", dir+"/", "tool")
		cmd.Dir = filepath.Join("apps", name)
		// Other flags would compile the standard library once more.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -buildvcs=false")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build of %s: %w\n%s", name, err, out)
		}
		return filepath.Join(dir, name), nil
	})
}

var buildOAuth2Proxy, buildKubelogin = buildApp("oauth2-proxy"), buildApp("kubelogin")

// startOAuth2Proxy runs oauth2-proxy with the configuration of oauth2-proxy.md
// in front of an application that reads its headers.
func startOAuth2Proxy(t *testing.T, w *world, c client, origin string) {
	program, err := buildOAuth2Proxy()
	if err != nil {
		t.Fatal(err)
	}
	logout := shown(t, "oauth2-proxy.md", "the link to sign out", url.QueryEscape("https://auth.example.com"), url.QueryEscape(w.origin),
		"client_id%3Dwiki", "client_id%3D"+c.ID, url.QueryEscape(url.QueryEscape("https://wiki.example.com/")), url.QueryEscape(url.QueryEscape(origin+"/")))
	logout = strings.TrimPrefix(strings.TrimSpace(logout), "https://wiki.example.com")
	application := serveHTTP(t, "127.0.0.1:0", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(rw, `<!DOCTYPE html><title>Wiki</title><p id="user">%s<p id="email">%s<p><a id="refresh" href="/">Refresh</a> <a id="logout" href="%s">Sign out</a>`,
			r.Header.Get("X-Forwarded-User"), r.Header.Get("X-Forwarded-Email"), logout)
	}))
	config := shown(t, "oauth2-proxy.md", "/etc/oauth2-proxy.cfg",
		"https://auth.example.com/oauth2/api", w.Issuer, `client_id = "wiki"`, `client_id = "`+c.ID+`"`,
		"/etc/oauth2-proxy/wiki-secret", secretFile(t, c), "https://wiki.example.com", origin, `"auth.example.com"`, `"`+strings.TrimPrefix(w.origin, "https://")+`"`,
		`"4m"`, `"1s"`, "127.0.0.1:4180", strings.TrimPrefix(origin, "http://"), "http://127.0.0.1:8080/", application)
	config += "cookie_secure = false\n" + `provider_ca_files = ["` + w.CAFile + `"]` + "\n"
	binary.Serve(t, exec.Command(program, "--config", writeFile(t, t.TempDir(), "oauth2-proxy.cfg", config)), strings.TrimPrefix(origin, "http://"))
}

// TestKubectl: kubelogin signs a user in for kubectl, and refreshes id_tokens, which an
// API server verifies with go-oidc.
func TestKubectl(t *testing.T) {
	t.Parallel()
	program, err := buildKubelogin()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/how-to/kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost))
	var create, login []string
	for _, field := range strings.Fields(strings.ReplaceAll(string(page), "https://auth.example.com/oauth2/api", w.Issuer)) {
		if arg, ok := strings.CutPrefix(field, "--exec-arg="); ok && arg != "oidc-login" {
			login = append(login, arg)
		}
	}
	if _, line, found := strings.Cut(string(page), "mintage client create "); found {
		line, _, _ = strings.Cut(line, "\n```\n")
		create = strings.Fields(strings.ReplaceAll(line, "\\\n", " "))
	}
	password := w.user(t, "kate", "Kate")
	c := w.create(t, "http://localhost", create...)
	w.waitFor(t, c)
	ctx := oidc.ClientContext(t.Context(), &http.Client{Transport: w.Transport(t, "")})
	provider, err := oidc.NewProvider(ctx, w.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	verifier := provider.Verifier(&oidc.Config{ClientID: c.ID, SupportedSigningAlgs: []string{oidc.ES256}})
	login = append(login, "--certificate-authority", w.CAFile, "--skip-open-browser", "--token-cache-dir", t.TempDir(),
		"--listen-address", binary.FreeAddress(t, "127.0.0.1"))
	b := newWindow(t)
	token := func(visit func(address string), args ...string) *oidc.IDToken {
		t.Helper()
		cmd := exec.Command(program, append(append([]string{}, login...), args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		var out bytes.Buffer
		cmd.Stdout = &out
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		var said strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&said, lines.Text())
			if _, address, found := strings.Cut(lines.Text(), "in your browser: "); found {
				visit(strings.TrimSpace(address))
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("kubelogin: %v\n%s", err, &said)
		}
		var credential struct {
			Status struct {
				Token string `json:"token"`
			} `json:"status"`
		}
		if err := json.Unmarshal(out.Bytes(), &credential); err != nil {
			t.Fatal(err)
		}
		id, err := verifier.Verify(ctx, credential.Status.Token)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := token(func(address string) {
		b.open(address)
		b.signIn("kate", password)
		b.click("#allow")
	})
	none := func(string) { t.Error("kubelogin asks for the browser again") }
	if kept := token(none); kept.Subject != "kate" || !kept.IssuedAt.Equal(first.IssuedAt) {
		t.Errorf("the second command has the token of %q at %s, the first at %s", kept.Subject, kept.IssuedAt, first.IssuedAt)
	}
	if fresh := token(none, "--force-refresh"); fresh.Subject != "kate" || w.generation(t, "kate") != 2 {
		t.Errorf("a refresh returns the token of %q, and the grant is of generation %d", fresh.Subject, w.generation(t, "kate"))
	}
}
