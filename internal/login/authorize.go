// Package login holds the use cases of the authorization endpoint: whose
// browser it is, what its user is asked and has agreed to, and the code or the
// error that the client gets. It knows nothing of HTTP, SQL and passwords.
package login

import (
	"context"
	"errors"

	"github.com/mintage/mintage/internal/oauth"
)

// Authorize decides what becomes of a client's request. A user who is signed in
// and has agreed before is not asked, and nothing is written but that a pushed request
// is used.
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
	if err == nil && isUnread(st.Client) {
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
