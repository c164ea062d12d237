//go:build e2e

package browser

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// landing is a client's callback that shows the parameters it received.
func landing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q := r.FormValue
	fmt.Fprintf(w, "<!DOCTYPE html><title>Landed</title><p>state: %s<p>error: %s<p>code: %t", q("state"), q("error"), q("code") != "")
}

// onward is a callback that redirects the browser to another origin with the same
// parameters.
func onward(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to+"?"+r.URL.RawQuery, http.StatusFound)
	}
}

// private is a private-use scheme redirect URI (RFC 8252 section 7.1).
const private = "com.example.app:/callback"

// finalRedirect checks UI-05: Chromium applies the form-action policy of a page with a
// form to every redirect that follows the form.
func (w *world) finalRedirect(t *testing.T) {
	t.Parallel()
	password := w.user(t, "rita", "Rita")
	elsewhere := "https://elsewhere.example:" + serveHTTPS(t, "127.0.0.1:0", http.HandlerFunc(landing)) + "/landing"
	callback := "https://client.example:" + serveHTTPS(t, "127.0.0.1:0", onward(elsewhere)) + "/callback"
	v4 := serveHTTP(t, "127.0.0.1:0", http.HandlerFunc(landing)) + "/callback"
	web := w.register(t, "Web", callback)
	native := w.register(t, "Native", "http://127.0.0.1/callback", "--redirect-uri", "http://[::1]/callback", "--redirect-uri", private,
		"--native", "--public")
	at := func(redirect string) client { return client{ID: native.ID, redirect: redirect} }
	w.waitFor(t, web)
	w.waitFor(t, at(private))

	b := newWindow(t)
	b.open(w.authorizeURL(web, nil))
	b.click("#cancel")
	b.reads("error: access_denied")
	b.until("the landing elsewhere", fmt.Sprintf("location.href.startsWith(%q)", elsewhere))
	b.open(w.authorizeURL(web, nil))
	b.signIn("rita", password)
	type landed struct {
		name    string
		client  client
		landing string
	}
	all := []landed{{"https, and on to another origin", web, elsewhere}, {"http on IPv4 loopback", at(v4), v4}}
	// Not every machine has the IPv6 loopback address.
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		l.Close()
		v6 := serveHTTP(t, "[::1]:0", http.HandlerFunc(landing)) + "/callback"
		all = append(all, landed{"http on IPv6 loopback", at(v6), v6})
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			defer b.during(t)()
			for button, want := range map[string]string{"#allow": "code: true", "#deny": "error: access_denied"} {
				b.open(w.authorizeURL(c.client, nil))
				b.click(button)
				b.reads(want)
				b.reads("state: the state")
				b.until("the landing", fmt.Sprintf("location.href.startsWith(%q)", c.landing))
			}
		})
	}
	t.Run("private-use scheme", func(t *testing.T) {
		defer b.during(t)()
		for button, want := range map[string]string{"#allow": "code", "#deny": "error"} {
			b.open(w.authorizeURL(at(private), nil))
			b.visited()
			b.click(button)
			// No program of this machine handles the scheme: Chromium only tries to open
			// it.
			b.wait("the way to the program", func() bool { return slices.Contains(b.been(), private) })
			if q := b.last(private).Query(); q.Get("state") != "the state" || q.Get(want) == "" {
				t.Errorf("the program gets no %s, or not its state", want)
			}
		}
	})
}

// signIn fills in and submits the login page.
func (b *tab) signIn(username, password string) {
	b.t.Helper()
	b.fill("#username", username)
	b.fill("#password", password)
	b.click("#submit")
	b.sees("#allow")
}

// TestViolationsAreFound: the tests must notice when a policy blocks a redirect.
func TestViolationsAreFound(t *testing.T) {
	t.Parallel()
	elsewhere := serveHTTP(t, "127.0.0.1:0", http.HandlerFunc(landing)) + "/landing"
	page := serveHTTP(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusSeeOther)
			return
		}
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, `<!DOCTYPE html><form method="post"><button id="send">Send</button></form>`)
	}))
	for _, to := range []string{elsewhere, private} {
		b := newWindow(t)
		b.allowed = true
		b.open(page + "/?to=" + to)
		b.click("#send")
		b.wait("a violation", func() bool {
			return slices.ContainsFunc(b.broken(), func(v string) bool { return strings.HasPrefix(v, "form-action stops ") })
		})
		if slices.Contains(b.been(), to) {
			t.Errorf("a redirect to %s was reported as blocked, but followed", to)
		}
	}
}

// formPost checks OC-17: the browser posts the response by script, or without scripts by
// a button. It also follows the client's next redirect to another origin.
func (w *world) formPost(t *testing.T) {
	t.Parallel()
	password := w.user(t, "paula", "Paula")
	elsewhere := "https://elsewhere.example:" + serveHTTPS(t, "127.0.0.1:0", http.HandlerFunc(landing)) + "/landing"
	var from atomic.Value
	took := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			from.Store(r.Method + " from " + r.Header.Get("Origin"))
			q := url.Values{"state": {r.PostFormValue("state")}, "error": {r.PostFormValue("error")}, "code": {r.PostFormValue("code")}}
			http.Redirect(w, r, to+"?"+q.Encode(), http.StatusSeeOther)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/away", took(elsewhere))
	mux.HandleFunc("/callback", took("/landing"))
	mux.HandleFunc("/landing", landing)
	host := "https://client.example:" + serveHTTPS(t, "127.0.0.1:0", mux)
	loopback := serveHTTP(t, "127.0.0.1:0", mux)
	web := w.register(t, "Posted", host+"/callback", "--redirect-uri", host+"/away")
	native := w.register(t, "Posted here", "http://127.0.0.1/callback", "--native", "--public")
	w.waitFor(t, web)
	w.waitFor(t, client{ID: native.ID, redirect: loopback + "/callback"})
	mode := url.Values{"response_mode": {"form_post"}}

	b := newWindow(t)
	b.open(w.authorizeURL(web, mode))
	b.signIn("paula", password)
	for _, c := range []struct {
		redirect, landing string
		client            client
	}{
		{host + "/callback", host + "/landing", web}, {host + "/away", elsewhere, web}, {loopback + "/callback", loopback + "/landing", native},
	} {
		for button, want := range map[string]string{"#allow": "code: true", "#deny": "error: access_denied"} {
			b.open(w.authorizeURL(client{ID: c.client.ID, redirect: c.redirect}, mode))
			b.click(button)
			b.reads(want)
			b.reads("state: the state")
			b.until("the landing", fmt.Sprintf("location.href.startsWith(%q)", c.landing))
			if got := from.Load(); got != "POST from "+w.origin {
				t.Errorf("%s: %s", c.redirect, got)
			}
		}
	}
	b = b.withoutScripts()
	b.open(w.authorizeURL(web, mode))
	b.click("#allow")
	b.click("#continue")
	b.reads("code: true")
}
