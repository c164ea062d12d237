package login

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// A Logout is a client's request to end the session of a user (OpenID Connect
// RP-Initiated Logout 1.0 section 2). It is stored, sealed, if the user must be asked.
// It belongs to no browser: a POST from another site comes without cookies (SameSite).
// Its id permits no more than the request itself.
type Logout struct {
	ID          string `json:"-"` // "" until it is stored
	ClientID    string `json:"client_id,omitempty"`
	RedirectURI string `json:"redirect_uri,omitempty"`
	State       []byte `json:"state,omitempty"`
	UILocales   string `json:"ui_locales,omitempty"`
	// SessionID is the sid of the id_token that the request has shown, or "".
	SessionID string `json:"sid,omitempty"`
}

const logoutBox = "logout request"

// CheckLogout checks a client's request. An expired id_token is a valid hint. The result
// has a redirect URI only if the client is known, by the hint or by client_id, and
// registered it: otherwise the user stays here. Its errors are those of package oauth
// for a page, or a fault.
func (a *Authorizer) CheckLogout(r oauth.LogoutRequest) (*Logout, error) {
	l := &Logout{ClientID: r.ClientID, RedirectURI: r.RedirectURI, State: []byte(r.State), UILocales: r.UILocales}
	if r.IDTokenHint != "" {
		h, err := a.Issuer.Hint(r.IDTokenHint)
		switch {
		case errors.Is(err, openid.ErrHint):
			return l, oauth.ErrLogoutHint
		case err != nil:
			return l, err
		case r.ClientID != "" && r.ClientID != h.ClientID:
			return l, oauth.ErrLogoutClient
		}
		l.ClientID, l.SessionID = h.ClientID, h.SessionID
	}
	if l.ClientID == "" {
		// Section 3 forbids the redirect: without a client, the address is unverified.
		l.RedirectURI, l.State = "", nil
	}
	_, err := a.afterLogout(l)
	return l, err
}

// afterLogout returns the address to which the browser is sent after a logout, or "" for
// our own page. It adds state, and nothing else of the request (OpenID Connect
// RP-Initiated Logout 1.0 section 3). It checks the client again, because the
// registration may have changed since the request.
func (a *Authorizer) afterLogout(l *Logout) (string, error) {
	if l.ClientID == "" {
		return "", nil
	}
	view, err := a.view()
	if err != nil {
		return "", err
	}
	c, ok := view.Client(a.Realm, l.ClientID)
	switch {
	case l.RedirectURI == "" && (ok || l.SessionID != ""):
		return "", nil
	case !ok:
		return "", oauth.ErrUnknownClient
	case !slices.Contains(c.PostLogoutRedirectURIs, l.RedirectURI):
		return "", oauth.ErrLogoutRedirect
	case len(l.State) == 0:
		return l.RedirectURI, nil
	}
	return issuer.AppendQuery(l.RedirectURI, "state", string(l.State)), nil
}

// MustAsk reports whether the user of a session must confirm a logout. No confirmation is
// needed if nobody is signed in, or if the client has sent an id_token of this very
// session, which other sites do not have (CWE-352).
func (l *Logout) MustAsk(s *Session) bool {
	return s != nil && (l.SessionID == "" || openid.SessionID(s.reference(), l.ClientID) != l.SessionID)
}

// KeepLogout stores a request for the lifetime of an interaction, and sets its id.
func (ins *Interactions) KeepLogout(ctx context.Context, l *Logout, v Visitor, signedIn bool) error {
	now := ins.now()
	if err := ins.Pending.admit(now, ins.Lifetime.Milliseconds(), v, kilobytes(len(l.RedirectURI)+len(l.State)*4/3+len(l.UILocales)), signedIn); err != nil {
		return err
	}
	id := newID()
	if err := ins.keepSealed(ctx, store.DocumentLeaving, id, now.Add(ins.Lifetime), logoutBox, l); err != nil {
		return err
	}
	l.ID = id
	return nil
}

// KeptLogout finds a request that KeepLogout has stored, or ErrInteraction. With
// ErrExpired, it returns the request.
func (ins *Interactions) KeptLogout(ctx context.Context, id string) (*Logout, error) {
	l := &Logout{ID: id}
	d, err := ins.unseal(ctx, store.DocumentLeaving, id, logoutBox, l)
	if err != nil {
		return nil, err
	}
	if ins.now() >= d.ExpiresAt {
		return l, ErrExpired
	}
	return l, nil
}

// notifiedWithin is how long a redirect after a logout waits for Notified.
const notifiedWithin = time.Second

// LogOut ends the session of a browser, if there is one, and returns it with the
// address to which the browser goes, "" for a page of ours.
func (a *Authorizer) LogOut(ctx context.Context, l *Logout, v Visitor) (s *Session, next string, err error) {
	// If the registration has changed while the user was asked, the session still ends.
	if next, err = a.afterLogout(l); err != nil && (l.ID == "" || !errors.As(err, new(*oauth.Error))) {
		return nil, "", err
	}
	s, err = a.EndSession(ctx, v.Session)
	if s != nil && next != "" && a.Notified != nil {
		// Notify other clients first: the client's next page may show their state.
		ctx, cancel := context.WithTimeout(ctx, notifiedWithin)
		defer cancel()
		a.Notified(ctx, s.end)
	}
	return s, next, err
}
