package web

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/upstream"
)

// events counts what users do, and records it in the audit log.
type events struct{ *endpoints }

// countLogin counts a user's attempt to log in.
func (s events) countLogin(err error) {
	m := s.Metrics
	var throttled *account.Throttled
	switch {
	case err == nil:
		m.Login(metrics.LoginOK)
	case errors.As(err, &throttled):
		m.Login(metrics.LoginThrottled)
		m.Throttled(metrics.LimitLoginFailures)
	case errors.Is(err, account.ErrWrong):
		m.Login(metrics.LoginWrong)
	case errors.Is(err, upstream.ErrDenied), errors.Is(err, login.ErrRejected), errors.Is(err, login.ErrSubject), errors.Is(err, login.ErrProviderEnded):
		m.Login(metrics.LoginRejected)
	default:
		m.Login(metrics.LoginFailed)
	}
}

// loggedIn records a successful login, with its subject and its way.
func (s events) loggedIn(x *exchange, it *login.Interaction, who login.Identity) {
	s.Note(x.Request, audit.Event{Name: audit.LoginSucceeded, Outcome: audit.Success, ClientID: it.Request.ClientID, Subject: who.Subject, Detail: s.loginWay(it)})
}

// loginFailed counts and records a login that failed. The subject is empty unless the user
// exists: text that was typed as a username may be a password.
func (s events) loginFailed(x *exchange, it *login.Interaction, subject string, err error) {
	s.countLogin(err)
	if errors.As(err, new(*account.Throttled)) {
		return // package server records that an address is throttled
	}
	e := audit.Event{Name: audit.LoginFailed, Outcome: audit.Refused, ClientID: it.Request.ClientID, Subject: subject, Detail: s.loginWay(it)}
	switch {
	case errors.Is(err, login.ErrSubject):
		e.Detail += ", the subject is the id of a client"
	case s.Users != nil && !errors.Is(err, account.ErrWrong):
		return // a fault: nothing was compared
	case errors.Is(err, upstream.ErrUnavailable):
		e.Outcome = audit.Failed
	case it.Step == login.StepSecondFactor:
		e.Detail += ", one-time code after the right password"
	case subject == "" && s.Users != nil:
		e.Detail += ", no such user"
	}
	s.Note(x.Request, e)
}

// loginWay names the system that authenticates the user, and the console if an operator
// logs in to it.
func (f *Front) loginWay(it *login.Interaction) string {
	way := "login page of the provider"
	switch {
	case f.Users != nil:
		way = "built-in users"
	case f.Upstream != nil:
		way = "OpenID Connect provider"
	}
	if it.Console != "" {
		way += ", for the console"
	}
	return way
}

// stage counts and records the results of a request about an interaction, and sets the
// cookies of a login.
func (s events) stage(x *exchange, st login.Stage) {
	if l := st.Login; l != nil {
		if l.Known != nil {
			x.setCookie(s.ofRealm(knownCookie), base64.RawURLEncoding.EncodeToString(l.Known), account.KnownFor)
		}
		switch {
		case l.Err == nil:
			s.countLogin(nil)
			s.loggedIn(x, st.Interaction, l.Identity)
			if l.Cookie != "" {
				x.setCookie(s.ofRealm(sessionCookie), l.Cookie, 0)
			}
		case l.Fault:
			s.countLogin(l.Err)
		default:
			s.loginFailed(x, st.Interaction, l.Subject, l.Err)
		}
	}
	s.consent(x, st)
	if st.URL != "" {
		s.code(x, st)
	}
}

// consent records a user's decision, if this request has stored it.
func (s events) consent(x *exchange, st login.Stage) {
	it := st.Interaction
	if !st.ByUser || !st.Decided || it.Identity == nil {
		return
	}
	name := audit.ConsentDenied
	if it.Decision.Allow {
		name = audit.ConsentGiven
	}
	e := audit.Event{Name: name, Outcome: audit.Success, ClientID: it.Request.ClientID, Subject: it.Identity.Subject, Detail: "scope " + string(it.Request.Scope)}
	if named := it.Named().Names(); named != nil {
		e.Detail += ", claims " + strings.Join(named, " ")
	}
	s.Note(x.Request, e)
}

// code records a code that was issued at the authorization endpoint.
func (s events) code(x *exchange, st login.Stage) {
	if st.Issued == (grant.ID{}) || st.Client == nil {
		return
	}
	e := audit.Event{Name: audit.CodeIssued, Outcome: audit.Success, ClientID: st.Client.ID, GrantID: st.Issued.String()}
	if st.Session != nil {
		e.Subject = st.Session.Subject
	}
	s.Note(x.Request, e)
}
