package login

import (
	"context"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/store"
)

// Claims returns the standard claims that the last login of a subject reported, or nil if
// there are none. Claims that were sealed by a withdrawn key are missing until the next
// login.
func (ss *Sessions) Claims(ctx context.Context, subject string) (claims.Claims, error) {
	text, _, err := ss.storedClaims(ctx, subject)
	if err != nil || text == nil {
		return nil, err
	}
	return claims.Parse(text)
}

func (ss *Sessions) storedClaims(ctx context.Context, subject string) (text []byte, version int64, err error) {
	view, err := ss.view()
	if err != nil {
		return nil, 0, err
	}
	d, found, err := store.FindDocument(ctx, ss.Store, store.ClaimsKey(ss.Realm, subject))
	if err != nil || !found {
		return nil, 0, err
	}
	text, _ = view.Ring.OpenBox(claimsBox(subject), d.Body) // nil if it cannot be opened: the next login replaces it
	return text, d.Version, nil
}

// claimsBox returns the box label of a subject's claims, so that they do not open as
// another subject's.
func claimsBox(subject string) string { return "claims/" + subject }

// noteClaims adds to c the standard claims that a login reported about a subject. They
// replace those of earlier logins. It adds nothing if the same claims are stored.
func (ss *Sessions) noteClaims(ctx context.Context, who Identity, c *store.Change) error {
	if who.Username != "" {
		return nil // the claims of a built-in user are in the user's record
	}
	view, err := ss.view()
	if err != nil {
		return err
	}
	stored, version, err := ss.storedClaims(ctx, who.Subject)
	key := store.ClaimsKey(ss.Realm, who.Subject)
	switch {
	case err != nil:
		return err
	case who.Standard == "" && version > 0:
		c.Delete = append(c.Delete, key)
	case who.Standard != "" && string(stored) != who.Standard:
		c.Documents = append(c.Documents, store.Document{
			Kind: store.DocumentClaims, Key: key, Version: version + 1, Owner: store.OwnerOf(ss.Realm, who.Subject),
			Body: view.Ring.SealBox(claimsBox(who.Subject), []byte(who.Standard), ss.now()),
		})
	}
	return nil
}
