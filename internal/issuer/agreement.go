package issuer

import (
	"context"
	"errors"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An Agreement is an authorization whose code is decided to the last byte, so
// that it can be given again without another one coming into the world.
type Agreement struct {
	Authorization
	GrantID      grant.ID
	Nonce        [keys.NonceSize]byte
	KeyID        grant.KeyID
	AuthorizedAt grant.Instant
	ExpiresAt    grant.Instant
}

// AgreedAt is the instant of what a subject agrees to at now: after every
// cutoff that it meets, so that this cutoff does not end it, and not before the
// latest restore. The client may be empty.
func (iss *Issuer) AgreedAt(view *View, subject, clientID string, now grant.Instant) grant.Instant {
	now = max(now, view.Restore().At)
	if cut := view.Cutoff(iss.Realm, subject, clientID); cut != 0 {
		return max(now, cut.Add(iss.Policy.MaxSkew)+1)
	}
	return now
}

// IssueAgreed seals an agreement into its code: always the same one. Nothing is
// written.
func (iss *Issuer) IssueAgreed(c *store.Client, a Agreement) (IssuedCode, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return IssuedCode{}, store.Unavailable(err)
	}
	return iss.seal(view, c, a)
}

func (iss *Issuer) seal(view *View, c *store.Client, a Agreement) (IssuedCode, error) {
	code := grant.Code{
		GrantID: a.GrantID, Realm: iss.Realm, ClientID: c.ID, Subject: a.Subject, AuthorizedAt: a.AuthorizedAt, ExpiresAt: a.ExpiresAt,
	}
	if err := iss.checkAuthorization(c, a.Authorization, &code); err != nil {
		return IssuedCode{}, err
	}
	if err := checkAuthentication(a.Authorization, a.AuthorizedAt, &code); err != nil {
		return IssuedCode{}, err
	}
	text, err := view.Ring.SealCode(a.KeyID, code, a.Nonce)
	if err != nil {
		return IssuedCode{}, &oauth.Invalid{Field: "scope", Message: err.Error()}
	}
	return IssuedCode{
		Code: text, Scope: code.Scope, ExpiresAt: code.ExpiresAt.Time(), GrantID: code.GrantID, redirectURI: a.RedirectURI, issuer: iss.ID,
	}, nil
}

// Redeemed reports whether the code of a grant id was redeemed.
func (iss *Issuer) Redeemed(ctx context.Context, id grant.ID) (bool, error) {
	_, err := iss.Store.Grant(ctx, id)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	}
	return false, store.Unavailable(err)
}
