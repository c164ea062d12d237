package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/upstream"
)

// count is what the metrics learn of a request. A refresh that succeeds
// allocates nothing here.
func (s *Server) count(x *exchange, r *http.Request, status int, err error, took time.Duration) {
	m := s.opt.Metrics
	if m == nil {
		return
	}
	x.meter.Answered(r.Method, status, took)
	if err != nil {
		s.countRefusal(x, err)
	}
	switch {
	case x.path == tokenPath && r.Method == http.MethodPost:
		t := metrics.TokenRequest{GrantType: x.grantType, Format: x.tokens.Format, Repeated: x.tokens.Repeated, ClientID: x.clientID}
		if err != nil {
			_, told := s.wireError(x, err)
			t.Error = string(told.Code)
		}
		m.TokenRequest(t)
	case x.path == introspectionPath && err == nil && status == http.StatusOK:
		m.Introspection(x.inactive == nil)
	}
}

// countRefusal counts what an operator wants to know of a refusal. Replays are
// those that ended something: whoever asks what a spent token is worth has
// presented it to nobody.
func (s *Server) countRefusal(x *exchange, err error) {
	m := s.opt.Metrics
	var refused *grant.Refused
	var fault issuer.AuthFault
	switch {
	case errors.As(err, &refused):
		switch why := refused.Why; {
		case why == grant.StoreBehind:
			m.StoreBehind()
		case x.path != tokenPath:
		case why == grant.RefreshReplayed:
			m.Replay(metrics.ReplayedRefresh)
		case why == grant.CodeReplayed:
			m.Replay(metrics.ReplayedCode)
		}
	case errors.As(err, &fault):
		m.ClientAuthFailed(string(fault))
	case errors.Is(err, issuer.ErrClient):
		m.ClientAuthFailed(string(issuer.WrongMethod)) // a public client, where none may ask
	case errors.Is(err, oauth.ErrClient):
		m.ClientAuthFailed(metrics.MalformedCredentials)
	}
}

// countLogin counts a user's attempt to log in.
func (s *Server) countLogin(err error) {
	m := s.opt.Metrics
	if m == nil {
		return
	}
	var throttled *account.Throttled
	var unwilling *upstream.InteractionRequired
	switch {
	case err == nil:
		m.Login(metrics.LoginOK)
	case errors.As(err, &throttled):
		m.Login(metrics.LoginThrottled)
		m.Throttled(metrics.LimitLoginFailures)
	case errors.Is(err, account.ErrWrong):
		m.Login(metrics.LoginWrong)
	case errors.Is(err, upstream.ErrDenied), errors.Is(err, errRejected), errors.As(err, &unwilling):
		m.Login(metrics.LoginRejected)
	default:
		m.Login(metrics.LoginFailed)
	}
}
