package login

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Request is what a client asks for, with what decides about it beside the
// user. What OpenID Connect adds to a request is an input of Next here.
type Request struct {
	oauth.AuthorizationRequest // its Defect is also what this client may not ask for

	Client  *store.Client // nil: the account pages ask
	At      grant.Instant // of the decision
	BuiltIn bool          // users are built in, so that they choose an account here
	// Development: the machine is the developer's, and every program on it.
	Development bool
	// Beyond is since when other clients may have more by the tokens than the client asks
	// for: users who have agreed before are asked again.
	Beyond grant.Instant
}

// Next returns the step that comes next, from what is recorded. It is pure. The
// session is nil if nobody is signed in, the interaction if nobody was asked yet.
// Consents are read only where they decide: given nil, Next returns
// StepReadConsents there. StepAnswered means that there is nothing to ask.
//
// Its errors are an *oauth.Error for the client, ErrSignedOut and ErrSwitched.
func Next(r Request, s *Session, agreed *Consent, it *Interaction) (Step, error) {
	switch {
	case it == nil:
	case s == nil && (it.Step == StepAccount || it.Step == StepConsent):
		return "", ErrSignedOut
	case it.Decision != nil, r.Client == nil && s != nil:
		return StepAnswered, nil
	case r.Client == nil:
		return it.Step, nil
	}
	if r.Defect != nil {
		return "", r.Defect
	}
	if step, err := r.signIn(s, it); step != StepConsent || err != nil {
		return step, err
	}
	return r.consent(agreed)
}

// signIn returns what is asked until the user is known, and then StepConsent.
func (r Request) signIn(s *Session, it *Interaction) (Step, error) {
	// A session of another tab counts as well.
	known := s != nil && !stale(r.AuthorizationRequest, s, r.At) && unmet(r.AuthorizationRequest, s) == nil && !r.Prompt.Login && (it == nil || !it.Fresh)
	switch {
	case it != nil && it.Step == StepConsent:
		if public := unmet(r.AuthorizationRequest, s); sameUser(it, s) == nil && public != nil {
			return "", public
		}
		return StepConsent, sameUser(it, s)
	case it != nil && it.Step != StepLogin:
		return it.Step, nil
	case known && !r.Prompt.SelectAccount:
		return StepConsent, nil
	case !known && r.Prompt.None:
		return "", oauth.ErrLoginRequired
	case it == nil && known && r.BuiltIn:
		return StepAccount, nil
	}
	return StepLogin, nil // for select_account too: the system that has the users offers the choice
}

// consent returns whether the known user must agree.
func (r Request) consent(agreed *Consent) (Step, error) {
	// Any program of the user's machine could have made the request in the name of a
	// client that is one: the user is always asked (RFC 8252 section 8.6).
	// So is one whose device asks: somebody else may have sent the user its code.
	always := r.Device || r.Prompt.Consent || !oauth.IsRemote(r.RedirectURI) && !(r.Development && r.Client.FirstParty && oauth.IsLoopback(r.RedirectURI))
	switch {
	case r.Client.FirstParty && !always:
		return StepAnswered, nil
	case agreed == nil:
		return StepReadConsents, nil
	case agreed.At > r.Beyond && !always && agreed.Remembered.Covers(r.Scope) && named(r.AuthorizationRequest)&^agreed.RememberedClaims == 0:
		return StepAnswered, nil
	case r.Prompt.None && !oauth.IsRemote(r.RedirectURI):
		return "", oauth.ErrInteraction
	case r.Prompt.None:
		return "", oauth.ErrConsentRequired
	}
	return StepConsent, nil
}

// stale reports whether the user has signed in longer ago than the client
// accepts (max_age).
func stale(r oauth.AuthorizationRequest, s *Session, at grant.Instant) bool {
	return s != nil && r.MaxAge != nil && at.Since(s.AuthTime) > time.Duration(*r.MaxAge)*time.Second
}

// sameUser returns nil if the signed-in user is the one who signed in for the
// interaction (CWE-639).
func sameUser(it *Interaction, s *Session) error {
	switch {
	case s == nil:
		return ErrSignedOut
	case it.Identity == nil || s.Subject != it.Identity.Subject:
		return ErrSwitched
	}
	return nil
}

// next calls Next for a stage, and reads the consents that it needs. An error for
// the client is returned as a ClientError.
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
	step, err := Next(q, st.Session, st.agreed, st.Interaction)
	if step == StepReadConsents {
		cs, fault := a.consents(ctx, st.Session.Subject)
		if fault != nil {
			return "", fault
		}
		agreed, _ := a.living(st.view, cs, st.Session.Subject, st.Client.ID)
		if fault = a.asAgreed(ctx, st.Client, r, &agreed); fault != nil {
			return "", fault
		}
		st.consents, st.agreed = &cs, &agreed
		st.Known, st.Remember = r.Scope.Common(agreed.Scope), oauth.IsRemote(r.RedirectURI)
		st.Agreed = named(r) & agreed.Claims
		step, err = Next(q, st.Session, st.agreed, st.Interaction)
	}
	var public *oauth.Error
	switch {
	case errors.As(err, &public):
		err = a.clientError(st.Client, r, public, st.Session != nil, nil)
	case err == nil && step == StepConsent && st.Client != nil && st.Session != nil:
		// Nobody is asked about an authorization of which no code can be made.
		if err = a.rehearse(st, r, st.Session.Identity); err != nil {
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

// rehearse makes the code that the identity would give, so that one that does not fit
// into a code is refused before the user or the system that has the users has done
// more.
func (a *Authorizer) rehearse(st *Stage, r oauth.AuthorizationRequest, who Identity) error {
	now := a.now()
	who.AuthTime = cmp.Or(who.AuthTime, now) // as TakeLogin will have it
	_, err := a.Issuer.Codes().IssueAgreed(st.Client, issuer.Agreement{
		Authorization: authorization(r, who, st.targets),
		KeyID:         st.view.Ring.Current(keys.Seal, now), AuthorizedAt: now, ExpiresAt: now.Add(a.Issuer.CodeLifetimeOf(st.Client)),
	})
	return err
}
