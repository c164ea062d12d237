package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/upstream"
)

// logout takes a logout token of the provider (OpenID Connect Back-Channel Logout 1.0
// sections 2.5 to 2.8). It answers 400 to a token that does not verify, and 503 to a
// fault, so that the provider may try again.
func (s provider) logout(ctx context.Context, r *server.Request) (a server.Answer, rec server.Report, err error) {
	body, err := r.FormBody()
	if err != nil {
		return a, rec, err
	}
	form, err := url.ParseQuery(body)
	if err != nil || len(form["logout_token"]) != 1 {
		return a, rec, oauth.ErrLogoutToken
	}
	if err := r.Enter(r.Route.Class); err != nil {
		return a, rec, err
	}
	if r.Counted.IsValid() {
		leave, err := s.enter(r.Counted)
		if err != nil {
			return a, rec, err
		}
		defer leave()
	}
	l, err := s.Upstream.Logout(ctx, form.Get("logout_token"))
	if err != nil {
		return a, rec, providerFault(err)
	}
	ended, err := s.Authorizer.EndProviderSession(ctx, login.ProviderLogout{
		Session: s.providerSession(l.SessionID), Subject: l.Subject, ID: s.Upstream.Issuer() + "\x00" + l.ID, IssuedAt: grant.At(l.IssuedAt), ExpiresAt: grant.At(l.ExpiresAt),
	})
	if err != nil {
		return a, rec, providerFault(err)
	}
	s.Throttle.GiveBack(r.Counted) // the logout token is authentic
	for _, session := range ended {
		s.Metrics.Logout(metrics.LogoutEnded)
		s.Note(r, audit.Event{Name: audit.LoggedOut, Outcome: audit.Success, Subject: session.Subject, Detail: "at the OpenID Connect provider"})
	}
	return server.Answer{Body: []byte(`{}`)}, rec, nil
}

// providerFault returns the error that is sent to the provider, with the cause for the log.
func providerFault(err error) error {
	if errors.Is(err, upstream.ErrInvalid) || errors.Is(err, login.ErrReplayed) {
		return fmt.Errorf("%w: %w", oauth.ErrLogoutToken, err)
	}
	if errors.Is(err, upstream.ErrUnavailable) {
		return fmt.Errorf("%w: %w", oauth.ErrUnavailable, err)
	}
	return err
}
