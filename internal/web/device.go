package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
)

// device is the page on which a user enters the code of a device (RFC 8628 section 3.3). A
// link with the code begins the same interaction, so that the code does not stay in the
// address. The page checks only the syntax of the code: whether a device has it is shown
// only to signed-in users.
func (s *endpoints) device(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error) {
	p, err := s.entered(r, x)
	if err != nil {
		return server.Answer{}, err
	}
	if p["user_code"] == "" && r.Method == http.MethodGet {
		return ownForm(s, x, http.StatusOK, pages.DeviceCode{})
	}
	code, ok := oauth.ReadUserCode(p["user_code"])
	if !ok {
		return ownForm(s, x, http.StatusUnprocessableEntity, pages.DeviceCode{Wrong: true})
	}
	it, err := s.Authorizer.BeginDevice(ctx, s.guest(r, x), code)
	if err != nil {
		return server.Answer{}, err
	}
	return seeOther(s.interactionURL(it.ID)), nil
}

// devicePage asks the user to compare the code, and to agree. An attacker may have sent
// the user a link with the code of the attacker's device (RFC 8628 section 5.4).
func (s *endpoints) devicePage(st login.Stage) any {
	it, c := st.Interaction, st.Client
	v := pages.Device{
		Interaction: it.ID, Code: it.Device.UserCode, Client: c.Name, Own: c.SelfRegistered(), Name: st.Session.Name, Username: st.Session.Username,
		From: it.Device.From, Minutes: int(s.Authorizer.Now().Sub(it.Device.At.Time()).Minutes()), Scopes: s.scopes(it.Request.Scope),
		Beyond: s.beyond(c.ID),
	}
	if oauth.IsClientAddress(c.ID) && v.Own {
		v.Address, v.AddressHost = c.ID, oauth.Host(c.ID)
	}
	return v
}

// wrongCode counts and records err if it is about a wrong user code, and returns the page
// that asks for another code. It returns any other error as it is, and that of too many
// codes.
func wrongCode(s *endpoints, x *exchange, st login.Stage, err error) error {
	result := metrics.DeviceWrong
	switch {
	case errors.Is(err, login.ErrManyCodes):
		result = metrics.DeviceLimited
	case !errors.Is(err, login.ErrUserCode):
		return err
	}
	s.Metrics.Device(result)
	if st.Session != nil {
		s.Note(x.Request, audit.Event{Name: audit.UserCodeRefused, Outcome: audit.Refused, Subject: st.Session.Subject, Detail: result})
	}
	if result == metrics.DeviceLimited {
		return err
	}
	a, fault := ownForm(s, x, http.StatusUnprocessableEntity, pages.DeviceCode{Wrong: true})
	if fault != nil {
		return fault
	}
	return &formError{a, err}
}

// countDevice counts the decision of a user, if this request has stored it.
func countDevice(s *endpoints, st login.Stage) {
	switch {
	case !st.Decided:
	case st.Interaction.Decision.Allow:
		s.Metrics.Device(metrics.DeviceAllowed)
	default:
		s.Metrics.Device(metrics.DeviceDenied)
	}
}
