package console

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
)

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
		{get, "/users/{user}", u.user, false},
		{get, "/apis", i.apis, false},
		{get, "/new/api", i.newAPI, false},
		{get, "/apis/{api}", i.api, false},
		{get, "/apis/{api}/consent", i.consent, false},
		{get, "/apis/{api}/edit", i.editAPI, false},
		{get, "/restores", c.restores, false},
		{get, "/new/restore", c.newRestore, false},
		{get, "/audit", a.auditLog, false},
		{get, "/audit/export", a.exportAudit, false},
		{get, "/audit/follow", a.followAudit, false},
		{get, "/explain", c.explainForm, false},
		{post, "/explain", c.explain, false},
		{get, "/grants", g.grants, false},
		{get, "/grants/{grant}", g.grant, false},
		{get, "/clients", k.clients, false},
		{get, "/new/client", k.newClient, false},
		{get, "/clients/{client}", k.client, false},
		{get, "/clients/{client}/watch", k.watch, false},
		{get, "/clients/{client}/edit", k.editClient, false},
		{get, "/operators", c.operators, false},
	},
		c.creates("/new/user", "/users", true, u.createUser),
		c.creates("/users/{user}/password", "/users/{user}", false, u.setPassword),
		c.creates("/new/api", "/apis", true, i.saveAPI),
		c.creates("/apis/{api}/edit", "/apis", true, i.saveAPI),
		c.creates("/new/restore", "/restores", true, c.declareRestore),
		c.creates("/new/client", "/clients", true, k.createClient),
		c.creates("/clients/{client}/edit", "/clients/{client}", true, k.saveClient),
		c.creates("/clients/{client}/secrets", "/clients/{client}", false, k.addSecret),
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
	c.export = cmp.Or(c.export, maxExport)
	mux := http.NewServeMux()
	for _, rt := range c.routes() {
		mux.Handle(rt.method+" "+rt.path, c.serve(rt))
		mux.Handle(rt.method+" /realms/{realm}"+rt.path, c.serve(rt))
	}
	mux.HandleFunc("GET /assets/{file}", asset)
	mux.Handle("/", c.serve(route{public: true, handle: func(context.Context, *request) (reply, error) { return reply{}, errNotFound }}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		maps.Copy(h, headers)
		// Reject other hosts: after DNS rebinding, an attacker's pages would share their origin
		// with the console.
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

// serve answers the requests of a route.
func (c *Console) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		ctx, cancel := context.WithTimeout(hr.Context(), requestTime)
		defer cancel()
		hr.Body = http.MaxBytesReader(w, hr.Body, maxForm)
		origin := audit.Origin{RequestID: server.RequestID(), RemoteIP: server.PeerOf(hr)}
		ctx = audit.With(ctx, origin)
		r := &request{Request: hr.WithContext(ctx), outer: hr.Context(), id: origin.RequestID, now: c.now(), locale: localeOf(hr), polled: asksForEvents(hr), address: origin.RemoteIP}
		w.Header().Set("X-Request-Id", r.id)
		a, err := c.answer(ctx, rt, r)
		if err != nil {
			a = c.failed(r, err)
		}
		for _, k := range []*http.Cookie{a.cookie, a.known} {
			if k != nil {
				http.SetCookie(w, k)
			}
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
			if g := (streamResponse{c, w, r, a.stream}); r.polled {
				g.events()
			} else {
				g.page(a.page)
			}
			return
		}
		c.write(w, r, a)
	})
}

// answer makes the checks that all pages share, and calls the handler of the route.
func (c *Console) answer(ctx context.Context, rt route, r *request) (reply, error) {
	// Every current browser sends an Origin with a form. An opaque one is "null".
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		// Read the form before taking a slot, so that a slow sender holds none.
		if r.Header.Get("Origin") != c.URL {
			return reply{}, errForged
		}
		if err := r.ParseForm(); errors.As(err, new(*http.MaxBytesError)) {
			return reply{}, errTooLarge
		} else if err != nil {
			return reply{}, errForged
		}
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
	case r.Method == http.MethodPost:
		return reply{status: http.StatusForbidden, page: endedPage{}}, nil
	}
	return reply{to: "/sign-in"}, nil
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
