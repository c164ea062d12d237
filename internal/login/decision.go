package login

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// resume loads the stage of an interaction for a request about it. It checks the client
// and its redirect URI again, which may have changed since the interaction began (RFC 9700
// section 4.1).
func (a *Authorizer) resume(ctx context.Context, it *Interaction, v Visitor) (st Stage, err error) {
	st.Interaction = it
	if st.view, err = a.view(); err != nil {
		return st, err
	}
	switch {
	case it.Console != "" && it.Step == StepAnswered:
		return st, ErrAnswered
	case it.Console != "":
		return st, nil // whoever is signed in
	}
	if st.Session, err = a.Session(ctx, v.Session); err == nil && st.Session != nil && it.Device != nil && it.OfAccount() {
		err = a.findDevice(ctx, st, v)
	}
	if err != nil || it.OfAccount() {
		return st, err
	}
	if st.Client, err = a.client(st.view, it.Request, it); err != nil {
		return st, fmt.Errorf("%w: %w", ErrClientChanged, err)
	}
	if !isUnread(st.Client) || st.Session == nil || it.Decision != nil {
		return st, nil
	}
	r, err := a.readClient(ctx, &st, it.Request, v)
	if err != nil {
		return st, err
	}
	st.targets = nil // they are those of r, which it.Request may differ from
	// Record the client before the page shows it: the user's answer is about this version.
	return st, a.change(ctx, it, nil, func(it *Interaction) error {
		if it.Client != nil {
			return errUnchanged
		}
		// A request with a defect is stored as it was sent: when it is read again, the
		// same check has to find the same defect.
		if it.Client = st.Client; r.Defect == nil {
			it.Request.Scope, it.Request.Asked, it.Request.Resources = r.Scope, r.Asked, r.Resources
		}
		return nil
	})
}

// proceed records the steps that need no answer of the user, until Next returns a step
// that needs one, or the client can be answered.
func (a *Authorizer) proceed(ctx context.Context, st Stage) (Stage, error) {
	for it := st.Interaction; ; {
		step, err := a.next(ctx, &st, it.Request)
		switch {
		case err != nil, it.OfAccount():
			return st, err
		case it.Decision != nil:
			return a.answer(ctx, st)
		case it.Identity == nil && (step == StepConsent || step == StepAnswered):
			// The user has signed in meanwhile, in another tab. Record the user before the
			// page is shown, so that no other user can answer it (CWE-639).
			err = a.identify(ctx, it, st.Session.Identity, nil)
		case step == StepAnswered:
			err = a.decide(ctx, &st, Decision{Allow: true}, false)
		default:
			return st, nil
		}
		if err != nil {
			return st, err
		}
	}
}

// allow records the user's agreement, and answers the client.
func (a *Authorizer) allow(ctx context.Context, it *Interaction, v Visitor, remember bool) (Stage, error) {
	st, err := a.resume(ctx, it, v)
	switch {
	case err != nil:
		return st, err
	case it.Decision != nil: // the same form again
	case it.Step != StepConsent || it.OfAccount():
		return st, ErrStep
	default:
		if _, err := a.next(ctx, &st, it.Request); err != nil {
			return st, err
		}
	}
	remember = remember && it.MayRemember()
	if err := a.decide(ctx, &st, Decision{Allow: true, Remember: remember}, true); err != nil {
		return st, err
	}
	return a.proceed(ctx, st)
}

// WayBack returns the client of an interaction that its user cannot finish, and where
// a link on an error page leads: the redirect URI with access_denied (RFC 6749 section
// 4.1.2.1). The address is "" unless an operator registered the client and the URI, and the
// client has no answer yet and receives answers in the query.
func (a *Authorizer) WayBack(it *Interaction) (c *store.Client, address string) {
	view, err := a.view()
	if err != nil || it.OfAccount() || it.Decision != nil || it.Request.FormPost || it.Request.Device {
		return nil, ""
	}
	if c, err = a.client(view, it.Request, nil); err != nil || c.SelfRegistered() {
		return nil, ""
	}
	return c, errorCallback(it.Request, oauth.ErrDenied, a.Issuer.ID, "")
}

// deny records that the user, at any step, or the system that has the users has refused,
// and answers the client. The code is one of RFC 6749 section 4.1.2.1.
func (a *Authorizer) deny(ctx context.Context, it *Interaction, v Visitor, code oauth.ErrorCode) (Stage, error) {
	st, err := a.resume(ctx, it, v)
	switch {
	case err != nil:
		return st, err
	case it.OfAccount():
		return st, ErrStep
	case it.Step == StepConsent:
		if err := sameUser(it, st.Session); err != nil {
			return st, err
		}
	}
	if err := a.decide(ctx, &st, Decision{Code: code}, false); err != nil {
		return st, err
	}
	return a.proceed(ctx, st)
}

// decide records d, unless the same decision is recorded, and in the same commit the
// consent that the user gave on a page.
func (a *Authorizer) decide(ctx context.Context, st *Stage, d Decision, consent bool) error {
	who, with := st.Interaction.Identity, &store.Change{}
	err := a.change(ctx, st.Interaction, with, func(it *Interaction) error {
		st.Decided = false
		switch {
		case it.Decision != nil && it.Decision.Allow != d.Allow:
			return ErrAnswered
		case it.Decision != nil:
			return errUnchanged
		case d.Allow && it.Step != StepConsent:
			return ErrStep // begun again meanwhile, in another tab
		case d.Allow && it.Identity.Subject != who.Subject:
			return ErrSwitched
		case d.Allow:
			now := a.now()
			d.AuthorizedAt = a.Issuer.AgreedAt(st.view, who.Subject, st.Client.ID, now)
			d.ExpiresAt = now.Add(a.Issuer.CodeLifetimeOf(st.Client))
			d.KeyID = st.view.Ring.Current(keys.Seal, now)
			// Refer to the session that answers, which may have replaced the one that was
			// asked: the end of a session finds its grants by the reference.
			if s := st.Session; s != nil && s.Reference != it.Identity.Reference {
				of := *it.Identity
				of.Reference = s.Reference
				it.Identity = &of
			}
		}
		var err error
		with.Events = nil
		if with.Documents, err = a.spend(ctx, it.Request); err != nil {
			return err
		}
		if consent {
			own := st.Client.SelfRegistered()
			var before *store.Client
			if own {
				if before, err = a.Directory.Record(ctx, st.Client.Realm, st.Client.ID); err != nil {
					return err
				}
			}
			doc, err := a.consentDocument(ctx, st, d, own && before == nil)
			if err != nil {
				return err
			}
			if with.Documents = append(with.Documents, doc); own {
				a.record(st.Client, before, with)
			}
		}
		if it.Device != nil {
			doc, err := a.decideDevice(ctx, st, it, d)
			if err != nil {
				return err
			}
			with.Documents = append(with.Documents, doc)
		}
		it.Decision, it.Step, st.Decided = &d, StepAnswered, true
		return nil
	})
	st.Decided = st.Decided && err == nil
	return err
}

// consentDocument returns the user's consents with what d adds for the client. Only the
// first call for a stage uses the consents that the stage has read. If makes is set, the
// agreement creates a client's record: the error is ErrRecords if the user has created too
// many.
func (co *Consents) consentDocument(ctx context.Context, st *Stage, d Decision, makes bool) (store.Document, error) {
	r, subject := st.Interaction.Request, st.Interaction.Identity.Subject
	cs := st.consents
	st.consents = nil
	if cs == nil {
		read, err := co.consents(ctx, subject)
		if err != nil {
			return store.Document{}, err
		}
		cs = &read
	}
	have, _ := co.living(st.view, *cs, subject, r.ClientID)
	if have.Terms != terms(st.Client, r.RedirectURI) {
		have = Consent{}
	}
	// Remember or forget only the claims that the consent page has shown.
	shown := named(r)
	next := Consent{Scope: union(r.Scope, have.Scope), Remembered: have.Remembered.Without(r.Scope), At: d.AuthorizedAt,
		Claims: shown | have.Claims, RememberedClaims: have.RememberedClaims &^ shown}
	if d.Remember {
		next.Remembered, next.RememberedClaims = union(r.Scope, have.Remembered), shown|have.RememberedClaims
	}
	next.Terms = terms(st.Client, r.RedirectURI)
	if !r.Device { // the user is always asked about a device
		cs.Of[r.ClientID] = next
	}
	if makes {
		hourAgo := co.now().Add(-time.Hour)
		cs.Records = slices.DeleteFunc(cs.Records, func(at grant.Instant) bool { return at <= hourAgo })
		if len(cs.Records) >= recordPace {
			return store.Document{}, ErrRecords
		}
		cs.Records = append(cs.Records, co.now())
	}
	return cs.document()
}

// recordPace is how many records of clients that registered themselves one user can
// make in an hour: the store keeps each for a month or longer (CWE-770).
const recordPace = 20

// answer computes the client's answer from the decision, and writes nothing. A
// repeated answer is the same as long as its code is valid. It does not repeat a redeemed
// code, with which the client would end its own grant.
func (a *Authorizer) answer(ctx context.Context, st Stage) (Stage, error) {
	it, d := st.Interaction, st.Interaction.Decision
	if it.Request.Device {
		return st, nil // the device polls for it
	}
	if !d.Allow {
		public := &oauth.Error{Code: d.Code, Description: describe(d.Code)}
		return st, a.clientError(st.Client, it.Request, public, true, nil)
	}
	id, nonce := codeParts(st.view.Ring, it)
	if st.Decided {
		st.Issued = id
	} else if err := a.mayRepeat(ctx, st, id); err != nil {
		return st, err
	}
	code, err := a.Issuer.Codes().IssueAgreed(st.Client, issuer.Agreement{
		Authorization: authorization(it.Request, *it.Identity, st.targets),
		GrantID:       id, Nonce: nonce, KeyID: d.KeyID, AuthorizedAt: d.AuthorizedAt, ExpiresAt: d.ExpiresAt,
	})
	if err != nil {
		return st, a.clientError(st.Client, it.Request, publicError(err), true, err)
	}
	st.URL = a.callback(it.Request, st.Client, code)
	return st, nil
}

// mayRepeat returns nil if the code of a decision may be sent once more.
func (a *Authorizer) mayRepeat(ctx context.Context, st Stage, id grant.ID) error {
	if err := sameUser(st.Interaction, st.Session); err != nil {
		return err
	}
	if a.now() >= st.Interaction.Decision.ExpiresAt {
		return ErrAnswered
	}
	redeemed, err := a.Issuer.Codes().Redeemed(ctx, id)
	if redeemed {
		return ErrAnswered
	}
	return err
}

// codeParts derives the random parts of an interaction's code from the interaction's id
// and decision, by HMAC under a key of the ring. The id alone is no secret: it is the
// challenge of a handoff, and stands in URLs.
func codeParts(ring *keys.Ring, it *Interaction) (id grant.ID, nonce [keys.NonceSize]byte) {
	recorded := it.Decision.AuthorizedAt.Append(nil)
	id = grant.NewID(it.Decision.AuthorizedAt, [16]byte(ring.Tag("grant of an interaction", []byte(it.ID), recorded)))
	nonce = [keys.NonceSize]byte(ring.Tag("code of an interaction", []byte(it.ID), recorded)[:keys.NonceSize])
	return id, nonce
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
		// Make the code before asking, so that a request for which none can be made fails.
		if st.code, err = a.Issuer.Codes().IssueTo(st.Client, authorization(r, st.Session.Identity, st.targets)); err != nil {
			err = a.clientError(st.Client, r, publicError(err), true, err)
		}
	}
	return step, err
}

// asAgreed empties the consent to a client that registered itself, if the client has
// changed since or has no record: a client without a record gets no tokens.
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
