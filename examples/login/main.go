// Login is a login page for Mintage's login.mode handoff, as an organization with its own
// users would write it. Mintage sends the browser here with a challenge; this program
// finds out who the user is, reports that to Mintage through the admin API, and redirects
// the browser to the address in the response.
//
// It is a sample: it has one user, whose password is on its command line. REAL marks what
// a real login page must do in addition.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("login", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:8090", "where browsers reach this program")
	admin := flags.String("admin", "unix:mintage-data/admin.sock", "Mintage's admin API: unix:PATH, or a URL")
	tokenFile := flags.String("admin-token-file", "", "file with the admin API's token, if it has one")
	ca := flags.String("ca", "", "certificate authority of the admin API, if the system does not know it")
	user := flags.String("user", "alice", "the one user")
	password := flags.String("password", os.Getenv("DEMO_PASSWORD"), "the user's password; better in $DEMO_PASSWORD")
	claims := flags.String("claims", "", `what the tokens are to say about the user, such as {"tenant":"t1"}`)
	flags.Parse(args)
	if *password == "" {
		return errors.New("the user needs a password: set DEMO_PASSWORD")
	}
	api, err := newAdminAPI(*admin, *tokenFile, *ca)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "login.handoff_url is http://%s/login\n", l.Addr())
	// REAL: use HTTPS, because this page receives passwords.
	server := http.Server{Handler: (&app{api, *user, *password, json.RawMessage(*claims)}).handler(), ReadTimeout: 10 * time.Second}
	return server.Serve(l)
}

// An app is the login page.
type app struct {
	admin          *adminAPI
	user, password string
	claims         json.RawMessage
}

// handler serves the page. It refuses cross-origin posts: another site could otherwise
// log its visitors in here under a name of its choice.
func (a *app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", a.show)
	mux.HandleFunc("POST /login", a.submit)
	protected := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		// No form-action: Chromium would also apply it to the redirects after the form,
		// which lead to Mintage and then to the client.
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("Referrer-Policy", "same-origin") // the challenge is in the URL
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
		protected.ServeHTTP(w, r)
	})
}

// show reads what the challenge is for, and asks the user for a password.
func (a *app) show(w http.ResponseWriter, r *http.Request) {
	challenge := r.URL.Query().Get("challenge")
	login, err := a.admin.login(r.Context(), challenge)
	if err != nil {
		a.fail(w, err)
		return
	}
	// REAL: a user with a session here need not be asked again, unless login.Fresh is set
	// or the session began longer than login.MaxAge ago. Then send auth_time, when the
	// user was really authenticated.
	render(w, http.StatusOK, page{Challenge: challenge, Login: login, Username: login.LoginHint})
}

// submit handles the form. The form contains the challenge, which is not in a cookie
// because a user may have two logins open in two tabs.
func (a *app) submit(w http.ResponseWriter, r *http.Request) {
	challenge, username := r.PostFormValue("challenge"), r.PostFormValue("username")
	if r.PostFormValue("action") == "cancel" {
		a.finish(w, r, challenge, "reject", rejection{Error: "access_denied", Reason: "cancelled by the user"})
		return
	}
	// REAL: limit guesses of passwords, for each account and each address, so that nobody
	// can lock others out; store passwords with argon2id; ask for a second factor.
	if !equal(username, a.user) || !equal(r.PostFormValue("password"), a.password) {
		login, err := a.admin.login(r.Context(), challenge)
		if err != nil {
			a.fail(w, err)
			return
		}
		// The message does not depend on whether the user exists.
		render(w, http.StatusForbidden, page{Challenge: challenge, Login: login, Username: username, Error: "The user name or the password is wrong."})
		return
	}
	// The subject identifies the user in tokens. REAL: use one that is never given to
	// another user, such as a number, and not an email address.
	a.finish(w, r, challenge, "accept", acceptance{Subject: a.user, Claims: a.claims})
}

// finish sends the result to Mintage, and redirects the browser.
//
// The address in Mintage's response contains a proof for this browser: redirect this
// browser to the complete address, and send the address to nobody else. An attacker who
// starts a login and sends its challenge to a victim never learns the proof, and so
// cannot use the victim's login.
func (a *app) finish(w http.ResponseWriter, r *http.Request, challenge, verb string, body any) {
	continueURL, err := a.admin.answer(r.Context(), challenge, verb, body)
	if err != nil {
		a.fail(w, err)
		return
	}
	http.Redirect(w, r, continueURL, http.StatusSeeOther)
}

// fail shows an error. Problems that the user can solve have a status below 500.
func (a *app) fail(w http.ResponseWriter, err error) {
	var p *problem
	if errors.As(err, &p) && (p.Status == http.StatusNotFound || p.Status == http.StatusGone || p.Status == http.StatusConflict) {
		render(w, p.Status, page{Error: "This login is over. Go back to the application where you came from, and start again."})
		return
	}
	log.Print(err)
	render(w, http.StatusServiceUnavailable, page{Error: "Logging in does not work at the moment. Try again in a minute."})
}

// equal compares in constant time.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// A login is Mintage's description of a challenge, with the members that this program
// uses.
type login struct {
	ClientName   string `json:"client_name"` // "" for Mintage's own account pages
	RedirectHost string `json:"redirect_host"`
	LoginHint    string `json:"login_hint"`
	MaxAge       *int   `json:"max_age"`
	Fresh        bool   `json:"fresh"`
}

// An acceptance says who the user is.
type acceptance struct {
	Subject  string          `json:"subject"`
	Name     string          `json:"name,omitempty"`
	AuthTime *time.Time      `json:"auth_time,omitempty"` // now, if omitted
	Claims   json.RawMessage `json:"claims,omitempty"`
}

// A rejection refuses the login. The reason is for Mintage's log.
type rejection struct {
	Error  string `json:"error"`
	Reason string `json:"reason,omitempty"`
}

// A problem is an error response of the admin API (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field"`
}

func (p *problem) Error() string {
	return strings.TrimSpace(fmt.Sprintf("admin API: %d %s: %s %s", p.Status, p.Title, p.Field, p.Detail))
}

// An adminAPI is Mintage's admin API at an address.
type adminAPI struct {
	address, token string
	client         *http.Client
}

func newAdminAPI(address, tokenFile, ca string) (*adminAPI, error) {
	api := &adminAPI{address: strings.TrimSuffix(address, "/")}
	transport := &http.Transport{}
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		api.address = "http://admin"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate", ca)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, err
		}
		api.token = strings.TrimSpace(string(token))
	}
	api.client = &http.Client{Transport: transport, Timeout: 5 * time.Second}
	return api, nil
}

func (a *adminAPI) login(ctx context.Context, challenge string) (login, error) {
	var l login
	err := a.call(ctx, http.MethodGet, url.PathEscape(challenge), nil, &l)
	return l, err
}

// answer accepts or rejects a login, and returns the address for the browser.
func (a *adminAPI) answer(ctx context.Context, challenge, verb string, body any) (string, error) {
	var answer struct {
		ContinueURL string `json:"continue_url"`
	}
	err := a.call(ctx, http.MethodPost, url.PathEscape(challenge)+"/"+verb, body, &answer)
	return answer.ContinueURL, err
}

// call sends one request about a login.
func (a *adminAPI) call(ctx context.Context, method, below string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, a.address+"/admin/v1/logins/"+below, &body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := json.NewDecoder(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode >= 300 {
		p := &problem{}
		err := answer.Decode(p)
		p.Status = cmp.Or(p.Status, resp.StatusCode)
		if err != nil {
			p.Title = "no problem of the admin API; is the address right?"
		}
		return p
	}
	return answer.Decode(out)
}

// A page is the form, or only an error if it has no challenge.
type page struct {
	Challenge string
	Login     login
	Username  string
	Error     string
}

func render(w http.ResponseWriter, status int, p page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := form.Execute(w, p); err != nil {
		log.Print(err)
	}
}

// html/template escapes the client's name, the hint and the user name, which come from
// others. REAL: use the languages of ui_locales, which comes with the challenge.
var form = template.Must(template.New("login").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in</title>
</head>
<body>
<main>
<h1>Log in</h1>
{{with .Error}}<p role="alert" id="error">{{.}}</p>
{{end}}{{if .Challenge}}{{with .Login.ClientName}}<p>To go on to <strong>{{.}}</strong> at {{$.Login.RedirectHost}}.</p>
{{end}}<form method="post" action="/login">
<input type="hidden" name="challenge" value="{{.Challenge}}">
<p><label for="username">User name</label><br>
<input id="username" name="username" value="{{.Username}}" autocomplete="username" autocapitalize="none" spellcheck="false" required></p>
<p><label for="password">Password</label><br>
<input id="password" name="password" type="password" autocomplete="current-password" required></p>
<p><button id="login" name="action" value="login">Log in</button>
<button id="cancel" name="action" value="cancel" formnovalidate>Cancel</button></p>
</form>
{{end}}</main>
</body>
</html>
`))
