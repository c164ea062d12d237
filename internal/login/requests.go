package login

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// Requests verifies authorization requests: the client, the redirect URI, and what the
// client may ask for.
type Requests struct {
	Documents
	Issuer *issuer.Issuer
	// CallbackParameters adds scope and client_id to the code in the callback,
	// as clients of OpenAM-style deployments expect (compat.callback_parameters).
	CallbackParameters bool
	// RequirePAR refuses requests of every client that were not pushed.
	RequirePAR bool
	// SelfRegistered returns a client that no operator registered, as it describes
	// itself now, with the redirect URI of the request as its only one. Nil: there
	// are none. It may fetch the client's document, on behalf of a network. Its errors
	// are ErrDescription, oauth.ErrUnknownClient, oauth.ErrRedirectMismatch, or a fault.
	SelfRegistered func(ctx context.Context, r oauth.AuthorizationRequest, from netip.Prefix) (*store.Client, error)
}

// client verifies the client and the redirect URI of a request. Until then, no response
// may redirect the browser (RFC 6749 section 4.1.2.1). For a client that registered
// itself, it returns the client that the interaction holds, or else an unread one.
func (rs *Requests) client(view *directory.View, r oauth.AuthorizationRequest, it *Interaction) (*store.Client, error) {
	c, ok := view.Client(rs.Realm, r.ClientID)
	switch {
	case ok:
	case isBarred(view, rs.Realm, r.ClientID):
		return nil, oauth.ErrDisabledClient
	case !rs.registersItself(view, r.ClientID):
		return nil, oauth.ErrUnknownClient
	case it != nil && it.Client != nil:
		return it.Client, nil
	default:
		c = unread(r.ClientID)
		if _, err := oauth.ParseRedirectURI(r.RedirectURI); err != nil && !r.Device {
			return c, mismatch(r) // before a page shows its host
		}
		return c, nil
	}
	if !r.Device && !oauth.MatchRedirectURI(c.RedirectURIs, r.RedirectURI) {
		return c, mismatch(r)
	}
	return c, nil
}

// mismatch is oauth.ErrRedirectMismatch with the redirect URI that was sent, for the log.
func mismatch(r oauth.AuthorizationRequest) error {
	return oauth.Sent(oauth.ErrRedirectMismatch, oauth.LoggedURI(r.RedirectURI))
}

// isBarred reports whether an id is that of a client which registered itself and which
// an operator has disabled.
func isBarred(view *directory.View, realm, id string) bool {
	c, known := view.Registered(realm, id)
	return known && c.SelfRegistered()
}

// registersItself reports whether an id is that of a client which no operator has
// registered, and which may register itself.
func (rs *Requests) registersItself(view *directory.View, id string) bool {
	_, known := view.Registered(rs.Realm, id)
	return !known && rs.SelfRegistered != nil && rs.Directory.Admits(rs.Realm, id)
}

// unread is a client of which nothing is known but its id. It has no redirect URI,
// so that nobody is redirected, and no grant type.
func unread(id string) *store.Client {
	return &store.Client{ID: id, Settings: store.Settings{Name: oauth.Host(id)}, RegisteredBy: store.ByDocument}
}

// ShownName returns the name of a client for every page but the consent page. For a client
// that registered itself, it is the host of the client's address or redirect URI: nobody
// vouches for the name that the client gives itself, and without quotes it would read as
// a statement of this server.
func ShownName(c *store.Client) string {
	switch {
	case !c.SelfRegistered():
		return c.Name
	case oauth.IsClientAddress(c.ID):
		return oauth.Host(c.ID)
	case len(c.RedirectURIs) > 0:
		return oauth.Host(c.RedirectURIs[0])
	}
	return ""
}

// isUnread reports whether a client is unread. A document that was read may leave no
// grant type, but its list is not nil.
func isUnread(c *store.Client) bool { return c.SelfRegistered() && c.GrantTypes == nil }

// readClient sets st.Client to a client that registered itself, and returns r with the scope
// that the client may get. Call it for signed-in users only, unless nothing has to be
// fetched: a visitor cannot make this server send requests.
func (rs *Requests) readClient(ctx context.Context, st *Stage, r oauth.AuthorizationRequest, v Visitor) (oauth.AuthorizationRequest, error) {
	c, err := rs.SelfRegistered(ctx, r, v.Network)
	switch {
	case errors.Is(err, oauth.ErrRedirectMismatch):
		return r, mismatch(r)
	case err != nil:
		return r, err
	}
	st.Client = c
	return rs.covered(st, r), nil
}

// resolve returns the APIs that the request of a stage names.
func (rs *Requests) resolve(st *Stage, r oauth.AuthorizationRequest) *targets {
	if st.targets == nil {
		of, err := rs.Issuer.Resources(st.view, st.Client, r.Resources, r.Scope)
		st.targets = &targets{of, err}
	}
	return st.targets
}

// covered returns r with its final scope: the client gets what the user is shown. A
// client that registered itself may ask for scopes that it cannot have. It gets those of
// the open APIs that it names (RFC 6749 section 3.3), or their default scopes if none is
// left. If it names no API, it means the open APIs of its scope.
func (rs *Requests) covered(st *Stage, r oauth.AuthorizationRequest) oauth.AuthorizationRequest {
	view, c := st.view, st.Client
	if c.DPoP == store.DPoPOff {
		r.JKT = oauth.JKT{} // it has no proofs with which to redeem a bound code
	}
	if c.AudienceParameter && r.Audience != "" && !slices.Contains(r.Resources, r.Audience) {
		r.Resources = append(slices.Clip(r.Resources), r.Audience)
	}
	agent := c.SelfRegistered() && view.HasAPIs(c.Realm)
	if isUnread(c) || agent && r.Defect != nil || c.SelfRegistered() && !agent {
		return r
	}
	if agent && len(r.Resources) == 0 {
		r.Resources = rs.Issuer.OpenOf(view, r.Scope)
	}
	named := rs.resolve(st, r)
	switch {
	case agent && named.err != nil:
		r.Defect = oauth.ErrTarget
		return r
	case agent && !named.Scope.Covers(r.Scope):
		r.Asked, r.Scope = r.Scope, r.Scope.Common(named.Scope)
	}
	if r.Scope == "" {
		var wide error
		if r.Scope, wide = oauth.ParseScope(string(named.Default)); (wide != nil || r.Scope == "" && named.APIs != (grant.APIs{}) && !agent) && r.Defect == nil {
			r.Defect = oauth.ErrScope
		}
	}
	if agent && r.Defect == nil {
		return rs.shown(st, r, named.Default)
	}
	return r
}

// shown removes, from the request of a client that registered itself, the APIs of which it
// requests no scope. The consent page shows scopes only, so that the user agrees to no
// other API, and a remembered consent is for the same APIs only. If no API is left, the
// request gets the default scopes as well.
func (rs *Requests) shown(st *Stage, r oauth.AuthorizationRequest, byDefault oauth.Scope) oauth.AuthorizationRequest {
	var kept []string
	for _, scope := range []oauth.Scope{r.Scope, union(r.Scope, byDefault)} {
		of := rs.Issuer.OpenOf(st.view, scope)
		for _, uri := range r.Resources {
			if api, ok := st.view.API(st.Client.Realm, uri); ok && slices.Contains(of, api.ID) {
				kept = append(kept, uri)
			}
		}
		if r.Scope = scope; len(kept) > 0 {
			break
		}
	}
	if len(kept) < len(r.Resources) {
		r.Resources, st.targets = kept, nil
	}
	if len(kept) == 0 {
		r.Defect = oauth.ErrScope
	}
	return r
}

// defect returns the error for which the request of a stage is rejected, or nil.
func (rs *Requests) defect(st *Stage, r oauth.AuthorizationRequest) *oauth.Error {
	c := st.Client
	if r.Pushed == "" && (rs.RequirePAR || c.RequirePAR) {
		return oauth.ErrNotPushed
	}
	if r.Defect != nil || isUnread(c) {
		return r.Defect
	}
	named := rs.resolve(st, r)
	switch {
	case r.Device && !c.MayUse(store.GrantDeviceCode):
		return oauth.ErrClientGrantType
	case !r.Device && !c.MayUse(store.GrantAuthorizationCode):
		return oauth.ErrResponseClient
	case !r.Device && r.Challenge == "" && (c.RequiresPKCE() || c.Public()):
		return oauth.ErrNoChallenge
	case named.err != nil && c.SelfRegistered():
		return oauth.ErrTarget
	case !named.Scope.Covers(r.Scope), r.Scope == "" && c.SelfRegistered():
		return oauth.ErrScope
	}
	if len(r.Nonce) > oauth.MaxNonce && (r.Scope.Has(oauth.OpenID) || r.Scope == "" && c.Scope.Has(oauth.OpenID)) {
		return oauth.ErrTooLong
	}
	if named.err != nil {
		return oauth.ErrTarget
	}
	return nil
}

// openID reads acr_values, and the parameters that count only if an id_token is asked
// for. It sets r.Defect if they are wrong; the error that it returns is a fault.
func (rs *Requests) openID(r oauth.AuthorizationRequest, c *store.Client, builtIn bool) (oauth.AuthorizationRequest, error) {
	r.Classes = wished(r.ACRValues, builtIn)
	switch {
	case !r.Scope.Has(oauth.OpenID):
		r.Nonce, r.IDTokenHint, r.Claims = "", "", ""
		return r, nil
	case r.Defect != nil:
		return r, nil
	case len(r.IDTokenHint) > oauth.MaxHint || len(r.Claims) > maxClaims:
		r.Defect = oauth.ErrTooLong
		return r, nil
	}
	if r.Claims != "" {
		d, err := openid.ReadClaims(r.Claims)
		r.Subjects = d.Subjects
		may := claims.Of(c.Scope)
		r.InUserInfo = uint32(claims.SetOf(d.UserInfo) & may &^ claims.Of(r.Scope))
		r.InIDToken = uint32(claims.SetOf(d.IDToken) & may)
		switch {
		case err != nil:
			r.Defect = oauth.ErrClaims
		case r.Subjects != nil && len(r.Subjects) == 0:
			r.Defect = oauth.ErrLoginRequired // the demanded subjects exclude each other
		case d.Classes != nil:
			r.Classes = slices.DeleteFunc(d.Classes, func(class string) bool { return !mayReach(class, builtIn) })
			if len(r.Classes) == 0 {
				r.Defect = oauth.ErrUnmet // no login can satisfy the request
			}
		}
	}
	if r.Defect != nil || r.IDTokenHint == "" {
		return r, nil
	}
	return rs.hinted(r)
}

// maxClaims is the longest parameter claims in bytes.
const maxClaims = 4096

// mayReach reports whether a login can end with a class as its acr. Other systems state
// theirs after the login, so every well-formed class is possible there.
func mayReach(class string, builtIn bool) bool {
	if !builtIn {
		return openid.IsACR(class)
	}
	return slices.Contains(openid.Classes, class)
}

// wished returns the classes that a login may have by acr_values (RFC 9470 section 5), or
// nil if no login can have one of them. For built-in users, a stronger class satisfies the
// request for a weaker one. For users of other systems, a login without acr does, too.
func wished(values string, builtIn bool) (list []string) {
	for class := range strings.FieldsSeq(values) {
		if mayReach(class, builtIn) {
			list = append(list, class)
		}
	}
	switch {
	case list == nil:
		return nil
	case !builtIn:
		return append(list, "")
	}
	weakest := slices.IndexFunc(openid.Classes, func(class string) bool { return slices.Contains(list, class) })
	return append(list, openid.Classes[weakest+1:]...)
}

// hinted demands the user whom the request's id_token_hint names (OpenID Connect
// Core section 3.1.2.1).
func (rs *Requests) hinted(r oauth.AuthorizationRequest) (oauth.AuthorizationRequest, error) {
	h, err := rs.Issuer.Hint(r.IDTokenHint)
	switch {
	case errors.Is(err, openid.ErrHint), err == nil && h.ClientID != r.ClientID:
		r.Defect = oauth.ErrHint
	case err != nil:
		return r, err
	case r.Subjects != nil && !slices.Contains(r.Subjects, h.Subject):
		r.Defect = oauth.ErrLoginRequired
	default:
		r.Subjects = []string{h.Subject}
	}
	return r, nil
}

// callback returns the client's redirect URI with the authorization response (RFC 6749
// section 4.1.2, RFC 9207), and with scope and client_id if CallbackParameters is set.
func (rs *Requests) callback(r oauth.AuthorizationRequest, c *store.Client, code issuer.IssuedCode) string {
	uri := issuer.AppendQuery(r.RedirectURI, "code", code.Code)
	if rs.CallbackParameters {
		uri = issuer.AppendQuery(uri, "scope", string(code.Scope))
	}
	if r.State != nil {
		uri = issuer.AppendQuery(uri, "state", string(r.State))
	}
	// RFC 9207: iss identifies this server to a client of several servers.
	uri = issuer.AppendQuery(uri, "iss", rs.Issuer.ID)
	if rs.CallbackParameters {
		uri = issuer.AppendQuery(uri, "client_id", c.ID)
	}
	return uri
}

// A ClientError is an error that is sent to the client, at its verified redirect URI. If
// SignedIn is not set, no user of the browser is authenticated (RFC 9700 section 4.11.2).
type ClientError struct {
	Public   *oauth.Error
	Client   *store.Client
	Request  oauth.AuthorizationRequest
	SignedIn bool
	Clicked  bool  // the user has just chosen to end it so
	Cause    error // for the log; may be nil
	issuer   string
	scope    string // that was refused, for the log
}

func (e *ClientError) Error() string {
	switch {
	case e.Cause != nil:
		return e.Public.Error() + ": " + e.Cause.Error()
	case e.scope != "":
		return oauth.Sent(e.Public, e.scope).Error()
	}
	return e.Public.Error()
}

// Callback returns the redirect URI with the error, whose description names the request.
func (e *ClientError) Callback(requestID string) string {
	if e.Public.Code == oauth.ErrDenied.Code {
		requestID = "" // nothing went wrong, and a repeated answer is the same
	}
	return errorCallback(e.Request, e.Public, e.issuer, requestID)
}

func (e *ClientError) Unwrap() error { return e.Cause }

// errorCallback is the client's redirect URI with an error (RFC 6749 section 4.1.2.1).
func errorCallback(r oauth.AuthorizationRequest, public *oauth.Error, issuerID, requestID string) string {
	description := public.Description
	if requestID != "" {
		description += " (request " + requestID + ")"
	}
	uri := issuer.AppendQuery(r.RedirectURI, "error", string(public.Code))
	uri = issuer.AppendQuery(uri, "error_description", description)
	if r.State != nil {
		uri = issuer.AppendQuery(uri, "state", string(r.State))
	}
	return issuer.AppendQuery(uri, "iss", issuerID)
}

func (rs *Requests) clientError(c *store.Client, r oauth.AuthorizationRequest, public *oauth.Error, signedIn bool, cause error) error {
	if isUnread(c) || r.Device {
		return cmp.Or(cause, error(public))
	}
	scope := ""
	if view, err := rs.view(); public == oauth.ErrScope && err == nil {
		scope = rs.Issuer.LoggedScope(view, string(cmp.Or(r.Asked, r.Scope)))
	}
	return &ClientError{Public: public, issuer: rs.Issuer.ID, scope: scope, Client: c, Request: r, SignedIn: signedIn, Cause: cause}
}
