package login

import (
	"context"
	"fmt"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

// A Decision is how an interaction ends. It is recorded once: whoever sends the
// same form again gets the same answer, on any node.
type Decision struct {
	Allow    bool            `json:"allow"`
	Remember bool            `json:"remember,omitempty"`
	Code     oauth.ErrorCode `json:"code,omitempty"` // for the client, if not allowed
	// Of what is allowed:
	KeyID        grant.KeyID   `json:"key_id,omitempty"`
	AuthorizedAt grant.Instant `json:"authorized_at,omitempty"`
	ExpiresAt    grant.Instant `json:"expires_at,omitempty"` // of the code
}

// visit is what every request about an interaction begins with. The client and
// its redirect URI may have changed since (RFC 9700 section 4.1).
func (a *Authorizer) visit(ctx context.Context, it *Interaction, v Visitor) (view *directory.View, st Stage, err error) {
	st.Interaction = it
	if view, err = a.Issuer.Directory.View(); err != nil {
		return nil, st, unavailable(err)
	}
	if st.Session, err = a.Session(ctx, v.Session); err != nil || it.OfAccount() {
		return view, st, err
	}
	if st.Client, err = a.client(view, it.Request); err != nil {
		return view, st, fmt.Errorf("%w: %w", ErrClientChanged, err)
	}
	return view, st, nil
}

// Proceed tells where an interaction has got to. If nothing is left to ask, it
// decides it.
func (a *Authorizer) Proceed(ctx context.Context, it *Interaction, v Visitor) (Stage, error) {
	view, st, err := a.visit(ctx, it, v)
	switch {
	case err != nil:
		return st, err
	case st.Session == nil && (it.Step == StepAccount || it.Step == StepConsent):
		return st, ErrSignedOut
	case it.OfAccount():
		return st, nil
	case it.Decision != nil:
		return a.answer(ctx, st, it.Decision.Allow)
	}
	if told := a.defect(st.Client, it.Request); told != nil {
		return st, a.clientError(st.Client, it.Request, told, st.Session != nil, nil)
	}
	if it.Step == StepLogin && !it.Fresh && !it.Request.Prompt.SelectAccount && st.Session != nil && !a.stale(it.Request, st.Session) {
		// Signed in meanwhile, in another tab.
		if err := a.identify(ctx, it, st.Session.Identity); err != nil {
			return st, err
		}
	}
	if it.Step != StepConsent {
		return st, nil
	}
	if err := sameUser(it, st.Session); err != nil {
		return st, err
	}
	consent, err := a.needsConsent(ctx, view, &st, it.Request)
	if err != nil || consent {
		return st, err
	}
	return a.decide(ctx, view, st, Decision{Allow: true}, false)
}

// sameUser is nil if the one who is asked is the one who has signed in for it
// (CWE-639).
func sameUser(it *Interaction, s *Session) error {
	switch {
	case s == nil:
		return ErrSignedOut
	case it.Identity == nil || s.Subject != it.Identity.Subject:
		return ErrSwitched
	}
	return nil
}

// Allow is the user's agreement.
func (a *Authorizer) Allow(ctx context.Context, it *Interaction, v Visitor, remember bool) (Stage, error) {
	view, st, err := a.visit(ctx, it, v)
	switch {
	case err != nil:
		return st, err
	case it.Decision != nil:
		return a.answer(ctx, st, true)
	case it.Step != StepConsent || it.OfAccount():
		return st, ErrStep
	}
	if err := sameUser(it, st.Session); err != nil {
		return st, err
	}
	if told := a.defect(st.Client, it.Request); told != nil {
		return st, a.clientError(st.Client, it.Request, told, true, nil)
	}
	remember = remember && !unassured(st.Client, it.Request.RedirectURI)
	return a.decide(ctx, view, st, Decision{Allow: true, Remember: remember}, true)
}

// Deny is the user's refusal, at any step, or that of whoever knows the user.
// The code is one of RFC 6749 section 4.1.2.1.
func (a *Authorizer) Deny(ctx context.Context, it *Interaction, v Visitor, code oauth.ErrorCode) (Stage, error) {
	view, st, err := a.visit(ctx, it, v)
	switch {
	case err != nil:
		return st, err
	case it.OfAccount():
		return st, ErrStep
	case it.Decision != nil:
		return a.answer(ctx, st, false)
	case it.Step == StepConsent:
		if err := sameUser(it, st.Session); err != nil {
			return st, err
		}
	}
	return a.decide(ctx, view, st, Decision{Code: code}, true)
}

// decide records d, unless another decision stands, and answers the client.
// Asked says that it is the user's own.
func (a *Authorizer) decide(ctx context.Context, view *directory.View, st Stage, d Decision, asked bool) (Stage, error) {
	it, who := st.Interaction, st.Interaction.Identity
	if d.Allow {
		now := a.now()
		d.AuthorizedAt = a.Issuer.AgreedAt(view, it.Identity.Subject, st.Client.ID, now)
		d.ExpiresAt = now.Add(a.Issuer.CodeLifetime)
		d.KeyID = view.Ring.Current(keys.Seal, now)
	}
	first := false
	err := a.change(ctx, it, func(it *Interaction) error {
		switch {
		case it.Decision != nil:
			first = false
			return errUnchanged
		case d.Allow && it.Step != StepConsent:
			return ErrStep // begun again meanwhile, in another tab
		case d.Allow && it.Identity.Subject != who.Subject:
			return ErrSwitched
		}
		it.Decision, it.Step, first = &d, StepAnswered, true
		return nil
	})
	if err != nil {
		return st, err
	}
	if !first {
		return a.answer(ctx, st, d.Allow)
	}
	if asked && d.Allow {
		// Without it, the user is asked again one day, and that is all.
		if err := a.recordConsent(ctx, view, it.Identity.Subject, it.Request, d); err != nil {
			a.Issuer.Log.Warn("cannot remember a consent", "client_id", st.Client.ID, "error", err)
		}
	}
	if st, err = a.tell(st); err == nil && d.Allow {
		st.Issued, _, err = a.codeParts(it)
	}
	return st, err
}

// answer is the decided answer once more. It is the same as long as its code is
// good for anything; a redeemed one would make the client end its own grant.
func (a *Authorizer) answer(ctx context.Context, st Stage, allow bool) (Stage, error) {
	d := st.Interaction.Decision
	if d.Allow != allow {
		return st, ErrAnswered
	}
	if !d.Allow {
		return a.tell(st)
	}
	if err := sameUser(st.Interaction, st.Session); err != nil {
		return st, err
	}
	if a.now() >= d.ExpiresAt {
		return st, ErrAnswered
	}
	id, _, err := a.codeParts(st.Interaction)
	if err != nil {
		return st, err
	}
	redeemed, err := a.Issuer.Redeemed(ctx, id)
	if err != nil {
		return st, err
	}
	if redeemed {
		return st, ErrAnswered
	}
	return a.tell(st)
}

// tell makes the client's answer of the decision. It is a function of what is
// recorded, and writes nothing.
func (a *Authorizer) tell(st Stage) (Stage, error) {
	it := st.Interaction
	d := it.Decision
	if !d.Allow {
		told := &oauth.Error{Code: d.Code, Description: describe(d.Code)}
		return st, a.clientError(st.Client, it.Request, told, true, nil)
	}
	id, nonce, err := a.codeParts(it)
	if err != nil {
		return st, err
	}
	who := &Session{Identity: *it.Identity}
	code, err := a.Issuer.IssueAgreed(st.Client, issuer.Agreement{
		Authorization: authorization(it.Request, who),
		GrantID:       id, Nonce: nonce, KeyID: d.KeyID, AuthorizedAt: d.AuthorizedAt, ExpiresAt: d.ExpiresAt,
	})
	if err != nil {
		return st, a.clientError(st.Client, it.Request, faultTold(err), true, err)
	}
	st.URL = a.callback(it.Request, st.Client, code)
	return st, nil
}

// codeParts derives what is random in an interaction's code from its id and from
// what was recorded, by HMAC under a key of the ring. The id is no secret: it is
// the challenge of a handoff, and stands in URLs.
func (a *Authorizer) codeParts(it *Interaction) (id grant.ID, nonce [keys.NonceSize]byte, err error) {
	view, err := a.Issuer.Directory.View()
	if err != nil {
		return id, nonce, unavailable(err)
	}
	recorded := it.Decision.AuthorizedAt.Append(nil)
	id = grant.ID(view.Ring.Mark("grant of an interaction", []byte(it.ID), recorded)[:len(id)])
	nonce = [keys.NonceSize]byte(view.Ring.Mark("code of an interaction", []byte(it.ID), recorded)[:keys.NonceSize])
	return id, nonce, nil
}

// describe is the constant text of an error that somebody else has chosen.
func describe(code oauth.ErrorCode) string {
	for _, known := range refusals {
		if known.Code == code {
			return known.Description
		}
	}
	return ""
}

// refusals are the errors by which an interaction can end.
var refusals = []*oauth.Error{
	oauth.ErrDenied, oauth.ErrLoginRequired, oauth.ErrInteraction, oauth.ErrAccountSelection, oauth.ErrConsentRequired,
	oauth.ErrUnavailable, oauth.ErrInternal,
}
