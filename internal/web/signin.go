package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/upstream"
)

// elsewhere returns the function that begins a login at an external login system, or nil
// if users are built in.
func (s *endpoints) elsewhere() func(context.Context, *login.Interaction) (login.Departure, error) {
	switch {
	case s.Upstream != nil:
		return provider{s}.send
	case s.Users == nil:
		return s.sendToLogin
	}
	return nil
}

// sendToLogin sends the browser to the login page at login.handoff_url.
func (s *endpoints) sendToLogin(_ context.Context, it *login.Interaction) (login.Departure, error) {
	u, err := url.Parse(s.Handoff)
	if err != nil {
		return login.Departure{}, err
	}
	q := u.Query()
	q.Set("challenge", it.ID)
	if it.Request.UILocales != "" {
		q.Set("ui_locales", it.Request.UILocales)
	}
	u.RawQuery = q.Encode()
	return login.Departure{URL: u.String()}, nil
}

// send sends the browser to the OpenID Connect provider. An interaction has only one
// request to the provider, so that any of several tabs can return with the response.
func (s provider) send(ctx context.Context, it *login.Interaction) (login.Departure, error) {
	var pending upstream.Pending
	if it.Upstream != nil {
		err := json.Unmarshal(it.Upstream, &pending)
		return login.Departure{URL: pending.URL}, err
	}
	r := upstream.Request{
		State: it.ID, LoginHint: it.Request.LoginHint, UILocales: it.Request.UILocales, MaxAge: it.Request.MaxAge,
		ACRValues:  strings.Join(it.ACRValues(), " "),
		ForceLogin: it.Fresh, SelectAccount: it.Request.Prompt.SelectAccount, OpenID: it.Request.Scope.Has(oauth.OpenID),
	}
	if c := s.Authorizer.Console; c != nil && it.Console != "" {
		r.Claims = c.Claims
	}
	pending, err := s.Upstream.Begin(ctx, r)
	if err != nil {
		return login.Departure{}, err
	}
	kept, err := json.Marshal(pending)
	return login.Departure{URL: pending.URL, Keep: kept}, err
}

// callback takes the authorization response of the OpenID Connect provider. Its state is
// the id of the interaction, which is invalid in another browser (RFC 9700 section 4.7).
func (s provider) callback(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error) {
	p, err := oauth.ParseCallback(r.URL.RawQuery)
	if err != nil {
		return server.Answer{}, err
	}
	if err := x.Enter(x.Route.Class); err != nil {
		return server.Answer{}, err
	}
	v := s.charged(x, s.visitor(r))
	answer := login.Answer{Interaction: p["state"], From: login.FromProvider, Check: s.check(x, p), Elsewhere: s.elsewhere()}
	if x.Counted.IsValid() {
		answer.Enter = func() (func(), error) { return s.enter(x.Counted) }
	}
	st, err := s.Authorizer.Answer(ctx, v, answer)
	return s.reached(ctx, x, st, cookieless(v, err))
}

// check returns the check of a provider's answer.
func (s provider) check(x *exchange, p oauth.Params) login.Check {
	return func(ctx context.Context, it *login.Interaction) (who login.Proof, err error) {
		var pending upstream.Pending
		if err := json.Unmarshal(it.Upstream, &pending); err != nil {
			return who, err
		}
		is, err := s.Upstream.Finish(ctx, upstream.Answer{Code: p["code"], Error: p["error"], Issuer: p["iss"]}, pending)
		var refused *upstream.InteractionRequired
		switch {
		case errors.As(err, &refused):
			return who, &login.Refusal{Code: refused.Code, Cause: err}
		case errors.Is(err, upstream.ErrDenied):
			return who, &login.Refusal{Code: oauth.AccessDenied, Cause: err}
		case err != nil:
			return who, err
		}
		who.Identity = login.Identity{Subject: is.Subject, Name: is.Name, Standard: is.Claims, Said: is.Said, Login: is.Login, Provider: s.providerSession(is.SessionID), SaidAt: grant.At(is.IssuedAt)}
		if !is.AuthTime.IsZero() {
			who.AuthTime = grant.At(is.AuthTime)
		}
		s.Throttle.GiveBack(x.Counted) // the response is authentic
		return who, nil
	}
}

// enter counts a callback against the rate limit of its address, and takes a slot of its
// network until done is called: each forged callback makes this server call the provider,
// and wait for the response. A callback that is shed is not counted.
func (s provider) enter(from netip.Addr) (done func(), err error) {
	if !s.Throttle.Begin(from, 1) {
		return nil, oauth.ErrTooManyRequests
	}
	if done, err = s.Queue.Slow(overload.Party(from)); err != nil {
		s.Throttle.GiveBack(from)
	}
	return done, err
}

// provider is the side of this server that works with the OpenID Connect provider.
type provider struct{ *endpoints }

// providerSession returns the name of a session at the provider, "" without a sid.
func (f *Front) providerSession(sid string) string {
	if sid == "" {
		return ""
	}
	return f.Upstream.Issuer() + "\x00" + sid
}
