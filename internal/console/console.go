// Package console serves the pages with which operators manage a deployment. It calls the
// admin API in this process, as the signed-in operator, and can do nothing that the admin
// API cannot. No page requires JavaScript; pages with a stream use it if available.
package console

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// A Console serves the pages. Its fields are set before first use.
type Console struct {
	URL     string         // as browsers see it, without a trailing slash
	Service string         // name of the service, which authenticator apps show
	Users   *account.Users // built-in users; nil: there are none
	// Enrolled returns the change to commit when a user enrols a second factor.
	Enrolled func(by admin.Actor, u account.User, at grant.Instant) store.Change
	Dev      bool // serve --dev: an invitation suffices to sign in
	// LoginSystem is where operators sign in if users are not built in; nil: by invitation
	// only.
	LoginSystem *LoginSystem
	API         http.Handler // the admin API
	Store       store.Store
	Now         func() time.Time
	Log         *slog.Logger
	Audit       *audit.Log // nil: nothing is recorded

	slots    chan struct{} // for concurrent requests
	streams  chan struct{} // for concurrent streams
	interval time.Duration // between two polls of a stream
	export   int           // the most records of an export

	throttled overload.OnceAMinute // networks whose throttling was recorded within a minute
}

// A LoginSystem is the one that manages the users. Operators sign in there.
type LoginSystem struct {
	URL      string // begins a login
	At       string // names the system
	ACR, AMR []string
	Rules    []config.OperatorRule
}

// Limits of the console, which keep its load from slowing the token endpoint.
const (
	maxRequests = 4
	requestTime = 10 * time.Second
	maxForm     = 64 << 10
)

// A request is a request to the console, with its session and operator.
type request struct {
	*http.Request
	outer   context.Context // without the timeout of a request
	id      string
	now     grant.Instant
	locale  string
	address netip.Addr
	session *operator.Session  // nil: nobody has signed in
	who     *operator.Operator // nil: nobody has signed in, or the second factor is unchecked
	// polled is set if the page polls, without the operator: that does not extend the
	// session.
	polled bool
}

// A reply is a page, a redirect, a file or a stream.
type reply struct {
	status  int
	page    any
	to      string       // a redirect, in place of the page
	refresh string       // the address that the page opens at once; "": none
	cookie  *http.Cookie // nil: none
	known   *http.Cookie // marks the browser as known (see remember); nil: none
	file    *file        // in place of a page
	stream  *stream      // appends items to page; nil: none
}

// A stream appends items to a page. Without JavaScript, the response with the page stays
// open; with it, a script reads server-sent events (HTML Living Standard section 9.2).
type stream struct {
	// next returns the items after the one with the number last (0: from the beginning), the
	// number of the newest item, and whether the stream is complete.
	next func(ctx context.Context, last uint64) (items []any, now uint64, done bool, err error)
	item string // template of an item
	end  string // template that follows the items; its data is whether the stream is complete
}

// A file is a download.
type file struct {
	name, kind string
	content    []byte
}

type handler func(ctx context.Context, r *request) (reply, error)

// A route is a method and a path, with their handler.
type route struct {
	method, path string
	handle       handler
	public       bool // requires no sign-in
}

// encrypted reports whether browsers reach the console by https.
func (c *Console) encrypted() bool { return strings.HasPrefix(c.URL, "https:") }

// cookieName returns the name of the session cookie. It differs from that of the account
// pages, which may have the same host: cookies ignore ports. The prefix __Host- keeps
// other hosts from setting the cookie (RFC 6265bis section 4.1.3.2); it requires https.
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

// known returns the value of the cookie that remember has set in this browser, or nil.
func (c *Console) known(r *request) []byte {
	k, err := r.Cookie(c.cookieName() + "_known")
	if err != nil {
		return nil
	}
	mark, _ := base64.RawURLEncoding.DecodeString(k.Value)
	return mark
}

// remember marks the browser as known after an operator has entered a code: failures in
// other browsers do not throttle a known browser (account.Users.KnownBrowser).
func (c *Console) remember(a *reply, username string) error {
	mark, err := c.Users.KnownBrowser(username, true)
	a.known = c.cookie(base64.RawURLEncoding.EncodeToString(mark))
	a.known.Name += "_known"
	a.known.MaxAge = account.KnownFor
	return err
}

// slot waits for a concurrency slot, and returns the function that frees it.
func (c *Console) slot(ctx context.Context) (free func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, store.Unavailable(ctx.Err())
	}
}

// identify reads the session and the operator of a request's cookie from the store. It
// sets r.session, and r.who unless the second factor is still to be checked.
func (c *Console) identify(ctx context.Context, r *request) error {
	list := r.CookiesNamed(c.cookieName())
	if len(list) != 1 {
		return nil
	}
	open := operator.Open
	if r.polled {
		open = operator.Look
	}
	s, err := open(ctx, c.Store, list[0].Value, c.now())
	if errors.Is(err, operator.ErrNoSession) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.At != "" && (c.LoginSystem == nil || s.At != c.LoginSystem.At) || s.How == operator.ByPassword && c.Users == nil {
		return nil // the session is of an earlier configuration of logins
	}
	o, _, err := c.operatorOf(ctx, s.Operator, s.Rule)
	if errors.Is(err, operator.ErrUnknown) {
		return nil // the operator or its rule was removed
	}
	if err != nil {
		return store.Unavailable(err)
	}
	if c.Users != nil && !c.Dev {
		u, err := c.Users.Present(ctx, o.Name)
		if errors.Is(err, account.ErrWrong) {
			return nil // the user was disabled or deleted
		}
		if err != nil {
			return err
		}
		if u.Epoch != s.Epoch || !u.SecondFactor && s.Factor == nil {
			return nil // the password or the second factor was changed
		}
	}
	if r.session = &s; !s.Pending {
		r.who = &o
	}
	return nil
}

// operatorOf returns an operator of the store, or else one by a rule that the
// configuration still has. It returns operator.ErrUnknown if there is neither.
func (c *Console) operatorOf(ctx context.Context, name, rule string) (o operator.Operator, byRule bool, err error) {
	o, err = operator.Find(ctx, c.Store, name)
	if !errors.Is(err, operator.ErrUnknown) || c.LoginSystem == nil {
		return o, false, err
	}
	i := slices.IndexFunc(c.LoginSystem.Rules, func(r config.OperatorRule) bool { return r.String() == rule })
	if i < 0 {
		return o, false, err
	}
	r := c.LoginSystem.Rules[i]
	if o = (operator.Operator{Name: name, Role: r.Role}); r.Realm != "" {
		o.Realm = "/" + r.Realm
	}
	return o, true, nil
}

func (c *Console) now() grant.Instant { return grant.At(c.Now()) }

// actor returns the operator as the admin API and the audit log name it.
func actor(o operator.Operator) admin.Actor {
	return admin.Actor{Via: admin.ViaConsole, Name: o.Name, Role: admin.Role(o.Role), Realm: o.Realm}
}

// record records a refused sign-in. The username is "" unless it is an operator's.
func (c *Console) record(r *request, name audit.Name, username, detail string) {
	c.Audit.Record(audit.Event{Name: name, Outcome: audit.Refused, Actor: strings.TrimSuffix("console:"+username, ":"), Detail: detail, RequestID: r.id, RemoteIP: r.address})
}

// recordThrottled records a throttled sign-in, at most once a minute for each network.
func (c *Console) recordThrottled(r *request, username, detail string) {
	if c.throttled.First(r.address, c.Now()) {
		c.record(r, audit.Throttled, username, detail+"; further ones within a minute are not recorded")
	}
}
