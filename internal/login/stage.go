package login

import (
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Stage is the state that a client's request, or an interaction, has reached. If set,
// Next is the interaction to whose page the browser goes, URL the answer that goes to the
// client, and Elsewhere the address where the user logs in. Otherwise, the user is asked
// about Interaction here.
type Stage struct {
	Next        string
	URL         string
	Elsewhere   string
	Issued      grant.ID // of the code in URL, if it was made for this very answer
	Decided     bool     // this very request has stored the decision of Interaction
	ByUser      bool     // the user has made the decision on a page
	Login       *Attempt // what this request has done to log a user in; nil: nothing
	Interaction *Interaction
	Client      *store.Client
	Session     *Session
	Agreed      *Consent // what the user has agreed to for Client, unless a cutoff has ended it; nil: not read

	code     issuer.IssuedCode // for the user of Session, at StepConsent and, without an Interaction, StepAnswered
	view     *directory.View
	targets  *targets  // what the request asks for of the APIs; nil: not resolved yet
	consents *consents // of the session's subject, if they were read
}

// targets are the APIs that a request names, by its resources or its scope, as they were
// resolved once for a stage. The error is oauth.ErrTarget.
type targets struct {
	issuer.Resources
	err error
}

// A Proof is the user's identity, as a form or another system has proved it.
type Proof struct {
	Identity
	Owes  Step   // the step at which this user must prove more first; "": none
	Known []byte // cookie that marks this browser as one of the user's; nil: none
}

// An Attempt is what one request has done to log a user in. It is counted and recorded.
type Attempt struct {
	Proof
	Cookie string // of the session, if Err is nil
	Err    error
	Fault  bool // Err is a fault of the store, after the proof was verified
}

func authorization(r oauth.AuthorizationRequest, who Identity, of *targets) issuer.Authorization {
	var authTime time.Time
	if who.AuthTime != 0 {
		authTime = who.AuthTime.Time()
	}
	var resolved *issuer.Resources
	if of != nil && of.err == nil {
		resolved = &of.Resources
	}
	return issuer.Authorization{
		JKT: r.JKT, ClientID: r.ClientID, RedirectURI: r.RedirectURI, Device: r.Device, Subject: who.Subject, Scope: string(r.Scope), Challenge: r.Challenge, Resources: r.Resources, Resolved: resolved,
		AuthTime: authTime, Claims: issuer.CarriedClaims(who.Claims), Nonce: r.Nonce, Session: who.reference(), Login: who.Login,
		InUserInfo: r.InUserInfo, InIDToken: r.InIDToken, SaysACR: r.ACRValues != "",
	}
}
