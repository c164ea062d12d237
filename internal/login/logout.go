package login

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
)

// Logout checks a client's request to end the session of a user (OpenID Connect
// RP-Initiated Logout 1.0 section 2) and returns it as an interaction that is not
// stored. An expired id_token is a good hint. The interaction has a redirect URI
// only if the client is known, by the hint or by client_id, and registered it:
// otherwise the user stays here. Its errors are those of package oauth for a page,
// or a fault.
func (a *Authorizer) Logout(r oauth.LogoutRequest) (*Interaction, error) {
	it := &Interaction{Step: StepLogout, Request: oauth.AuthorizationRequest{ClientID: r.ClientID, RedirectURI: r.RedirectURI, UILocales: r.UILocales}}
	if r.State != "" {
		it.Request.State = []byte(r.State)
	}
	if r.IDTokenHint != "" {
		h, err := a.Issuer.Hint(r.IDTokenHint)
		switch {
		case errors.Is(err, openid.ErrHint):
			return it, oauth.ErrLogoutHint
		case err != nil:
			return it, err
		case r.ClientID != "" && r.ClientID != h.ClientID:
			return it, oauth.ErrLogoutClient
		}
		it.Request.ClientID, it.SessionID = h.ClientID, h.SessionID
	}
	if it.Request.ClientID == "" {
		// Section 3 forbids the redirect: nobody says whose address it is.
		it.Request.RedirectURI, it.Request.State = "", nil
	}
	_, err := a.afterLogout(it)
	return it, err
}

// afterLogout returns the address to which the browser goes after a logout, "" for a
// page of ours. Only state is returned (section 3). The registration may have
// changed since the request.
func (a *Authorizer) afterLogout(it *Interaction) (string, error) {
	r := it.Request
	if r.ClientID == "" {
		return "", nil
	}
	view, err := a.Issuer.Directory.View()
	if err != nil {
		return "", unavailable(err)
	}
	c, ok := view.Client(a.Issuer.Realm, r.ClientID)
	switch {
	case r.RedirectURI == "" && (ok || it.SessionID != ""):
		return "", nil
	case !ok:
		return "", oauth.ErrUnknownClient
	case !slices.Contains(c.PostLogoutRedirectURIs, r.RedirectURI):
		return "", oauth.ErrLogoutRedirect
	case r.State == nil:
		return r.RedirectURI, nil
	}
	return issuer.AppendQuery(r.RedirectURI, "state", string(r.State)), nil
}

// MustAsk reports whether the user of a session must confirm a logout. The user need
// not if the client has shown an id_token of this very session, which other sites do
// not have (CWE-352), and if nobody is signed in.
func (it *Interaction) MustAsk(s *Session) bool {
	return s != nil && (it.SessionID == "" || s.Reference == "" || openid.SessionID(s.reference(), it.Request.ClientID) != it.SessionID)
}

// BeginLogout stores a logout request. It belongs to no browser: a POST from another
// site comes without cookies (SameSite). Whoever has its id can do no more with it
// than with the request itself.
func (a *Authorizer) BeginLogout(ctx context.Context, it *Interaction, v Visitor, signedIn bool) error {
	return a.begin(ctx, it, v, signedIn)
}

// toldWithin is how long a redirect after a logout waits for the clients of the session.
const toldWithin = time.Second

// LogOut ends the session of a browser, if there is one, and returns it with the
// address to which the browser goes, "" for a page of ours.
func (a *Authorizer) LogOut(ctx context.Context, it *Interaction, v Visitor) (s *Session, next string, err error) {
	if next, err = a.afterLogout(it); err != nil {
		return nil, "", err
	}
	s, err = a.EndSession(ctx, v.Session)
	if s != nil && next != "" && a.Told != nil {
		// The next page is the client's, which perhaps shows another client's state.
		ctx, cancel := context.WithTimeout(ctx, toldWithin)
		defer cancel()
		a.Told(ctx, s.end)
	}
	return s, next, err
}
