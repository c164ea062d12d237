// Package demo serves the demo client of serve --dev as a web application. A developer
// signs in, and its pages show each message between the client and the server: the code,
// its redemption, a refresh, the same refresh again, and a replay.
//
// The application stores nothing: hidden fields of its forms contain the tokens. That is
// safe only because the server is for one developer, on loopback.
package demo

import (
	"bytes"
	"context"
	"crypto/subtle"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
)

// Paths below the base path of the server.
const (
	Path         = "/demo"
	CallbackPath = Path + "/callback"
	beginPath    = Path + "/sign-in"
	apiPath      = Path + "/api"
	assetsPath   = Path + "/assets/"
)

// scope is the scope that the demo requests. The demo API requires read.
const scope = "openid profile email read"

// A Client is the demo client, with the user who signs in.
type Client struct {
	ID       string
	Secret   oauth.Secret
	Username string
}

// A Demo serves the pages.
type Demo struct {
	Site      server.Site
	Issuer    *issuer.Issuer
	Directory *directory.Directory
	// Client returns the demo client, once the server has created it.
	Client func() Client
	// Explain writes an explanation of a token or a code.
	Explain func(ctx context.Context, w io.Writer, text string) error

	server *server.Server // answers the requests of the demo client
}

//go:embed templates/*.html
var templates embed.FS

//go:embed static/demo.css
var style []byte

var tree = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"when": func(i grant.Instant) template.HTML { return pages.Time(i.Time()) }}).ParseFS(templates, "templates/*.html"))
})

var headers = http.Header{
	"Content-Type":            {"text/html; charset=utf-8"},
	"Content-Security-Policy": {"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"},
	"X-Frame-Options":         {"DENY"},
	// With no-referrer, browsers would send "Origin: null" with the demo's own forms.
	"Referrer-Policy":              {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
}

// Routes returns the pages and the API, to be mounted on s.
func (d *Demo) Routes(s *server.Server) []server.Route {
	d.server = s
	base := d.Site.BasePath
	page := func(name, path string, methods []string, handle func(context.Context, *server.Request) (server.Answer, error)) server.Route {
		return server.Route{Name: name, Paths: []string{base + path}, Methods: methods, Class: overload.Login, Page: true, Headers: headers,
			Handle: func(ctx context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
				a, err = handle(ctx, r)
				return a, rec, err
			}}
	}
	get := []string{http.MethodGet}
	asset := page("demo asset", assetsPath+"{file}", get, nil)
	asset.Handle = server.Published(d.asset)
	api := page("demo api", apiPath, get, d.api)
	api.Headers, api.Page = nil, false
	return []server.Route{
		page("demo", Path, get, d.start), page("demo sign-in", beginPath, get, d.begin),
		page("demo callback", CallbackPath, []string{http.MethodGet, http.MethodPost}, d.callback), api, asset,
	}
}

func (d *Demo) asset(_ context.Context, r *server.Request) (server.Publication, error) {
	switch r.PathValue("file") {
	case "style.css":
		return server.Publication{Media: "text/css; charset=utf-8", MaxAge: time.Hour, Body: append(pages.StyleSheet(), style...)}, nil
	case "icon.svg":
		return server.Publication{Media: "image/svg+xml", MaxAge: time.Hour, Body: pages.Icon()}, nil
	}
	return server.Publication{}, oauth.ErrNotFound
}

// at returns the address of a page.
func (d *Demo) at(path string) string { return d.Site.PublicURL + d.Site.BasePath + path }

// Callback returns the redirect URI of the demo.
func (d *Demo) Callback() string { return d.at(CallbackPath) }

func (d *Demo) start(context.Context, *server.Request) (server.Answer, error) {
	return d.render(page{Stage: atStart, User: d.Client().Username})
}

// cookie is the name of the cookie that holds the state of a sign-in and its PKCE
// verifier.
const cookie = "__Host-mintage_demo"

// begin redirects to the authorization endpoint, as a client must: with a state and a PKCE
// challenge that are bound to this browser by a cookie.
func (d *Demo) begin(context.Context, *server.Request) (server.Answer, error) {
	state, verifier := string(keys.NewSecret()), string(keys.NewSecret())
	to := d.at("/oauth2/authorize?") + url.Values{
		"response_type": {"code"}, "client_id": {d.Client().ID}, "redirect_uri": {d.Callback()}, "scope": {scope}, "state": {state},
		"code_challenge": {oauth.ChallengeOf(verifier)}, "code_challenge_method": {"S256"},
	}.Encode()
	c := http.Cookie{Name: cookie, Value: state + "." + verifier, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	return server.Answer{Status: http.StatusSeeOther, Header: http.Header{"Location": {to}}, Cookies: []string{c.String()}}, nil
}

// begun returns the state and the verifier in the cookie that begin has set.
func begun(r *http.Request) (state, verifier string) {
	if list := r.CookiesNamed(cookie); len(list) == 1 {
		state, verifier, _ = strings.Cut(list[0].Value, ".")
	}
	return state, verifier
}

// callback shows the response of the authorization endpoint (GET), and performs the
// actions that the developer chooses (POST).
func (d *Demo) callback(ctx context.Context, r *server.Request) (server.Answer, error) {
	if r.Method == http.MethodPost {
		return d.act(ctx, r)
	}
	p, err := r.Query(r.URL.RawQuery)
	if err != nil {
		return server.Answer{}, err
	}
	pg := page{Stage: atCode, Code: p["code"], From: p["iss"], User: d.Client().Username}
	state, _ := begun(r.Request)
	switch {
	case p["error"] != "":
		pg.Stage, pg.Wrong, pg.Detail = atStart, wrongError, p["error"]+": "+p["error_description"]
	case state == "" || subtle.ConstantTimeCompare([]byte(p["state"]), []byte(state)) != 1:
		pg.Stage, pg.Wrong = atStart, wrongState
	case p["code"] == "":
		pg.Stage, pg.Wrong = atStart, wrongNothing
	}
	return d.render(pg)
}

// api is the demo API, which requires the scope read.
func (d *Demo) api(ctx context.Context, r *server.Request) (server.Answer, error) {
	text, err := r.Bearer()
	if err != nil {
		return server.Answer{}, err
	}
	if err := r.Enter(r.Route.Class); err != nil {
		return server.Answer{}, err
	}
	t, err := d.Issuer.Inspect(ctx, text)
	switch _, refused := err.(*grant.Refused); {
	case refused:
		return server.Answer{}, oauth.ErrInvalidToken
	case err != nil:
		return server.Answer{}, err
	case !t.Scope.Has("read"):
		return server.Answer{}, oauth.ErrInsufficientScope
	}
	body, err := json.Marshal(map[string]any{"message": "The token is in force.", "subject": t.Subject, "scope": t.Scope})
	return server.Answer{Body: body}, err
}

func (d *Demo) render(p page) (server.Answer, error) {
	p.Base = d.Site.BasePath + Path
	var b bytes.Buffer
	err := tree().ExecuteTemplate(&b, "page.html", p)
	return server.Answer{Body: b.Bytes()}, err
}

// longValue matches a JSON string of which only the beginning is shown: other parts of the
// page show the whole tokens.
var longValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"([A-Za-z0-9_.-]{28})[A-Za-z0-9_.-]{28,}"`) })

// send sends a request of the demo client, and returns it with its response.
func (d *Demo) send(r *server.Request, method, path, authorization string, form []field) (*message, error) {
	m := &message{Method: method, Path: d.Site.BasePath + path, Fields: form}
	values := url.Values{}
	for _, f := range form {
		values.Set(f.Name, f.value)
	}
	out, err := http.NewRequestWithContext(r.Context(), method, d.at(path), strings.NewReader(values.Encode()))
	if err != nil {
		return nil, err
	}
	// Keep the browser's address and TLS state, as if the browser had sent the request.
	out.RemoteAddr, out.TLS = r.RemoteAddr, r.TLS
	out.Header.Set("Authorization", authorization)
	if form != nil {
		out.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := server.InProcess{Handler: d.server.Handler()}.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	m.Status, m.Challenge = resp.StatusCode, resp.Header.Get("WWW-Authenticate")
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	m.body = text
	var pretty bytes.Buffer
	if json.Indent(&pretty, text, "", "  ") == nil {
		text = pretty.Bytes()
	}
	m.Body = longValue().ReplaceAllString(string(text), `"$1…"`)
	return m, nil
}

// basic returns the client's HTTP Basic credentials for the token endpoint (RFC 6749
// section 2.3.1).
func (d *Demo) basic() string {
	c := d.Client()
	return "Basic " + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:%s", url.QueryEscape(c.ID), url.QueryEscape(string(c.Secret))))
}
