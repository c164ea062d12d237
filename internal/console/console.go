// Package console serves the pages with which operators look at a deployment. It calls
// the admin API in this process, as the operator who has signed in, and can do nothing
// that the admin API cannot. It needs no script; a page that grows is nicer with one.
package console

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
)

// A Console serves the pages. Its fields are set before first use.
type Console struct {
	URL     string         // in browsers, without a slash at its end
	Service string         // name of the service, which authenticator apps show
	Users   *account.Users // built-in users; nil: there are none
	Dev     bool           // serve --dev: an invitation alone lets in
	// Elsewhere is where operators sign in if users are not built in; nil: by invitation alone.
	Elsewhere *Elsewhere
	API       http.Handler // the admin API
	Store     store.Store
	Now       func() time.Time
	Log       *slog.Logger
	Audit     *audit.Log // nil: nothing is recorded

	slots    chan struct{} // of requests
	streams  chan struct{} // of pages that grow
	interval time.Duration // between their looks
}

// Limits of the console, so that looking never takes much from the token endpoint.
const (
	maxRequests = 4
	requestTime = 10 * time.Second
	maxForm     = 64 << 10
)

// A request is one request, and what is known of it.
type request struct {
	*http.Request
	outer   context.Context // without the time of a request
	id      string
	now     grant.Instant
	locale  string
	address netip.Addr
	session *operator.Session  // nil: nobody has signed in
	who     *operator.Operator // nil: nobody has, or a factor is still to be checked
	// byItself says that a page asks, and not the operator: it is no use of the session.
	byItself bool
}

// A reply is a page, or the way to one.
type reply struct {
	status  int
	page    any
	to      string       // a redirect, in place of the page
	refresh string       // where the page leads at once; "": nowhere
	cookie  *http.Cookie // nil: none
	file    *file        // in place of a page
	stream  *stream      // which the page grows by; nil: it does not
}

// A file is what a browser saves.
type file struct {
	name, kind string
	content    []byte
}

type handler func(ctx context.Context, r *request) (reply, error)

// A route is a page.
type route struct {
	method, path string
	handle       handler
	public       bool // nobody need have signed in
}

func (c *Console) routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	k, g, a, u, i, e, o := clientPages{c}, grantPages{c}, auditPages{c}, userPages{c}, apiPages{c}, entrance{c}, overviewPages{c}
	return slices.Concat([]route{
		{get, "/sign-in", e.signInPage, true},
		{post, "/sign-in", c.signIn, true},
		{get, "/sign-in/elsewhere", e.leave, true},
		{get, "/signed-in", e.arrived, true},
		{get, "/signed-in/{ticket}", e.enter, true},
		{get, "/invitation/{text}", e.invitationPage, true},
		{post, "/invitation/{text}", e.spendInvitation, true},
		{get, "/factor", e.factorPage, true},
		{post, "/factor", e.checkFactor, true},
		{post, "/sign-out", e.signOut, true},
		{get, "/{$}", o.overview, false},
		{get, "/checkup", o.checkupFindings, false},
		{post, "/checkup", o.checkNow, false},
		{get, "/realms", o.realms, false},
		{get, "/settings", o.settings, false},
		{get, "/keys", c.keys, false},
		{get, "/users", u.users, false},
		{get, "/new/user", u.newUser, false},
		{post, "/new/user", u.createUser, false},
		{get, "/users/{user}", u.user, false},
		{post, "/users/{user}/password", u.setPassword, false},
		{get, "/apis", i.apis, false},
		{get, "/new/api", i.newAPI, false},
		{post, "/new/api", i.saveAPI, false},
		{get, "/apis/{api}", i.api, false},
		{get, "/apis/{api}/consent", i.consent, false},
		{get, "/apis/{api}/edit", i.editAPI, false},
		{post, "/apis/{api}/edit", i.saveAPI, false},
		{get, "/restores", c.restores, false},
		{get, "/new/restore", c.newRestore, false},
		{post, "/new/restore", c.declareRestore, false},
		{get, "/audit", a.auditLog, false},
		{get, "/audit/export", a.exportAudit, false},
		{get, "/audit/follow", a.followAudit, false},
		{get, "/explain", c.explainForm, false},
		{post, "/explain", c.explain, false},
		{get, "/grants", g.grants, false},
		{get, "/grants/{grant}", g.grant, false},
		{get, "/clients", k.clients, false},
		{get, "/new/client", k.newClient, false},
		{post, "/new/client", k.createClient, false},
		{get, "/clients/{client}", k.client, false},
		{get, "/clients/{client}/watch", k.watch, false},
		{get, "/clients/{client}/edit", k.editClient, false},
		{post, "/clients/{client}/edit", k.saveClient, false},
		{post, "/clients/{client}/secrets", k.addSecret, false},
		{get, "/operators", c.operators, false},
	},
		reverses("/users/{user}/enable", u.enableUser),
		reverses("/clients/{client}/state", k.clientState),
		asks("/grants/end", g.askEndGrants),
		asks("/grants/{grant}/end", g.askEndGrant),
		asks("/sessions/end", g.askEndUserSession),
		asks("/operators/sessions/{session}/end", c.askEndSession),
		asks("/users/{user}/disable", u.askDisableUser),
		asks("/users/{user}/factor", u.askResetFactor),
		asks("/clients/{client}/secrets/{secret}/revoke", k.askRevokeSecret),
		asks("/keys/rotate", c.askRotateKeys),
		asks("/clients/{client}/delete", k.askDeleteClient),
		asks("/apis/{api}/delete", i.askDeleteAPI),
	)
}

// Handler serves the console.
func (c *Console) Handler() http.Handler {
	c.slots, c.streams, c.interval = make(chan struct{}, maxRequests), make(chan struct{}, maxStreams), cmp.Or(c.interval, streamInterval)
	mux := http.NewServeMux()
	for _, rt := range c.routes() {
		mux.Handle(rt.method+" "+rt.path, c.serve(rt))
		mux.Handle(rt.method+" /realms/{realm}"+rt.path, c.serve(rt))
	}
	mux.HandleFunc("GET /assets/{file}", asset)
	mux.Handle("/", c.serve(route{public: true, handle: func(context.Context, *request) (reply, error) { return reply{}, errNotFound }}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for name, values := range headers {
			h[name] = values
		}
		// Another name leads here after DNS rebinding: its pages would be of one origin
		// with ours.
		if !c.isOurs(r.Host) {
			http.Error(w, "this is the console of "+c.URL, http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

var headers = http.Header{
	"Content-Security-Policy":      {"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"},
	"X-Frame-Options":              {"DENY"},
	"X-Content-Type-Options":       {"nosniff"},
	"Referrer-Policy":              {"same-origin"}, // with no-referrer, browsers send "Origin: null" with our own forms
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	"Cache-Control":                {"no-store"},
}

// isOurs reports whether the Host of a request is that of the console.
func (c *Console) isOurs(host string) bool {
	u, err := url.Parse(c.URL)
	return err == nil && strings.EqualFold(host, u.Host)
}

// encrypted reports whether browsers reach the console by https.
func (c *Console) encrypted() bool { return strings.HasPrefix(c.URL, "https:") }

// cookieName is a name of the console's own: cookies ignore ports, and the account pages
// may have the same host. The prefix keeps others from setting it (RFC 6265bis section
// 4.1.3.2); it needs https.
func (c *Console) cookieName() string {
	if c.encrypted() {
		return "__Host-mintage_console"
	}
	return "mintage_console"
}

// cookie returns the cookie of a session, "" to remove it.
func (c *Console) cookie(value string) *http.Cookie {
	k := &http.Cookie{Name: c.cookieName(), Value: value, Path: "/", Secure: c.encrypted(), HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if value == "" {
		k.MaxAge = -1
	}
	return k
}

// serve answers the requests of a route.
func (c *Console) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		ctx, cancel := context.WithTimeout(hr.Context(), requestTime)
		defer cancel()
		hr.Body = http.MaxBytesReader(w, hr.Body, maxForm)
		r := &request{Request: hr.WithContext(ctx), outer: hr.Context(), id: server.RequestID(), now: c.now(), locale: localeOf(hr), byItself: asksForEvents(hr)}
		if peer, err := netip.ParseAddrPort(hr.RemoteAddr); err == nil {
			r.address = peer.Addr().Unmap()
		}
		w.Header().Set("X-Request-Id", r.id)
		a, err := c.answer(ctx, rt, r)
		if err != nil {
			a = c.failed(r, err)
		}
		if a.cookie != nil {
			http.SetCookie(w, a.cookie)
		}
		if a.to != "" {
			http.Redirect(w, hr, r.at(a.to), http.StatusSeeOther)
			return
		}
		if a.file != nil {
			w.Header().Set("Content-Type", a.file.kind)
			w.Header().Set("Content-Disposition", `attachment; filename="`+a.file.name+`"`)
			_, _ = w.Write(a.file.content)
			return
		}
		if a.stream != nil {
			if g := (growth{c, w, r, a.stream}); r.byItself {
				g.events()
			} else {
				g.page(a.page)
			}
			return
		}
		c.write(w, r, a)
	})
}

// answer checks what all pages have in common.
func (c *Console) answer(ctx context.Context, rt route, r *request) (reply, error) {
	// Every current browser sends an Origin with a form. An opaque one is null.
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get("Origin") != c.URL {
		return reply{}, errForged
	}
	if strings.Trim(r.PathValue("realm"), realmLetters) != "" {
		return reply{}, errNotFound
	}
	free, err := c.slot(ctx)
	if err != nil {
		return reply{}, err
	}
	defer free()
	if err := c.identify(ctx, r); err != nil {
		return reply{}, err
	}
	switch {
	case rt.public || r.who != nil:
		return rt.handle(ctx, r)
	case r.session != nil:
		return reply{to: "/factor"}, nil
	}
	return reply{to: "/sign-in"}, nil
}

// slot waits for a slot of the requests that run at once.
func (c *Console) slot(ctx context.Context) (free func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, store.Unavailable(ctx.Err())
	}
}

// identify reads the session of the request's cookie, and the operator as it is now.
func (c *Console) identify(ctx context.Context, r *request) error {
	list := r.CookiesNamed(c.cookieName())
	if len(list) != 1 {
		return nil
	}
	open := operator.Open
	if r.byItself {
		open = operator.Look
	}
	s, err := open(ctx, c.Store, list[0].Value, c.now())
	if errors.Is(err, operator.ErrNoSession) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.At != "" && (c.Elsewhere == nil || s.At != c.Elsewhere.At) {
		return nil // another system has the users now
	}
	o, _, err := c.operatorOf(ctx, s.Operator, s.Rule)
	if errors.Is(err, operator.ErrUnknown) {
		return nil // removed, or its rule was
	}
	if err != nil {
		return store.Unavailable(err)
	}
	if c.Users != nil && !c.Dev {
		u, err := c.Users.Present(ctx, o.Name)
		if errors.Is(err, account.ErrWrong) {
			return nil // disabled, or gone
		}
		if err != nil {
			return err
		}
		if u.Epoch != s.Epoch || !u.SecondFactor && !s.Pending {
			return nil // another password, or the factor is removed
		}
	}
	if r.session = &s; !s.Pending {
		r.who = &o
	}
	return nil
}

func (c *Console) now() grant.Instant { return grant.At(c.Now()) }

// actor is the operator, for the admin API and the audit log.
func actor(o operator.Operator) admin.Actor {
	return admin.Actor{Via: admin.ViaConsole, Name: o.Name, Role: admin.Role(o.Role), Realm: o.Realm}
}

// remote is the request's address for people.
func (r *request) remote() string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// record records a refused attempt to get in.
func (c *Console) record(r *request, name audit.Name, username, detail string) {
	c.Audit.Record(audit.Event{Name: name, Outcome: audit.Refused, Actor: "console:" + username, Detail: detail, RequestID: r.id, RemoteIP: r.address})
}

func asset(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=3600")
	switch r.PathValue("file") {
	case styleName:
		h.Set("Content-Type", "text/css; charset=utf-8")
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(style)
	case scriptName:
		h.Set("Content-Type", "text/javascript; charset=utf-8")
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(script)
	case "icon.svg":
		h.Set("Content-Type", "image/svg+xml")
		_, _ = w.Write(pages.Icon())
	default:
		http.NotFound(w, r)
	}
}
