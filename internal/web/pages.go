package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
)

// localTo says which program of the user's device a redirect URI leads to.
func localTo(redirectURI string) pages.Local {
	switch {
	case oauth.IsRemote(redirectURI):
		return ""
	case oauth.IsLoopback(redirectURI):
		return pages.LocalProgram
	}
	return pages.LocalApp
}

// clientName is what a registered client is called, or "".
func (s *endpoints) clientName(ctx context.Context, clientID string) string {
	directory := s.Authorizer.Directory
	view, err := directory.View()
	if err != nil {
		return ""
	}
	c, err := directory.Client(ctx, view, s.Authorizer.Realm, clientID)
	if err != nil || c == nil {
		return ""
	}
	return login.ShownName(c)
}

func (s *endpoints) scopes(list oauth.Scope) (out []pages.Scope) {
	for _, name := range list.Tokens() {
		out = append(out, s.scope(name, false))
	}
	return out
}

// scope is a scope with the texts of its API, if one has it.
func (s *endpoints) scope(name string, isNew bool) pages.Scope {
	out := pages.Scope{Name: name, New: isNew}
	if api, ok := s.Authorizer.Directory.Latest().APIOfScope(s.Authorizer.Realm, name); ok {
		of, _ := api.FindScope(name)
		out.Texts = of.Texts
	}
	return out
}

// beyond is what other clients may have by exchanging tokens of a client.
func (s *endpoints) beyond(clientID string) (out []pages.Beyond) {
	for _, c := range s.Authorizer.Directory.Latest().Beyond(s.Authorizer.Realm, clientID) {
		b := pages.Beyond{Client: c.Name}
		for _, of := range c.Beyond {
			b.Scopes = append(b.Scopes, s.scopes(of.Scope)...)
		}
		out = append(out, b)
	}
	return out
}

// named lists claims as the pages explain them.
func named(set claims.Set) (out []pages.Scope) {
	for _, name := range set.Names() {
		out = append(out, pages.Scope{Name: pages.ClaimPrefix + name})
	}
	return out
}

// form is a page whose form may end at the client.
func (s *endpoints) form(x *exchange, redirectURI string, view any, status int) (server.Answer, error) {
	a, err := s.page(x, status, view)
	a.Header = http.Header{"Content-Security-Policy": formPolicy(redirectURI, s.login())}
	return a, err
}

// ownForm is a page whose form leads to a page of ours, and by way of that to a login
// elsewhere if nobody is signed in.
func ownForm(s *endpoints, x *exchange, status int, view any) (server.Answer, error) {
	a, err := s.page(x, status, view)
	if elsewhere := s.login(); elsewhere != "" {
		a.Header = http.Header{"Content-Security-Policy": formPolicy(elsewhere)}
	}
	return a, err
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

// sendPolicy is the policy of the page that posts a response to a client by script. It
// allows that script, and no other.
func sendPolicy(redirectURI string) []string {
	sum := sha256.Sum256([]byte(pages.Script))
	return []string{policy(targets(redirectURI)) + "; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"}
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

// page renders a view in the language of the request.
func (s *endpoints) page(x *exchange, status int, view any) (server.Answer, error) {
	return s.render(x.Locale, status, view)
}

func (s *endpoints) render(locale string, status int, view any) (server.Answer, error) {
	body, err := s.Pages.Render(locale, view)
	return server.Answer{Status: status, Body: body}, err
}

// locale is the language of the user, as the client or the browser says.
func (s *endpoints) locale(r *server.Request, uiLocales string) string {
	return s.Pages.Locale(uiLocales, strings.Join(r.Header["Accept-Language"], ","))
}

// seeOther sends the browser on with GET, also after a POST: no other status
// makes sure that a password does not go along (RFC 9700 section 4.12).
func seeOther(to string) server.Answer {
	return server.Answer{Status: http.StatusSeeOther, Header: http.Header{"Location": {to}, "Content-Type": nil}}
}

// respond sends the browser to the client with a response, as the client wants it:
// uri is the redirect URI with the response as its query.
func (s *endpoints) respond(locale string, c *store.Client, r oauth.AuthorizationRequest, uri string) (server.Answer, error) {
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

// A formError is a form that is shown again because of what was typed into it.
type formError struct {
	shown server.Answer
	cause error // for the log
}

func (e *formError) Error() string { return e.cause.Error() }
func (e *formError) Unwrap() error { return e.cause }
