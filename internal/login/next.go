package login

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An Interaction is what a user is asked because of one request of a client,
// or because of the account pages, which have no client. It is stored sealed,
// and it belongs to the browser that began it.
type Interaction struct {
	ID      string                     `json:"-"`
	Browser []byte                     `json:"browser"` // a digest
	Request oauth.AuthorizationRequest `json:"request"`
	Step    Step                       `json:"step"`
	// Fresh is set if a user who is already signed in must sign in again.
	Fresh     bool          `json:"fresh,omitempty"`
	CreatedAt grant.Instant `json:"created_at"`
	ExpiresAt grant.Instant `json:"-"`

	// Username is the user who has proved a password, in Epoch of the user's record, and
	// must prove a second factor.
	Username string `json:"username,omitempty"`
	Epoch    int64  `json:"epoch,omitempty"`
	// Identity is who has signed in.
	Identity *Identity `json:"identity,omitempty"`

	// Login is the outcome that another system has recorded, until the browser returns.
	Login *Outcome `json:"login,omitempty"`
	// Upstream holds the values with which the answer of another provider is compared.
	// This package does not decode it.
	Upstream json.RawMessage `json:"upstream,omitempty"`
	// SeenEnds are the ends at the provider that were seen before this login began.
	SeenEnds []string `json:"seen_ends,omitempty"`

	// Device is what a device asks for, if the user has come to enter its code.
	Device *DeviceAsked `json:"device,omitempty"`

	// Console is the challenge of a browser in which an operator signs in to the console.
	Console string `json:"console,omitempty"`

	// Client is a client that registered itself, as the user is shown it.
	Client *store.Client `json:"client,omitempty"`

	Decision *Decision `json:"decision,omitempty"`
	// Next is the id of the interaction that replaced this one.
	Next string `json:"next,omitempty"`

	version int64
}

// OfAccount reports whether the interaction has no client, because it is for the account
// pages or the console.
func (it *Interaction) OfAccount() bool { return it.Request.ClientID == "" }

// Named returns the claims that the client asks for by name.
func (it *Interaction) Named() claims.Set { return named(it.Request) }

// MayRemember reports whether the user's decision may be remembered: only if the redirect
// URI is remote. Any program on the user's machine can pose as a client that runs there.
func (it *Interaction) MayRemember() bool { return oauth.IsRemote(it.Request.RedirectURI) }

// ACRValues returns the acr values for the system that has the users, the best first:
// those that the client demands, or else those that it prefers.
func (it *Interaction) ACRValues() []string {
	return strings.Fields(cmp.Or(strings.Join(it.Request.Classes, " "), it.Request.ACRValues))
}

// A DeviceAsked is the device for which a user has entered a code, as the user is shown
// it. Until the user has signed in, only UserCode is set.
type DeviceAsked struct {
	UserCode string        `json:"user_code"`
	From     string        `json:"from,omitempty"` // address of the device
	At       grant.Instant `json:"at,omitempty"`   // when it asked
}

// A Console is the console of operators, who sign in to it as users do.
type Console struct {
	URL       string   // of its overview
	ACRValues string   // acr values for the login, the best first
	Claims    []string // to request from the provider
	// Admit returns the ticket to store for an operator, and the address at the console
	// that redeems it. challenge is that of the browser in which the operator began.
	Admit func(challenge string, who Identity) (ticket store.Document, url string, err error)
}

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

// An Outcome is the result of a login by another system: Identity, or Refused.
type Outcome struct {
	Identity *Identity       `json:"identity,omitempty"`
	Refused  oauth.ErrorCode `json:"refused,omitempty"`
	At       grant.Instant   `json:"at"`
}

// A Request is a client's authorization request, with the other inputs of Next that do not
// depend on the user.
type Request struct {
	oauth.AuthorizationRequest // Defect is also set if this client may not ask for it

	Client  *store.Client // nil: the account pages ask
	At      grant.Instant // of the decision
	BuiltIn bool          // users are built in, so that they choose an account here
	// Development: every program on this machine is the developer's.
	Development bool
	// Beyond is since when other clients may exchange this client's tokens for more than
	// it asks for. Users who agreed before that are asked again.
	Beyond grant.Instant
}

// Next returns the step that comes next, from what is recorded. It is pure. The
// session is nil if nobody is signed in, the interaction if nobody was asked yet.
// If agreed is nil and the consent matters, Next returns StepReadConsents: the caller
// reads consents only then. StepAnswered means that there is nothing to ask.
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
	if next, err := r.signIn(s, it); next != StepConsent || err != nil {
		return next, err
	}
	return r.consent(agreed)
}

// signIn returns the step at which the user signs in, or StepConsent for a known user.
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
	// Any program on the user's machine can pose as a client that runs there, so that the
	// user is always asked about such a client (RFC 8252 section 8.6), and about every
	// device, because somebody else may have sent the user its code.
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

// unmet returns the error of a request that demands another user than that of s,
// or another login (OpenID Connect Core sections 3.1.2.1 and 5.5.1.1). It returns nil if
// nobody is signed in.
func unmet(r oauth.AuthorizationRequest, s *Session) *oauth.Error {
	switch {
	case s == nil:
		return nil
	case r.Subjects != nil && !slices.Contains(r.Subjects, s.Subject):
		return oauth.ErrLoginRequired
	case r.Classes != nil && !slices.Contains(r.Classes, s.Login.Class()):
		return oauth.ErrUnmet
	}
	return nil
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

// named returns the claims that a request asks for by name and not by its scope: the
// user is asked about them too.
func named(r oauth.AuthorizationRequest) claims.Set {
	if r.InUserInfo|r.InIDToken == 0 {
		return 0
	}
	return claims.Set(r.InUserInfo|r.InIDToken) &^ claims.Of(r.Scope)
}
