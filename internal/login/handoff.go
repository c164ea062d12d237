package login

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// Login returns the interaction of a challenge, and its client. The client is nil if the
// interaction is for the account pages or the console.
func (a *Authorizer) Login(ctx context.Context, challenge string) (*Interaction, *store.Client, error) {
	it, err := a.load(ctx, challenge)
	switch {
	case err != nil:
		return nil, nil, err
	case it.Step == StepAnswered:
		return nil, nil, ErrAnswered
	case it.OfAccount():
		return it, nil, nil
	}
	view, err := a.view()
	if err != nil {
		return nil, nil, err
	}
	c, err := a.client(view, it.Request, it)
	if err != nil {
		return nil, nil, ErrInteraction
	}
	return it, c, nil
}

// AcceptLogin records who the user of a challenge is, and returns the address to which the
// caller sends the browser. The address proves that this call was made: an attacker who
// sends another user his own challenge does not have it. A repeated call is no error.
func (a *Authorizer) AcceptLogin(ctx context.Context, challenge string, who Identity) (continueURL string, err error) {
	if err := a.checkIdentity(&who); err != nil {
		return "", err
	}
	it, err := a.load(ctx, challenge)
	if err != nil {
		return "", err
	}
	if err := a.rehearseLogin(it, who); err != nil {
		return "", err
	}
	now := a.now()
	switch fresh := it.CreatedAt.Add(-time.Minute); {
	case who.AuthTime > now.Add(time.Minute):
		return "", &oauth.Invalid{Field: "auth_time", Message: "is in the future"}
	case who.AuthTime == 0:
	case it.Fresh && who.AuthTime < fresh:
		return "", &oauth.Invalid{Field: "auth_time", Message: "is too old: the client requires a new login, so let the user log in again"}
	case it.Request.MaxAge != nil && who.AuthTime < fresh.Add(-time.Duration(*it.Request.MaxAge)*time.Second):
		return "", &oauth.Invalid{Field: "auth_time", Message: "is too old for the max_age of the client: let the user log in again"}
	}
	return a.recordOutcome(ctx, it, Outcome{Identity: &who, At: now})
}

// rehearseLogin makes the code that would follow from a login by another system, so that
// AcceptLogin rejects an identity that does not fit into a code. It assumes that a client
// whose description was not read yet may have everything that its request asks for.
func (a *Authorizer) rehearseLogin(it *Interaction, who Identity) error {
	view, err := a.view()
	if err != nil {
		return err
	}
	r := it.Request
	c, err := a.client(view, r, it)
	if it.OfAccount() || err != nil {
		return nil // there will be no code
	}
	st := &Stage{Client: c, view: view}
	if isUnread(c) {
		c.Realm, c.Auth, c.GrantTypes, c.RedirectURIs = a.Realm, store.AuthNone, store.GrantTypes, []string{r.RedirectURI}
		view.Offer(c)
		r = a.covered(st, r)
	}
	if a.defect(st, r) != nil {
		return nil // the client is at fault, and not the other system
	}
	who.AuthTime = cmp.Or(who.AuthTime, a.now()) // as TakeLogin will have it
	_, err = a.Issuer.Codes().IssueTo(c, authorization(r, who, st.targets))
	return err
}

// RejectLogin records that the login of a challenge is rejected, and the error code for
// the client: "" is access_denied.
func (a *Authorizer) RejectLogin(ctx context.Context, challenge string, code oauth.ErrorCode) (continueURL string, err error) {
	code = cmp.Or(code, oauth.AccessDenied)
	if describe(code) == "" {
		var known []string
		for _, e := range refusals {
			known = append(known, string(e.Code))
		}
		return "", &oauth.Invalid{Field: "error", Message: "must be one of " + strings.Join(known, ", ")}
	}
	it, err := a.load(ctx, challenge)
	if err != nil {
		return "", err
	}
	return a.recordOutcome(ctx, it, Outcome{Refused: code, At: a.now()})
}

func (ins *Interactions) recordOutcome(ctx context.Context, it *Interaction, outcome Outcome) (string, error) {
	err := ins.change(ctx, it, nil, func(it *Interaction) error {
		switch {
		case it.Login != nil && sameLogin(*it.Login, outcome):
			return errUnchanged
		case it.Login != nil, it.Decision != nil, it.Step != StepLogin:
			return ErrAnswered
		}
		it.Login = &outcome
		return nil
	})
	switch {
	case errors.Is(err, oauth.ErrTooLarge):
		return "", &oauth.Invalid{Field: "claims", Message: "too long together with the request of the client"}
	case err != nil:
		return "", err
	}
	verifier, err := ins.loginVerifier(it)
	return ins.ContinueURL + it.ID + "&verifier=" + verifier, err
}

func sameLogin(a, b Outcome) bool {
	if a.Identity == nil || b.Identity == nil {
		return a.Identity == b.Identity && a.Refused == b.Refused
	}
	return *a.Identity == *b.Identity
}

// loginVerifier returns the proof that AcceptLogin or RejectLogin has sent the browser.
func (ins *Interactions) loginVerifier(it *Interaction) (string, error) {
	view, err := ins.view()
	if err != nil {
		return "", err
	}
	outcome, err := json.Marshal(it.Login)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(view.Ring.Tag("login of an interaction", []byte(it.ID), outcome)), nil
}

// TakeLogin returns the outcome that AcceptLogin or RejectLogin has recorded, to a browser
// with the verifier. It returns nil if there is no outcome or verifier, or if the outcome
// was used before.
func (ins *Interactions) TakeLogin(it *Interaction, verifier string) (*Outcome, error) {
	if it.Login == nil || it.Step != StepLogin || verifier == "" {
		return nil, nil
	}
	want, err := ins.loginVerifier(it)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(verifier), []byte(want)) != 1 {
		return nil, ErrInteraction
	}
	outcome := *it.Login
	if outcome.Identity != nil && outcome.Identity.AuthTime == 0 {
		who := *outcome.Identity
		who.AuthTime = outcome.At // the other system has just authenticated the user
		outcome.Identity = &who
	}
	return &outcome, nil
}

// checkIdentity rejects an identity that cannot be in a token, and splits its claims into
// Standard and Claims.
func (a *Authorizer) checkIdentity(who *Identity) (err error) {
	who.Standard, who.Claims, err = issuer.SplitClaims(json.RawMessage(who.Claims))
	switch {
	case err != nil:
		return err
	case !oauth.IsSubject(who.Subject):
		return &oauth.Invalid{Field: "subject", Message: fmt.Sprintf("1 to %d bytes of UTF-8 without control characters", oauth.MaxSubject)}
	case !oauth.IsText(who.Name, oauth.MaxName):
		return &oauth.Invalid{Field: "name", Message: fmt.Sprintf("at most %d bytes of UTF-8 without control characters", oauth.MaxName)}
	case who.Login.ReportedACR != "" && !openid.IsACR(who.Login.ReportedACR):
		return &oauth.Invalid{Field: "acr", Message: fmt.Sprintf("at most %d ASCII characters without spaces and quotes", grant.MaxReportedACR)}
	}
	return a.checkSubject(who.Subject)
}
