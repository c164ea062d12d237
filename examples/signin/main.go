// Signin is a small web application that signs its users in with OpenID Connect. It needs
// only the issuer, its client id and its secret, and reads the rest from the issuer's
// metadata. github.com/coreos/go-oidc and golang.org/x/oauth2 do most of the work; this
// program contains what an application must check itself: state, nonce, PKCE, and the
// issuer of the response.
//
// It is a sample: sessions are in memory, and there is no HTTPS, so it belongs on the
// loopback interface.
package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("signin", flag.ExitOnError)
	issuer := flags.String("issuer", "https://127.0.0.1:8443/oauth2/api", "issuer of Mintage")
	id := flags.String("client-id", "", "the client's id")
	secretFile := flags.String("client-secret-file", "", "file with the client's secret")
	listen := flags.String("listen", "127.0.0.1:8444", "address of this program")
	origin := flags.String("origin", "http://127.0.0.1:8444", "how the browser reaches it; ORIGIN/callback is the redirect URI")
	ca := flags.String("ca", "", "certificate authority of Mintage, if the system does not trust it")
	flags.Parse(args)
	secret, err := os.ReadFile(*secretFile)
	if err != nil {
		return err
	}
	client, err := trusting(*ca)
	if err != nil {
		return err
	}
	// The metadata name the endpoints, the keys and the algorithms.
	ctx := oidc.ClientContext(context.Background(), client)
	provider, err := oidc.NewProvider(ctx, *issuer)
	if err != nil {
		return err
	}
	a := &application{
		ctx: ctx, issuer: *issuer, origin: *origin, provider: provider, sessions: map[string]*session{},
		verifier: provider.Verifier(&oidc.Config{ClientID: *id}),
		oauth: oauth2.Config{
			ClientID: *id, ClientSecret: strings.TrimSpace(string(secret)), Endpoint: provider.Endpoint(),
			RedirectURL: *origin + "/callback", Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
		},
	}
	if err := provider.Claims(&a.metadata); err != nil {
		return err
	}
	fmt.Fprintf(out, "Open %s\n", *origin)
	server := http.Server{Addr: *listen, Handler: a.handler(), ReadTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

// trusting returns an HTTP client that trusts one more certificate authority.
func trusting(ca string) (*http.Client, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate", ca)
		}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: 10 * time.Second}, nil
}

// An application is this program.
type application struct {
	ctx            context.Context // carries the HTTP client
	issuer, origin string
	provider       *oidc.Provider
	verifier       *oidc.IDTokenVerifier
	oauth          oauth2.Config
	metadata       struct {
		EndSession string `json:"end_session_endpoint"`
	}

	mu       sync.Mutex
	sessions map[string]*session // by the value of the cookie
}

// A session is the state of one browser.
type session struct {
	mu      sync.Mutex
	pending map[string]login // pending logins, by state
	token   *oauth2.Token    // nil unless a user is signed in
	idToken string
	user    user
}

// A login is what the response to an authorization request must match.
type login struct{ verifier, nonce string }

// A user is the user's claims. The application identifies users by Subject, because names
// and email addresses change.
type user struct {
	Subject  string `json:"sub"`
	Name     string `json:"name"`
	Email    string `json:"email"`
	Verified bool   `json:"email_verified"`
}

func (a *application) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request, *session) error{
		"GET /{$}": a.home, "GET /login": a.login, "GET /callback": a.callback, "POST /refresh": a.refresh, "POST /logout": a.logout,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			s := a.session(w, r)
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := handle(w, r, s); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	return http.NewCrossOriginProtection().Handler(mux)
}

const cookieName = "signin_sample"

// session returns the browser's session, or begins one.
func (a *application) session(w http.ResponseWriter, r *http.Request) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cookie, err := r.Cookie(cookieName); err == nil && a.sessions[cookie.Value] != nil {
		return a.sessions[cookie.Value]
	}
	if len(a.sessions) > 1000 {
		clear(a.sessions) // a sample's way to limit memory
	}
	id := rand.Text()
	a.sessions[id] = &session{pending: map[string]login{}}
	// With HTTPS it would be Secure, and its name would begin with __Host-.
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	return a.sessions[id]
}

// login sends the browser to Mintage. The state binds the response to this browser, the
// nonce binds the id_token to this login, and the verifier binds the code.
func (a *application) login(w http.ResponseWriter, r *http.Request, s *session) error {
	if len(s.pending) > 20 {
		clear(s.pending)
	}
	state, l := rand.Text(), login{verifier: oauth2.GenerateVerifier(), nonce: rand.Text()}
	s.pending[state] = l
	http.Redirect(w, r, a.oauth.AuthCodeURL(state, oidc.Nonce(l.nonce), oauth2.S256ChallengeOption(l.verifier)), http.StatusSeeOther)
	return nil
}

// callback handles the response of Mintage.
func (a *application) callback(w http.ResponseWriter, r *http.Request, s *session) error {
	q := r.URL.Query()
	l, ours := s.pending[q.Get("state")]
	if !ours {
		return errors.New("no login of this browser has this state")
	}
	delete(s.pending, q.Get("state"))
	if q.Get("iss") != a.issuer { // RFC 9207: the response of another server is not for this one
		return errors.New("the response comes from another issuer")
	}
	if code := q.Get("error"); code != "" {
		return fmt.Errorf("not signed in: %s: %s", code, q.Get("error_description"))
	}
	token, err := a.oauth.Exchange(a.ctx, q.Get("code"), oauth2.VerifierOption(l.verifier))
	if err != nil {
		return err
	}
	if err := a.accept(s, token, l.nonce, ""); err != nil {
		return err
	}
	http.Redirect(w, r, "/", http.StatusSeeOther) // removes the code from the address bar
	return nil
}

// accept verifies the id_token of a token response and reads the user's claims.
// The id_token of a refresh has no nonce, and must name the same subject (OpenID
// Connect Core section 12.2).
func (a *application) accept(s *session, token *oauth2.Token, nonce, subject string) error {
	text, _ := token.Extra("id_token").(string)
	idToken, err := a.verifier.Verify(a.ctx, text) // signature, issuer, audience, expiry
	if err != nil {
		return err
	}
	if idToken.Nonce != nonce || subject != "" && idToken.Subject != subject {
		return errors.New("the id_token is of another login")
	}
	if err := idToken.VerifyAccessToken(token.AccessToken); err != nil {
		return err
	}
	info, err := a.provider.UserInfo(a.ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return err
	}
	if info.Subject != idToken.Subject { // OpenID Connect Core section 5.3.2
		return errors.New("userinfo is about another subject")
	}
	s.token, s.idToken, s.user = token, text, user{}
	return info.Claims(&s.user)
}

// refresh gets new tokens and reads the claims again. The library would do so by itself
// when the access token has expired.
func (a *application) refresh(w http.ResponseWriter, r *http.Request, s *session) error {
	if s.token != nil {
		token, err := a.oauth.TokenSource(a.ctx, &oauth2.Token{RefreshToken: s.token.RefreshToken}).Token()
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) && refused.ErrorCode == "invalid_grant" {
			s.token, s.idToken, s.user = nil, "", user{} // the grant has ended; no other error means that
		} else if err != nil {
			return err
		} else if err := a.accept(s, token, "", s.user.Subject); err != nil {
			return err
		}
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

// logout signs the user out here, and then at Mintage.
func (a *application) logout(w http.ResponseWriter, r *http.Request, s *session) error {
	next := a.origin + "/"
	if s.token != nil && a.metadata.EndSession != "" {
		next = a.metadata.EndSession + "?" + url.Values{"id_token_hint": {s.idToken}, "post_logout_redirect_uri": {next}}.Encode()
	}
	s.token, s.idToken, s.user = nil, "", user{}
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

var page = template.Must(template.New("").Parse(`<!doctype html>
<title>Sign in</title>
{{if .Subject}}
<p>Hello, <b id="name">{{.Name}}</b> ({{.Subject}}).
<p id="email">{{if .Email}}{{.Email}}{{if .Verified}}, verified{{end}}{{else}}no email address{{end}}
<form method="post" action="/refresh"><button id="refresh">Refresh</button></form>
<form method="post" action="/logout"><button id="logout">Sign out</button></form>
{{else}}
<p><a id="sign-in" href="/login">Sign in</a>
{{end}}
`))

func (a *application) home(w http.ResponseWriter, _ *http.Request, s *session) error {
	shown := user{}
	if s.token != nil {
		shown = s.user
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return page.Execute(w, shown)
}
