// Package login holds the use cases of the authorization endpoint: whose
// browser it is, what its user is asked and has agreed to, and the code or the
// error that the client gets. It knows nothing of HTTP, SQL and passwords.
package login

import (
	"context"
	"errors"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
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

// next calls Next for a stage, reads the consents that it needs, and makes the code of a
// request that needs no more than a consent. An error for the client is returned as a
// ClientError.
func (a *Authorizer) next(ctx context.Context, st *Stage, r oauth.AuthorizationRequest) (Step, error) {
	q := Request{AuthorizationRequest: r, Client: st.Client, At: a.now(), BuiltIn: a.builtIn(), Development: a.Development}
	if st.Client != nil {
		q.Defect = a.defect(st, r)
		for _, c := range st.view.Beyond(a.Realm, st.Client.ID) {
			for _, b := range c.Beyond {
				q.Beyond = max(q.Beyond, b.Since)
			}
		}
	}
	step, err := Next(q, st.Session, st.Agreed, st.Interaction)
	if step == StepReadConsents {
		cs, fault := a.consents(ctx, st.Session.Subject)
		if fault != nil {
			return "", fault
		}
		agreed, _ := a.living(st.view, cs, st.Session.Subject, st.Client.ID)
		if fault = a.asAgreed(ctx, st.Client, r, &agreed); fault != nil {
			return "", fault
		}
		st.consents, st.Agreed = &cs, &agreed
		step, err = Next(q, st.Session, st.Agreed, st.Interaction)
	}
	var public *oauth.Error
	switch {
	case errors.As(err, &public):
		err = a.clientError(st.Client, r, public, st.Session != nil, nil)
	case err == nil && st.Client != nil && st.Session != nil && (step == StepConsent || step == StepAnswered && st.Interaction == nil):
		// Nobody is asked about an authorization of which no code can be made.
		if st.code, err = a.Issuer.Codes().IssueTo(st.Client, authorization(r, st.Session.Identity, st.targets)); err != nil {
			err = a.clientError(st.Client, r, faultTold(err), true, err)
		}
	}
	return step, err
}

// asAgreed empties a consent to a client that registered itself, and that has changed
// since or has no record: without one, it gets no tokens.
func (co *Consents) asAgreed(ctx context.Context, c *store.Client, r oauth.AuthorizationRequest, agreed *Consent) error {
	if !c.SelfRegistered() || agreed.At == 0 {
		return nil
	}
	recorded, err := co.Directory.Record(ctx, c.Realm, c.ID)
	if err == nil && (recorded == nil || agreed.Terms != terms(c, r.RedirectURI)) {
		*agreed = Consent{}
	}
	return err
}
