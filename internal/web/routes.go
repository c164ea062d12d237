package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
)

// metadata returns the members of the authorization endpoint (OpenID Connect Discovery
// section 3). It includes request_uri_parameter_supported, because its default is true.
func (f *Front) metadata() map[string]any {
	members := map[string]any{
		"ui_locales_supported": pages.Locales, "subject_types_supported": []string{"public"},
		"prompt_values_supported":  []string{"none", "login", "consent", "select_account"},
		"response_modes_supported": []string{"query", "form_post"}, "claims_parameter_supported": true, "request_parameter_supported": false, "request_uri_parameter_supported": false,
		"backchannel_logout_supported": true, "backchannel_logout_session_supported": true,
	}
	if f.Documents { // absent means no
		members["client_id_metadata_document_supported"] = true
	}
	supported := slices.Concat(openid.ClaimsSupported, claims.Names())
	switch {
	case f.Users != nil:
		members["acr_values_supported"] = openid.Classes // the classes of another login system are unknown
	case f.Upstream != nil:
		supported = slices.Concat(openid.ClaimsSupported, f.Upstream.Claims())
	}
	slices.Sort(supported)
	members["claims_supported"] = supported
	return members
}

// Routes returns the pages, to be mounted on s.
func (f *Front) Routes(s *server.Server) []server.Route {
	w := &endpoints{s, f, http.NewCrossOriginProtection()}
	// A proxy may have changed the Host of a request: trust the public URL as well.
	if err := w.sameOrigin.AddTrustedOrigin(s.PublicURL); err != nil {
		panic(err) // the check of the configuration refuses such an address
	}
	// A form does not allow HEAD, so that no code is issued to a caller that does not read
	// it.
	form := []string{http.MethodGet, http.MethodPost}
	page := func(name, path string, methods []string, handle pageHandler) server.Route {
		return server.Route{Name: name, Paths: []string{path}, Methods: methods, Class: overload.Login, Handle: w.handler(handle), Error: w.pageAnswer, Page: true, Headers: pageHeaders}
	}
	authorization := page("authorization", "authorize", form, w.authorize)
	authorization.Class, authorization.Member, authorization.Metadata = overload.Code, "authorization_endpoint", f.metadata()
	asset := page("asset", s.BasePath+"/account/assets/{file}", []string{http.MethodGet, http.MethodHead}, nil)
	asset.Handle = server.Published(w.asset)
	// The second path is that of OpenAM.
	endSession := page("end session", "end_session", form, logouts{w}.asked)
	endSession.Paths, endSession.Member = append(endSession.Paths, "connect/endSession"), "end_session_endpoint"
	routes := []server.Route{
		authorization, endSession, page("interaction", "interaction", form, w.interaction), page("device", s.BasePath+DevicePath, form, w.device),
		page("connections", s.BasePath+connectionsPath, form, connections{w}.shown), page("logout", s.BasePath+LogoutPath, form, logouts{w}.ofAccount),
		asset, page("request", "/", nil, w.lost),
	}
	if f.Authorizer.Console != nil {
		routes = append(routes, page("console", s.BasePath+ConsolePath, form[:1], console{w}.begin))
	}
	if f.Upstream != nil {
		routes = append(routes, page("upstream login", "callback", form[:1], provider{w}.callback), server.Route{
			Name: "upstream logout", Paths: []string{"backchannel_logout"}, Methods: form[1:], Class: overload.Login, Handle: provider{w}.logout,
		})
	}
	return routes
}

type pageHandler func(ctx context.Context, r *http.Request, x *exchange) (server.Answer, error)

// handler adapts the handler of a page to a server.Handler.
func (s *endpoints) handler(handle pageHandler) server.Handler {
	return func(ctx context.Context, r *server.Request) (server.Answer, server.Report, error) {
		x := &exchange{Request: r}
		x.Locale = s.locale(r, "")
		a, err := handle(ctx, r.Request, x)
		err = s.withWayBack(x, err)
		var toClient *login.ClientError
		x.Fault = errors.As(err, &toClient) && toClient.Cause != nil
		a.Cookies = x.cookies
		return a, x.Report, err
	}
}

// lost redirects the root of the server to the user's connections, for people who type
// only the address of the server.
func (s *endpoints) lost(_ context.Context, r *http.Request, _ *exchange) (server.Answer, error) {
	switch strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, s.BasePath), "/") {
	case "", "/account":
		return seeOther(s.at(connectionsPath)), nil
	}
	return server.Answer{}, oauth.ErrNotFound
}
