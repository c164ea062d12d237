package login

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// An Answer is the content of one request about an interaction.
type Answer struct {
	Interaction string // its id
	From        Source
	Form
	Verifier string // of a handoff: AcceptLogin and RejectLogin return it
	// Check verifies what the user has typed, or what the provider has sent. It is nil
	// if this deployment has no such form.
	Check Check
	// Enter takes a concurrency slot for the Check of a provider's answer; nil: none is needed.
	Enter func() (leave func(), err error)
	// Elsewhere begins a login at the system which has the users; nil: users sign in here.
	Elsewhere func(context.Context, *Interaction) (Departure, error)
}

// A Source is from where an answer comes.
type Source int

const (
	FromBrowser  Source = iota // the browser is here, perhaps with the verifier of a handoff
	FromForm                   // the user has sent the form of a page
	FromProvider               // the OpenID Connect provider has sent the browser back
)

// A Form holds the fields that the form of a step may have, beside those for its Check.
type Form struct {
	Step     Step   // that the form was for
	Action   string // a button that several pages have: cancel, switch or continue
	Decision string // a button of the consent page: allow or deny
	Remember bool   // the decision
	Same     bool   // the device shows the same code as the page
	Session  string // the mark of the session that the page was about; "": it has none
}

// A Check verifies a proof of who the user is. An error means that the login attempt
// failed: the proof then has the user's subject, if known, and the username as typed. The
// error is a *Refusal if another system rejects the login.
type Check func(context.Context, *Interaction) (Proof, error)

// A Refusal is a login that the external login system rejected.
type Refusal struct {
	Code  oauth.ErrorCode // for the client
	Cause error
}

func (r *Refusal) Error() string { return r.Cause.Error() }
func (r *Refusal) Unwrap() error { return r.Cause }

// A Departure redirects a browser to the external login system: the OpenID provider, or the
// login page at login.handoff_url.
type Departure struct {
	URL string
	// Keep is stored for comparison with the system's response; nil: nothing new.
	Keep json.RawMessage
}

var (
	// ErrForm means that a form is not one of this server's pages.
	ErrForm = errors.New("form or link not made by this server")
	// ErrRejected means that the deployment's own login page has called RejectLogin.
	ErrRejected = errors.New("login rejected")
)

// A Step is what an interaction asks for next.
type Step string

const (
	StepLogin        Step = "login"
	StepSecondFactor Step = "second_factor"
	StepAccount      Step = "account" // which user it is to be
	StepConsent      Step = "consent"
	StepAnswered     Step = "answered"
	StepMoved        Step = "moved" // begun again, as Next

	// StepReadConsents is no step of a user: the caller must give Next the consents.
	StepReadConsents Step = "read consents"
)

// A step is what an interaction can ask its user for.
type step struct {
	// take processes the form of the step, if the step is the present one.
	take func(*turn, context.Context, step) error
	// gives is the login of a built-in user who has passed the step.
	gives openid.Login
}

// steps are all steps at which a user is asked. A new step needs a row here, and a row in
// package web for its page and its check.
var steps = map[Step]step{
	StepLogin:        {take: (*turn).prove, gives: openid.Password},
	StepSecondFactor: {take: (*turn).prove, gives: openid.PasswordAndOTP},
	StepAccount:      {take: (*turn).choose},
	StepConsent:      {take: (*turn).consent},
}

// Answer processes one answer to an interaction, and returns the stage that follows. It
// makes every decision: package web only parses requests and shows stages. A form for
// another step than the present one comes from the back button, another tab or a second
// click: Answer then sends the browser to the page of the present step. It does the same
// if the login begins again.
//
// Even with an error, the stage has the interaction, the client and the login attempt, as
// far as they are known.
func (a *Authorizer) Answer(ctx context.Context, v Visitor, answer Answer) (Stage, error) {
	it, err := a.Interaction(ctx, answer.Interaction, v)
	t := &turn{a: a, v: v, answer: answer, it: it}
	t.st.Interaction = it
	if err == nil {
		err = t.take(ctx)
	}
	if errors.Is(err, ErrSignedOut) {
		// The session has expired, or was ended in another tab or by an administrator.
		err = t.restart(ctx, false)
	}
	if errors.Is(err, ErrMoved) {
		t.st.Next, err = it.Next, nil
	}
	return t.st, err
}

// A turn is one answer to an interaction, and the stage that follows.
type turn struct {
	a      *Authorizer
	v      Visitor
	answer Answer
	it     *Interaction
	st     Stage
}

func (t *turn) take(ctx context.Context) error {
	answer, it := t.answer, t.it
	switch answer.From {
	case FromProvider:
		return t.provider(ctx)
	case FromBrowser:
		return t.look(ctx)
	}
	switch {
	case answer.Step == StepConsent && (answer.Decision == "allow" || answer.Decision == "deny"):
		return t.consent(ctx, step{}) // also the same form again, after the decision
	case answer.Action == "cancel":
		return t.deny(ctx)
	case answer.Step != it.Step:
		return t.again(nil)
	case answer.Action == "switch":
		return t.restart(ctx, true)
	}
	of, ok := steps[answer.Step]
	if !ok {
		return ErrForm
	}
	return of.take(t, ctx, of)
}

// again sends the browser to the page of the interaction, unless err is set.
func (t *turn) again(err error) error {
	if err == nil && t.st.URL == "" {
		t.st.Next = t.it.ID
	}
	return err
}

// reached stores the stage that a request has reached. If the user must log in at another
// system, it also begins that login.
func (t *turn) reached(ctx context.Context, st Stage, err error) error {
	st.Login = t.st.Login
	t.st = st
	switch {
	case errors.Is(err, ErrStep):
		return t.again(nil)
	case err != nil || st.URL != "" || t.it.Step != StepLogin || t.answer.Elsewhere == nil || t.it.OfAccount() && st.Session != nil:
		return err
	}
	to, err := t.answer.Elsewhere(ctx, t.it)
	switch {
	case err != nil && t.st.Login == nil:
		t.st.Login = &Attempt{Err: err}
	case err == nil && to.Keep != nil:
		err = t.a.keepUpstream(ctx, t.it, to.Keep)
	}
	t.st.Elsewhere = to.URL
	return err
}

// look continues with the recorded interaction, and with the result of a handoff.
func (t *turn) look(ctx context.Context) error {
	outcome, err := t.a.TakeLogin(t.it, t.answer.Verifier)
	switch {
	case err != nil:
		return err
	case outcome != nil && outcome.Identity == nil:
		return t.rejected(ctx, ErrRejected, outcome.Refused)
	case outcome != nil:
		if err := t.signIn(ctx, Proof{Identity: *outcome.Identity}); err != nil || t.st.URL != "" {
			return err
		}
		t.v.Session = t.st.Login.Cookie
	}
	st, err := t.a.resume(ctx, t.it, t.v)
	if err == nil {
		st, err = t.a.proceed(ctx, st)
	}
	return t.reached(ctx, st, err)
}

// prove checks what a built-in user has typed.
func (t *turn) prove(ctx context.Context, of step) error {
	if t.answer.Check == nil {
		return ErrForm
	}
	owed := t.it.Username != "" // an earlier step was passed
	if owed {
		if err := t.a.passwordStands(ctx, t.it); err != nil {
			return err
		}
	}
	who, err := t.answer.Check(ctx, t.it)
	switch {
	case errors.Is(err, ErrSignedOut):
		return err
	case err != nil:
		t.st.Login = &Attempt{Proof: who, Err: err}
		return err
	case who.Owes != "":
		return t.again(t.a.proveMore(ctx, t.it, who))
	case owed && who.Epoch != t.it.Epoch:
		return ErrSignedOut // the password was changed at this moment
	}
	who.Login = of.gives
	return t.again(t.signIn(ctx, who))
}

// signIn signs in the user whom a proof names.
func (t *turn) signIn(ctx context.Context, who Proof) error {
	if t.it.Console != "" {
		return t.admit(ctx, who)
	}
	cookie, err := t.a.SignIn(ctx, t.it, who.Identity, t.v)
	refused := errors.Is(err, ErrSubject) || errors.Is(err, ErrProviderEnded)
	t.st.Login = &Attempt{Proof: who, Cookie: cookie, Err: err, Fault: err != nil && !refused}
	return err
}

// admit sends an operator on to the console. It begins no session, which would also open
// the account pages.
func (t *turn) admit(ctx context.Context, who Proof) error {
	err := ErrInteraction // of a console that a reload has switched off
	if c := t.a.Console; c != nil {
		var ticket store.Document
		if ticket, t.st.URL, err = c.Admit(t.it.Console, who.Identity); err == nil {
			err = t.a.change(ctx, t.it, &store.Change{Documents: []store.Document{ticket}}, func(it *Interaction) error {
				if it.Step != StepLogin {
					return ErrAnswered // in another tab
				}
				it.Step = StepAnswered
				return nil
			})
		}
	}
	t.st.Login = &Attempt{Proof: who, Err: err, Fault: err != nil}
	return err
}

// choose continues with the user who is signed in.
func (t *turn) choose(ctx context.Context, _ step) error {
	if t.answer.Action != "continue" {
		return ErrForm
	}
	return t.again(t.a.keep(ctx, t.it, t.v, t.answer.Session))
}

// consent records the user's decision.
func (t *turn) consent(ctx context.Context, _ step) error {
	switch t.answer.Decision {
	case "allow":
		if t.it.Request.Device && !t.answer.Same {
			return t.again(nil)
		}
		st, err := t.a.allow(ctx, t.it, t.v, t.answer.Remember)
		st.ByUser = true
		return t.reached(ctx, st, err)
	case "deny":
		return t.deny(ctx)
	}
	return ErrForm
}

// deny ends the interaction because the user has cancelled it.
func (t *turn) deny(ctx context.Context) error {
	st, err := t.a.deny(ctx, t.it, t.v, oauth.AccessDenied)
	st.ByUser = true
	if toClient, ok := errors.AsType[*ClientError](err); ok {
		toClient.Clicked = true
	}
	return t.reached(ctx, st, err)
}

// provider takes the answer of an OpenID Connect provider.
func (t *turn) provider(ctx context.Context) error {
	if t.it.Step != StepLogin || t.it.Upstream == nil {
		return t.again(nil) // the back button: the answer was used
	}
	if t.answer.Enter != nil {
		leave, err := t.answer.Enter()
		if err != nil {
			return err
		}
		defer leave()
	}
	who, err := t.answer.Check(ctx, t.it)
	var refused *Refusal
	switch {
	case errors.As(err, &refused):
		return t.rejected(ctx, refused.Cause, refused.Code)
	case err != nil:
		t.st.Login = &Attempt{Proof: who, Err: err}
		// The next attempt needs a new request to the provider: the code may be spent.
		return errors.Join(err, t.a.keepUpstream(ctx, t.it, nil))
	}
	err = t.signIn(ctx, who)
	if errors.Is(err, ErrProviderEnded) {
		err = nil // the login begins again
	}
	return t.again(err)
}

// rejected ends the interaction of a user whom another system rejects, if a client waits
// for an answer.
func (t *turn) rejected(ctx context.Context, why error, code oauth.ErrorCode) error {
	t.st.Login = &Attempt{Err: why}
	if t.it.OfAccount() {
		return why
	}
	st, err := t.a.deny(ctx, t.it, t.v, code)
	return t.reached(ctx, st, err)
}

// restart begins the login again, for another user or for the same.
func (t *turn) restart(ctx context.Context, another bool) error {
	next, err := t.a.restart(ctx, t.it, t.v, another)
	if err == nil {
		t.st.Next = next.ID
	}
	return err
}
