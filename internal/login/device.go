package login

import (
	"context"
	"errors"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// ErrUserCode means that no device waits with the code that a user has entered.
var ErrUserCode = issuer.ErrUserCode

// ErrManyCodes means that a user has entered too many wrong codes.
var ErrManyCodes = errors.New("too many wrong user codes")

// BeginDevice begins the login of a user who has entered a code of the right form. Only
// a signed-in user can find out whether the code exists (RFC 8628 section 5.1).
func (a *Authorizer) BeginDevice(ctx context.Context, v Visitor, userCode string) (*Interaction, error) {
	s, err := a.Session(ctx, v.Session)
	if err != nil {
		return nil, err
	}
	it := &Interaction{Step: StepLogin, Device: &DeviceAsked{UserCode: userCode}}
	return it, a.begin(ctx, it, v, s != nil)
}

// findDevice looks up the code that a signed-in user has entered, and records the device's
// request, so that the user's answer is about the request that was shown.
func (a *Authorizer) findDevice(ctx context.Context, st Stage, v Visitor) error {
	right, may := a.Issuer.Devices.Guess(a.now(), a.Realm+" "+st.Session.Subject, v.Network)
	if !may {
		return ErrManyCodes
	}
	d, err := issuer.DeviceCodes{Issuer: a.Issuer}.FindDevice(ctx, st.view, st.Interaction.Device.UserCode)
	if !errors.Is(err, ErrUserCode) {
		right()
	}
	switch {
	case err != nil:
		return err
	case d.Decided():
		return ErrUserCode
	}
	return a.change(ctx, st.Interaction, nil, func(it *Interaction) error {
		if !it.OfAccount() {
			return errUnchanged // in another tab
		}
		it.Request = oauth.AuthorizationRequest{Device: true, ClientID: d.ClientID, Scope: d.Scope, Resources: d.Resources, Challenge: d.Challenge}
		it.Device = &DeviceAsked{UserCode: it.Device.UserCode, From: d.From, At: d.RequestedAt}
		return nil
	})
}

// decideDevice returns the document of a device with the decision of its user.
func (a *Authorizer) decideDevice(ctx context.Context, st *Stage, it *Interaction, d Decision) (store.Document, error) {
	device, err := issuer.DeviceCodes{Issuer: a.Issuer}.FindDevice(ctx, st.view, it.Device.UserCode)
	switch {
	case errors.Is(err, ErrUserCode):
		return store.Document{}, ErrExpired
	case err != nil:
		return store.Document{}, err
	case device.Decided():
		return store.Document{}, ErrAnswered
	case !d.Allow:
		device.Denied = true
	default:
		agreed := issuer.Agreement{Authorization: authorization(it.Request, *it.Identity, st.targets), KeyID: d.KeyID, AuthorizedAt: d.AuthorizedAt}
		device, err = issuer.DeviceCodes{Issuer: a.Issuer}.AllowDevice(st.Client, device, agreed)
		if err != nil {
			return store.Document{}, err
		}
	}
	a.Issuer.Devices.Decided(device)
	return issuer.DeviceCodes{Issuer: a.Issuer}.DeviceDocument(device)
}
