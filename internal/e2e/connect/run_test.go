//go:build e2e

package connect

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// webApplication tests a web application on a port: a user signs in, the tokens are
// refreshed, and the application rejects callbacks that belong to no login of this
// browser.
func webApplication(t *testing.T, s *binary.Server, port string) {
	t.Helper()
	app := "http://localhost:" + port
	p := newPerson(t, s)
	if body := p.signIn(app + "/login"); body != "signed in as Demo user" {
		t.Fatalf("after the login: %q", body)
	}
	if body, status := p.get(app + "/refresh"); status != http.StatusOK || !strings.HasPrefix(body, "refreshed") {
		t.Errorf("refreshing: %d %q", status, body)
	}
	if body, status := p.get(app + "/callback?code=x&state=forged&iss=" + s.Issuer); status != http.StatusBadRequest || !strings.Contains(body, "not a login of ours") {
		t.Errorf("a forged state: %d %q", status, body)
	}
	// The callback of another browser's login (RFC 9700 section 4.7).
	victim, thief := newPerson(t, s), newPerson(t, s)
	thief.Client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if r.URL.Host == "localhost:"+port && len(via) > 0 {
			thief.left = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	thief.signIn(app + "/login")
	if thief.left == "" {
		t.Fatal("the thief was not sent back")
	}
	if body, status := victim.get(thief.left); status != http.StatusBadRequest || !strings.Contains(body, "not a login of ours") {
		t.Errorf("a login that another browser began: %d %q", status, body)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(binary.FreeAddress(t, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestNode(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	dir, port := t.TempDir(), freePort(t)
	secret := register(t, s, "--id", "node-app", "--name", "Node", "--native", "--redirect-uri", "http://localhost:"+port+"/callback")
	write(t, dir, "connect.mjs", program(t, s, "javascript", "import", "localhost:3000", "localhost:"+port, "listen(3000", "listen("+port))
	_, _, out := run(t, dir, []string{"NODE_EXTRA_CA_CERTS=" + s.CAFile, "CLIENT_ID=node-app", "CLIENT_SECRET=" + secret}, "node", "connect.mjs")
	await(t, out, "open ")
	webApplication(t, s, port)
}

// TestTheDemoClientSignsItsUserInWithoutConsent: the demo client is ready for a program
// under development. It accepts any port, and its user is asked for no consent, although
// any program of the machine could impersonate it.
func TestTheDemoClientSignsItsUserInWithoutConsent(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	dir, port := t.TempDir(), freePort(t)
	write(t, dir, "connect.mjs", program(t, s, "javascript", "import", "localhost:3000", "localhost:"+port, "listen(3000", "listen("+port))
	_, _, out := run(t, dir, []string{"NODE_EXTRA_CA_CERTS=" + s.CAFile, "CLIENT_ID=" + s.ClientID, "CLIENT_SECRET=" + s.ClientSecret}, "node", "connect.mjs")
	await(t, out, "open ")
	p := newPerson(t, s)
	if body := p.signIn("http://localhost:" + port + "/login"); body != "signed in as Demo user" || p.consents != 0 {
		t.Errorf("after the login: %q, asked for %d consents", body, p.consents)
	}
}

func TestJava(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	dir, port := t.TempDir(), freePort(t)
	secret := register(t, s, "--id", "java-app", "--name", "Java", "--native", "--redirect-uri", "http://localhost:"+port+"/callback")
	write(t, dir, "Connect.java", program(t, s, "java", "import", "localhost:8080", "localhost:"+port, `"localhost", 8080`, `"localhost", `+port))
	keytool := exec.Command("keytool", "-importcert", "-noprompt", "-alias", "mintage", "-file", s.CAFile,
		"-keystore", filepath.Join(dir, "trusted.p12"), "-storetype", "PKCS12", "-storepass", "changeit")
	if text, err := keytool.CombinedOutput(); err != nil {
		t.Fatalf("keytool: %v (make tools installs it)\n%s", err, text)
	}
	_, _, out := run(t, dir, []string{"CLIENT_ID=java-app", "CLIENT_SECRET=" + secret},
		"java", "-Djavax.net.ssl.trustStore=trusted.p12", "-Djavax.net.ssl.trustStorePassword=changeit", "Connect.java")
	await(t, out, "open ")
	webApplication(t, s, port)
}

func TestPython(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	dir := t.TempDir()
	register(t, s, "--id", "python-app", "--name", "Python", "--public", "--native", "--redirect-uri", "http://127.0.0.1/callback")
	write(t, dir, "connect.py", program(t, s, "python", "import"))
	// BROWSER=true makes Python open the program `true`, which does nothing.
	_, _, out := run(t, dir, []string{"SSL_CERT_FILE=" + s.CAFile, "BROWSER=true"}, "python3", "connect.py")
	address := await(t, out, "opening ")
	if body := newPerson(t, s).signIn(address); body != "You can close this window." {
		t.Errorf("the browser ends at %q", body)
	}
	if name := await(t, out, "signed in as "); name != "Demo user" {
		t.Errorf("signed in as %q", name)
	}
	await(t, out, "refreshed for 300 seconds")
}

// TestMobile runs the app's own part of a login. The test plays the telephone's system:
// it follows the redirects up to the private-use scheme and passes that address to the
// app.
func TestMobile(t *testing.T) {
	t.Parallel()
	s := binary.Start(t, t.TempDir())
	dir := t.TempDir()
	register(t, s, "--id", "mobile-app", "--name", "Mobile", "--public", "--native", "--redirect-uri", "com.example.app:/callback")
	write(t, dir, "connect.py", program(t, s, "python", "import"))
	write(t, dir, "mobile.py", program(t, s, "python", "from connect import"))
	for _, forged := range []bool{false, true} {
		cmd, in, out := run(t, dir, []string{"SSL_CERT_FILE=" + s.CAFile}, "python3", "mobile.py")
		cmd.Stderr = nil
		p := newPerson(t, s)
		p.signIn(await(t, out, "the app opens "))
		if !strings.HasPrefix(p.left, "com.example.app:/callback?") {
			t.Fatalf("the browser ends at %q", p.left)
		}
		if forged {
			p.left = regexp.MustCompile(`state=[^&]*`).ReplaceAllString(p.left, "state=forged")
		}
		fmt.Fprintln(in, p.left)
		if forged {
			if out.Scan(); strings.Contains(out.Text(), "signed in") {
				t.Error("the callback of another login is accepted")
			}
			continue
		}
		if name := await(t, out, "signed in as "); name != "Demo user" {
			t.Errorf("signed in as %q", name)
		}
		await(t, out, "refreshed for 300 seconds")
	}
}

// TestThePageRegistersTheClientsOfTheTests compares the page's registrations with those
// of the tests.
func TestThePageRegistersTheClientsOfTheTests(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/connect.md")
	if err != nil {
		t.Fatal(err)
	}
	for id, flags := range map[string]string{
		"node-app": "--native --redirect-uri http://localhost:3000/callback", "java-app": "--native --redirect-uri http://localhost:8080/callback",
		"python-app": "--public --native --redirect-uri http://127.0.0.1/callback", "mobile-app": "--public --native --redirect-uri com.example.app:/callback",
		"page": "--public --native --redirect-uri http://localhost:5173/",
	} {
		line := regexp.MustCompile(`mintage client create --data mintage-data --id ` + id + ` --name "[^"]*" ` + regexp.QuoteMeta(flags) + `\s`)
		if !line.Match(page) {
			t.Errorf("the page does not register %s with %s", id, flags)
		}
	}
}
