package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// passwordStands returns ErrSignedOut if the user's password was changed since the user
// proved it, or if the user was disabled.
func (ss *Sessions) passwordStands(ctx context.Context, it *Interaction) error {
	if alive, err := ss.Alive(ctx, it.Username, it.Epoch); alive || err != nil {
		return err
	}
	return ErrSignedOut
}

// SignIn records in one commit the user's identity, the claims that the login reported,
// the new session, and the end of the session that the browser had. It returns the new
// session's cookie.
func (a *Authorizer) SignIn(ctx context.Context, it *Interaction, who Identity, v Visitor) (cookie string, err error) {
	if err := a.checkSubject(who.Subject); err != nil {
		return "", err
	}
	if who.Name == "" && who.Username == "" {
		who.Name = who.Subject // better than nobody: users see whose answer they give
	}
	reported := who
	who.Standard = ""
	var ends *Session
	err = a.identify(ctx, it, who, func(who *Identity, c *store.Change) (err error) {
		if ends, err = a.replaceSession(ctx, who, v.Session, c); err != nil {
			return err
		}
		var session store.Document
		if cookie, session, err = a.newSession(*who); err != nil {
			return err
		}
		c.Documents = append(c.Documents, session)
		if err := a.noteProvider(ctx, reported, session, c); err != nil {
			return err
		}
		return a.noteClaims(ctx, reported, c)
	})
	if err != nil {
		return "", err
	}
	if ends != nil {
		a.ended(ctx, ends)
	}
	// Look for ends after the commit: an end that is stored later finds the new session.
	over, err := a.endsAtProvider(ctx, reported, it.SeenEnds)
	if err != nil || len(over) == 0 {
		return cookie, err
	}
	if _, err := a.EndSession(ctx, cookie); err != nil {
		return "", err
	}
	// The next login asks the provider anew, and is not refused for the same ends.
	err = a.change(ctx, it, nil, func(it *Interaction) error { it.SeenEnds = append(it.SeenEnds, over...); return nil })
	return "", cmp.Or(err, ErrProviderEnded)
}

// keep continues an interaction at StepAccount with the user who is signed in. If the page
// has shown another session, whose Mark is shown, keep records nothing, and the page is
// shown again (CWE-639).
func (a *Authorizer) keep(ctx context.Context, it *Interaction, v Visitor, shown string) error {
	s, err := a.Session(ctx, v.Session)
	if err != nil {
		return err
	}
	if s == nil {
		return ErrSignedOut
	}
	if it.Step != StepAccount {
		return ErrStep
	}
	if shown != "" && shown != s.Mark() {
		return nil
	}
	return a.identify(ctx, it, s.Identity, nil)
}

// checkSubject refuses a subject that is the id of a client, at every kind of login:
// tokens of the client for itself have it as their sub (RFC 9068 section 5).
func (a *Authorizer) checkSubject(subject string) error {
	view, err := a.view()
	if err != nil {
		return err
	}
	if _, taken := view.Registered(a.Realm, subject); taken {
		return fmt.Errorf("%w: %w", ErrSubject, &oauth.Invalid{Field: "subject", Message: "is the id of a client, which is the sub of that client's own tokens"})
	}
	return nil
}

// BeginConsole begins the login of an operator. The operator must sign in even if the
// browser has a session, because a session of the account pages opens no console.
func (a *Authorizer) BeginConsole(ctx context.Context, v Visitor, challenge string) (*Interaction, error) {
	it := &Interaction{Step: StepLogin, Fresh: true, Console: challenge, Request: oauth.AuthorizationRequest{ACRValues: a.Console.ACRValues}}
	return it, a.begin(ctx, it, v, false)
}

// ask begins an interaction.
func (a *Authorizer) ask(ctx context.Context, st Stage, r oauth.AuthorizationRequest, v Visitor, step Step) (Stage, error) {
	if st.Session == nil && len(r.State) > MaxGuestState {
		return st, a.clientError(st.Client, r, oauth.ErrGuestState, false, nil)
	}
	it := &Interaction{Request: r, Step: step, Fresh: r.Prompt.Login || stale(r, st.Session, a.now()) || unmet(r, st.Session) != nil}
	if step == StepConsent {
		it.Identity = &st.Session.Identity
	}
	if st.Client.SelfRegistered() && !isUnread(st.Client) {
		it.Client = st.Client // the user answers about what was shown
	}
	err := a.begin(ctx, it, v, st.Session != nil)
	switch {
	case errors.Is(err, ErrLimited), errors.Is(err, oauth.ErrTooLarge):
		return st, err
	case err != nil:
		return st, a.clientError(st.Client, r, oauth.ErrUnavailable, st.Session != nil, err)
	}
	st.Interaction = it
	return st, nil
}

// MaxGuestState is how long a state may be, in bytes, that is kept for a user
// who is not signed in.
const MaxGuestState = 4096
