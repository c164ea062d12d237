package web

import (
	"context"
	"net/http"
	"net/url"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
)

// connections is the page on which users see the clients that can act for them, and
// disconnect one.
type connections struct{ *endpoints }

func (s connections) shown(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error) {
	a := s.Authorizer
	p, err := s.entered(r, x)
	if err != nil {
		return server.Answer{}, err
	}
	session, err := a.Session(ctx, s.visitor(r).Session)
	if err != nil {
		return server.Answer{}, err
	}
	if session == nil {
		it, err := a.BeginAccount(ctx, s.guest(r, x)) // the login ends on this page
		if err != nil {
			return server.Answer{}, err
		}
		return seeOther(s.interactionURL(it.ID)), nil
	}
	if r.Method == http.MethodPost {
		return s.disconnect(ctx, x, session, p["client_id"])
	}
	list, err := a.Connections(ctx, session)
	if err != nil {
		return server.Answer{}, err
	}
	s.stamp(x, session)
	view := pages.Connections{Name: session.Name, Username: session.Username, Done: s.clientName(ctx, p["done"])}
	for _, c := range list {
		if c.ClientID == p["done"] {
			view.Done = "" // the client is still connected: the link is false
		}
		item := pages.Connection{ClientID: c.ClientID, Client: c.ClientID, Scopes: append(s.scopes(c.Scope), named(c.Claims)...), Since: c.Since.Time()}
		if c.Client != nil {
			item.Client = login.ShownName(c.Client)
		}
		if c.LastUsed != 0 {
			item.LastUsed = c.LastUsed.Time()
		}
		view.Items = append(view.Items, item)
	}
	return ownForm(s.endpoints, x, http.StatusOK, view) // allow the login system: the session may end before the form is sent
}

func (s connections) disconnect(ctx context.Context, x *exchange, session *login.Session, clientID string) (server.Answer, error) {
	x.ClientID = clientID
	if x.ClientID == "" {
		return server.Answer{}, login.ErrForm
	}
	if err := s.Authorizer.Disconnect(ctx, session, x.ClientID, x.Origin()); err != nil {
		return server.Answer{}, err
	}
	return seeOther(s.at(connectionsPath) + "?done=" + url.QueryEscape(x.ClientID)), nil
}

// console serves the page to which the console redirects operators for a login, which
// redirects them back.
type console struct{ *endpoints }

// begin begins the login of an operator who comes from the console. The code challenge
// binds its result to the browser that has the verifier (RFC 7636): a link to this page
// with somebody else's challenge signs nobody in.
func (s console) begin(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error) {
	p, err := s.entered(r, x)
	if err != nil {
		return server.Answer{}, err
	}
	if _, ok := oauth.ParseChallenge(p["code_challenge"]); !ok {
		return server.Answer{}, login.ErrForm
	}
	it, err := s.Authorizer.BeginConsole(ctx, s.guest(r, x), p["code_challenge"])
	if err != nil {
		return server.Answer{}, err
	}
	return seeOther(s.interactionURL(it.ID)), nil
}
