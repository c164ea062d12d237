package conformance_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/keys"
)

// atRest returns every byte that the deployment has on disk.
func (d *deployment) atRest() []byte {
	d.t.Helper()
	var all []byte
	files, err := filepath.Glob(filepath.Join(d.dir, "*"))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			d.t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// Access to the disk, or to a backup, gives access to no session and no interaction, and
// reveals no secret of a user or a client.
func TestNothingOfABrowserIsAtRest(t *testing.T) {
	d := start(t, withFront)
	var secret []byte
	d.user(username, cheaply, func(u *account.User) { *u, secret = u.SetTOTP(d.ring(), 1); u.Version = 1 })
	b := d.browser()
	const state = "state-of-this-request-and-no-other"
	page := b.open(asking(d.a, "state="+state)).at(t, "login")
	b.logIn(page, username, password).at(t, "second_factor")
	oneTime := d.oneTimeCode(secret)
	consent := b.follow(b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+oneTime)).at(t, "consent")
	waiting := b.open(asking(d.a, "state="+state+"-waiting")).at(t, "consent")
	code := b.decide(consent, "allow").code(t, redirect)
	d.mustIssue(d.post(d.a.challenged(code)))
	held := d.atRest()
	if !bytes.Contains(held, []byte(username)) {
		t.Fatal("not even the user's name is found: this test looks in the wrong place")
	}
	raw := func(text string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	session := raw(b.cookie(sessionName))
	if len(session) != 32+6+16 {
		t.Fatalf("a session's cookie of %d bytes", len(session))
	}
	for name, what := range map[string][]byte{
		"session id":          session[:32],
		"session's mark":      session[38:],
		"interaction id":      raw(page.field("id")),
		"an open interaction": raw(waiting.field("id")),
		"browser id":          raw(b.cookie(browserName)),
		"known browser":       raw(b.cookie(knownName))[:16],
		"second factor":       secret,
		"code":                raw(strings.TrimPrefix(code, keys.CodePrefix)),
		"challenge":           raw(challenge),
	} {
		enc := base64.RawStdEncoding.EncodeToString(what)
		for form, b := range map[string][]byte{
			"bytes": what, "base64url": []byte(base64.RawURLEncoding.EncodeToString(what)), "base64": []byte(enc[:len(enc)-1]), "hex": []byte(hex.EncodeToString(what)),
		} {
			if bytes.Contains(held, b) && !(name == "challenge" && form == "bytes") {
				t.Errorf("the %s is at rest, as %s", name, form)
			}
		}
	}
	for name, text := range map[string]string{
		"cookie": b.cookie(sessionName), "password": password, "state": state, "state, escaped": url.QueryEscape(state),
		"verifier": verifier, "secret of the app": account.TOTPText(secret), "redirect URI of an interaction": "code_challenge",
	} {
		if bytes.Contains(held, []byte(text)) {
			t.Errorf("the %s is at rest", name)
		}
	}
	log := []byte(d.log.String())
	for name, text := range map[string]string{
		"cookie": b.cookie(sessionName), "password": password, "state": state, "code": code, "interaction": page.field("id"),
		"open interaction": waiting.field("id"), "one-time code": `"` + oneTime + `"`, "challenge": challenge,
	} {
		if bytes.Contains(log, []byte(text)) {
			t.Errorf("the %s is in the log", name)
		}
	}
}
