package server

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/authorize"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/upstream"
)

// A Front is the part of a server that people see. One of Users, Handoff and
// Upstream says how they sign in.
type Front struct {
	Authorizer *authorize.Authorizer
	Pages      *pages.Set
	Users      *account.Users
	Handoff    string // address of the provider's own login page
	Upstream   *upstream.Provider
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

// visitor is what the request's cookies say. Of two with one name, neither is
// believed.
func visitor(r *http.Request) authorize.Visitor {
	return authorize.Visitor{Browser: cookie(r, browserCookie), Session: cookie(r, sessionCookie)}
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
func (s *Server) guest(r *http.Request, x *exchange) authorize.Visitor {
	v := visitor(r)
	if v.Browser == "" {
		v.Browser = authorize.NewBrowser()
		x.setCookie(browserCookie, v.Browser, 0)
	}
	if x.counted.IsValid() {
		v.Network = overload.Party(x.counted)
		v.Charge = func(kilobytes int) bool { return s.throttle.Begin(x.counted, kilobytes) }
	}
	return v
}

// stamp notes in its cookie that a session is used.
func (s *Server) stamp(x *exchange, session *authorize.Session) {
	if fresh := s.opt.Front.Authorizer.Refresh(session); fresh != "" {
		x.setCookie(sessionCookie, fresh, 0)
	}
}

// known is the cookie of a browser that has signed in before, or nil.
func known(r *http.Request) []byte {
	b, err := base64.RawURLEncoding.DecodeString(cookie(r, knownCookie))
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
func (s *Server) crossSite(r *http.Request) error {
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
func pageHeaders(h http.Header) {
	h["Content-Type"] = headerHTML
	h["Content-Security-Policy"] = headerPolicy
	h["X-Frame-Options"] = headerDeny
	h["Referrer-Policy"] = headerSameOrigin
	h["Cross-Origin-Resource-Policy"] = headerSameOrigin
}

var (
	headerHTML       = []string{"text/html; charset=utf-8"}
	headerDeny       = []string{"DENY"}
	headerSameOrigin = []string{"same-origin"}
	headerPolicy     = []string{policy("'self'")}
)

func policy(formAction string) string {
	return "default-src 'none'; style-src 'self'; img-src 'self'; form-action " + formAction + "; frame-ancestors 'none'; base-uri 'none'"
}

// formPolicy is the policy of a page whose form leads to a client, or to a login
// elsewhere. Chromium checks every redirect that follows a form against
// form-action, and the client's own redirects too: hence every https address,
// and the given ones if they are others.
func formPolicy(addresses ...string) []string {
	sources := "'self' https:"
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
	return []string{policy(sources)}
}

// page renders a view in the language of the request.
func (s *Server) page(x *exchange, status int, view any) (answer, error) {
	body, err := s.opt.Front.Pages.Render(x.locale, view)
	return answer{status: status, body: body}, err
}

// language is the one that the user reads, as the client or the browser says.
func (s *Server) language(r *http.Request, x *exchange, uiLocales string) {
	x.locale = s.opt.Front.Pages.Locale(uiLocales, strings.Join(r.Header["Accept-Language"], ","))
}

// seeOther sends the browser on with GET, also after a POST: no other status
// makes sure that a password does not go along (RFC 9700 section 4.12).
func seeOther(to string) answer {
	return answer{status: http.StatusSeeOther, header: http.Header{"Location": {to}, "Content-Type": nil}}
}

// at is the address of a page of ours. It is never made of what a request says
// of its host.
func (s *Server) at(path string) string { return s.opt.PublicURL + s.opt.BasePath + path }

func (s *Server) interactionURL(id string) string {
	return s.at(interactionPath) + "?id=" + id
}

const (
	interactionPath = "/oauth2/interaction"
	connectionsPath = "/account/connections"
	logoutPath      = "/account/logout"
)

// asset is the style sheet or an image of the brand.
func (s *Server) asset(_ context.Context, r *http.Request) (document, error) {
	body, media, ok := s.opt.Front.Pages.Asset(r.PathValue("file"))
	if !ok {
		return document{}, oauth.ErrNotFound
	}
	return document{media: media, body: body, maxAge: assetMaxAge}, nil
}

// assetMaxAge is how long a changed image of the brand may be the old one. The
// style sheet's name changes with its content.
const assetMaxAge = time.Hour
