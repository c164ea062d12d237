// Package console serves the pages with which operators look at a deployment. It calls
// the admin API in this process, as the operator who has signed in, and can do nothing
// that the admin API cannot. It needs no script; a page that grows is nicer with one.
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
	URL     string         // in browsers, without a slash at its end
	Service string         // name of the service, which authenticator apps show
	Users   *account.Users // built-in users; nil: there are none
	// Enrolled returns what is stored with a user who has enrolled a second factor.
	Enrolled func(by admin.Actor, u account.User, at grant.Instant) store.Change
	Dev      bool // serve --dev: an invitation alone lets in
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
	export   int           // the most records of an export

	throttled overload.OnceAMinute // networks whose throttling is recorded
}

// An Elsewhere is the login system that manages the users. Operators sign in there.
type Elsewhere struct {
	URL      string // begins a login
	At       string // names the system
	ACR, AMR []string
	Rules    []config.OperatorRule
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
	known   *http.Cookie // of a browser that is known from now on; nil: none
	file    *file        // in place of a page
	stream  *stream      // which the page grows by; nil: it does not
}

// A stream makes a page grow until it is over. Without a script, the answer with the page
// ends late; with one, the page reads events (HTML Living Standard section 9.2).
type stream struct {
	// next returns the items after the one that last counts, 0 for none; the count of the
	// last of them; and whether there will be no more.
	next func(ctx context.Context, last uint64) (items []any, now uint64, done bool, err error)
	item string // their template
	end  string // the template of what follows the last; it gets whether there was a last one
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

// known is the cookie of a browser in which an operator has signed in before, or nil.
func (c *Console) known(r *request) []byte {
	k, err := r.Cookie(c.cookieName() + "_known")
	if err != nil {
		return nil
	}
	mark, _ := base64.RawURLEncoding.DecodeString(k.Value)
	return mark
}

// remember makes a browser known in which an operator has entered a code: failures in
// others do not throttle it (account.Users.KnownBrowser).
func (c *Console) remember(a *reply, username string) error {
	mark, err := c.Users.KnownBrowser(username, true)
	a.known = c.cookie(base64.RawURLEncoding.EncodeToString(mark))
	a.known.Name += "_known"
	a.known.MaxAge = account.KnownFor
	return err
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
	if s.At != "" && (c.Elsewhere == nil || s.At != c.Elsewhere.At) || s.How == operator.ByPassword && c.Users == nil {
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
		if u.Epoch != s.Epoch || !u.SecondFactor && s.Factor == nil {
			return nil // another password, or the factor is removed
		}
	}
	if r.session = &s; !s.Pending {
		r.who = &o
	}
	return nil
}

// operatorOf returns an operator as it is now: as it was added, or else by a rule, which
// must still be in force.
func (c *Console) operatorOf(ctx context.Context, name, rule string) (o operator.Operator, byRule bool, err error) {
	o, err = operator.Find(ctx, c.Store, name)
	if !errors.Is(err, operator.ErrUnknown) || c.Elsewhere == nil {
		return o, false, err
	}
	i := slices.IndexFunc(c.Elsewhere.Rules, func(r config.OperatorRule) bool { return r.String() == rule })
	if i < 0 {
		return o, false, err
	}
	r := c.Elsewhere.Rules[i]
	if o = (operator.Operator{Name: name, Role: r.Role}); r.Realm != "" {
		o.Realm = "/" + r.Realm
	}
	return o, true, nil
}

func (c *Console) now() grant.Instant { return grant.At(c.Now()) }

// actor is the operator, for the admin API and the audit log.
func actor(o operator.Operator) admin.Actor {
	return admin.Actor{Via: admin.ViaConsole, Name: o.Name, Role: admin.Role(o.Role), Realm: o.Realm}
}

// record records a refused attempt to get in, of an operator or, with the name "", of
// somebody else.
func (c *Console) record(r *request, name audit.Name, username, detail string) {
	c.Audit.Record(audit.Event{Name: name, Outcome: audit.Refused, Actor: strings.TrimSuffix("console:"+username, ":"), Detail: detail, RequestID: r.id, RemoteIP: r.address})
}

// recordThrottled is record for an attempt that was not looked at, at most once a minute
// for each network.
func (c *Console) recordThrottled(r *request, username, detail string) {
	if c.throttled.First(r.address, c.Now()) {
		c.record(r, audit.Throttled, username, detail+"; further ones within a minute are not recorded")
	}
}
