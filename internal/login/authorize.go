// Package login holds the use cases of the authorization endpoint: it finds the user of
// a browser, asks the user to sign in and to consent, and returns a code or an error for
// the client. It contains no HTTP, no SQL and no passwords.
package login

import (
	"context"
	"errors"

	"github.com/mintage/mintage/internal/oauth"
)

// Authorize decides a client's authorization request. It does not ask a user who is
// signed in and has agreed before. In that case, it writes only that a pushed request is
// used.
//
// Its errors are oauth.ErrUnknownClient, oauth.ErrDisabledClient, oauth.ErrRedirectMismatch, a
// ClientError, or a fault.
func (a *Authorizer) Authorize(ctx context.Context, r oauth.AuthorizationRequest, v Visitor) (st Stage, err error) {
	if st.view, err = a.view(); err != nil {
		return st, err
	}
	if st.Client, err = a.client(st.view, r, nil); err != nil {
		return st, err
	}
	step := StepLogin
	st.Session, err = a.Session(ctx, v.Session)
	if err == nil && st.Session != nil && isUnread(st.Client) {
		if r, err = a.readClient(ctx, &st, r, v); err != nil {
			return st, err
		}
	}
	if !st.Client.SelfRegistered() || st.Session == nil {
		r = a.covered(&st, r)
	}
	if err == nil {
		r, err = a.openID(r, st.Client, a.builtIn())
	}
	if err == nil {
		step, err = a.next(ctx, &st, r)
	}
	switch {
	case errors.As(err, new(*ClientError)):
		return st, err
	case err != nil:
		return st, a.clientError(st.Client, r, oauth.ErrUnavailable, st.Session != nil, err)
	case step != StepAnswered:
		return a.ask(ctx, st, r, v, step)
	}
	if err := a.spendNow(ctx, r); err != nil {
		return st, err
	}
	st.URL, st.Issued = a.callback(r, st.Client, st.code), st.code.GrantID
	return st, nil
}
