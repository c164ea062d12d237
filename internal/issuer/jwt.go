package issuer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// A Signer signs statements about tokens and users, and publishes the keys to verify
// them and JWT access tokens by.
type Signer struct{ *Issuer }

// Phantom returns an active access token as a JWT, which a gateway passes on
// instead of the opaque token (phantom token).
func (iss Signer) Phantom(ctx context.Context, t Token) (string, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return "", store.Unavailable(err)
	}
	c, err := iss.clientOf(ctx, view, t.ClientID)
	if err != nil {
		return "", err
	}
	t.Form = JWT
	text, err := iss.write(view, c, t, iss.now())
	return text, store.Unavailable(err)
}

// Introspection returns an introspection response as a JWT for the caller (RFC
// 9701 section 5), signed by the algorithm that it is registered for.
func (iss Signer) Introspection(caller *store.Client, answer json.RawMessage) (string, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return "", store.Unavailable(err)
	}
	now := iss.now()
	claims, err := json.Marshal(struct {
		Issuer   string          `json:"iss"`
		Audience string          `json:"aud"`
		IssuedAt int64           `json:"iat"`
		Answer   json.RawMessage `json:"token_introspection"`
	}{iss.ID, caller.ID, int64(now) / 1000, answer})
	if err != nil {
		return "", err
	}
	text, err := view.Ring.Sign(cmp.Or(caller.SigningAlg, keys.ES256), "token-introspection+jwt", claims, now)
	return text, store.Unavailable(err)
}

// ExpiresIn returns the remaining lifetime of a token in whole seconds, and at most the
// lifetime that it was issued with.
func (iss *Issuer) ExpiresIn(t Token) int64 {
	return max(0, iss.Policy.ExpiresIn(grant.Access{ExpiresAt: t.ExpiresAt, Lifetime: t.ExpiresAt.Since(t.IssuedAt)}, iss.now()))
}

// PublicKeys returns the public signing keys, for verifiers of JWTs.
func (iss Signer) PublicKeys() ([]jose.JSONWebKey, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	return view.Ring.JWKS(iss.now(), iss.publication(view)), nil
}

// publication is the schedule of published keys: a key is published for the
// longest lifetime of what it signs, which a client's registration may prolong.
func (iss Signer) publication(view *directory.View) keys.Schedule {
	return iss.Directory.Schedule.Retaining(max(view.IDTokenLifetime(), view.LongestAccess(0)))
}

// PublicPEM returns one of PublicKeys by its kid.
func (iss Signer) PublicPEM(kid string) (text []byte, found bool, err error) {
	view, err := iss.Directory.View()
	if err != nil {
		return nil, false, store.Unavailable(err)
	}
	text, found = view.Ring.PublicPEM(kid, iss.now(), iss.publication(view))
	return text, found, nil
}

// Logout returns a new logout token for a client (OpenID Connect Back-Channel
// Logout 1.0 section 2.4), signed as its id_tokens are. Without a sid, it says that
// all sessions of the subject have ended.
func (iss Signer) Logout(c *store.Client, subject, sid string) (string, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return "", store.Unavailable(err)
	}
	now := iss.now()
	claims, err := openid.LogoutToken{
		Issuer: iss.ID, Subject: subject, ClientID: c.ID, SessionID: sid, IssuedAt: now, ID: rand.Text(),
	}.Claims()
	if err != nil {
		return "", err
	}
	return view.Ring.Sign(IDTokenAlg(c), openid.LogoutType, claims, now)
}

// UserInfo returns claims about a user as a JWT for a client (OpenID Connect
// Core section 5.3.2), or "" if the client is registered for JSON. It is no
// id_token: without iat and exp, neither clients nor Hint take it for one.
func (iss Signer) UserInfo(ctx context.Context, clientID string, about claims.Claims) (string, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return "", store.Unavailable(err)
	}
	c, err := iss.clientOf(ctx, view, clientID)
	if err != nil {
		return "", err
	}
	if c.UserInfoAlg == "" || c.UserInfoAlg == "none" {
		return "", nil
	}
	signed := maps.Clone(about)
	for name, text := range map[string]string{"iss": iss.ID, "aud": clientID} {
		if signed[name], err = json.Marshal(text); err != nil {
			return "", err
		}
	}
	body, err := json.Marshal(signed)
	if err != nil {
		return "", err
	}
	text, err := view.Ring.Sign(c.UserInfoAlg, openid.Type, body, iss.now())
	return text, store.Unavailable(err)
}

// Hint reads an id_token_hint (OpenID Connect Core section 3.1.2.1): an id_token
// of this issuer, expired or not, whose key was in use when it was issued and ended at
// most HintAge ago. The error for other texts is openid.ErrHint. The caller compares the
// client.
func (iss *Issuer) Hint(text string) (openid.Hint, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return openid.Hint{}, store.Unavailable(err)
	}
	typ, payload, key, err := view.Ring.Verify(text)
	if err != nil {
		return openid.Hint{}, openid.ErrHint
	}
	h, err := openid.ReadHint(typ, payload, iss.ID)
	m := view.Ring.Maker(key)
	if err != nil || !m.Signed(h.IssuedAt, iss.Policy) || m.Until != 0 && iss.now() > m.Until.Add(iss.HintAge) {
		return openid.Hint{}, openid.ErrHint
	}
	return h, nil
}

// Signer returns the Signer of iss.
func (iss *Issuer) Signer() Signer { return Signer{iss} }
