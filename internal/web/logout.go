package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
)

// logouts are the pages on which users sign out, also at the request of a client.
type logouts struct{ *endpoints }

// asked is the end-session endpoint (OpenID Connect RP-Initiated Logout 1.0 section 2). It
// ends the session at once for a GET that need not ask the user. It stores every other
// request, and redirects the browser to the question, because browsers send no cookies
// with a POST from another site. It does not check the origin: without an ID token of the
// session, another site can only make it ask the user.
func (s logouts) asked(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error) {
	body, err := posted(r, x)
	if err != nil {
		return server.Answer{}, err
	}
	q, realm, err := oauth.ParseLogout(body, r.URL.RawQuery)
	x.ClientID = q.ClientID
	x.Locale = s.locale(x.Request, q.UILocales)
	if err == nil && realm != "" && !x.IsRealm(realm) {
		err = oauth.ErrRealm
	}
	if err != nil {
		return s.refused(err)
	}
	if err := x.Enter(x.Route.Class); err != nil {
		return server.Answer{}, err
	}
	l, err := s.Authorizer.CheckLogout(q)
	x.ClientID = l.ClientID
	x.ClientName = s.clientName(ctx, x.ClientID)
	if err != nil {
		return s.refused(err)
	}
	v, signedIn := s.visitor(r), false
	if r.Method == http.MethodGet {
		session, err := s.Authorizer.Session(ctx, v.Session)
		if err != nil {
			return server.Answer{}, err
		}
		if !l.MustAsk(session) {
			return s.end(ctx, x, l, v, "asked by the client")
		}
		signedIn = true
	}
	if err := s.Authorizer.KeepLogout(ctx, l, s.charged(x, v), signedIn); err != nil {
		return server.Answer{}, err
	}
	return seeOther(s.interactionURL(l.ID)), nil
}

// kept continues a stored logout request: GET asks the user, unless that is needless, and
// POST takes the answer. If the answer is about another session than the current one, kept
// asks again.
func (s logouts) kept(ctx context.Context, r *http.Request, x *exchange, p oauth.Params) (server.Answer, error) {
	v := s.visitor(r)
	l, err := s.Authorizer.KeptLogout(ctx, p["id"])
	if l != nil {
		x.ClientID, x.Locale = l.ClientID, s.locale(x.Request, l.UILocales)
	}
	if err != nil {
		return server.Answer{}, cookieless(v, err)
	}
	session, err := s.Authorizer.Session(ctx, v.Session)
	if err != nil {
		return server.Answer{}, err
	}
	x.ClientName = s.clientName(ctx, x.ClientID)
	switch {
	case !l.MustAsk(session):
		return s.end(ctx, x, l, v, "asked by the client")
	case r.Method == http.MethodGet, p["action"] == "logout" && isOther(session, p):
		s.Metrics.Logout(metrics.LogoutAsked)
		s.stamp(x, session)
		return s.form(x, l.RedirectURI, pages.EndSession{Interaction: l.ID, Session: session.Mark(), Client: x.ClientName, Name: session.Name, Username: session.Username}, http.StatusOK)
	case p["action"] == "cancel":
		s.Metrics.Logout(metrics.LogoutDenied)
		return seeOther(s.at(connectionsPath)), nil
	case p["action"] != "logout":
		return server.Answer{}, login.ErrForm
	}
	return s.end(ctx, x, l, v, "asked by the client, confirmed by the user")
}

// isOther reports whether a form is about another session than the present one: another
// user has signed in since the form was shown. A form of a brand may lack the field.
func isOther(present *login.Session, form oauth.Params) bool {
	return form["session"] != "" && form["session"] != present.Mark()
}

// end ends the session, and redirects the browser to where it goes next.
func (s logouts) end(ctx context.Context, x *exchange, l *login.Logout, v login.Visitor, detail string) (server.Answer, error) {
	session, next, err := s.Authorizer.LogOut(ctx, l, v)
	if err != nil {
		return s.refused(err)
	}
	s.record(x, session, detail)
	return seeOther(s.after(ctx, x, session, l, next)), nil
}

// after returns the address to which the browser goes after a logout: next, or the logout
// page if next is "". If a session has ended and logouts are passed on, the browser visits
// the OpenID Connect provider first. An error there does not fail the logout.
func (s logouts) after(ctx context.Context, x *exchange, session *login.Session, l *login.Logout, next string) string {
	here := cmp.Or(next, s.at(LogoutPath))
	if session == nil || s.Upstream == nil || !s.Upstream.PassesLogout() {
		return here
	}
	state := ""
	if next != "" {
		// The provider redirects to one fixed address: state identifies the request there.
		if l.ID == "" {
			if err := s.Authorizer.KeepLogout(ctx, l, s.charged(x, login.Visitor{}), true); err != nil {
				s.Authorizer.Issuer.Log.Warn("cannot pass a logout on to the OpenID Connect provider", "request_id", x.ID, "error", err)
				return here
			}
		}
		state = l.ID
	}
	there, err := s.Upstream.EndSession(ctx, session.Subject, state)
	switch {
	case err != nil:
		s.Authorizer.Issuer.Log.Warn("cannot pass a logout on to the OpenID Connect provider", "request_id", x.ID, "error", err)
	case there == "":
		s.Authorizer.Issuer.Log.Warn("cannot pass a logout on: the OpenID Connect provider has no end_session_endpoint", "request_id", x.ID)
	default:
		return there
	}
	return here
}

// record removes the session cookie, and records that session has ended unless it is nil.
func (s logouts) record(x *exchange, session *login.Session, detail string) {
	x.setCookie(s.ofRealm(sessionCookie), "", 0)
	if session == nil {
		return
	}
	s.Metrics.Logout(metrics.LogoutEnded)
	s.Note(x.Request, audit.Event{Name: audit.LoggedOut, Outcome: audit.Success, ClientID: x.ClientID, Subject: session.Subject, Detail: detail})
}

// refused counts a logout request that is refused with an error page.
func (s logouts) refused(err error) (server.Answer, error) {
	if errors.As(err, new(*oauth.Error)) {
		s.Metrics.Logout(metrics.LogoutRefused)
	}
	return server.Answer{}, err
}

// ofAccount is the logout page of an account: GET asks the user, and POST ends the session
// of the browser.
func (s logouts) ofAccount(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error) {
	a, v := s.Authorizer, s.visitor(r)
	if r.Method == http.MethodPost {
		p, err := s.entered(r, x)
		if err != nil {
			return server.Answer{}, err
		}
		session, err := a.Session(ctx, v.Session)
		if err != nil {
			return server.Answer{}, err
		}
		everywhere := p["everywhere"] == "yes" && s.EndAll != nil
		switch {
		case session != nil && isOther(session, p):
			return s.ask(x, session)
		case session == nil && everywhere:
			return s.page(x, http.StatusConflict, pages.SignedOut{Before: true})
		}
		ended, detail, err := s.sessions(ctx, v, everywhere)
		if err != nil {
			return server.Answer{}, err
		}
		s.record(x, ended, detail)
		if everywhere {
			x.setCookie(s.ofRealm(everywhereCookie), "yes", 60)
		}
		return seeOther(s.after(ctx, x, ended, nil, "")), nil
	}
	state := ""
	if s.Upstream != nil {
		// A state means that the provider redirects back after a client's logout request.
		p, err := x.Query(r.URL.RawQuery)
		if err != nil {
			return server.Answer{}, err
		}
		state = p["state"]
	}
	if err := x.Enter(x.Route.Class); err != nil {
		return server.Answer{}, err
	}
	if state != "" {
		return seeOther(s.interactionURL(url.QueryEscape(state))), nil
	}
	session, err := a.Session(ctx, v.Session)
	if err != nil {
		return server.Answer{}, err
	}
	if session == nil {
		return s.page(x, http.StatusOK, pages.SignedOut{Everywhere: cookie(r, s.ofRealm(everywhereCookie)) != ""})
	}
	return s.ask(x, session)
}

// ask asks the user of a session whether to sign out.
func (s logouts) ask(x *exchange, session *login.Session) (server.Answer, error) {
	shown, err := s.page(x, http.StatusOK, pages.Logout{Session: session.Mark(), Name: session.Name, Username: session.Username, Everywhere: s.EndAll != nil})
	if s.Upstream != nil && s.Upstream.PassesLogout() {
		shown.Header = http.Header{"Content-Security-Policy": formPolicy(s.login())}
	}
	return shown, err
}

// sessions ends the session of a browser, and returns it. With everywhere, it ends all
// sessions and grants of the session's user.
func (s logouts) sessions(ctx context.Context, v login.Visitor, everywhere bool) (session *login.Session, detail string, err error) {
	if everywhere {
		if session, err = s.Authorizer.Session(ctx, v.Session); err != nil {
			return nil, "", err
		}
		if session != nil {
			detail = "everywhere"
			if err := s.EndAll(ctx, session.Subject); err != nil {
				return nil, "", err
			}
		}
	}
	own, err := s.Authorizer.EndSession(ctx, v.Session)
	return cmp.Or(session, own), detail, err
}
