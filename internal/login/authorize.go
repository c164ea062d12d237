// Package login holds the use cases of the authorization endpoint: whose
// browser it is, what its user is asked and has agreed to, and the code or the
// error that the client gets. It knows nothing of HTTP, SQL and passwords.
package login

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An Authorizer serves one realm: it decides what becomes of a client's request, by what
// the parts hold. Its fields are set before first use and do not change; its methods are
// safe for concurrent use.
type Authorizer struct {
	Documents
	*Sessions
	*Consents
	*Interactions
	*Requests
	Issuer *issuer.Issuer
	// Development asks for no consent to the provider's own clients on this machine, too
	// (serve --dev).
	Development bool
}

// New makes an Authorizer. The caller sets the other fields of it and of its parts.
func New(iss *issuer.Issuer, ds Documents) *Authorizer {
	return &Authorizer{
		Documents: ds, Issuer: iss, Sessions: &Sessions{Documents: ds, Issuer: iss}, Consents: &Consents{ds, iss},
		Interactions: &Interactions{Documents: ds, Pending: &Pending{}}, Requests: &Requests{Documents: ds, Issuer: iss},
	}
}

var (
	// ErrInteraction means that there is no such interaction in this browser.
	ErrInteraction = errors.New("no such interaction")
	// ErrExpired means that the user took too long.
	ErrExpired = errors.New("interaction expired")
	// ErrAnswered means that the client has its answer, another one or too
	// long ago for the same to be given again.
	ErrAnswered = errors.New("interaction answered before")
	// ErrSwitched means that somebody else has signed in since.
	ErrSwitched = errors.New("another user is signed in")
	// ErrMoved means that the interaction was begun again, as another one.
	ErrMoved = errors.New("interaction begun again")
	// ErrStep means that a form belongs to another step than the present one.
	ErrStep = errors.New("form of another step")
	// ErrSignedOut means that a session has ended: the user has to sign in
	// again.
	ErrSignedOut = errors.New("session ended")
	// ErrClientChanged means that the client, or its redirect URI, has gone
	// since the interaction began.
	ErrClientChanged = errors.New("client changed")
	// ErrSignInFirst means that a client is looked up only for a browser that is signed
	// in: a stranger makes this server send no requests.
	ErrSignInFirst = errors.New("client is looked up for signed-in users only")
	// ErrDescription means that a client's description of itself cannot be read, or
	// not now.
	ErrDescription = errors.New("description of the client cannot be read")
	// ErrSubject means that nobody may sign in by a name: it is the id of a client.
	ErrSubject = errors.New("subject refused")
	// ErrCrowded means that too many interactions are under way.
	ErrCrowded = errors.New("too many interactions")
	// ErrRecords means that the user has agreed to too many clients that registered
	// themselves.
	ErrRecords = errors.New("too many records of clients by one user")
	// ErrLimited means that this visitor may begin no interaction now.
	ErrLimited = errors.New("too many interactions of one address")
)

// A Visitor is what a browser shows of itself.
type Visitor struct {
	Browser string // content of the browser's cookie
	Session string // content of the session's cookie
	// Network is where the visitor is, to have a share of the interactions of
	// all; the zero prefix if visitors cannot be told apart by it.
	Network netip.Prefix
	// Charge, if set, charges the visitor's address for an interaction of so many
	// kilobytes. It returns false if the address has begun too much.
	Charge func(kilobytes int) bool
}

// A Stage is where a request of a client, or an interaction, has got to: Next is the
// interaction to whose page the browser goes, URL the answer that goes to the client,
// Elsewhere the address where the user logs in, or else Interaction is what the user is
// to be asked here.
type Stage struct {
	Next        string
	URL         string
	Elsewhere   string
	Issued      grant.ID // of the code in URL, if it was made for this very answer
	Decided     bool     // this very request has stored the decision of Interaction
	ByUser      bool     // the decision is what the user has said on a page
	Login       *Attempt // what this request has done to log a user in; nil: nothing
	Interaction *Interaction
	Client      *store.Client
	Session     *Session
	// Of a consent that is to be asked for:
	Known    oauth.Scope // what of the scope was agreed to before
	Agreed   claims.Set  // what of the named claims was agreed to before
	Remember bool        // whether an answer can be kept

	view     *directory.View
	targets  *targets  // what the request asks for of the APIs; nil: not resolved yet
	consents *consents // of the session's subject, if they were read
	agreed   *Consent  // what of them is alive, and of the client
}

// Requests verifies what clients want: who asks, where the answer goes, and what the
// client may ask for.
type Requests struct {
	Documents
	Issuer *issuer.Issuer
	// CallbackParameters adds scope and client_id to the code in the callback,
	// as clients of OpenAM-style deployments know it (compat.callback_parameters).
	CallbackParameters bool
	// SelfRegistered returns a client that no operator registered, as it describes
	// itself now, with the redirect URI of the request as its only one. Nil: there
	// are none. Its errors are ErrSignInFirst, ErrDescription,
	// oauth.ErrUnknownClient, oauth.ErrRedirectMismatch, or a fault.
	SelfRegistered func(ctx context.Context, r oauth.AuthorizationRequest, from netip.Prefix, signedIn bool) (*store.Client, error)
}

// client verifies who asks, and where the answer goes. Before it has, nobody
// may be redirected (RFC 6749 section 4.1.2.1). Of a client that registered itself,
// it is the one that the interaction holds, if there is one, or else unread.
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
		if _, err := oauth.ParseRedirectURI(r.RedirectURI); err != nil {
			return c, mismatch(r) // before a page shows its host
		}
		return c, nil
	}
	if !oauth.MatchRedirectURI(c.RedirectURIs, r.RedirectURI) {
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
// so that nobody is redirected.
func unread(id string) *store.Client {
	return &store.Client{ID: id, Settings: store.Settings{Name: oauth.Host(id)}, RegisteredBy: store.ByDocument}
}

// ShownName returns what a client is called on every page but the consent page: nobody
// vouches for the name that a client which registered itself gives itself, and unquoted
// it would be a sentence of ours. Such a client is the host of its address, or of its
// redirect URI.
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

func isUnread(c *store.Client) bool { return c.SelfRegistered() && len(c.RedirectURIs) == 0 }

// readClient reads a client that registered itself into st, unless nobody is signed in,
// and returns its request as far as it is allowed.
func (rs *Requests) readClient(ctx context.Context, st *Stage, r oauth.AuthorizationRequest, v Visitor) (oauth.AuthorizationRequest, error) {
	c, err := rs.SelfRegistered(ctx, r, v.Network, st.Session != nil)
	switch {
	case errors.Is(err, ErrSignInFirst):
		return r, nil
	case errors.Is(err, oauth.ErrRedirectMismatch):
		return r, mismatch(r)
	case err != nil:
		return r, err
	}
	st.Client = c
	return rs.covered(st, r), nil
}

// targets are the APIs that a request names, by its resources or its scope, as they were
// resolved once for a stage. The error is oauth.ErrTarget.
type targets struct {
	issuer.Resources
	err error
}

// resolve returns the APIs that the request of a stage names.
func (rs *Requests) resolve(st *Stage, r oauth.AuthorizationRequest) *targets {
	if st.targets == nil {
		of, err := rs.Issuer.Resources(st.view, st.Client, r.Resources, r.Scope)
		st.targets = &targets{of, err}
	}
	return st.targets
}

// covered returns r with a scope that is fixed now: what the user is shown is what
// the client gets. A client that registered itself asks for what it has heard of: it
// gets the part that the open APIs cover which it names (RFC 6749 section 3.3), and
// their default scopes if nothing is left. If it names none, those of its scope are meant.
func (rs *Requests) covered(st *Stage, r oauth.AuthorizationRequest) oauth.AuthorizationRequest {
	view, c := st.view, st.Client
	if c.AudienceParameter && r.Audience != "" && !slices.Contains(r.Resources, r.Audience) {
		r.Resources = append(slices.Clip(r.Resources), r.Audience)
	}
	agent := c.SelfRegistered() && view.HasAPIs()
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
	if r.Scope != "" {
		return r
	}
	var wide error
	if r.Scope, wide = oauth.ParseScope(string(named.Default)); (wide != nil || r.Scope == "" && named.APIs != (grant.APIs{}) && !agent) && r.Defect == nil {
		r.Defect = oauth.ErrScope
	}
	return r
}

// defect is what is wrong with the request of a stage, or nil.
func (rs *Requests) defect(st *Stage, r oauth.AuthorizationRequest) *oauth.Error {
	c := st.Client
	if r.Defect != nil || isUnread(c) {
		return r.Defect
	}
	named := rs.resolve(st, r)
	switch {
	case !c.MayUse(store.GrantAuthorizationCode):
		return oauth.ErrResponseClient
	case r.Challenge == "" && (c.RequiresPKCE() || c.Public()):
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

// Authorize decides what becomes of a client's request. A user who is signed in
// and has agreed before is not asked, and nothing is written.
//
// Its errors are oauth.ErrUnknownClient, oauth.ErrDisabledClient, oauth.ErrRedirectMismatch, a
// ClientError, or a fault.
func (a *Authorizer) Authorize(ctx context.Context, r oauth.AuthorizationRequest, v Visitor) (st Stage, err error) {
	if st.view, err = a.view(); err != nil {
		return st, err
	}
	if st.Client, err = a.client(st.view, r, nil); err != nil {
		return st, err
	}
	step := StepLogin
	st.Session, err = a.Session(ctx, v.Session)
	if err == nil && isUnread(st.Client) {
		if r, err = a.readClient(ctx, &st, r, v); err != nil {
			return st, err
		}
	}
	if !st.Client.SelfRegistered() || st.Session == nil {
		r = a.covered(&st, r)
	}
	if err == nil {
		r, err = a.openID(r, st.Client, a.builtIn())
	}
	if err == nil {
		step, err = a.next(ctx, &st, r)
	}
	var told *ClientError
	switch {
	case errors.As(err, &told):
		return st, err
	case err != nil:
		return st, a.clientError(st.Client, r, oauth.ErrUnavailable, st.Session != nil, err)
	case step != StepAnswered:
		return a.ask(ctx, st, r, v, step)
	}
	code, err := a.Issuer.Codes().IssueTo(st.Client, authorization(r, st.Session.Identity, st.targets))
	if err != nil {
		return st, a.clientError(st.Client, r, faultTold(err), true, err)
	}
	st.URL, st.Issued = a.callback(r, st.Client, code), code.GrantID
	return st, nil
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
	case errors.Is(err, ErrLimited):
		return st, err
	case err != nil:
		return st, a.clientError(st.Client, r, oauth.ErrUnavailable, st.Session != nil, err)
	}
	st.Interaction = it
	return st, nil
}

func authorization(r oauth.AuthorizationRequest, who Identity, of *targets) issuer.Authorization {
	var authTime time.Time
	if who.AuthTime != 0 {
		authTime = who.AuthTime.Time()
	}
	var resolved *issuer.Resources
	if of != nil && of.err == nil {
		resolved = &of.Resources
	}
	return issuer.Authorization{
		ClientID: r.ClientID, RedirectURI: r.RedirectURI, Subject: who.Subject, Scope: string(r.Scope), Challenge: r.Challenge, Resources: r.Resources, Resolved: resolved,
		AuthTime: authTime, Claims: issuer.CarriedClaims(who.Claims), Nonce: r.Nonce, Session: who.reference(), Login: who.Login,
		InUserInfo: r.InUserInfo, InIDToken: r.InIDToken,
	}
}

// callback is the client's redirect URI with the authorization response (RFC
// 6749 section 4.1.2, RFC 9207), and with OpenAM's members if they are on.
func (rs *Requests) callback(r oauth.AuthorizationRequest, c *store.Client, code issuer.IssuedCode) string {
	uri := issuer.AppendQuery(r.RedirectURI, "code", code.Code)
	if rs.CallbackParameters {
		uri = issuer.AppendQuery(uri, "scope", string(code.Scope))
	}
	if r.State != nil {
		uri = issuer.AppendQuery(uri, "state", string(r.State))
	}
	// RFC 9207: a client of several servers learns whose answer it is.
	uri = issuer.AppendQuery(uri, "iss", rs.Issuer.ID)
	if rs.CallbackParameters {
		uri = issuer.AppendQuery(uri, "client_id", c.ID)
	}
	return uri
}

func (rs *Requests) clientError(c *store.Client, r oauth.AuthorizationRequest, told *oauth.Error, signedIn bool, cause error) error {
	if isUnread(c) {
		if cause != nil {
			return cause
		}
		return told
	}
	scope := ""
	if view, err := rs.view(); told == oauth.ErrScope && err == nil {
		scope = rs.Issuer.LoggedScope(view, string(cmp.Or(r.Asked, r.Scope)))
	}
	return &ClientError{Told: told, issuer: rs.Issuer.ID, scope: scope, Client: c, Request: r, SignedIn: signedIn, Cause: cause}
}

// errorCallback is the client's redirect URI with an error (RFC 6749 section 4.1.2.1).
func errorCallback(r oauth.AuthorizationRequest, told *oauth.Error, issuerID, requestID string) string {
	description := told.Description
	if requestID != "" {
		description += " (request " + requestID + ")"
	}
	uri := issuer.AppendQuery(r.RedirectURI, "error", string(told.Code))
	uri = issuer.AppendQuery(uri, "error_description", description)
	if r.State != nil {
		uri = issuer.AppendQuery(uri, "state", string(r.State))
	}
	return issuer.AppendQuery(uri, "iss", issuerID)
}
