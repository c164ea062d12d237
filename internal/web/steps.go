package web

import (
	"context"
	"errors"
	"math"
	"net/http"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
)

// A step shows a step of package login, and checks its form.
type step struct {
	page func(*endpoints, login.Stage, shown) any
	// check returns the function that checks the input of a built-in user; nil: the form
	// needs none.
	check func(*endpoints, *http.Request, *exchange, oauth.Params) login.Check
}

var steps = map[login.Step]step{
	login.StepLogin:        {page: loginPage, check: (*endpoints).password},
	login.StepSecondFactor: {page: secondFactorPage, check: (*endpoints).secondFactor},
	login.StepAccount:      {page: accountPage},
	login.StepConsent:      {page: (*endpoints).consentPage},
}

// shown is what a page shows in addition to its stage. After a wrong or a throttled
// attempt, a page shows its form again.
type shown struct {
	client, username string
	pages.Attempt
}

func loginPage(_ *endpoints, st login.Stage, f shown) any {
	it := st.Interaction
	return pages.Login{
		Interaction: it.ID, Client: f.client, Host: oauth.Host(it.Request.RedirectURI), Username: f.username,
		Cancel: !it.OfAccount(), Attempt: f.Attempt,
	}
}

func secondFactorPage(_ *endpoints, st login.Stage, f shown) any {
	it := st.Interaction
	return pages.SecondFactor{Interaction: it.ID, Client: f.client, Cancel: !it.OfAccount(), Attempt: f.Attempt}
}

func accountPage(_ *endpoints, st login.Stage, f shown) any {
	v := pages.Account{Interaction: st.Interaction.ID, Client: f.client, Cancel: !st.Interaction.OfAccount()}
	if st.Session != nil {
		v.Session, v.Name, v.Username = st.Session.Mark(), st.Session.Name, st.Session.Username
	}
	return v
}

func (s *endpoints) consentPage(st login.Stage, _ shown) any {
	if st.Interaction.Request.Device {
		return s.devicePage(st)
	}
	it, host := st.Interaction, oauth.Host(st.Interaction.Request.RedirectURI)
	known, claims := it.Request.Scope.Common(st.Agreed.Scope), it.Named()&st.Agreed.Claims
	c := pages.Consent{
		Interaction: it.ID, Client: st.Client.Name, Host: host, Name: st.Session.Name, Username: st.Session.Username, Remember: it.MayRemember(),
		Known: append(s.scopes(known), named(claims)...), Local: localTo(it.Request.RedirectURI),
		Beyond: s.beyond(st.Client.ID),
	}
	if c.Own = st.Client.SelfRegistered(); oauth.IsClientAddress(st.Client.ID) {
		c.Address, c.AddressHost = st.Client.ID, oauth.Host(st.Client.ID)
	}
	for _, name := range it.Request.Scope.Tokens() {
		if !known.Covers(oauth.Scope(name)) {
			c.Scopes = append(c.Scopes, s.scope(name, known != ""))
		}
	}
	for _, s := range named(it.Named() &^ claims) {
		c.Scopes = append(c.Scopes, pages.Scope{Name: s.Name, New: known != ""})
	}
	return c
}

// password returns the check of a username and a password.
func (s *endpoints) password(r *http.Request, x *exchange, p oauth.Params) login.Check {
	return func(ctx context.Context, _ *login.Interaction) (login.Proof, error) {
		who, err := s.Users.Password(ctx, p["username"], p["password"], s.attempt(r, x))
		if err != nil {
			return login.Proof{Identity: login.Identity{Subject: who.Subject, Username: p["username"]}}, err
		}
		if who.SecondFactor {
			return login.Proof{Identity: login.Identity{Username: who.Username, Epoch: who.Epoch}, Owes: login.StepSecondFactor}, nil
		}
		return s.proof(who)
	}
}

// secondFactor returns the check of the code of an authenticator app.
func (s *endpoints) secondFactor(r *http.Request, x *exchange, p oauth.Params) login.Check {
	return func(ctx context.Context, it *login.Interaction) (login.Proof, error) {
		who, err := s.Users.SecondFactor(ctx, it.Username, p["code"], s.attempt(r, x))
		if errors.Is(err, account.ErrNoFactor) {
			err = login.ErrSignedOut // removed meanwhile: from now on, the password is enough
		}
		if err != nil {
			return login.Proof{Identity: login.Identity{Subject: who.Subject}}, err
		}
		return s.proof(who)
	}
}

// proof returns the identity of a built-in user who has logged in, and the value of the
// cookie that marks the browser as known.
func (s *endpoints) proof(who account.Account) (login.Proof, error) {
	mark, err := s.Users.KnownBrowser(who.Username, who.SecondFactor)
	return login.Proof{
		Identity: login.Identity{Subject: who.Subject, Username: who.Username, Name: who.Name, AuthTime: who.At, Epoch: who.Epoch}, Known: mark,
	}, err
}

// attempt returns the address and the browser that a password or a code comes from.
func (s *endpoints) attempt(r *http.Request, x *exchange) account.Visitor {
	return account.Visitor{Address: x.Counted, Known: s.known(r)}
}

// wrong returns the form again if err is about a wrong or a throttled attempt, and any
// other error as it is.
func (s *endpoints) wrong(ctx context.Context, x *exchange, st login.Stage, err error) error {
	var throttled *account.Throttled
	status, again := http.StatusUnprocessableEntity, shown{Attempt: pages.Attempt{Wrong: true}}
	if errors.As(err, &throttled) {
		status, again.Attempt = http.StatusTooManyRequests, pages.Attempt{Throttled: true, RetryMinutes: int(math.Ceil(throttled.RetryAfter.Minutes()))}
	} else if !errors.Is(err, account.ErrWrong) {
		return err
	}
	it := st.Interaction
	again.client, again.username = s.clientName(ctx, it.Request.ClientID), st.Login.Username
	a, fault := s.form(x, it.Request.RedirectURI, steps[it.Step].page(s, st, again), status)
	if fault != nil {
		return fault
	}
	if throttled != nil {
		a.Header["Retry-After"] = []string{server.InSeconds(throttled.RetryAfter)}
	}
	return &formError{a, err}
}
