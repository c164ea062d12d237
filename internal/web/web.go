package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/upstream"
)

// A Front serves the pages for users. Users, Handoff or Upstream determines how users sign
// in.
type Front struct {
	Authorizer *login.Authorizer
	Pages      *pages.Set
	Users      *account.Users
	Handoff    string // login.handoff_url
	Upstream   *upstream.Provider
	// EndAll ends all sessions and grants of a subject at the user's own request; nil: the
	// pages do not offer that.
	EndAll func(ctx context.Context, subject string) error

	Documents           bool // clients may describe themselves by a document
	RedirectURIMismatch bool // compat.redirect_uri_mismatch
	ErrorPage           bool // authorization.error_page: always
}

// Claims returns the claims of a subject: of the record of a built-in user, or else of the
// subject's last login.
func (f *Front) Claims(ctx context.Context, subject string) (claims.Claims, error) {
	if f.Users != nil {
		if c, err := f.Users.Claims(ctx, subject); !errors.Is(err, store.ErrNotFound) {
			return c, err
		}
	}
	return f.Authorizer.Claims(ctx, subject)
}

// endpoints serves the pages of a server.
type endpoints struct {
	*server.Server
	*Front
	sameOrigin *http.CrossOriginProtection // of the pages' forms
}

// exchange is a request to a page, with what its handling adds.
type exchange struct {
	*server.Request
	server.Report
	cookies []string // to be set
	// found is the interaction of this browser that the request is about, or nil.
	found *login.Interaction
}

// login returns the address of the external login system, "" if users sign in here.
func (f *Front) login() string {
	if f.Upstream != nil {
		return f.Upstream.Issuer()
	}
	return f.Handoff
}

// guest returns the visitor of a request that may begin an interaction. It sets a cookie
// that identifies the browser, unless the browser has sent one.
func (s *endpoints) guest(r *http.Request, x *exchange) login.Visitor {
	v := s.visitor(r)
	if v.Browser == "" {
		v.Browser = login.NewBrowser()
		x.setCookie(s.ofRealm(browserCookie), v.Browser, 0)
	}
	return s.charged(x, v)
}

// charged returns v with the limits for its interactions: the rate limit of the request's
// address, and the share of its network.
func (s *endpoints) charged(x *exchange, v login.Visitor) login.Visitor {
	if x.Counted.IsValid() {
		v.Network = overload.Party(x.Counted)
		v.Charge = func(kilobytes int) bool { return s.Throttle.Begin(x.Counted, kilobytes) }
	}
	return v
}

// errCrossSite means that a form was sent from another site (CSRF).
var errCrossSite = errors.New("form sent by another site")

// crossSite refuses requests that our own pages did not make (CWE-352). It refuses
// requests with neither Origin nor Sec-Fetch-Site: every current browser sends one.
func (s *endpoints) crossSite(r *http.Request) error {
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return errCrossSite
	}
	if s.sameOrigin.Check(r) != nil {
		return errCrossSite
	}
	return nil
}

// at returns the address of a page of this server, from the configuration and never
// from the request's Host.
func (s *endpoints) at(path string) string { return s.PublicURL + s.BasePath + path }

func (s *endpoints) interactionURL(id string) string {
	return s.at(interactionPath) + "?id=" + id
}

const (
	interactionPath = "/oauth2/interaction"
	connectionsPath = "/account/connections"

	// ConsolePath is the address at which an operator's login begins.
	ConsolePath = "/account/console"

	// DevicePath is the address of the page on which users enter the codes of devices.
	DevicePath = "/device"

	// LogoutPath is the address of the page that ends a session, and to which an
	// OpenID Connect provider sends browsers back.
	LogoutPath = "/account/logout"
)

// asset returns the style sheet or an image of the brand.
func (s *endpoints) asset(_ context.Context, r *server.Request) (server.Publication, error) {
	body, media, ok := s.Pages.Asset(r.PathValue("file"))
	if !ok {
		return server.Publication{}, oauth.ErrNotFound
	}
	return server.Publication{Media: media, Body: body, MaxAge: assetMaxAge}, nil
}

// assetMaxAge is how long a browser may show an old image of the brand after a change. The
// style sheet's name changes with its content.
const assetMaxAge = time.Hour

// entered takes a concurrency slot, and returns the parameters of the query, or of the
// submitted form.
func (s *endpoints) entered(r *http.Request, x *exchange) (p oauth.Params, err error) {
	if r.Method == http.MethodPost {
		p, err = s.submitted(x)
	} else {
		p, err = x.Query(r.URL.RawQuery)
	}
	if err != nil {
		return nil, err
	}
	return p, x.Enter(x.Route.Class)
}

// submitted returns the parameters of a form that a page of this server has sent.
func (s *endpoints) submitted(x *exchange) (oauth.Params, error) {
	if err := s.crossSite(x.Request.Request); err != nil {
		return nil, err
	}
	body, err := x.FormBody()
	if err != nil {
		return nil, err
	}
	p, _, err := oauth.ParseParams(body, "", false)
	if err != nil {
		return nil, err
	}
	return p, p.CheckLengths()
}

// cookieless returns errNoCookies for an unknown interaction in a browser that has sent no
// cookie, and err otherwise.
func cookieless(v login.Visitor, err error) error {
	if err == login.ErrInteraction && v.Browser == "" {
		return errNoCookies
	}
	return err
}

// errNoCookies means that a browser in an interaction sends no cookies.
var errNoCookies = errors.New("browser sends no cookies")
