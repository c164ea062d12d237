//go:build e2e

package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// device enters the code of one device and opens the link of another one, as a user in a
// browser without scripts.
func (w *world) device(t *testing.T) {
	t.Parallel()
	password := w.user(t, "dana", "Dana")
	w.create(t, "", "--name", "Terminal", "--id", "terminal", "--public", "--grant-types", "device_code,refresh_token", "--scope", "read")
	ask := func() (d binary.Device) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
			if d, err = w.Device(w.post, "terminal"); err == nil {
				return d
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	polls := func(d binary.Device, want string) {
		t.Helper()
		a, err := w.Post(t.Context(), w.post, d.PollForm())
		if err != nil || a.Error != want || want == "" && a.Status != http.StatusOK {
			t.Errorf("the poll is answered %d %s, %v; want %q", a.Status, a.Error, err, want)
		}
	}
	typed, linked := ask(), ask()
	b := newWindow(t).withoutScripts()
	b.open(typed.Page)
	b.until("the focus on the code", "document.activeElement.id === 'user_code'")
	b.fill("#user_code", strings.ToLower(strings.ReplaceAll(typed.UserCode, "-", "")))
	b.enter()
	b.signIn("dana", password)
	b.reads(typed.UserCode)
	b.reads("Terminal")
	b.click("#allow") // without the comparison, the browser does not send the form
	b.reads(typed.UserCode)
	polls(typed, "authorization_pending")
	polled := time.Now()
	b.click("#same")
	b.enter() // Enter in the check box neither allows nor denies
	b.stays()
	b.click("#allow")
	b.reads("You can go back to your device")
	b.wait("the end of the interval", func() bool { return time.Since(polled) > 5*time.Second }) // an earlier poll gets slow_down, except within the first second
	polls(typed, "")

	b.open(linked.Page + "?user_code=" + linked.UserCode)
	b.reads(linked.UserCode)
	b.until("an address without the code", "!location.href.includes('"+linked.UserCode+"')")
	b.click("#deny")
	b.wait("the refusal of the device", func() bool {
		a, err := w.Post(t.Context(), w.post, linked.PollForm())
		return err == nil && a.Error == "access_denied"
	})
	if broken := b.broken(); len(broken) > 0 {
		t.Errorf("violations: %q", broken)
	}
	if n := w.grants(t, "dana"); n != 1 {
		t.Errorf("there are %d grants", n)
	}
}
