//go:build e2e

// Package secrecy sends marked secrets in every place of a request that can contain one,
// right or wrong. It then searches for them in the log, the audit log, the metrics, the
// store, and the outgoing requests and redirects. Every other end-to-end test ends with
// the same search.
package secrecy

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// The secrets of the test. Each text is unique, so that every occurrence is a leak.
const (
	importedSecret = "Marked-Imported-Secret-7f3a"
	userPassword   = "Marked-User-Password-91c0"
	setPassword    = "Marked-Set-Password-63b8"
	typedPassword  = "Marked-Typed-Password-44de"
	guessedSecret  = "Marked-Guessed-Secret-a802"
	adminToken     = "Marked-Admin-Token-5b7e-5b7e-5b7e-5b7e"
	verifier       = "Marked-Verifier-0123456789-0123456789-0123456789"
	pathToken      = "Marked-Token-In-A-Path-20fb"
	redirect       = "https://marked.example/callback"
)

type walk struct {
	*testing.T
	s      *binary.Server
	client *http.Client
	admin  []string // flags for commands that use the admin API
	base   string   // the URL before /oauth2
}

func (w *walk) post(path string, form url.Values, headers ...string) string {
	w.Helper()
	req, err := http.NewRequest(http.MethodPost, w.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.do(req, headers...)
}

func (w *walk) get(path string, headers ...string) string {
	w.Helper()
	req, err := http.NewRequest(http.MethodGet, w.base+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	return w.do(req, headers...)
}

// do sends a request, and searches the redirect for secrets. Only the client's own
// redirect URI may contain a code.
func (w *walk) do(req *http.Request, headers ...string) string {
	w.Helper()
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		w.s.Leaks.Know("the cookie "+c.Name, c.Value)
	}
	to := resp.Header.Get("Location")
	if strings.HasPrefix(to, redirect+"?") {
		u, err := url.Parse(to)
		if err != nil {
			w.Fatal(err)
		}
		q := u.Query()
		q.Del("code")
		to = q.Encode()
	}
	for _, leak := range w.s.Leaks.Search([]byte(to)) {
		w.Errorf("the Location of %s %s holds %s", req.Method, req.URL.Path, leak)
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return resp.Header.Get("Location")
	}
	return string(body)
}

func TestTK13_NoSecretIsLeftAnywhere(t *testing.T) {
	token := filepath.Join(t.TempDir(), "admin-token")
	if err := os.WriteFile(token, []byte(adminToken), 0o600); err != nil {
		t.Fatal(err)
	}
	admin := []string{"--admin-listen", binary.FreeAddress(t, "127.0.0.1"), "--admin-token-file", token}
	s := binary.Start(t, t.TempDir(), append([]string{"--log-level", "debug"}, admin...)...)
	s.Leaks.KnowClient("imported", importedSecret)
	s.Leaks.Know("a password", userPassword, typedPassword)
	s.Leaks.KnowClient(s.ClientID, guessedSecret)
	s.Leaks.Know("an admin token", adminToken)
	s.Leaks.Know("a code verifier", verifier)
	s.Leaks.Know("a token in a path", pathToken)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{T: t, s: s, admin: admin, base: strings.TrimSuffix(strings.SplitN(s.TokenEndpoint, "?", 2)[0], "/oauth2/access_token"), client: &http.Client{
		Transport: s.Transport(t, ""), Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	w.prepare()
	w.tokens()
	w.wrongPlaces()
	w.logins()
	w.operators()
	w.strangers()

	w.recorded("admin_auth_failed") // the last event of the test
	// The search includes the files of a crash, and those written after it.
	w.s.Kill()
	if err := w.s.Restart(t); err != nil {
		t.Fatal(err)
	}
	w.tokens()
	for _, args := range [][]string{{"audit", "show"}, {"audit", "verify"}, append([]string{"client", "list", "--json"}, w.admin...), append([]string{"grant", "list", "--json"}, w.admin...), append([]string{"keys", "list"}, w.admin...)} {
		w.s.Run(t, args...)
	}
	w.dump()
	w.searched()
}

// prepare creates a client and a user with marked secrets.
func (w *walk) prepare() {
	w.Helper()
	w.runWith(importedSecret, "client", "create", "--id", "imported", "--name", "Imported", "--no-pkce", "--redirect-uri", redirect, "--scope", "read", "--secret-stdin")
	w.runWith(userPassword, "user", "create", "marked", "--password-stdin")
}

func (w *walk) runWith(stdin string, args ...string) {
	w.Helper()
	cmd := binary.Command(w.T, append(args, append([]string{"--data", w.s.Dir}, w.admin...)...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("mintage %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, leak := range w.s.Leaks.Search(out) {
		w.Errorf("mintage %s prints %s", args[0], leak)
	}
}

func (w *walk) code() string {
	w.Helper()
	return w.s.Code(w.T, "alice", w.admin...)
}

func (w *walk) must(form url.Values) binary.Answer {
	w.Helper()
	a, err := w.s.Post(w.Context(), w.client, form)
	if err != nil || a.Status != http.StatusOK {
		w.Fatalf("%v %v", a, err)
	}
	return a
}

// tokens uses grants until they end, one by replay and one by revocation.
func (w *walk) tokens() {
	w.Helper()
	code := w.code()
	pair := w.must(w.s.ExchangeForm(code))
	next := w.must(w.s.RefreshForm(pair.RefreshToken))
	w.must(w.s.RefreshForm(pair.RefreshToken))
	last := w.must(w.s.RefreshForm(next.RefreshToken))
	bearer := "Authorization: Bearer " + last.AccessToken
	w.get("/oauth2/tokeninfo", bearer)
	w.get("/oauth2/verify", bearer)
	w.get("/oauth2/verify/deep/"+pathToken, bearer)
	ask := url.Values{"client_id": {w.s.ClientID}, "client_secret": {w.s.ClientSecret}}
	for _, token := range []string{last.AccessToken, last.RefreshToken, pair.AccessToken, code, w.s.ClientSecret} {
		ask.Set("token", token)
		w.post("/oauth2/introspect", ask)
		w.post("/oauth2/introspect", ask, "Accept: application/jwt")
	}
	for _, form := range []url.Values{w.s.RefreshForm(pair.RefreshToken), w.s.RefreshForm(last.RefreshToken), w.s.ExchangeForm(code)} {
		if a, err := w.s.Post(w.Context(), w.client, form); err != nil || a.Status != http.StatusBadRequest {
			w.Errorf("%v %v", a, err)
		}
	}
	other := w.must(w.s.ExchangeForm(w.code()))
	ask.Set("token", other.RefreshToken)
	w.post("/oauth2/revoke", ask)
	w.post("/oauth2/revoke", url.Values{"token": {other.AccessToken}, "client_id": {"imported"}, "client_secret": {importedSecret}})
}

// wrongPlaces sends secrets in parameters and headers where they do not belong.
func (w *walk) wrongPlaces() {
	w.Helper()
	pair := w.must(w.s.ExchangeForm(w.code()))
	good := w.s.RefreshForm(pair.RefreshToken)
	const endpoint = "/oauth2/access_token?realm=/api"
	for name := range good {
		for _, secret := range []string{pair.RefreshToken, pair.AccessToken, w.s.ClientSecret, guessedSecret, verifier, userPassword} {
			form := url.Values{}
			for k, v := range good {
				form[k] = v
			}
			form.Set(name, secret)
			w.post(endpoint, form)
			w.post(endpoint+"&"+name+"="+url.QueryEscape(secret), good)
		}
	}
	for _, credentials := range []string{w.s.ClientID + ":" + guessedSecret, w.s.ClientSecret + ":" + w.s.ClientID, guessedSecret, "imported:" + importedSecret} {
		w.post(endpoint, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {pair.AccessToken}},
			"Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(credentials)))
	}
	form := w.s.ExchangeForm(w.code())
	form.Set("code_verifier", verifier)
	w.post(endpoint, form)
	for _, secret := range []string{pair.RefreshToken, pair.AccessToken, w.s.ClientSecret, userPassword, pathToken} {
		for _, path := range []string{
			"/" + secret, "/oauth2/" + secret, "/oauth2/tokeninfo?access_token=" + secret, "/oauth2/introspect?token=" + secret, "/oauth2/jwks/" + secret,
			"/oauth2/authorize?client_id=" + secret, "/oauth2/authorize?response_type=code&client_id=imported&redirect_uri=" + secret,
			"/oauth2/authorize?response_type=code&client_id=imported&redirect_uri=" + url.QueryEscape(redirect) + "&prompt=none&scope=" + secret,
			"/oauth2/interaction?id=" + secret, "/account/assets/" + secret,
		} {
			w.get(path)
			w.get(path, "Authorization: Bearer "+secret, "X-Request-Id: "+secret, "User-Agent: "+secret, "Referer: https://x.example/"+secret, "X-Forwarded-For: "+secret)
		}
		w.post(endpoint, url.Values{"grant_type": {secret}, "state": {secret}, "realm": {secret}})
		w.post("/oauth2/interaction", url.Values{"id": {secret}, "step": {"login"}, "username": {secret}, "password": {secret}}, "Sec-Fetch-Site: same-origin")
	}
}

// logins signs in after a wrong password, consents, denies and signs out.
func (w *walk) logins() {
	w.Helper()
	ask := "/oauth2/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {"imported"}, "redirect_uri": {redirect}, "scope": {"read"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}.Encode()
	page := w.follow(w.get(ask))
	submit := func(pairs ...string) string {
		form := url.Values{"id": {w.field(page, "id")}}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return w.follow(w.post("/oauth2/interaction", form, "Sec-Fetch-Site: same-origin"))
	}
	page = submit("step", "login", "username", "marked", "password", typedPassword)
	page = submit("step", "login", "username", typedPassword, "password", userPassword)
	page = submit("step", "login", "username", "marked", "password", userPassword)
	to := submit("step", "consent", "decision", "allow")
	u, err := url.Parse(to)
	if err != nil || u.Query().Get("code") == "" {
		w.Fatalf("no code after the consent: %.60q, %v", to, err)
	}
	w.s.Leaks.Know("a code", u.Query().Get("code"))
	page = w.follow(w.get(ask + "&prompt=consent"))
	submit("step", "consent", "decision", "deny")
	w.get("/account/connections")
	w.post("/account/logout", url.Values{}, "Sec-Fetch-Site: same-origin")
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)"`)

func (w *walk) field(page, name string) string {
	w.Helper()
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		if m[1] == name {
			return m[2]
		}
	}
	w.Fatalf("the page has no field %s:\n%.300s", name, page)
	return ""
}

// follow follows redirects to the server's own pages.
func (w *walk) follow(text string) string {
	w.Helper()
	for strings.HasPrefix(text, w.base) {
		text = w.get(strings.TrimPrefix(text, w.base))
	}
	return text
}

// operators generates secrets over HTTP: each may occur only in its one response.
func (w *walk) operators() {
	w.Helper()
	w.s.Leaks.Know("a password set over HTTP", setPassword)
	for _, call := range [][2]string{
		{"clients/imported/secrets", `{}`}, {"users", `{"username":"hired"}`}, {"users", `{"username":"moved","password":"` + setPassword + `"}`},
		{"users/marked/password", `{}`}, {"users/marked/totp", `{}`}, {"users/marked/password", `{"password":"` + setPassword + `","unknown":1}`},
	} {
		req, err := http.NewRequest(http.MethodPost, "https://"+w.admin[1]+"/admin/v1/"+call[0], strings.NewReader(call[1]))
		if err != nil {
			w.Fatal(err)
		}
		text := w.do(req, "Authorization: Bearer "+adminToken)
		var made struct {
			Title    string `json:"title"`
			Secret   string `json:"client_secret"`
			TOTP     string `json:"secret"`
			Password string `json:"password"`
		}
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			w.Fatalf("%s: %v", call[0], err)
		}
		// Each call returns a generated secret, except for a password that was sent.
		if secret := made.Secret + made.TOTP + made.Password; secret != "" {
			w.s.Leaks.Know("what the admin API made", secret)
		} else if !strings.Contains(call[1], setPassword) {
			w.Errorf("%s: %s", call[0], made.Title)
		}
	}
}

// strangers sends malformed requests, and calls the admin API without its token.
func (w *walk) strangers() {
	w.Helper()
	u, err := url.Parse(w.s.TokenEndpoint)
	if err != nil {
		w.Fatal(err)
	}
	for _, text := range []string{
		"GET /" + pathToken + " HTTP/9.9\r\n\r\n", pathToken + "\r\n\r\n", "TRACE /" + pathToken + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /oauth2/access_token HTTP/1.1\r\nHost: x\r\nContent-Length: " + pathToken + "\r\n\r\n",
		"POST /oauth2/access_token HTTP/1.1\r\nHost: " + pathToken + "\r\nContent-Type: " + pathToken + "\r\nContent-Length: 5\r\n\r\n" + pathToken[:5],
		"GET /oauth2/jwks HTTP/1.1\r\nHost: x\r\nBad Header " + pathToken + ": x\r\n\r\n",
		"GET /%zz" + pathToken + " HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn, err := tls.Dial("tcp", u.Host, w.s.Transport(w.T, "").TLSClientConfig)
		if err != nil {
			w.Fatal(err)
		}
		fmt.Fprint(conn, text)
		conn.CloseWrite() // so that the server does not wait for more
		io.Copy(io.Discard, io.LimitReader(conn, 1<<10))
		conn.Close()
	}
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		fmt.Fprintf(conn, "GET /%s HTTP/1.1\r\nHost: x\r\n\r\n", pathToken) // plain HTTP to the TLS port
		io.Copy(io.Discard, io.LimitReader(conn, 1<<10))
		conn.Close()
	}
	for _, bearer := range []string{"", guessedSecret, adminToken} {
		req, err := http.NewRequest(http.MethodPost, "https://"+w.admin[1]+"/admin/v1/codes/"+pathToken, strings.NewReader(`{"client_secret":"`+guessedSecret+`"}`))
		if err != nil {
			w.Fatal(err)
		}
		w.do(req, "Authorization: Bearer "+bearer)
	}
}

// recorded waits until an event is in the audit log, which the server writes
// asynchronously.
func (w *walk) recorded(event string) {
	w.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(w.s.Dir, "audit", "00000001.jsonl"))
		if err != nil {
			w.Fatal(err)
		}
		if strings.Contains(string(text), `"event":"`+event+`"`) {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("the audit log has no %s after a minute", event)
		}
	}
}

// dump makes the program write a crash's stack traces.
func (w *walk) dump() {
	w.Helper()
	if err := w.s.Signal(syscall.SIGQUIT); err != nil {
		w.Fatal(err)
	}
	if err := w.s.Wait(); err == nil {
		w.Error("the server exited cleanly after SIGQUIT")
	}
}

// searched makes sure that the searched files contain traces of each step, so that the
// search is not in vain.
func (w *walk) searched() {
	w.Helper()
	for _, want := range []string{"token request refused", "token request answered", "interaction", "authorization refused", "admin request refused", "goroutine "} {
		if !strings.Contains(string(w.s.Written()), want) {
			w.Errorf("the log has no %q", want)
		}
	}
	auditLog, err := os.ReadFile(filepath.Join(w.s.Dir, "audit", "00000001.jsonl"))
	if err != nil {
		w.Fatal(err)
	}
	for _, event := range []string{
		"code_issued", "code_redeemed", "tokens_refreshed", "refresh_repeated", "token_refused", "refresh_replayed", "grant_revoked", "client_auth_failed",
		"login_failed", "login_succeeded", "consent_given", "consent_denied", "logged_out", "admin_auth_failed", "client_created", "user_created",
		"key_added", "server_started", "audit_gap",
	} {
		if !strings.Contains(string(auditLog), `"event":"`+event+`"`) {
			w.Errorf("the audit log has no %s", event)
		}
	}
}
