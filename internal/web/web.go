package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/upstream"
)

// A Front is the part of a server that people see. One of Users, Handoff and
// Upstream says how they sign in.
type Front struct {
	Authorizer *login.Authorizer
	Pages      *pages.Set
	Users      *account.Users
	Handoff    string // address of the provider's own login page
	Upstream   *upstream.Provider
	// EndAll ends all sessions and grants of a subject, by its own wish; nil: users
	// cannot do that here.
	EndAll func(ctx context.Context, subject string) error

	Documents           bool // clients may describe themselves by a document
	RedirectURIMismatch bool // compat.redirect_uri_mismatch
	ErrorPage           bool // authorization.error_page: always
}

// Claims returns what is known about a subject: the record of a built-in user, or
// what the last login of another subject said.
func (f *Front) Claims(ctx context.Context, subject string) (claims.Claims, error) {
	if f.Users != nil {
		if c, err := f.Users.Claims(ctx, subject); !errors.Is(err, store.ErrNotFound) {
			return c, err
		}
	}
	return f.Authorizer.Claims(ctx, subject)
}

// web is the pages of a server.
type web struct {
	*server.Server
	*Front
	sameOrigin *http.CrossOriginProtection // of the pages' forms
}

// exchange is what the steps of one page find out about its request.
type exchange struct {
	*server.Request
	server.Record
	cookies []string // to be set
	// found is the interaction of this browser that the request is about, or nil.
	found *login.Interaction
}

// metadata returns the members of the authorization endpoint (OpenID Connect
// Discovery section 3). Absent, the two about requests would say that request_uri is
// supported.
func (f *Front) metadata() map[string]any {
	members := map[string]any{
		"ui_locales_supported": pages.Locales, "subject_types_supported": []string{"public"},
		"prompt_values_supported":  []string{"none", "login", "consent", "select_account"},
		"response_modes_supported": []string{"query", "form_post"}, "claims_parameter_supported": true, "request_parameter_supported": false, "request_uri_parameter_supported": false,
		"backchannel_logout_supported": true, "backchannel_logout_session_supported": true,
	}
	if f.Documents { // absent means no
		members["client_id_metadata_document_supported"] = true
	}
	supported := slices.Concat(openid.ClaimsSupported, claims.Names())
	switch {
	case f.Users != nil:
		members["acr_values_supported"] = openid.Classes // of other systems nobody knows theirs
	case f.Upstream != nil:
		supported = slices.Concat(openid.ClaimsSupported, f.Upstream.Claims())
	}
	slices.Sort(supported)
	members["claims_supported"] = supported
	return members
}

// Routes returns the pages, to be mounted on s.
func (f *Front) Routes(s *server.Server) []server.Route {
	w := &web{s, f, http.NewCrossOriginProtection()}
	// A proxy may have put another Host into the request.
	if err := w.sameOrigin.AddTrustedOrigin(s.PublicURL); err != nil {
		panic(err) // the check of the configuration refuses such an address
	}
	// HEAD is not among the methods of a form: a code is never made for a caller
	// that does not read it.
	form := []string{http.MethodGet, http.MethodPost}
	page := func(name, path string, methods []string, handle pageHandler) server.Route {
		return server.Route{Name: name, Paths: []string{path}, Methods: methods, Class: overload.Login, Handle: w.handler(handle), Error: w.pageAnswer, Page: true, Headers: pageHeaders}
	}
	authorization := page("authorization", "authorize", form, w.authorize)
	authorization.Class, authorization.Member, authorization.Metadata = overload.Code, "authorization_endpoint", f.metadata()
	asset := page("asset", s.BasePath+"/account/assets/{file}", []string{http.MethodGet, http.MethodHead}, nil)
	asset.Handle = server.Published(w.asset)
	// The second path is that of OpenAM.
	endSession := page("end session", "end_session", form, logouts{w}.asked)
	endSession.Paths, endSession.Member = append(endSession.Paths, "connect/endSession"), "end_session_endpoint"
	routes := []server.Route{
		authorization, endSession, page("interaction", "interaction", form, w.interaction),
		page("connections", s.BasePath+connectionsPath, form, w.connections), page("logout", s.BasePath+LogoutPath, form, logouts{w}.ofAccount),
		asset, page("request", "/", nil, w.lost),
	}
	if f.Upstream != nil {
		routes = append(routes, page("upstream login", "callback", form[:1], provider{w}.callback), server.Route{
			Name: "upstream logout", Paths: []string{"backchannel_logout"}, Methods: form[1:], Class: overload.Login, Handle: provider{w}.logout,
		})
	}
	return routes
}

type pageHandler func(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error)

// handler makes a Handler of a page's.
func (s *web) handler(handle pageHandler) server.Handler {
	return func(ctx context.Context, r *server.Request) (server.Answer, server.Record, error) {
		x := &exchange{Request: r}
		x.Locale = s.locale(r, "")
		var a server.Answer
		err := r.Admit()
		if err == nil {
			a, err = handle(ctx, r.Request, x)
		}
		err = s.withWayBack(x, err)
		var told *login.ClientError
		x.Fault = errors.As(err, &told) && told.Cause != nil
		a.Cookies = x.cookies
		return a, x.Record, err
	}
}

// lost shows the way to people who have typed the address of the server alone.
func (s *web) lost(_ context.Context, r *http.Request, _ *exchange) (server.Answer, error) {
	switch strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, s.BasePath), "/") {
	case "", "/account":
		return seeOther(s.at(connectionsPath)), nil
	}
	return server.Answer{}, oauth.ErrNotFound
}

// login is where people sign in, "" if it is here.
func (f *Front) login() string {
	if f.Upstream != nil {
		return f.Upstream.Issuer()
	}
	return f.Handoff
}

// Cookies. The prefix keeps them to this host, this scheme and every path
// (RFC 6265bis section 4.1.3.2). Lax, because users arrive from their client's
// site.
const (
	browserCookie = "__Host-mintage_browser"
	sessionCookie = "__Host-mintage_session"
	knownCookie   = "__Host-mintage_known"
)

// knownFor is how long a browser is known, in seconds.
const knownFor = 365 * 24 * 60 * 60

// ofRealm returns the name of a cookie in the realm. Several realms may have one host.
func (s *web) ofRealm(name string) string {
	if s.Realm == oauth.DefaultRealm {
		return name
	}
	return name + "_" + strings.TrimPrefix(s.Realm, "/")
}

// visitor is what the request's cookies say. Of two with one name, neither is
// believed.
func (s *web) visitor(r *http.Request) login.Visitor {
	return login.Visitor{Browser: cookie(r, s.ofRealm(browserCookie)), Session: cookie(r, s.ofRealm(sessionCookie))}
}

func cookie(r *http.Request, name string) string {
	list := r.CookiesNamed(name)
	if len(list) != 1 {
		return ""
	}
	return list[0].Value
}

// guest is the visitor of a request that may begin an interaction: their browser
// gets a cookie by which to know it again.
func (s *web) guest(r *http.Request, x *exchange) login.Visitor {
	v := s.visitor(r)
	if v.Browser == "" {
		v.Browser = login.NewBrowser()
		x.setCookie(s.ofRealm(browserCookie), v.Browser, 0)
	}
	return s.charged(x, v)
}

// charged is a visitor whose interactions are charged to the request's address, and
// to the share of its network.
func (s *web) charged(x *exchange, v login.Visitor) login.Visitor {
	if x.Counted.IsValid() {
		v.Network = overload.Party(x.Counted)
		v.Charge = func(kilobytes int) bool { return s.Throttle.Begin(x.Counted, kilobytes) }
	}
	return v
}

// stamp notes in its cookie that a session is used.
func (s *web) stamp(x *exchange, session *login.Session) {
	if fresh := s.Authorizer.Refresh(session); fresh != "" {
		x.setCookie(s.ofRealm(sessionCookie), fresh, 0)
	}
}

// known is the cookie of a browser that has signed in before, or nil.
func (s *web) known(r *http.Request) []byte {
	b, err := base64.RawURLEncoding.DecodeString(cookie(r, s.ofRealm(knownCookie)))
	if err != nil || len(b) == 0 || len(b) > 128 {
		return nil
	}
	return b
}

// setCookie adds a cookie to the answer. An empty value removes it. Age is in
// seconds; zero is for as long as the browser runs.
func (x *exchange) setCookie(name, value string, age int) {
	c := http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: age}
	if value == "" {
		c.MaxAge = -1
	}
	x.cookies = append(x.cookies, c.String())
}

// errCrossSite is a form that another site has sent, or made somebody send.
var errCrossSite = errors.New("form sent by another site")

// crossSite refuses requests that our own pages did not make (CWE-352). What
// tells neither where it comes from nor how is no browser of this decade.
func (s *web) crossSite(r *http.Request) error {
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return errCrossSite
	}
	if s.sameOrigin.Check(r) != nil {
		return errCrossSite
	}
	return nil
}

// pageHeaders are on every page (RFC 9700 sections 4.2.4 and 4.16). The policy
// of referrers is not no-referrer: with it, browsers send our own forms with
// "Origin: null".
var pageHeaders = http.Header{
	"Content-Type":                 {"text/html; charset=utf-8"},
	"Content-Security-Policy":      {policy("'self'")},
	"X-Frame-Options":              {"DENY"},
	"Referrer-Policy":              {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
}

func policy(formAction string) string {
	return "default-src 'none'; style-src 'self'; img-src 'self'; form-action " + formAction + "; frame-ancestors 'none'; base-uri 'none'"
}

// formPolicy is the policy of a page whose form leads to a client, or to a login
// elsewhere. Chromium checks every redirect that follows a form against
// form-action, and the client's own redirects too: hence every https address,
// and the given ones if they are others.
func formPolicy(addresses ...string) []string {
	return []string{policy("'self' " + targets(addresses...))}
}

// targets are the sources that formPolicy explains.
func targets(addresses ...string) string {
	sources := "https:"
	for _, uri := range addresses {
		u, err := url.Parse(uri)
		switch {
		case err != nil || u.Scheme == "" || u.Scheme == "https":
		case u.Scheme != "http":
			sources += " " + u.Scheme + ":"
		case strings.HasPrefix(u.Host, "["):
			sources += " http:" // a source cannot name an IPv6 address
		default:
			sources += " http://" + u.Host
		}
	}
	return sources
}

// sendPolicy is the policy of the page that posts a response to a client by script.
// Of scripts, it allows the one of the page.
func sendPolicy(redirectURI string) []string {
	sum := sha256.Sum256([]byte(pages.Script))
	return []string{policy(targets(redirectURI)) + "; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"}
}

// page renders a view in the language of the request.
func (s *web) page(x *exchange, status int, view any) (server.Answer, error) {
	return s.render(x.Locale, status, view)
}

func (s *web) render(locale string, status int, view any) (server.Answer, error) {
	body, err := s.Pages.Render(locale, view)
	return server.Answer{Status: status, Body: body}, err
}

// locale is the language of the user, as the client or the browser says.
func (s *web) locale(r *server.Request, uiLocales string) string {
	return s.Pages.Locale(uiLocales, strings.Join(r.Header["Accept-Language"], ","))
}

// seeOther sends the browser on with GET, also after a POST: no other status
// makes sure that a password does not go along (RFC 9700 section 4.12).
func seeOther(to string) server.Answer {
	return server.Answer{Status: http.StatusSeeOther, Header: http.Header{"Location": {to}, "Content-Type": nil}}
}

// respond sends the browser to the client with a response, as the client wants it:
// uri is the redirect URI with the response as its query.
func (s *web) respond(locale string, c *store.Client, r oauth.AuthorizationRequest, uri string) (server.Answer, error) {
	if !r.FormPost {
		return seeOther(uri), nil
	}
	a, err := s.render(locale, http.StatusOK, pages.FormPost{Client: login.ShownName(c), Host: oauth.Host(r.RedirectURI), URL: r.RedirectURI, Fields: fields(r, uri)})
	// The client sees from where the form comes: with the policy of other pages, it
	// would see "Origin: null".
	a.Header = http.Header{"Content-Security-Policy": sendPolicy(r.RedirectURI), "Referrer-Policy": {"origin"}}
	return a, err
}

// fields are the members of a response, in their order; nil if the client takes
// them as a query.
func fields(r oauth.AuthorizationRequest, uri string) (list []pages.Field) {
	if !r.FormPost {
		return nil
	}
	for pair := range strings.SplitSeq(uri[len(r.RedirectURI)+1:], "&") { // after ? or &
		name, value, _ := strings.Cut(pair, "=")
		value, _ = url.QueryUnescape(value) // issuer.AppendQuery has escaped it
		list = append(list, pages.Field{Name: name, Value: value})
	}
	return list
}

// at is the address of a page of ours. It is never made of what a request says
// of its host.
func (s *web) at(path string) string { return s.PublicURL + s.BasePath + path }

func (s *web) interactionURL(id string) string {
	return s.at(interactionPath) + "?id=" + id
}

const (
	interactionPath = "/oauth2/interaction"
	connectionsPath = "/account/connections"

	// LogoutPath is the address of the page that ends a session, and to which an
	// OpenID Connect provider sends browsers back.
	LogoutPath = "/account/logout"
)

// asset is the style sheet or an image of the brand.
func (s *web) asset(_ context.Context, r *server.Request) (server.Document, error) {
	body, media, ok := s.Pages.Asset(r.PathValue("file"))
	if !ok {
		return server.Document{}, oauth.ErrNotFound
	}
	return server.Document{Media: media, Body: body, MaxAge: assetMaxAge}, nil
}

// assetMaxAge is how long a changed image of the brand may be the old one. The
// style sheet's name changes with its content.
const assetMaxAge = time.Hour
