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

// localTo returns which kind of program on the user's device receives a redirect URI, ""
// for a website.
func localTo(redirectURI string) pages.Local {
	switch {
	case oauth.IsRemote(redirectURI):
		return ""
	case oauth.IsLoopback(redirectURI):
		return pages.LocalProgram
	}
	return pages.LocalApp
}

// clientName returns the name of a registered client, or "".
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

// scope returns a scope with the texts of the API that defines it, if any.
func (s *endpoints) scope(name string, isNew bool) pages.Scope {
	out := pages.Scope{Name: name, New: isNew}
	if api, ok := s.Authorizer.Directory.Latest().APIOfScope(s.Authorizer.Realm, name); ok {
		of, _ := api.FindScope(name)
		out.Texts = of.Texts
	}
	return out
}

// beyond returns the scopes that other clients may obtain by exchanging tokens of a client
// (RFC 8693).
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

// named returns claims as the entries that the pages show.
func named(set claims.Set) (out []pages.Scope) {
	for _, name := range set.Names() {
		out = append(out, pages.Scope{Name: pages.ClaimPrefix + name})
	}
	return out
}

// form returns a page whose form may lead, by redirects, to the client.
func (s *endpoints) form(x *exchange, redirectURI string, view any, status int) (server.Answer, error) {
	a, err := s.page(x, status, view)
	a.Header = http.Header{"Content-Security-Policy": formPolicy(redirectURI, s.login())}
	return a, err
}

// ownForm returns a page whose form leads to a page of this server, which redirects to the
// login system if nobody is signed in.
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

// formPolicy returns the Content-Security-Policy of a page whose form may lead to a client
// or to another login system. Chromium checks every redirect after a form against
// form-action, also those of the client. The policy therefore allows all https addresses,
// and those of the given ones that are not https.
func formPolicy(addresses ...string) []string {
	return []string{policy("'self' " + targets(addresses...))}
}

// sendPolicy returns the policy of the page that posts a response to a client by script.
// It allows that script, and no other.
func sendPolicy(redirectURI string) []string {
	sum := sha256.Sum256([]byte(pages.Script))
	return []string{policy(targets(redirectURI)) + "; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"}
}

// targets returns the sources for form-action (see formPolicy).
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

// locale returns the user's language, by ui_locales or Accept-Language.
func (s *endpoints) locale(r *server.Request, uiLocales string) string {
	return s.Pages.Locale(uiLocales, strings.Join(r.Header["Accept-Language"], ","))
}

// seeOther redirects the browser with status 303, which makes it send a GET also after a
// POST. With another status, it could send a password along (RFC 9700 section 4.12).
func seeOther(to string) server.Answer {
	return server.Answer{Status: http.StatusSeeOther, Header: http.Header{"Location": {to}, "Content-Type": nil}}
}

// respond sends the browser to the client with a response, in the response mode of the
// request: uri is the redirect URI with the response as its query.
func (s *endpoints) respond(locale string, c *store.Client, r oauth.AuthorizationRequest, uri string) (server.Answer, error) {
	if !r.FormPost {
		return seeOther(uri), nil
	}
	a, err := s.render(locale, http.StatusOK, pages.FormPost{Client: login.ShownName(c), Host: oauth.Host(r.RedirectURI), URL: r.RedirectURI, Fields: fields(r, uri)})
	// Let the client's site see the origin of the form: with the policy of other pages,
	// browsers send "Origin: null".
	a.Header = http.Header{"Content-Security-Policy": sendPolicy(r.RedirectURI), "Referrer-Policy": {"origin"}}
	return a, err
}

// fields returns the parameters of a response in their order, nil unless the response mode
// is form_post.
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

// pageHeaders are on every page (RFC 9700 sections 4.2.4 and 4.16). Referrer-Policy is not
// no-referrer, because browsers then send "Origin: null" with this server's own forms.
var pageHeaders = http.Header{
	"Content-Type":                 {"text/html; charset=utf-8"},
	"Content-Security-Policy":      {policy("'self'")},
	"X-Frame-Options":              {"DENY"},
	"Referrer-Policy":              {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
}

// A formError shows a form again because of a wrong input.
type formError struct {
	shown server.Answer
	cause error // for the log
}

func (e *formError) Error() string { return e.cause.Error() }
func (e *formError) Unwrap() error { return e.cause }
