package main

import (
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const continueURL = "https://auth.example.com/oauth2/interaction?id=c1&verifier=v1"

// A mintage is the part of the admin API that the sample uses, with one pending login,
// whose challenge is c1.
type mintage struct {
	t        *testing.T
	token    string
	hint     string
	status   int    // of responses to an acceptance or rejection; zero means 200
	said     string // verb and body of the last request
	requests int
}

func (m *mintage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests++
	if m.token != "" && r.Header.Get("Authorization") != "Bearer "+m.token {
		w.WriteHeader(http.StatusUnauthorized)
		json.NewEncoder(w).Encode(problem{Title: "admin token required", Status: 401})
		return
	}
	switch r.Method + " " + r.URL.EscapedPath() {
	case "GET /admin/v1/logins/c1":
		json.NewEncoder(w).Encode(login{ClientName: "<b>Billing</b>", RedirectHost: "client.example", LoginHint: m.hint})
	case "POST /admin/v1/logins/c1/accept", "POST /admin/v1/logins/c1/reject":
		var body any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			m.t.Error(err)
		}
		text, _ := json.Marshal(body)
		m.said = filepath.Base(r.URL.Path) + " " + string(text)
		if m.status != 0 {
			w.WriteHeader(m.status)
			json.NewEncoder(w).Encode(problem{Title: "no", Status: m.status})
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"continue_url": continueURL})
	default:
		w.WriteHeader(http.StatusNotFound)
		json.NewEncoder(w).Encode(problem{Title: "no such login", Status: 404})
	}
}

// overSocket serves m on a Unix socket, and returns the page in front of it.
func overSocket(t *testing.T, m *mintage) http.Handler {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: m}}
	s.Start()
	t.Cleanup(s.Close)
	api, err := newAdminAPI("unix:"+path, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return (&app{api, "alice", "correct horse", json.RawMessage(`{"tenant":"t1"}`)}).handler()
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w
}

func post(h http.Handler, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestTheFormSaysWhoAsksAndEscapesIt(t *testing.T) {
	m := &mintage{t: t, hint: `"><script>alert(1)</script>`}
	w := get(overSocket(t, m), "/login?challenge=c1")
	page := w.Body.String()
	if w.Code != 200 || !strings.Contains(page, "&lt;b&gt;Billing&lt;/b&gt;") || !strings.Contains(page, "client.example") || strings.Contains(page, "<script>") {
		t.Errorf("%d %s", w.Code, page)
	}
	if !strings.Contains(page, `name="challenge" value="c1"`) || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("%v %s", w.Header(), page)
	}
}

func TestTheBrowserIsRedirectedAfterMintageIsNotified(t *testing.T) {
	for name, c := range map[string]struct {
		form url.Values
		said string
	}{
		"logged in": {url.Values{"challenge": {"c1"}, "username": {"alice"}, "password": {"correct horse"}, "action": {"login"}},
			`accept {"claims":{"tenant":"t1"},"subject":"alice"}`},
		"cancelled": {url.Values{"challenge": {"c1"}, "action": {"cancel"}},
			`reject {"error":"access_denied","reason":"cancelled by the user"}`},
	} {
		m := &mintage{t: t}
		w := post(overSocket(t, m), c.form)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != continueURL || m.said != c.said {
			t.Errorf("%s: %d to %q, said %s", name, w.Code, w.Header().Get("Location"), m.said)
		}
	}
}

func TestAWrongPasswordIsNotReportedToMintage(t *testing.T) {
	for _, form := range []url.Values{
		{"challenge": {"c1"}, "username": {"alice"}, "password": {"correct horse "}},
		{"challenge": {"c1"}, "username": {"bob"}, "password": {"correct horse"}},
		{"challenge": {"c1"}, "username": {"alice"}},
	} {
		m := &mintage{t: t}
		w := post(overSocket(t, m), form)
		if w.Code != http.StatusForbidden || m.said != "" || !strings.Contains(w.Body.String(), "wrong") || strings.Contains(w.Body.String(), "horse") {
			t.Errorf("%v: %d %s, said %q", form, w.Code, w.Body, m.said)
		}
	}
}

func TestAnotherSiteCannotPostTheForm(t *testing.T) {
	m := &mintage{t: t}
	form := url.Values{"challenge": {"c1"}, "username": {"alice"}, "password": {"correct horse"}}
	if w := post(overSocket(t, m), form, "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden || m.requests != 0 {
		t.Errorf("%d, and %d requests", w.Code, m.requests)
	}
}

func TestWhatTheUserSeesOfAProblem(t *testing.T) {
	good := url.Values{"challenge": {"c1"}, "username": {"alice"}, "password": {"correct horse"}}
	for status, text := range map[int]string{410: "start again", 409: "start again", 404: "start again", 503: "Try again", 422: "Try again"} {
		w := post(overSocket(t, &mintage{t: t, status: status}), good)
		if !strings.Contains(w.Body.String(), text) || w.Header().Get("Location") != "" || w.Code < 400 {
			t.Errorf("%d: %d %s", status, w.Code, w.Body)
		}
	}
	for _, challenge := range []string{"", "c2", "../codes", "c1/accept", "c1%2Faccept"} {
		w := get(overSocket(t, &mintage{t: t}), "/login?challenge="+url.QueryEscape(challenge))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "start again") {
			t.Errorf("challenge %q: %d %s", challenge, w.Code, w.Body)
		}
	}
}

func TestFromAnotherMachineTheTokenIsSentOverTLS(t *testing.T) {
	m := &mintage{t: t, token: "a token of the administrators"}
	s := httptest.NewTLSServer(m)
	defer s.Close()
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	for name, text := range map[string][]byte{ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), token: []byte(m.token + "\n")} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	api, err := newAdminAPI(s.URL+"/", token, ca)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := api.login(t.Context(), "c1"); err != nil || l.RedirectHost != "client.example" {
		t.Errorf("login: %+v, %v", l, err)
	}
	api.token = "another"
	if _, err := api.login(t.Context(), "c1"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with another token: %v", err)
	}
	for _, bad := range [][2]string{{filepath.Join(dir, "absent"), ca}, {token, filepath.Join(dir, "absent")}, {token, token}} {
		if _, err := newAdminAPI(s.URL, bad[0], bad[1]); err == nil {
			t.Errorf("files %q are taken", bad)
		}
	}
}

func TestWithoutAPasswordItDoesNotStart(t *testing.T) {
	t.Setenv("DEMO_PASSWORD", "")
	if err := run([]string{"-listen", "127.0.0.1:0"}, os.Stdout); err == nil || !strings.Contains(err.Error(), "DEMO_PASSWORD") {
		t.Errorf("run: %v", err)
	}
}
