package login

import (
	"context"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Console is the console of operators, who sign in to it by the login of users.
type Console struct {
	ACRValues string   // what the login should have of acr, the best first
	Claims    []string // that are asked for
	// Admit returns what is stored for an operator, and the address at the console that
	// takes it. The challenge is that of the browser in which the operator began.
	Admit func(challenge string, who Identity) (ticket store.Document, url string, err error)
}

// BeginConsole begins the login of an operator. The user signs in now, whoever is signed
// in in the browser: the account's session opens no console.
func (a *Authorizer) BeginConsole(ctx context.Context, v Visitor, challenge string) (*Interaction, error) {
	it := &Interaction{Step: StepLogin, Fresh: true, Console: challenge, Request: oauth.AuthorizationRequest{ACRValues: a.Console.ACRValues}}
	return it, a.begin(ctx, it, v, false)
}

// admit sends an operator on to the console. No session begins here: it would open the
// account pages.
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
