//go:build e2e

package browser

import (
	"encoding/json"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A consoleWorld is a server with a console. It runs without --dev, so that an operator
// first needs an invitation.
type consoleWorld struct {
	url    string // of the console
	public string // the address of the server
	dir    string

	args   []string // of the server
	server *exec.Cmd
}

func openConsole(t *testing.T, args ...string) *consoleWorld {
	t.Helper()
	cert, key := certificateFiles(t)
	public, console := binary.FreeAddress(t, mintageHost), binary.FreeAddress(t, mintageHost)
	w := &consoleWorld{url: "https://" + console, public: "https://" + public, dir: t.TempDir()}
	w.args = append([]string{"serve", "--data", w.dir, "--public-url", "https://" + public, "--listen", public, "--management-listen", "127.0.0.1:0",
		"--tls-cert", cert, "--tls-key", key, "--console-listen", console}, args...)
	w.start(t, "--new-store")
	return w
}

func (w *consoleWorld) start(t *testing.T, args ...string) {
	t.Helper()
	w.server = binary.Command(t, append(slices.Clone(w.args), args...)...)
	binary.Serve(t, w.server, strings.TrimPrefix(w.url, "https://"))
}

// restart kills the server, calls meanwhile, and starts the server again.
func (w *consoleWorld) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	if err := w.server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "https://"))
		if err != nil {
			break
		}
		c.Close()
		time.Sleep(20 * time.Millisecond)
	}
	meanwhile()
	w.start(t)
}

// run runs a command, and decodes its JSON into out, unless out is nil.
func (w *consoleWorld) run(t *testing.T, out any, args ...string) {
	t.Helper()
	args = append(args, "--data", w.dir)
	if out != nil {
		args = append(args, "--json")
	}
	text, err := binary.Command(t, args...).Output()
	if err != nil {
		t.Fatalf("mintage %s: %v", strings.Join(args, " "), err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatal(err)
		}
	}
}

// operator creates a built-in user with an operator's role, and returns the password.
func (w *consoleWorld) operator(t *testing.T, name, role string) (password string) {
	t.Helper()
	var made struct{ Password string }
	w.run(t, &made, "user", "create", name)
	w.run(t, nil, "operator", "add", name, "--role", role)
	return made.Password
}

// invite creates an invitation and returns its link.
func (w *consoleWorld) invite(t *testing.T, name string) (link string) {
	t.Helper()
	var v struct{ URL string }
	if w.run(t, &v, "console", "invite", name); !strings.HasPrefix(v.URL, w.url+"/invitation/") {
		t.Fatalf("the invitation leads to %q", bare(v.URL))
	}
	return v.URL
}

// enters lets an operator without a second factor sign in by invitation, and returns the
// secret of the new factor.
func (w *consoleWorld) enters(t *testing.T, b *tab, name string) (secret string) {
	t.Helper()
	b.open(w.invite(t, name))
	b.click("#enter")
	secret = b.text("#secret")
	b.fill("#code", totp(t, secret, time.Now()))
	b.enter()
	b.reads("Needs attention")
	return secret
}

// TestConsole tests the whole sign-in: an invitation, the second factor that is set up
// with it, the pages, a sign-out, and a sign-in with password and code.
func TestConsole(t *testing.T) {
	t.Parallel()
	w := openConsole(t)
	password := w.operator(t, "alice", "admin")
	w.operator(t, "bob", "auditor")
	w.run(t, nil, "admin", "token", "create", "watch", "--role", "auditor", "--expires-in", "3d")

	b := newWindow(t).knowsAxe()
	link := w.invite(t, "alice")
	b.open(link)
	b.reads("You are invited to the console")
	b.examine(t, "console-invitation")
	b.open(link) // opening the link has not spent it
	b.click("#enter")
	b.reads("Set up a second factor")
	b.examine(t, "console-factor")
	secret := b.text("#secret")
	b.fill("#code", "000000")
	b.enter()
	b.reads("The code is not correct")
	b.answered(422)
	b.fill("#code", totp(t, secret, time.Now()))
	b.enter()
	b.reads("Needs attention")
	b.reads("bob: this operator has never signed in.")
	b.examine(t, "console-overview")
	b.click("#check")
	b.reads("The server is being examined.")
	b.wait("the findings", func() bool {
		b.open(w.url + "/")
		return b.holds(`document.body.innerText.includes("Last checked 0 min ago")`)
	})
	b.examine(t, "console-overview-checked")
	b.click("#findings")
	b.reads("Findings")
	b.examine(t, "console-findings")
	for path, text := range map[string]string{"/settings": "With these the server runs", "/realms": "Each realm has", "/restores": "Declare a restore", "/users": "New user", "/apis": "New API", "/new/restore": "When the backup began"} {
		b.open(w.url + path)
		b.reads(text)
		b.examine(t, "console"+strings.ReplaceAll(path, "/", "-"))
	}
	b.open(w.url + "/keys")
	b.reads("Keys rotate by the clock")
	b.examine(t, "console-keys")
	b.open(w.url + "/operators")
	b.reads("this browser")
	b.examine(t, "console-operators")
	b.open(w.url + "/nothing")
	b.reads("There is nothing here")
	b.answered(404)
	b.examine(t, "console-missing")

	t.Run("an invitation works once", func(t *testing.T) {
		other := newWindow(t).knowsAxe().withoutScripts()
		other.open(link)
		other.reads("It was used already")
		other.answered(410)
		// The user now has a second factor, so an invitation asks for its code.
		other.open(w.invite(t, "alice"))
		other.click("#enter")
		other.reads("Enter the code from your app")
	})
	t.Run("somebody else is signed in", func(t *testing.T) {
		b.open(w.invite(t, "bob"))
		b.reads("another operator is signed in")
		b.examine(t, "console-instead")
	})
	b.open(w.url + "/")
	b.click("#sign-out")
	b.reads("You have signed out.")
	b.examine(t, "console-sign-in")
	b.fill("#username", "Alice")
	b.fill("#password", password)
	b.fill("#code", "000000")
	b.click("#submit")
	b.reads("is not correct, or you are no operator")
	b.examine(t, "console-wrong")
	if b.holds("document.scripts.length > 0") {
		t.Error("a page of the console has a script")
	}
}

// A form that is sent after the session has ended is not lost: the browser sends it again,
// once its user has signed in in another tab.
func TestConsoleFormAfterTheSession(t *testing.T) {
	t.Parallel()
	w := openConsole(t)
	password := w.operator(t, "alice", "admin")
	b := newWindow(t).knowsAxe()
	secret := w.enters(t, b, "alice")
	b.open(w.url + "/new/user")
	b.fill("#username", "carol")
	b.forget(w.url, "__Host-mintage_console")
	b.click("#create")
	b.reads("You are signed out")
	b.answered(403)
	b.examine(t, "console-ended")
	other := b.another()
	other.open(w.url + evaluate[string](b.ctx, t, `document.querySelector("#sign-in").getAttribute("href")`))
	other.fill("#username", "alice")
	other.fill("#password", password)
	other.fill("#code", totp(t, secret, time.Now().Add(30*time.Second))) // a code works once
	other.enter()
	other.reads("Needs attention")
	b.reload()
	b.reads("The user is created")
	b.reads("carol")
}
