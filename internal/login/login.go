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

// proveMore notes that a built-in user has passed a step in an epoch of the user's
// record, and owes another one.
func (ins *Interactions) proveMore(ctx context.Context, it *Interaction, who Proof) error {
	return ins.change(ctx, it, nil, func(it *Interaction) error {
		if it.Step != StepLogin && it.Step != who.Owes {
			return ErrStep
		}
		it.Step, it.Username, it.Epoch = who.Owes, who.Username, who.Epoch
		return nil
	})
}

// passwordStands is ErrSignedOut if the password that was shown has been
// changed since, or its user disabled.
func (ss *Sessions) passwordStands(ctx context.Context, it *Interaction) error {
	if alive, err := ss.Alive(ctx, it.Username, it.Epoch); alive || err != nil {
		return err
	}
	return ErrSignedOut
}

// restart begins the login again, as another interaction: a page that was shown
// to one user is never answered by the next (CWE-639). With another, it is for
// another user: a session in another tab does not count.
func (ins *Interactions) restart(ctx context.Context, it *Interaction, v Visitor, another bool) (*Interaction, error) {
	next := &Interaction{Request: it.Request, Client: it.Client, Device: it.Device, Console: it.Console, SeenEnds: it.SeenEnds, Step: StepLogin, Fresh: it.Fresh || another}
	if err := ins.begin(ctx, next, v, it.Identity != nil); err != nil {
		return nil, err
	}
	err := ins.change(ctx, it, nil, func(it *Interaction) error {
		switch {
		case it.Decision != nil:
			return ErrAnswered
		case it.Step == StepMoved:
			return ErrMoved
		}
		it.Step, it.Next = StepMoved, next.ID
		return nil
	})
	return next, err
}

// SignIn records in one commit who the user is, what the login says about the user,
// the session that begins, and that the session which the browser had ends. It
// returns the new session's cookie.
func (a *Authorizer) SignIn(ctx context.Context, it *Interaction, who Identity, v Visitor) (cookie string, err error) {
	if err := a.checkSubject(who.Subject); err != nil {
		return "", err
	}
	if who.Name == "" && who.Username == "" {
		who.Name = who.Subject // better than nobody: users see whose answer they give
	}
	said := who
	who.Standard = ""
	var ends *Session
	err = a.identify(ctx, it, who, func(who *Identity, c *store.Change) (err error) {
		if ends, err = a.leave(ctx, who, v.Session, c); err != nil {
			return err
		}
		var session store.Document
		if cookie, session, err = a.newSession(*who); err != nil {
			return err
		}
		c.Documents = append(c.Documents, session)
		if err := a.noteProvider(ctx, said, session, c); err != nil {
			return err
		}
		return a.noteClaims(ctx, said, c)
	})
	if err != nil {
		return "", err
	}
	if ends != nil {
		a.ended(ctx, ends)
	}
	// After the commit: an end that is noted later finds the session.
	over, err := a.endsAtProvider(ctx, said, it.SeenEnds)
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

// keep moves an interaction that asks which user it is to be on with the one
// who is signed in. If the page has shown the session of another, which a mark names,
// nothing is recorded: the page is shown again (CWE-639).
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

// identify records who the user is, and in the same commit what add adds, unless it
// is nil. Add may change who that is.
func (ins *Interactions) identify(ctx context.Context, it *Interaction, who Identity, add func(*Identity, *store.Change) error) error {
	var with store.Change
	return ins.change(ctx, it, &with, func(it *Interaction) error {
		if it.Decision != nil {
			return ErrAnswered
		}
		with = store.Change{}
		if add != nil {
			if err := add(&who, &with); err != nil {
				return err
			}
		}
		it.Step, it.Identity, it.Username = StepConsent, &who, ""
		return nil
	})
}

// keepUpstream notes what the answer of another provider is to be compared
// with.
func (ins *Interactions) keepUpstream(ctx context.Context, it *Interaction, pending json.RawMessage) error {
	return ins.change(ctx, it, nil, func(it *Interaction) error {
		if it.Step != StepLogin {
			return ErrStep
		}
		it.Upstream = pending
		return nil
	})
}

// Login returns the interaction of a challenge with its client, which is nil for the
// account pages and the console.
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

// AcceptLogin says who the user of a challenge is. It returns where to send the
// browser. The address proves that this call was made: an attacker who sends
// another user his own challenge does not learn it. The same call again is no error.
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
		return "", &oauth.Invalid{Field: "auth_time", Message: "the client asks for a login of now: let the user log in again"}
	case it.Request.MaxAge != nil && who.AuthTime < fresh.Add(-time.Duration(*it.Request.MaxAge)*time.Second):
		return "", &oauth.Invalid{Field: "auth_time", Message: "is longer ago than the client's max_age: let the user log in again"}
	}
	return a.sayLogin(ctx, it, Outcome{Identity: &who, At: now})
}

// rehearseLogin makes the code that a login which another system accepts would give, so
// that one that does not fit into a code is refused to that system. A client whose
// description was not read yet is taken to allow what its request asks for.
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
		return nil // the client's fault, and not the system's
	}
	who.AuthTime = cmp.Or(who.AuthTime, a.now()) // as TakeLogin will have it
	_, err = a.Issuer.Codes().IssueTo(c, authorization(r, who, st.targets))
	return err
}

// RejectLogin says that the user of a challenge is not let in, and what the
// client receives: "" is access_denied.
func (a *Authorizer) RejectLogin(ctx context.Context, challenge string, code oauth.ErrorCode) (continueURL string, err error) {
	code = cmp.Or(code, oauth.AccessDenied)
	if describe(code) == "" {
		var known []string
		for _, e := range refusals {
			known = append(known, string(e.Code))
		}
		return "", &oauth.Invalid{Field: "error", Message: "is none of " + strings.Join(known, ", ")}
	}
	it, err := a.load(ctx, challenge)
	if err != nil {
		return "", err
	}
	return a.sayLogin(ctx, it, Outcome{Refused: code, At: a.now()})
}

func (ins *Interactions) sayLogin(ctx context.Context, it *Interaction, said Outcome) (string, error) {
	err := ins.change(ctx, it, nil, func(it *Interaction) error {
		switch {
		case it.Login != nil && sameLogin(*it.Login, said):
			return errUnchanged
		case it.Login != nil, it.Decision != nil, it.Step != StepLogin:
			return ErrAnswered
		}
		it.Login = &said
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
	said, err := json.Marshal(it.Login)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(view.Ring.Tag("login of an interaction", []byte(it.ID), said)), nil
}

// TakeLogin is what another system said of the interaction, for a browser that
// was sent with the verifier; nil if nothing was said yet, or was taken.
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
	said := *it.Login
	if said.Identity != nil && said.Identity.AuthTime == 0 {
		who := *said.Identity
		who.AuthTime = said.At // whoever accepts a login has just seen the user
		said.Identity = &who
	}
	return &said, nil
}

// checkSubject refuses a subject that is the id of a client, at every kind of login:
// tokens of the client for itself have it as their sub (RFC 9068 section 5).
func (a *Authorizer) checkSubject(subject string) error {
	view, err := a.view()
	if err != nil {
		return err
	}
	if _, taken := view.Registered(a.Realm, subject); taken {
		return fmt.Errorf("%w: %w", ErrSubject, &oauth.Invalid{Field: "subject", Message: "it is the id of a client, whose own tokens have it as their sub"})
	}
	return nil
}

// checkIdentity refuses what cannot be in a token, and brings claims to the form
// in which they travel.
func (a *Authorizer) checkIdentity(who *Identity) (err error) {
	who.Standard, who.Claims, err = issuer.SplitClaims(json.RawMessage(who.Claims))
	switch {
	case err != nil:
		return err
	case !oauth.IsSubject(who.Subject):
		return &oauth.Invalid{Field: "subject", Message: fmt.Sprintf("1 to %d bytes of UTF-8 without control characters", oauth.MaxSubject)}
	case !oauth.IsText(who.Name, oauth.MaxName):
		return &oauth.Invalid{Field: "name", Message: fmt.Sprintf("at most %d bytes of UTF-8 without control characters", oauth.MaxName)}
	case who.Login.SaidACR != "" && !openid.IsACR(who.Login.SaidACR):
		return &oauth.Invalid{Field: "acr", Message: fmt.Sprintf("at most %d ASCII characters without spaces and quotes", grant.MaxSaidACR)}
	}
	return a.checkSubject(who.Subject)
}

// BeginConsole begins the login of an operator. The user signs in now, whoever is signed
// in in the browser: the account's session opens no console.
func (a *Authorizer) BeginConsole(ctx context.Context, v Visitor, challenge string) (*Interaction, error) {
	it := &Interaction{Step: StepLogin, Fresh: true, Console: challenge, Request: oauth.AuthorizationRequest{ACRValues: a.Console.ACRValues}}
	return it, a.begin(ctx, it, v, false)
}
