package web

import (
	"errors"
	"net/http"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/upstream"
)

var (
	// errNoCookies is an interaction in a browser that sends no cookie back.
	errNoCookies = errors.New("browser sends no cookies")
	// errForm is a form that none of our pages has made.
	errForm = errors.New("form of no page")
	// errRejected is whoever knows the users, and does not let this one in.
	errRejected = errors.New("login rejected")
)

// pageProblem is the one map from what we know to what a user is told.
func (s *web) pageProblem(err error) (status int, key pages.MessageKey, code oauth.ErrorCode) {
	var told *oauth.Error
	switch {
	case errors.Is(err, errCrossSite):
		return http.StatusForbidden, pages.CrossSite, ""
	case errors.Is(err, errNoCookies):
		return http.StatusBadRequest, pages.CookiesOff, ""
	case errors.Is(err, login.ErrInteraction):
		return http.StatusForbidden, pages.InteractionUnknown, ""
	case errors.Is(err, login.ErrExpired):
		return http.StatusGone, pages.InteractionExpired, ""
	case errors.Is(err, login.ErrAnswered):
		return http.StatusConflict, pages.InteractionAnswered, ""
	case errors.Is(err, login.ErrDescription):
		return http.StatusBadGateway, pages.ClientUnread, ""
	case errors.Is(err, login.ErrClientChanged):
		return http.StatusBadRequest, pages.ClientChanged, ""
	case errors.Is(err, login.ErrSwitched), errors.Is(err, login.ErrSignedOut):
		return http.StatusForbidden, pages.UserSwitched, ""
	case errors.Is(err, login.ErrStep), errors.Is(err, errForm):
		return http.StatusBadRequest, pages.BadRequest, ""
	case errors.Is(err, upstream.ErrDenied), errors.Is(err, errRejected), errors.Is(err, login.ErrSubject):
		return http.StatusForbidden, pages.Rejected, ""
	case errors.Is(err, upstream.ErrInvalid), errors.Is(err, upstream.ErrUnavailable):
		return http.StatusBadGateway, pages.UpstreamFailed, ""
	case errors.Is(err, login.ErrLimited):
		return http.StatusTooManyRequests, pages.TooMany, ""
	case errors.Is(err, overload.ErrShed), errors.Is(err, login.ErrCrowded), errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrBusy):
		return http.StatusServiceUnavailable, pages.Unavailable, oauth.TemporarilyUnavailable
	case !errors.As(err, &told):
		return http.StatusInternalServerError, pages.Internal, oauth.ServerError
	}
	switch told {
	case oauth.ErrUnknownClient, oauth.ErrAuthorizationClient:
		return http.StatusBadRequest, pages.UnknownClient, told.Code
	case oauth.ErrRedirectMismatch, oauth.ErrAuthorizationRedirect:
		if s.RedirectURIMismatch && told == oauth.ErrRedirectMismatch {
			return http.StatusBadRequest, pages.BadRedirectURI, "redirect_uri_mismatch"
		}
		return http.StatusBadRequest, pages.BadRedirectURI, told.Code
	case oauth.ErrLogoutRedirect:
		return http.StatusBadRequest, pages.BadRedirectURI, told.Code
	case oauth.ErrMethod, oauth.ErrNotGet:
		return http.StatusMethodNotAllowed, pages.Method, ""
	case oauth.ErrNotFound:
		return http.StatusNotFound, pages.NotFound, ""
	case oauth.ErrTooLarge:
		return http.StatusRequestEntityTooLarge, pages.TooLarge, ""
	case oauth.ErrTooManyRequests:
		return http.StatusTooManyRequests, pages.TooMany, ""
	}
	return http.StatusBadRequest, pages.BadRequest, told.Code
}

// redirects reports whether an error goes to the client at once (RFC 6749 section
// 4.1.2.1). Nobody vouches for a client that registered itself: it may have sent the
// user here only to be sent on, with our good name, to a malicious site (RFC 9700
// section 4.11.2). With ErrorPage, this is assumed of every client, unless the user
// is signed in or the client has asked for no page. A fault of ours is a page as
// well: the user can try again.
func (s *web) redirects(e *login.ClientError) bool {
	switch {
	case e.Client.SelfRegistered():
		return e.Clicked // on a page that named the redirect URI's host
	case s.ErrorPage, e.Cause != nil:
		return e.SignedIn || e.Request.Prompt.None
	}
	return true
}

// pageAnswer is the page for err, or the way to the client that is to hear of
// it.
func (s *web) pageAnswer(h http.Header, r *server.Request, rec server.Record, err error) server.Answer {
	var form *formError
	if errors.As(err, &form) {
		return form.shown
	}
	locale := rec.Locale
	if locale == "" {
		locale = s.locale(r, "") // of a panic
	}
	var view any
	status := http.StatusBadRequest
	var toClient *login.ClientError
	switch {
	case errors.As(err, &toClient) && s.redirects(toClient):
		a, fault := s.respond(locale, toClient.Client, toClient.Request, toClient.URL)
		s.unrendered(r, fault)
		return a
	case toClient != nil && toClient.Cause == nil:
		// The user decides whether to follow a link to the client.
		bounce := pages.Bounce{
			Client: toClient.Client.Name, Host: login.Host(toClient.Request.RedirectURI), URL: toClient.URL,
			Code: string(toClient.Told.Code), Detail: toClient.Told.Description, RequestID: r.ID,
		}
		if bounce.Fields = fields(toClient.Request, toClient.URL); bounce.Fields != nil {
			bounce.URL = toClient.Request.RedirectURI
		}
		view = bounce
	default:
		var key pages.MessageKey
		var code oauth.ErrorCode
		status, key, code = s.pageProblem(err)
		message := pages.Message{Key: key, Client: rec.ClientName, Code: string(code), RequestID: r.ID}
		// Without a code, the message itself says all of it.
		var told *oauth.Error
		if code != "" && errors.As(err, &told) {
			message.Detail = told.Description
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

func (s *web) unrendered(r *server.Request, fault error) {
	if fault != nil {
		s.Authorizer.Issuer.Log.Error("cannot render a page", "request_id", r.ID, "error", fault)
	}
}
