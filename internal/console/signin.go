package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/qr"
	"github.com/mintage/mintage/internal/store"
)

// entrance serves the pages for visitors who have not signed in.
type entrance struct{ *Console }

// A signInPage asks an operator to sign in.
type signInPage struct {
	BuiltIn   bool // there are built-in users
	Elsewhere bool // operators sign in elsewhere
	Username  string
	Wrong     bool
	Minutes   int // until another try; 0: at once
	SignedOut bool
	Ended     bool // the session ended while a second factor was set up
	Cookies   bool // a session has begun, and the browser has not kept its cookie
}

// An endedPage answers a form that was sent after its session had ended. It is no redirect,
// so that the browser keeps the form: a reload sends it again.
type endedPage struct{}

func (c entrance) signInPage(_ context.Context, r *request) (reply, error) {
	q := r.URL.Query()
	switch {
	case r.who != nil:
		return reply{to: "/"}, nil
	case r.session != nil && q.Has("in"):
		return reply{to: "/factor"}, nil
	}
	return reply{page: signInPage{BuiltIn: c.Users != nil, Elsewhere: c.LoginSystem != nil, SignedOut: q.Has("out"), Ended: q.Has("ended"), Cookies: q.Has("in")}}, nil
}

// signIn checks a password and a code. Only an operator who has a second factor can sign
// in.
func (c *Console) signIn(ctx context.Context, r *request) (reply, error) {
	if c.Users == nil {
		return reply{}, errNotFound
	}
	username, code := operator.Fold(r.PostFormValue("username")), r.PostFormValue("code")
	p := signInPage{BuiltIn: true, Username: username}
	visitor := account.Visitor{Address: r.address, Known: c.known(r)}
	user, err := c.Users.Password(ctx, username, r.PostFormValue("password"), visitor)
	detail := "console"
	if err == nil {
		// Only the audit record says that the user has no second factor: the page must not
		// reveal that the password was right.
		if !user.SecondFactor {
			detail = "console: no second factor"
		}
		user, err = c.Users.SecondFactor(ctx, username, code, visitor)
	}
	var o operator.Operator
	if err == nil {
		if o, err = operator.Find(ctx, c.Store, user.Username); errors.Is(err, operator.ErrUnknown) {
			err = account.ErrWrong // do not reveal who is an operator
		}
	}
	// Record only names of operators: another text may be a password that was typed into the
	// wrong field.
	if err != nil {
		if _, unknown := operator.Find(ctx, c.Store, username); unknown != nil {
			username = ""
		}
	}
	var throttled *account.Throttled
	switch {
	case errors.As(err, &throttled):
		p.Minutes = minutes(throttled)
		c.recordThrottled(r, username, detail)
		return reply{status: http.StatusTooManyRequests, page: p}, nil
	case errors.Is(err, account.ErrWrong):
		c.record(r, audit.LoginFailed, username, detail)
		p.Wrong = true
		return reply{status: http.StatusUnprocessableEntity, page: p}, nil
	case err != nil:
		return reply{}, err
	}
	a, err := entrance{c}.begin(ctx, r, operator.Session{Operator: o.Name, How: operator.ByPassword, Epoch: user.Epoch})
	if err == nil {
		err = c.remember(&a, user.Username)
	}
	return a, err
}

// minutes returns the minutes until the next try is possible, rounded up.
func minutes(t *account.Throttled) int { return int(t.RetryAfter/time.Minute) + 1 }

// begin begins a session, and ends the one that the browser had. Then the sign-in page
// redirects, unless the browser has not kept the cookie.
func (c entrance) begin(ctx context.Context, r *request, s operator.Session) (reply, error) {
	if r.session != nil {
		if err := r.session.End(ctx, c.Store); err != nil {
			return reply{}, err
		}
	}
	s.Address, s.BeganAt = r.address.String(), c.now()
	cookie, err := operator.Begin(ctx, c.Store, s)
	if err != nil {
		return reply{}, err
	}
	return reply{to: "/sign-in?in", cookie: c.cookie(cookie)}, nil
}

func (c entrance) signOut(ctx context.Context, r *request) (reply, error) {
	if r.session != nil {
		if err := r.session.End(ctx, c.Store); err != nil {
			return reply{}, err
		}
	}
	return reply{to: "/sign-in?out", cookie: c.cookie("")}, nil
}

// An invitationPage has the button that spends an invitation. Opening the link changes
// nothing: programs that scan messages open links.
type invitationPage struct {
	For     string
	Present string // who is signed in in this browser, if it is another operator
	Problem string // spent, expired, unknown or user
}

func (c entrance) invitationPage(ctx context.Context, r *request) (reply, error) {
	return c.invitation(ctx, r, "")
}

// invitation shows the page of an invitation.
func (c entrance) invitation(ctx context.Context, r *request, problem string) (reply, error) {
	p := invitationPage{Problem: problem}
	var err error
	if p.For, err = operator.Invited(ctx, c.Store, r.PathValue("text"), c.now()); err != nil {
		return invitationProblem(p, err)
	}
	if r.who != nil && r.who.Name != p.For {
		p.Present = r.who.Name
	}
	return reply{page: p}, nil
}

func invitationProblem(p invitationPage, err error) (reply, error) {
	switch {
	case errors.Is(err, operator.ErrSpent):
		p.Problem = "spent"
	case errors.Is(err, operator.ErrExpired):
		p.Problem = "expired"
	case errors.Is(err, operator.ErrNoInvitation), errors.Is(err, operator.ErrUnknown):
		p.Problem = "unknown"
	case errors.Is(err, account.ErrWrong):
		p.Problem = "user"
	default:
		return reply{}, err
	}
	return reply{status: http.StatusGone, page: p}, nil
}

func (c entrance) spendInvitation(ctx context.Context, r *request) (reply, error) {
	text := r.PathValue("text")
	name, err := operator.Invited(ctx, c.Store, text, c.now())
	p := invitationPage{For: name}
	if err != nil {
		return invitationProblem(p, err)
	}
	// The page may not have shown who is signed in: browsers send no SameSite=Strict cookie
	// with a link from another site.
	if r.who != nil && r.who.Name != name && r.PostFormValue("instead") != r.who.Name {
		p.Present = r.who.Name
		return reply{page: p}, nil
	}
	s := operator.Session{Operator: name, How: operator.ByInvitation}
	if c.Users != nil && !c.Dev {
		user, err := c.Users.Present(ctx, name)
		if err != nil {
			return invitationProblem(p, err)
		}
		if s.Pending, s.Epoch = true, user.Epoch; !user.SecondFactor {
			if s.Factor, err = c.Users.NewFactor(name); err != nil {
				return reply{}, err
			}
		}
	}
	if _, err := operator.Spend(ctx, c.Store, text, r.address.String(), c.now()); err != nil {
		return invitationProblem(p, err)
	}
	return c.begin(ctx, r, s)
}

// A factorPage asks for a code, and shows the secret of a factor that is being enrolled.
type factorPage struct {
	Operator  string
	Enrolling bool
	Secret    string // in groups of four
	URI       string
	Code      *qr.Code // of URI; nil: it is too long
	Wrong     bool
	Minutes   int
}

func (c entrance) factorPage(_ context.Context, r *request) (reply, error) {
	return c.factor(r, factorPage{}, http.StatusOK)
}

func (c entrance) factor(r *request, p factorPage, status int) (reply, error) {
	switch {
	case r.session == nil || c.Users == nil:
		return reply{to: "/sign-in?ended"}, nil
	case !r.session.Pending:
		return reply{to: "/"}, nil
	}
	p.Operator = r.session.Operator
	if p.Enrolling = r.session.Factor != nil; p.Enrolling {
		text, uri, err := c.Users.ShowFactor(p.Operator, c.Service, r.session.Factor)
		if err != nil {
			return reply{}, err
		}
		p.URI = uri
		p.Code, _ = qr.Encode(uri)
		for i := 0; i < len(text); i += 4 {
			p.Secret += " " + text[i:min(i+4, len(text))]
		}
		p.Secret = strings.TrimSpace(p.Secret)
	}
	return reply{status: status, page: p}, nil
}

// checkFactor checks a code of the operator's second factor. If the session is enrolling a
// factor, a correct code of that one enrols it.
func (c entrance) checkFactor(ctx context.Context, r *request) (reply, error) {
	s := r.session
	if s == nil || !s.Pending || c.Users == nil {
		return c.factor(r, factorPage{}, http.StatusOK)
	}
	code, visitor := r.PostFormValue("code"), account.Visitor{Address: r.address, Known: c.known(r)}
	var user account.Account
	var err error
	if s.Factor == nil {
		user, err = c.Users.SecondFactor(ctx, s.Operator, code, visitor)
	} else {
		user, err = c.Users.ConfirmFactor(ctx, s.Operator, s.Factor, code, visitor, func(u account.User, at grant.Instant) store.Change {
			return c.Enrolled(actor(operator.Operator{Name: s.Operator}), u, at)
		})
	}
	var throttled *account.Throttled
	switch {
	case errors.As(err, &throttled):
		c.recordThrottled(r, s.Operator, "console: code")
		return c.factor(r, factorPage{Minutes: minutes(throttled)}, http.StatusTooManyRequests)
	case errors.Is(err, account.ErrWrong):
		c.record(r, audit.LoginFailed, s.Operator, "console: code")
		return c.factor(r, factorPage{Wrong: true}, http.StatusUnprocessableEntity)
	case errors.Is(err, account.ErrHasFactor), errors.Is(err, store.ErrConflict):
		// The user was changed concurrently. A factor that another browser enrolled has ended
		// this session.
		return reply{to: "/factor"}, nil
	case err != nil:
		return reply{}, err
	}
	cookie, err := s.Confirm(ctx, c.Store, user.Epoch, c.now())
	a := reply{to: "/", cookie: c.cookie(cookie)}
	if err == nil {
		err = c.remember(&a, user.Username)
	}
	return a, err
}
