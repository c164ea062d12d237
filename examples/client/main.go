// Client is a small web application that calls an API on behalf of its users: it sends
// them to Mintage's authorization endpoint, gets tokens for the code that they bring
// back, refreshes them, and calls the API. golang.org/x/oauth2 does most of the work;
// this program contains what a client must check itself: the state, PKCE, and the issuer
// of the response.
//
// It is a sample: sessions are in memory, and there is no HTTPS, so it belongs on the
// loopback interface.
package main

import (
	"context"
	"crypto/rand"
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
	"sync"
	"time"

	"golang.org/x/oauth2"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:8095", "where the browser reaches this program")
	issuer := flags.String("issuer", "https://127.0.0.1:8443/oauth2/api", "Mintage's issuer identifier, as its answers spell it")
	authorize := flags.String("authorize", "", "authorization endpoint, if not the one in the issuer's metadata")
	token := flags.String("token", "", "token endpoint, likewise")
	redirect := flags.String("redirect", "", "redirect URI that is registered, if not http://LISTEN/callback")
	id := flags.String("client-id", "", "the client's id")
	secretFile := flags.String("client-secret-file", "", "file with the client's secret; none for a public client")
	scope := flags.String("scope", "", "scopes to ask for, separated by spaces; all if empty")
	extra := flags.String("extra", "", "more parameters of the authorization request, such as prompt=login&ui_locales=ja")
	api := flags.String("api", "", "URL of an API to call with the access token")
	ca := flags.String("ca", "", "certificate authority of Mintage and the API, if the system does not know it")
	flags.Parse(args)
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if *redirect == "" {
		*redirect = fmt.Sprintf("http://%s/callback", l.Addr())
	}
	c := &client{issuer: *issuer, api: *api, sessions: map[string]*session{}}
	c.conf = oauth2.Config{ClientID: *id, RedirectURL: *redirect, Scopes: strings.Fields(*scope),
		Endpoint: oauth2.Endpoint{AuthURL: *authorize, TokenURL: *token, AuthStyle: oauth2.AuthStyleInHeader}}
	if c.extra, err = url.ParseQuery(*extra); err != nil {
		return err
	}
	if *secretFile == "" {
		c.conf.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	} else {
		secret, err := os.ReadFile(*secretFile)
		if err != nil {
			return err
		}
		c.conf.ClientSecret = strings.TrimSpace(string(secret))
	}
	if c.http, err = trusting(*ca); err != nil {
		return err
	}
	if *authorize == "" || *token == "" {
		if err := c.discover(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "Open http://%s/ (the redirect URI to register is %s)\n", l.Addr(), *redirect)
	server := http.Server{Handler: c.handler(), ReadTimeout: 10 * time.Second}
	return server.Serve(l)
}

func trusting(ca string) (*http.Client, error) {
	transport := &http.Transport{}
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
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}, nil
}

// A client is this application.
type client struct {
	issuer, api string
	conf        oauth2.Config
	extra       url.Values
	http        *http.Client

	mu       sync.Mutex
	sessions map[string]*session // by the value of the cookie
}

// A session is the state of one browser. The tokens stay here, because the browser does
// not need them.
type session struct {
	mu      sync.Mutex
	pending map[string]string // the PKCE verifier of each pending login, by state
	token   *oauth2.Token
	renewed int
	notice  string // shown once
	answer  string // the API's response
}

// discover fills in the endpoints from the issuer's metadata (RFC 8414 section
// 3: the well-known part comes before the issuer's own path).
func (c *client) discover() error {
	u, err := url.Parse(c.issuer)
	if err != nil {
		return err
	}
	u.Path = "/.well-known/oauth-authorization-server" + strings.TrimSuffix(u.Path, "/")
	resp, err := c.http.Get(u.String())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var metadata struct {
		Issuer    string `json:"issuer"`
		Authorize string `json:"authorization_endpoint"`
		Token     string `json:"token_endpoint"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&metadata); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s, no metadata: %v", u, resp.Status, err)
	}
	if metadata.Issuer != c.issuer {
		return fmt.Errorf("%s: issuer is %q, not %q", u, metadata.Issuer, c.issuer)
	}
	for have, found := range map[*string]string{&c.conf.Endpoint.AuthURL: metadata.Authorize, &c.conf.Endpoint.TokenURL: metadata.Token} {
		if *have == "" {
			*have = found
		}
		if *have == "" {
			return fmt.Errorf("%s: an endpoint is missing; is login.mode off?", u)
		}
	}
	return nil
}

func (c *client) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request, *session){
		"GET /{$}": c.home, "GET /login": c.login, "GET /callback": c.callback,
		"POST /refresh": c.refresh, "POST /call": c.call, "POST /forget": c.forget,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
			s := c.session(w, r)
			s.mu.Lock()
			defer s.mu.Unlock()
			handle(w, r, s)
		})
	}
	return http.NewCrossOriginProtection().Handler(mux)
}

const cookieName = "sample_client"

// session finds the browser's session, or begins one.
func (c *client) session(w http.ResponseWriter, r *http.Request) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cookie, err := r.Cookie(cookieName); err == nil && c.sessions[cookie.Value] != nil {
		return c.sessions[cookie.Value]
	}
	id := rand.Text()
	if len(c.sessions) > 1000 {
		clear(c.sessions) // a sample's way to limit memory
	}
	c.sessions[id] = &session{pending: map[string]string{}}
	// With SameSite=Strict, the cookie would be missing when Mintage redirects the
	// browser back. Over HTTPS it would be Secure, and named __Host-.
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	return c.sessions[id]
}

// login sends the browser to the authorization endpoint. The state binds the response to
// this browser, and the verifier binds the code to this login.
func (c *client) login(w http.ResponseWriter, r *http.Request, s *session) {
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	if len(s.pending) > 20 {
		clear(s.pending)
	}
	s.pending[state] = verifier
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	for name := range c.extra {
		options = append(options, oauth2.SetAuthURLParam(name, c.extra.Get(name)))
	}
	http.Redirect(w, r, c.conf.AuthCodeURL(state, options...), http.StatusSeeOther)
}

// callback handles the response of the authorization endpoint.
func (c *client) callback(w http.ResponseWriter, r *http.Request, s *session) {
	q := r.URL.Query()
	verifier, ours := s.pending[q.Get("state")]
	if !ours {
		c.show(w, http.StatusBadRequest, s, "This answer belongs to no login that was begun in this browser. Sign in again.")
		return
	}
	delete(s.pending, q.Get("state"))
	// RFC 9207: a code of another server must not be sent to this one, and its errors
	// must be ignored, too. Mintage always sends iss.
	if q.Get("iss") != c.issuer {
		c.show(w, http.StatusBadRequest, s, "This answer does not come from the expected issuer.")
		return
	}
	if code := q.Get("error"); code != "" {
		c.show(w, http.StatusOK, s, "Not signed in: "+code+". "+q.Get("error_description"))
		return
	}
	token, err := c.conf.Exchange(c.context(r.Context()), q.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		c.show(w, http.StatusBadGateway, s, "No tokens for the code: "+explain(err))
		return
	}
	s.token, s.renewed, s.answer = token, 0, ""
	http.Redirect(w, r, "/", http.StatusSeeOther) // removes the code from the address bar
}

// refresh gets a new pair of tokens. An application would let the library do that when
// the access token has expired.
func (c *client) refresh(w http.ResponseWriter, r *http.Request, s *session) {
	if s.token != nil {
		expired := *s.token
		expired.Expiry = time.Now().Add(-time.Minute)
		token, err := c.conf.TokenSource(c.context(r.Context()), &expired).Token()
		switch {
		case err == nil:
			s.token = token
			s.renewed++
		case errorCode(err) == "invalid_grant":
			// Only this error ends a grant. After a timeout or a 503 the tokens are still
			// valid, and the same request may be sent again.
			s.token, s.notice = nil, "No longer connected: "+explain(err)
		default:
			s.notice = "Not refreshed: " + explain(err)
		}
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// call calls the API.
func (c *client) call(w http.ResponseWriter, r *http.Request, s *session) {
	if s.token != nil && c.api != "" {
		s.answer = c.fetch(r.Context(), s.token)
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (c *client) fetch(ctx context.Context, token *oauth2.Token) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api, nil)
	if err != nil {
		return err.Error()
	}
	token.SetAuthHeader(r)
	resp, err := c.http.Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 2000))
	return resp.Status + "\n" + string(body)
}

// forget deletes the tokens here. They stay valid at Mintage, where the user revokes them
// on the page of connections, or the client at the revocation endpoint.
func (c *client) forget(w http.ResponseWriter, r *http.Request, s *session) {
	s.token, s.answer = nil, ""
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// context returns the context of a token request. The request continues when the browser
// disconnects, for example after a second click: the code or refresh token is spent by
// then, and the new tokens must not be lost.
func (c *client) context(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, c.http)
}

// explain describes an error of the token endpoint without the response's body.
func explain(err error) string {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return fmt.Sprintf("%d %s %s", refused.Response.StatusCode, refused.ErrorCode, refused.ErrorDescription)
	}
	return err.Error()
}

func errorCode(err error) string {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return refused.ErrorCode
	}
	return ""
}

func (c *client) home(w http.ResponseWriter, _ *http.Request, s *session) {
	notice := s.notice
	s.notice = ""
	c.show(w, http.StatusOK, s, notice)
}

// show renders the only page. It shows what the tokens allow, and never the tokens.
func (c *client) show(w http.ResponseWriter, status int, s *session, notice string) {
	data := map[string]any{"Notice": notice, "API": c.api, "Answer": s.answer, "Renewed": s.renewed}
	if t := s.token; t != nil {
		data["Token"] = true
		data["Scope"], _ = t.Extra("scope").(string)
		data["ExpiresIn"] = t.ExpiresIn
		data["ExpiresAt"] = t.Expiry.UTC().Format(time.RFC3339)
		data["Refresh"] = t.RefreshToken != ""
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := pageOfAll.Execute(w, data); err != nil {
		log.Print(err)
	}
}

var pageOfAll = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sample client</title>
</head>
<body>
<main>
<h1>Sample client</h1>
{{with .Notice}}<p role="alert" id="notice">{{.}}</p>
{{end}}{{if .Token}}<dl>
<dt>Scope</dt><dd id="scope">{{.Scope}}</dd>
<dt>Access token good for</dt><dd><span id="expires-in">{{.ExpiresIn}}</span> seconds, until {{.ExpiresAt}}</dd>
<dt>Refreshed</dt><dd><span id="renewed">{{.Renewed}}</span> times</dd>
</dl>
{{if .Refresh}}<form method="post" action="/refresh"><button id="refresh">Refresh</button></form>
{{end}}{{if .API}}<form method="post" action="/call"><button id="call">Call the API</button></form>
{{end}}{{with .Answer}}<pre id="answer" tabindex="0">{{.}}</pre>
{{end}}<form method="post" action="/forget"><button id="forget">Forget the tokens</button></form>
{{else}}<p><a id="sign-in" href="/login">Sign in</a></p>
{{end}}</main>
</body>
</html>
`))
