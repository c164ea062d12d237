package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
)

// interaction is the page on which a user is asked what is asked next: GET
// shows it, and POST takes the answer.
func (s *web) interaction(ctx context.Context, r *http.Request, x *exchange) (a server.Answer, err error) {
	p, err := s.entered(r, x)
	if err != nil {
		return server.Answer{}, err
	}
	it, err := s.find(ctx, r, x, p["id"])
	switch {
	case it == nil && errors.Is(err, login.ErrInteraction):
		return s.logoutAsked(ctx, r, x, p) // whose pages have the same address
	case err != nil:
	case r.Method == http.MethodGet:
		a, err = s.showNext(ctx, r, x, it, p["verifier"])
	default:
		a, err = s.take(ctx, r, x, it, p)
	}
	if errors.Is(err, login.ErrSignedOut) {
		// By time, in another tab, or by an administrator.
		a, err = s.restart(ctx, r, x, it, false)
	}
	if errors.Is(err, login.ErrMoved) {
		return seeOther(s.interactionURL(it.Next)), nil
	}
	return a, err
}

// restart begins the login again.
func (s *web) restart(ctx context.Context, r *http.Request, x *exchange, it *login.Interaction, another bool) (server.Answer, error) {
	next, err := s.Authorizer.Restart(ctx, it, s.guest(r, x), another)
	if err != nil {
		return server.Answer{}, err
	}
	return seeOther(s.interactionURL(next.ID)), nil
}

// entered takes a slot, and returns the parameters of the query, or of the form that
// was submitted.
func (s *web) entered(r *http.Request, x *exchange) (p oauth.Params, err error) {
	if r.Method == http.MethodPost {
		p, err = s.submitted(x)
	} else {
		p, err = x.Query(r.URL.RawQuery)
	}
	if err != nil {
		return nil, err
	}
	return p, x.Enter(x.Route.Class)
}

// submitted is a form of one of our pages.
func (s *web) submitted(x *exchange) (oauth.Params, error) {
	if err := s.crossSite(x.Request.Request); err != nil {
		return nil, err
	}
	body, err := x.FormBody()
	if err != nil {
		return nil, err
	}
	p, _, err := oauth.ParseParams(body, "", false)
	if err != nil {
		return nil, err
	}
	return p, p.CheckLengths()
}

// find finds an interaction of this browser, and learns from it how to speak to
// its user.
func (s *web) find(ctx context.Context, r *http.Request, x *exchange, id string) (*login.Interaction, error) {
	v := visitor(r)
	it, err := s.Authorizer.Interaction(ctx, id, v)
	if it != nil {
		x.ClientID, x.found = it.Request.ClientID, it
		x.Locale = s.locale(x.Request, it.Request.UILocales)
	}
	return it, err
}

// cookieless returns errNoCookies for an unknown interaction in a browser that has sent
// no cookie, and err else.
func cookieless(v login.Visitor, err error) error {
	if err == login.ErrInteraction && v.Browser == "" {
		return errNoCookies
	}
	return err
}

// showNext shows what is asked next, or goes to the client if nothing is.
func (s *web) showNext(ctx context.Context, r *http.Request, x *exchange, it *login.Interaction, verifier string) (server.Answer, error) {
	a, v := s.Authorizer, s.visitor(r, x)
	said, err := a.TakeLogin(it, verifier)
	switch {
	case err != nil:
		return server.Answer{}, err
	case said != nil && said.Identity == nil:
		return s.rejected(ctx, r, x, it, errRejected, said.Refused)
	case said != nil:
		if v.Session, err = s.signIn(ctx, x, it, *said.Identity, v); err != nil {
			return server.Answer{}, err
		}
	}
	st, err := a.Proceed(ctx, it, v)
	return s.proceeded(ctx, x, st, err)
}

// proceeded is the answer for a stage: the way to the client, or the page of the
// step that Next returned. A form for another step than the present comes from
// the back button, another tab or a second click: the user is shown where things
// stand.
func (s *web) proceeded(ctx context.Context, x *exchange, st login.Stage, err error) (server.Answer, error) {
	if st.Client != nil {
		x.ClientName = login.ShownName(st.Client)
	}
	it := st.Interaction
	switch {
	case errors.Is(err, login.ErrStep):
		return seeOther(s.interactionURL(it.ID)), nil
	case err != nil:
		return server.Answer{}, err
	case st.URL != "":
		s.auditCode(x, st)
		s.stamp(x, st.Session)
		return s.respond(x.Locale, st.Client, it.Request, st.URL)
	case it.OfAccount() && st.Session != nil:
		return seeOther(s.at(connectionsPath)), nil
	case it.Step == login.StepLogin && s.Users == nil:
		return s.sendToLogin(ctx, x, it)
	}
	return s.form(x, it.Request.RedirectURI, s.view(x, st), http.StatusOK)
}

// view is what the present step shows.
func (s *web) view(x *exchange, st login.Stage) any {
	it, host := st.Interaction, oauth.Host(st.Interaction.Request.RedirectURI)
	switch it.Step {
	case login.StepSecondFactor:
		return pages.SecondFactor{Interaction: it.ID, Client: x.ClientName, Cancel: !it.OfAccount()}
	case login.StepAccount:
		v := pages.Account{Interaction: it.ID, Client: x.ClientName, Cancel: !it.OfAccount()}
		if st.Session != nil {
			v.Name, v.Username = st.Session.Name, st.Session.Username
		}
		return v
	case login.StepConsent:
		c := pages.Consent{
			Interaction: it.ID, Client: st.Client.Name, Host: host, Name: st.Session.Name, Username: st.Session.Username, Remember: st.Remember,
			Known: append(s.scopes(st.Known), named(st.Agreed)...), Local: localTo(it.Request.RedirectURI),
		}
		if c.Own = st.Client.SelfRegistered(); oauth.IsClientAddress(st.Client.ID) {
			c.Address, c.AddressHost = st.Client.ID, oauth.Host(st.Client.ID)
		}
		for _, name := range it.Request.Scope.Tokens() {
			if !st.Known.Covers(oauth.Scope(name)) {
				c.Scopes = append(c.Scopes, s.scope(name, st.Known != ""))
			}
		}
		for _, s := range named(it.Named() &^ st.Agreed) {
			c.Scopes = append(c.Scopes, pages.Scope{Name: s.Name, New: st.Known != ""})
		}
		return c
	}
	return pages.Login{Interaction: it.ID, Client: x.ClientName, Host: host, Username: it.Request.LoginHint, Cancel: !it.OfAccount()}
}

// localTo says which program of the user's device a redirect URI leads to.
func localTo(redirectURI string) pages.Local {
	switch {
	case oauth.IsRemote(redirectURI):
		return ""
	case oauth.IsLoopback(redirectURI):
		return pages.LocalProgram
	}
	return pages.LocalApp
}

func (s *web) scopes(list oauth.Scope) (out []pages.Scope) {
	for _, name := range list.Tokens() {
		out = append(out, s.scope(name, false))
	}
	return out
}

// scope is a scope with the texts of its API, if one has it.
func (s *web) scope(name string, isNew bool) pages.Scope {
	out := pages.Scope{Name: name, New: isNew}
	iss := s.Authorizer.Issuer
	if api, ok := iss.Directory.Latest().APIOfScope(iss.Realm, name); ok {
		of, _ := api.FindScope(name)
		out.Texts = of.Texts
	}
	return out
}

// named lists claims as the pages explain them.
func named(set claims.Set) (out []pages.Scope) {
	for _, name := range set.Names() {
		out = append(out, pages.Scope{Name: pages.ClaimPrefix + name})
	}
	return out
}

// form is a page whose form may end at the client.
func (s *web) form(x *exchange, redirectURI string, view any, status int) (server.Answer, error) {
	a, err := s.page(x, status, view)
	a.Header = http.Header{"Content-Security-Policy": formPolicy(redirectURI, s.login())}
	return a, err
}

// sendToLogin sends the browser to whoever knows the users.
func (s *web) sendToLogin(ctx context.Context, x *exchange, it *login.Interaction) (server.Answer, error) {
	if s.Upstream != nil {
		return s.sendUpstream(ctx, x, it)
	}
	u, err := url.Parse(s.Handoff)
	if err != nil {
		return server.Answer{}, err
	}
	q := u.Query()
	q.Set("challenge", it.ID)
	if it.Request.UILocales != "" {
		q.Set("ui_locales", it.Request.UILocales)
	}
	u.RawQuery = q.Encode()
	return seeOther(u.String()), nil
}

// take takes the answer of a page.
func (s *web) take(ctx context.Context, r *http.Request, x *exchange, it *login.Interaction, p oauth.Params) (server.Answer, error) {
	a, v, step := s.Authorizer, s.visitor(r, x), login.Step(p["step"])
	again := seeOther(s.interactionURL(it.ID))
	switch {
	case step == login.StepConsent && p["decision"] == "allow":
		st, err := a.Allow(ctx, it, v, p["remember"] == "yes")
		s.auditConsent(x, st, audit.ConsentGiven)
		return s.proceeded(ctx, x, st, err)
	case step == login.StepConsent && p["decision"] == "deny", p["action"] == "cancel":
		st, err := a.Deny(ctx, it, v, oauth.AccessDenied)
		var told *login.ClientError
		if errors.As(err, &told) {
			told.Clicked = true
		}
		s.auditConsent(x, st, audit.ConsentDenied)
		return s.proceeded(ctx, x, st, err)
	case step != it.Step:
		return again, nil
	case p["action"] == "switch":
		return s.restart(ctx, r, x, it, true)
	case step == login.StepAccount && p["action"] == "continue":
		return again, a.Keep(ctx, it, v)
	case step == login.StepLogin && s.Users != nil:
		return s.password(ctx, r, x, it, p)
	case step == login.StepSecondFactor && s.Users != nil:
		return s.secondFactor(ctx, r, x, it, p)
	}
	return server.Answer{}, errForm
}
