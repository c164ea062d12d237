package web

import (
	"errors"
	"net/http"
	"slices"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/upstream"
)

// A problem is a page about an error in of. The page shows the code of an oauth.Error if
// coded is set.
type problem struct {
	status int
	key    pages.MessageKey
	coded  bool
	of     []error
}

// problems are searched in this order.
var problems = []problem{
	{http.StatusForbidden, pages.CrossSite, false, []error{errCrossSite}},
	{http.StatusBadRequest, pages.CookiesOff, false, []error{errNoCookies}},
	{http.StatusForbidden, pages.InteractionUnknown, false, []error{login.ErrInteraction}},
	{http.StatusGone, pages.InteractionExpired, false, []error{login.ErrExpired}},
	{http.StatusConflict, pages.InteractionAnswered, false, []error{login.ErrAnswered}},
	{http.StatusBadRequest, pages.ClientDisabled, false, []error{oauth.ErrDisabledClient}}, // also while its user is being asked
	{http.StatusBadGateway, pages.ClientUnread, false, []error{login.ErrDescription}},
	{http.StatusBadRequest, pages.ClientChanged, false, []error{login.ErrClientChanged}},
	{http.StatusForbidden, pages.UserSwitched, false, []error{login.ErrSwitched, login.ErrSignedOut}},
	{http.StatusBadRequest, pages.BadRequest, false, []error{login.ErrStep, login.ErrForm}},
	{http.StatusForbidden, pages.Rejected, false, []error{upstream.ErrDenied, login.ErrRejected, login.ErrSubject}},
	{http.StatusBadGateway, pages.UpstreamFailed, false, []error{upstream.ErrInvalid, upstream.ErrUnavailable}},
	{http.StatusTooManyRequests, pages.TooManyCodes, false, []error{login.ErrManyCodes}},
	{http.StatusTooManyRequests, pages.TooManyClients, false, []error{login.ErrRecords}},
	{http.StatusTooManyRequests, pages.TooMany, false, []error{login.ErrLimited}},
	{http.StatusServiceUnavailable, pages.Unavailable, true, []error{overload.ErrShed, login.ErrCrowded, store.ErrUnavailable, store.ErrBusy}},
	{http.StatusBadRequest, pages.UnknownClient, true, []error{oauth.ErrUnknownClient, oauth.ErrAuthorizationClient}},
	{http.StatusBadRequest, pages.BadRedirectURI, true, []error{oauth.ErrRedirectMismatch, oauth.ErrAuthorizationRedirect, oauth.ErrLogoutRedirect}},
	{http.StatusMethodNotAllowed, pages.Method, false, []error{oauth.ErrMethod, oauth.ErrNotGet, oauth.ErrNotGetOrPost}},
	{http.StatusNotFound, pages.NotFound, false, []error{oauth.ErrNotFound}},
	{http.StatusRequestEntityTooLarge, pages.TooLarge, false, []error{oauth.ErrTooLarge}},
	{http.StatusTooManyRequests, pages.TooMany, false, []error{oauth.ErrTooManyRequests}},
	{http.StatusBadRequest, pages.BadRequest, true, nil}, // of any oauth.Error
}

// pageProblem maps each error to the page that the user sees. It is the only such map.
func (f *Front) pageProblem(err error) (status int, key pages.MessageKey, code oauth.ErrorCode) {
	public, _ := errors.AsType[*oauth.Error](err)
	for _, p := range problems {
		if !slices.ContainsFunc(p.of, func(e error) bool { return errors.Is(err, e) }) && (p.of != nil || public == nil) {
			continue
		}
		switch {
		case p.key == pages.Unavailable:
			code = oauth.TemporarilyUnavailable
		case public == oauth.ErrRedirectMismatch && f.RedirectURIMismatch:
			code = "redirect_uri_mismatch"
		case p.coded:
			code = public.Code
		}
		return p.status, p.key, code
	}
	return http.StatusInternalServerError, pages.Internal, oauth.ServerError
}

// redirects reports whether the browser goes to the client with an error at once (RFC 6749
// section 4.1.2.1), without a page. A client that registered itself is not trusted: it may
// use this server as an open redirector to a malicious site (RFC 9700 section 4.11.2).
// With ErrorPage, no client is trusted, unless the user is signed in or the request has
// prompt=none. The same applies to a fault of this server, so that the user can try again.
func (f *Front) redirects(e *login.ClientError) bool {
	switch {
	case e.Client.SelfRegistered():
		// The user clicked on a page that named the host of the redirect URI. A denial must not
		// start a program on the user's device.
		return e.Clicked && localTo(e.Request.RedirectURI) != pages.LocalApp
	case f.ErrorPage, e.Cause != nil:
		return e.SignedIn || e.Request.Prompt.None
	}
	return true
}

// A stuckError ends an interaction on a page that links to the client or the console
// (back), or to the page of ours to which the user came (again). One of both is "".
type stuckError struct {
	error
	back, again string
}

func (e *stuckError) Unwrap() error { return e.error }

// namesApplication are the messages that send the user back to an application.
var namesApplication = []pages.MessageKey{
	pages.BadRequest, pages.InteractionExpired, pages.InteractionAnswered, pages.UserSwitched, pages.ClientChanged, pages.UpstreamFailed, pages.Rejected,
}

// withWayBack adds a link to an error that ends a login: to the client, if there is a safe
// one, to the console, or to the page of ours to which the user came.
func (s *endpoints) withWayBack(x *exchange, err error) error {
	if err == nil || x.found == nil {
		return err
	}
	_, key, _ := s.pageProblem(err)
	if !slices.Contains(namesApplication, key) {
		return err
	}
	stuck := &stuckError{error: err}
	switch {
	case x.found.Console != "":
		if c := s.Authorizer.Console; c != nil {
			x.ClientName, stuck.back = "Console", c.URL
		}
	case x.found.Device != nil:
		stuck.again = DevicePath[1:]
	case x.found.OfAccount():
		stuck.again = connectionsPath[1:]
	case slices.Contains([]pages.MessageKey{pages.InteractionExpired, pages.UserSwitched, pages.UpstreamFailed}, key):
		if c, back := s.Authorizer.WayBack(x.found); back != "" {
			x.ClientName, stuck.back = c.Name, back
		}
	}
	return stuck
}

// pageAnswer returns the page for err, or the redirect to the client that receives it.
func (s *endpoints) pageAnswer(h http.Header, r *server.Request, rec server.Report, err error) server.Answer {
	if form, ok := errors.AsType[*formError](err); ok {
		return form.shown
	}
	locale := rec.Locale
	if locale == "" {
		locale = s.locale(r, "") // after a panic, or before a handler ran
	}
	var view any
	status := http.StatusBadRequest
	var toClient *login.ClientError
	switch {
	case errors.As(err, &toClient) && s.redirects(toClient):
		a, fault := s.respond(locale, toClient.Client, toClient.Request, toClient.Callback(r.ID))
		s.unrendered(r, fault)
		return a
	case toClient != nil && toClient.Cause == nil:
		// The user decides whether to follow a link to the client.
		bounce := pages.Bounce{
			Client: login.ShownName(toClient.Client), Host: oauth.Host(toClient.Request.RedirectURI), URL: toClient.Callback(r.ID),
			Code: string(toClient.Public.Code), Detail: toClient.Public.Description, RequestID: r.ID, Denied: toClient.Clicked,
		}
		if localTo(toClient.Request.RedirectURI) == pages.LocalApp {
			bounce.Host = ""
		}
		if bounce.Fields = fields(toClient.Request, toClient.Callback(r.ID)); bounce.Fields != nil {
			bounce.URL = toClient.Request.RedirectURI
		}
		view = bounce
	default:
		var key pages.MessageKey
		var code oauth.ErrorCode
		status, key, code = s.pageProblem(err)
		message := pages.Message{Key: key, Client: rec.ClientName, Code: string(code), RequestID: r.ID}
		// Without a code, the message is complete.
		if public, ok := errors.AsType[*oauth.Error](err); ok && code != "" {
			message.Detail = public.Description
		}
		if stuck, ok := errors.AsType[*stuckError](err); ok {
			message.Back, message.Again = stuck.back, stuck.again
		}
		view = message
	}
	server.StatusHeaders(h, r, status, err)
	a, fault := s.render(locale, status, view)
	if bounce, ok := view.(pages.Bounce); ok && bounce.Fields != nil {
		a.Header = http.Header{"Content-Security-Policy": {policy(targets(bounce.URL))}}
	}
	s.unrendered(r, fault)
	return a
}

func (s *endpoints) unrendered(r *server.Request, fault error) {
	if fault != nil {
		s.Authorizer.Issuer.Log.Error("cannot render a page", "request_id", r.ID, "error", fault)
	}
}
