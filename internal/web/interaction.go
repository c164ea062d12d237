package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
)

// interaction is the page of the current step of an interaction: GET shows it, and POST
// takes the user's answer.
func (s *endpoints) interaction(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error) {
	p, err := s.entered(r, x)
	if err != nil {
		return server.Answer{}, err
	}
	who, answer := s.charged(x, s.visitor(r)), s.answerOf(r, x, p)
	st, err := s.Authorizer.Answer(ctx, who, answer)
	if st.Interaction == nil && errors.Is(err, login.ErrInteraction) {
		return logouts{s}.kept(ctx, r, x, p) // logouts use the same address
	}
	return s.reached(ctx, x, st, err)
}

// answerOf returns the answer that a request contains to a step of an interaction.
func (s *endpoints) answerOf(r *http.Request, x *exchange, p oauth.Params) login.Answer {
	a := login.Answer{Interaction: p["id"], Elsewhere: s.elsewhere()}
	if r.Method == http.MethodGet {
		a.Verifier = p["verifier"]
		return a
	}
	a.From = login.FromForm
	a.Form = login.Form{Step: login.Step(p["step"]), Action: p["action"], Decision: p["decision"], Remember: p["remember"] == "yes", Same: p["same"] == "yes", Session: p["session"]}
	if check := steps[a.Step].check; check != nil && s.Users != nil {
		a.Check = check(s, r, x, p)
	}
	return a
}

// reached counts and records what a request has done, and answers with the redirect to the
// client or with the page of the current step.
func (s *endpoints) reached(ctx context.Context, x *exchange, st login.Stage, err error) (server.Answer, error) {
	it := st.Interaction
	if it != nil {
		x.ClientID, x.found = it.Request.ClientID, it
		x.Locale = s.locale(x.Request, it.Request.UILocales)
	}
	events{s}.stage(x, st)
	if st.Client != nil {
		x.ClientName = login.ShownName(st.Client)
	}
	switch {
	case err != nil:
		return server.Answer{}, s.wrong(ctx, x, st, wrongCode(s, x, st, err))
	case st.Next != "":
		return seeOther(s.interactionURL(st.Next)), nil
	case it.Request.Device && it.Decision != nil:
		countDevice(s, st)
		return s.page(x, http.StatusOK, pages.DeviceDone{Client: x.ClientName, Denied: !it.Decision.Allow})
	case st.URL != "":
		s.stamp(x, st.Session)
		return s.respond(x.Locale, st.Client, it.Request, st.URL)
	case it.OfAccount() && st.Session != nil:
		return seeOther(s.at(connectionsPath)), nil
	case st.Elsewhere != "":
		return seeOther(st.Elsewhere), nil
	}
	return s.form(x, it.Request.RedirectURI, steps[it.Step].page(s, st, shown{client: x.ClientName, username: it.Request.LoginHint}), http.StatusOK)
}
