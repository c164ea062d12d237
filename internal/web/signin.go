package web

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"strings"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/upstream"
)

// A formError is a form that is shown again because of what was typed into it.
type formError struct {
	shown server.Answer
	cause error // for the log
}

func (e *formError) Error() string { return e.cause.Error() }
func (e *formError) Unwrap() error { return e.cause }

// password takes a username and a password.
func (s *web) password(ctx context.Context, r *http.Request, x *exchange, it *login.Interaction, p oauth.Params) (server.Answer, error) {
	again := seeOther(s.interactionURL(it.ID))
	who, err := s.Users.Password(ctx, p["username"], p["password"], s.attempt(r, x))
	if err != nil {
		s.loginFailed(x, it, who.Subject, err)
		return s.wrong(x, it, err, func(wrong bool, minutes int) any {
			return pages.Login{
				Interaction: it.ID, Client: s.clientName(ctx, it.Request.ClientID), Host: oauth.Host(it.Request.RedirectURI), Username: p["username"],
				Wrong: wrong, Throttled: !wrong, RetryMinutes: minutes, Cancel: !it.OfAccount(),
			}
		})
	}
	if who.SecondFactor {
		return again, s.Authorizer.PasswordShown(ctx, it, who.Username, who.Epoch)
	}
	return again, s.signInUser(ctx, r, x, it, who)
}

// secondFactor takes the code of an authenticator app.
func (s *web) secondFactor(ctx context.Context, r *http.Request, x *exchange, it *login.Interaction, p oauth.Params) (server.Answer, error) {
	if err := s.Authorizer.PasswordStands(ctx, it); err != nil {
		return server.Answer{}, err
	}
	who, err := s.Users.SecondFactor(ctx, it.Username, p["code"], s.attempt(r, x))
	if err != nil {
		s.loginFailed(x, it, who.Subject, err)
		return s.wrong(x, it, err, func(wrong bool, minutes int) any {
			return pages.SecondFactor{
				Interaction: it.ID, Client: s.clientName(ctx, it.Request.ClientID), Wrong: wrong, Throttled: !wrong, RetryMinutes: minutes, Cancel: !it.OfAccount(),
			}
		})
	}
	if who.Epoch != it.Epoch {
		return server.Answer{}, login.ErrSignedOut // the password was changed at this moment
	}
	return seeOther(s.interactionURL(it.ID)), s.signInUser(ctx, r, x, it, who)
}

// attempt is where a password or a code comes from.
func (s *web) attempt(r *http.Request, x *exchange) account.Visitor {
	return account.Visitor{Address: x.Counted, Known: known(r)}
}

// wrong shows a form again that was not filled in right, or too often.
func (s *web) wrong(x *exchange, it *login.Interaction, err error, view func(wrong bool, minutes int) any) (server.Answer, error) {
	var throttled *account.Throttled
	status, minutes := http.StatusUnprocessableEntity, 0
	if errors.As(err, &throttled) {
		status, minutes = http.StatusTooManyRequests, int(math.Ceil(throttled.RetryAfter.Minutes()))
	} else if !errors.Is(err, account.ErrWrong) {
		return server.Answer{}, err
	}
	a, fault := s.form(x, it.Request.RedirectURI, view(throttled == nil, minutes), status)
	if fault != nil {
		return server.Answer{}, fault
	}
	if throttled != nil {
		a.Header["Retry-After"] = []string{server.InSeconds(throttled.RetryAfter)}
	}
	return server.Answer{}, &formError{a, err}
}

// signInUser signs in a built-in user, whose browser is known from now on.
func (s *web) signInUser(ctx context.Context, r *http.Request, x *exchange, it *login.Interaction, who account.Account) error {
	mark, err := s.Users.KnownBrowser(who.Username)
	if err != nil {
		return err
	}
	x.setCookie(knownCookie, base64.RawURLEncoding.EncodeToString(mark), knownFor)
	how := openid.Password
	if who.SecondFactor {
		how = openid.PasswordAndOTP
	}
	_, err = s.signIn(ctx, x, it, login.Identity{
		Subject: who.Subject, Username: who.Username, Name: who.Name, AuthTime: who.At, Epoch: who.Epoch, Login: how,
	}, visitor(r))
	return err
}

// signIn gives the browser a new session, and returns its cookie.
func (s *web) signIn(ctx context.Context, x *exchange, it *login.Interaction, who login.Identity, v login.Visitor) (string, error) {
	cookie, err := s.Authorizer.SignIn(ctx, it, who, v)
	if errors.Is(err, login.ErrSubject) || errors.Is(err, login.ErrProviderEnded) {
		s.loginFailed(x, it, who.Subject, err)
		return "", err
	}
	s.countLogin(err)
	if err == nil {
		s.auditLogin(x, it, who)
		x.setCookie(sessionCookie, cookie, 0)
	}
	return cookie, err
}

// sendUpstream sends the browser to the OpenID Connect provider: always with the
// same request, so that each of two tabs may bring back the answer.
func (s *web) sendUpstream(ctx context.Context, x *exchange, it *login.Interaction) (server.Answer, error) {
	var pending upstream.Pending
	if it.Upstream != nil {
		err := json.Unmarshal(it.Upstream, &pending)
		return seeOther(pending.URL), err
	}
	pending, err := s.Upstream.Begin(ctx, upstream.Request{
		State: it.ID, LoginHint: it.Request.LoginHint, UILocales: it.Request.UILocales, MaxAge: it.Request.MaxAge,
		ACRValues:  strings.Join(it.ACRValues(), " "),
		ForceLogin: it.Fresh, SelectAccount: it.Request.Prompt.SelectAccount, OpenID: it.Request.Scope.Has(oauth.OpenID),
	})
	if err != nil {
		s.loginFailed(x, it, "", err)
		return server.Answer{}, err
	}
	kept, err := json.Marshal(pending)
	if err != nil {
		return server.Answer{}, err
	}
	return seeOther(pending.URL), s.Authorizer.KeepUpstream(ctx, it, kept)
}

// callback takes the answer of the OpenID Connect provider. Its state is the
// interaction's id, which is worth nothing in another browser (RFC 9700 section
// 4.7).
func (s *web) callback(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error) {
	p, err := oauth.ParseCallback(r.URL.RawQuery)
	if err != nil {
		return server.Answer{}, err
	}
	if err := x.Enter(x.Route.Class); err != nil {
		return server.Answer{}, err
	}
	it, err := s.find(ctx, r, x, p["state"])
	if errors.Is(err, login.ErrMoved) {
		return seeOther(s.interactionURL(it.Next)), nil
	}
	if err != nil {
		return server.Answer{}, cookieless(visitor(r), err)
	}
	again := seeOther(s.interactionURL(it.ID))
	if it.Step != login.StepLogin || it.Upstream == nil {
		return again, nil // the back button: the code was used
	}
	if x.Counted.IsValid() {
		leave, err := s.enterUpstream(x.Counted)
		if err != nil {
			return server.Answer{}, err
		}
		defer leave()
	}
	var pending upstream.Pending
	if err := json.Unmarshal(it.Upstream, &pending); err != nil {
		return server.Answer{}, err
	}
	who, err := s.Upstream.Finish(ctx, upstream.Answer{Code: p["code"], Error: p["error"], Issuer: p["iss"]}, pending)
	if err != nil {
		return s.refusedUpstream(ctx, r, x, it, err)
	}
	identity := login.Identity{Subject: who.Subject, Name: who.Name, Standard: who.Claims, Login: who.Login, Provider: s.providerSession(who.SessionID), SaidAt: grant.At(who.IssuedAt)}
	if !who.AuthTime.IsZero() {
		identity.AuthTime = grant.At(who.AuthTime)
	}
	s.Throttle.GiveBack(x.Counted) // it was not made up
	_, err = s.signIn(ctx, x, it, identity, visitor(r))
	if errors.Is(err, login.ErrProviderEnded) {
		return again, nil // where the login begins again
	}
	return again, err
}

// enterUpstream charges a callback to its address, and takes a slot of its network
// until done is called: whoever makes up answers makes us ask the provider about
// each, and wait for it. A callback that is shed is not charged.
func (s *web) enterUpstream(from netip.Addr) (done func(), err error) {
	if !s.Throttle.Begin(from, 1) {
		return nil, oauth.ErrTooManyRequests
	}
	if done, err = s.Queue.Slow(overload.Party(from)); err != nil {
		s.Throttle.GiveBack(from)
	}
	return done, err
}

// refusedUpstream is the answer if the provider did not say who the user is.
func (s *web) refusedUpstream(ctx context.Context, r *http.Request, x *exchange, it *login.Interaction, err error) (server.Answer, error) {
	code := oauth.AccessDenied
	var refused *upstream.InteractionRequired
	switch {
	case errors.As(err, &refused):
		code = refused.Code
	case !errors.Is(err, upstream.ErrDenied):
		s.loginFailed(x, it, "", err)
		// The next try begins anew: this one's code may be spent.
		return server.Answer{}, errors.Join(err, s.Authorizer.KeepUpstream(ctx, it, nil))
	}
	return s.rejected(ctx, r, x, it, err, code)
}

// rejected records that the system which has the users rejects the login, and
// what the client receives, if there is one.
func (s *web) rejected(ctx context.Context, r *http.Request, x *exchange, it *login.Interaction, why error, code oauth.ErrorCode) (server.Answer, error) {
	s.loginFailed(x, it, "", why)
	if it.OfAccount() {
		return server.Answer{}, why
	}
	st, err := s.Authorizer.Deny(ctx, it, visitor(r), code)
	return s.proceeded(ctx, x, st, err)
}
