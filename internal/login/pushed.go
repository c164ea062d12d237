package login

import (
	"context"
	"errors"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// PushedLifetime is how long after the push a browser may present a pushed request.
const PushedLifetime = time.Minute

// A pushed request is an authorization request that its client has sent directly to this
// server (RFC 9126). It is stored, sealed, for longer than it can be used: interactions
// that it begins outlive it, and only the first of them that ends answers the client.
type pushed struct {
	ClientID string        `json:"client_id"`
	Form     string        `json:"form,omitempty"` // for oauth.ParseAuthorization
	Until    grant.Instant `json:"until"`          // the browser must have come by then
	Used     bool          `json:"used,omitempty"` // the client is answered
}

const pushedBox = "pushed request"

// Push checks a client's request as Authorize does, and stores its form (RFC 9126
// section 2). known is set if the client has authenticated: other clients share the limit
// of visitors who are not signed in. It returns the request_uri. Its errors are
// oauth.Errors or faults.
func (a *Authorizer) Push(ctx context.Context, r oauth.AuthorizationRequest, form string, v Visitor, known bool) (reference string, err error) {
	st := &Stage{}
	if st.view, err = a.view(); err != nil {
		return "", err
	}
	if st.Client, err = a.client(st.view, r, nil); err != nil {
		return "", err
	}
	r.Pushed = "x" // it is being pushed
	if fetched := oauth.IsClientAddress(r.ClientID); isUnread(st.Client) && !fetched {
		r, err = a.readClient(ctx, st, r, v)
	} else {
		r = a.covered(st, r)
	}
	if err != nil {
		return "", err
	}
	if r, err = a.openID(r, st.Client, a.builtIn()); err != nil {
		return "", err
	}
	if public := a.defect(st, r); public != nil {
		return "", public
	}
	now := a.now()
	switch err := a.Pending.admit(now, a.Interactions.Lifetime.Milliseconds(), v, kilobytes(len(form)), known); {
	case errors.Is(err, ErrLimited):
		return "", oauth.ErrTooManyRequests
	case err != nil:
		return "", &store.ExternalFault{Cause: err}
	}
	id := newID()
	p, until := pushed{ClientID: r.ClientID, Form: form, Until: now.Add(PushedLifetime)}, now.Add(PushedLifetime+a.Interactions.Lifetime+time.Minute)
	return oauth.PushedPrefix + id, a.keepSealed(ctx, store.DocumentPushed, id, until, pushedBox, p)
}

// Pushed returns the request that a client has pushed, by its id. The same request can
// begin any number of interactions until one of them ends: users may reload the page.
func (a *Authorizer) Pushed(ctx context.Context, clientID, id string) (oauth.AuthorizationRequest, error) {
	p, _, err := a.findPushed(ctx, id)
	if err == nil && (p.Used || p.ClientID != clientID || a.now() >= p.Until) {
		err = oauth.ErrPushed
	}
	if err != nil {
		return oauth.AuthorizationRequest{ClientID: clientID}, err
	}
	r, _, err := oauth.ParseAuthorization(p.Form, "")
	r.Pushed = id
	return r, err
}

func (ds Documents) findPushed(ctx context.Context, id string) (p pushed, d store.Document, err error) {
	if d, err = ds.unseal(ctx, store.DocumentPushed, id, pushedBox, &p); errors.Is(err, ErrInteraction) {
		err = oauth.ErrPushed
	}
	return p, d, err
}

// spend returns the record of a pushed request as used, for the commit with which its
// client is answered (RFC 9126 section 7.3); nothing for a request that was not pushed.
func (ds Documents) spend(ctx context.Context, r oauth.AuthorizationRequest) ([]store.Document, error) {
	if r.Pushed == "" {
		return nil, nil
	}
	p, d, err := ds.findPushed(ctx, r.Pushed)
	if err == nil && p.Used {
		err = ErrAnswered
	}
	if err != nil {
		return nil, err
	}
	p.Form, p.Used = "", true
	d.Version++
	d.Body, err = ds.seal(pushedBox, p)
	return []store.Document{d}, err
}

// spendNow stores what spend returns.
func (ds Documents) spendNow(ctx context.Context, r oauth.AuthorizationRequest) error {
	list, err := ds.spend(ctx, r)
	if err != nil || list == nil {
		return err
	}
	err = ds.Store.Commit(ctx, store.Change{Documents: list})
	if errors.Is(err, store.ErrConflict) {
		return ErrAnswered
	}
	return store.Unavailable(err)
}
