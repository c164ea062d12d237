package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/authorize"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/upstream"
)

// This file is what goes into the audit trail from here: what happens in a
// request and changes nothing in the store. Changes are recorded where they are
// stored (package audit).

// originOf lets what is stored in the course of a request be recorded with it.
func (s *Server) originOf(ctx context.Context, x *exchange) context.Context {
	if s.opt.Audit == nil {
		return ctx
	}
	return audit.With(ctx, audit.Origin{RequestID: x.id, RemoteIP: x.address})
}

// about is an event of a request.
func (s *Server) about(x *exchange, name audit.Name, outcome audit.Outcome) audit.Event {
	return audit.Event{
		Name: name, Outcome: outcome, Realm: s.issuer.Realm, ClientID: s.known(x.clientID), RequestID: x.id, RemoteIP: x.address,
	}
}

// known is a client id as it may be written down. What names no client may be
// a secret that was put into the wrong field.
func (s *Server) known(id string) string {
	if id == "" || s.issuer.Knows(id) {
		return id
	}
	return unknownClient
}

const unknownClient = "(unknown)"

// audit records the end of a request.
func (s *Server) audit(x *exchange, status int, err error) {
	switch {
	case s.opt.Audit == nil:
	case err != nil:
		s.auditFault(x, status, err)
	case x.tokens.GrantID != (grant.ID{}):
		e := s.about(x, audit.TokensRefreshed, audit.Success)
		if x.tokens.Repeated {
			e.Name = audit.RefreshRepeated
		} else if x.grantType == store.GrantAuthorizationCode {
			e.Name = audit.CodeRedeemed
		}
		e.GrantID, e.Subject, e.Generation = x.tokens.GrantID.String(), x.tokens.Subject, x.tokens.Generation
		s.opt.Audit.Record(e)
	}
}

func (s *Server) auditFault(x *exchange, status int, err error) {
	var refused *grant.Refused
	switch {
	case errors.Is(err, issuer.ErrClient), errors.Is(err, oauth.ErrClient):
		e := s.about(x, audit.ClientAuthFailed, audit.Refused)
		e.Detail = x.name
		var fault issuer.AuthFault
		if errors.As(err, &fault) {
			e.Detail += ", " + string(fault)
		}
		if x.clientID != "" && e.ClientID == unknownClient {
			e.ClientID = ""
		}
		s.opt.Audit.Record(e)
	case status == http.StatusTooManyRequests:
		s.throttled(x)
	case errors.As(err, &refused):
		s.auditRefusal(x, refused)
	}
}

func (s *Server) auditRefusal(x *exchange, refused *grant.Refused) {
	if x.refusals < 0 {
		return // the tokens of strangers, at the endpoints of resource servers
	}
	e := s.about(x, audit.TokenRefused, audit.Refused)
	if refused.Why == grant.StoreBehind {
		e.Outcome = audit.Failed
	}
	if refused.GrantID != (grant.ID{}) {
		e.GrantID = refused.GrantID.String()
	}
	// A grant is looked at once its type is known to be one, so that this is no
	// text of a stranger.
	e.Detail = refused.Why.String() + ", " + strings.TrimSpace(x.grantType+" "+x.name)
	s.opt.Audit.Record(e)
}

// throttled records that an address is not let in, at most once a minute for
// each.
func (s *Server) throttled(x *exchange) {
	if s.opt.Audit == nil || !s.told.first(overload.Network(x.address, 64), time.Now()) {
		return
	}
	e := s.about(x, audit.Throttled, audit.Refused)
	e.Detail = x.name + "; further ones within a minute are not recorded"
	s.opt.Audit.Record(e)
}

// auditLogin records who has signed in, by which way.
func (s *Server) auditLogin(x *exchange, it *authorize.Interaction, who authorize.Identity) {
	e := s.about(x, audit.LoginSucceeded, audit.Success)
	e.ClientID, e.Subject, e.Detail = it.Request.ClientID, who.Subject, s.loginWay()
	s.opt.Audit.Record(e)
}

// auditFailedLogin records one that failed. The subject is that of a user whom
// there is, or empty: what was typed as a username may be a password.
func (s *Server) auditFailedLogin(x *exchange, it *authorize.Interaction, subject string, err error) {
	if s.opt.Audit == nil {
		return
	}
	var limited *account.Throttled
	if errors.As(err, &limited) {
		s.throttled(x)
		return
	}
	e := s.about(x, audit.LoginFailed, audit.Refused)
	e.ClientID, e.Subject, e.Detail = it.Request.ClientID, subject, s.loginWay()
	switch {
	case s.opt.Front.Users != nil && !errors.Is(err, account.ErrWrong):
		return // a fault: nothing was compared
	case errors.Is(err, upstream.ErrUnavailable):
		e.Outcome = audit.Failed
	case it.Step == authorize.StepSecondFactor:
		e.Detail += ", one-time code after the right password"
	case subject == "" && s.opt.Front.Users != nil:
		e.Detail += ", no such user"
	}
	s.opt.Audit.Record(e)
}

// loginWay is who knows the users.
func (s *Server) loginWay() string {
	switch {
	case s.opt.Front.Users != nil:
		return "built-in users"
	case s.opt.Front.Upstream != nil:
		return "OpenID Connect provider"
	}
	return "login page of the provider"
}

// auditConsent records what a user has answered.
func (s *Server) auditConsent(x *exchange, it *authorize.Interaction, name audit.Name, err error) {
	// The answer to the client may be an error that says what the user has said.
	var told *authorize.ClientError
	if s.opt.Audit == nil || err != nil && (!errors.As(err, &told) || told.Cause != nil) || it.Identity == nil {
		return
	}
	e := s.about(x, name, audit.Success)
	e.ClientID, e.Subject, e.Detail = it.Request.ClientID, it.Identity.Subject, "scope "+string(it.Request.Scope)
	s.opt.Audit.Record(e)
}

// auditCode records a code that was issued at the authorization endpoint.
func (s *Server) auditCode(x *exchange, st authorize.Stage) {
	if s.opt.Audit == nil || st.Issued == (grant.ID{}) || st.Client == nil {
		return
	}
	e := s.about(x, audit.CodeIssued, audit.Success)
	e.ClientID, e.GrantID = st.Client.ID, st.Issued.String()
	if st.Session != nil {
		e.Subject = st.Session.Subject
	}
	s.opt.Audit.Record(e)
}

// auditRejected records an admin request that came without the token.
func (a *Admin) auditRejected(x *call) {
	e := audit.Event{Name: audit.AdminAuthFailed, Outcome: audit.Refused, RequestID: x.id}
	e.RemoteIP, _ = netip.ParseAddr(peerAddress(x.Request))
	a.Audit.Record(e)
}

// auditCode records a code that an operator's program asked for.
func (a *Admin) auditCode(x *call, req CodeRequest, code issuer.IssuedCode) {
	e := audit.Event{
		Name: audit.CodeIssued, Realm: a.issuer.Realm, ClientID: req.ClientID, Subject: req.Subject, GrantID: code.GrantID.String(),
		RequestID: x.id, Actor: "admin API", Detail: fmt.Sprintf("scope %s", code.Scope),
	}
	e.RemoteIP, _ = netip.ParseAddr(peerAddress(x.Request))
	a.Audit.Record(e)
}

// firsts are the addresses that were told of in this minute. Its memory is
// bounded: it forgets all of them when there are too many.
type firsts struct {
	mu    sync.Mutex
	since time.Time
	seen  map[netip.Prefix]bool
}

// maxFirsts bounds what is remembered.
const maxFirsts = 10_000

func (f *firsts) first(of netip.Prefix, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil || now.Sub(f.since) >= time.Minute || len(f.seen) >= maxFirsts {
		f.since, f.seen = now, map[netip.Prefix]bool{}
	}
	if f.seen[of] {
		return false
	}
	f.seen[of] = true
	return true
}
