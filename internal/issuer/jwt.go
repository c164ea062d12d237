package issuer

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/go-jose/go-jose/v4"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// AccessClaims are the claims of a JWT access token: all that RFC 9068 section
// 2.2 requires, the scope, and when the subject was authenticated (section
// 2.2.1). Those about the subject are added to them; nothing else names a
// person.
type AccessClaims struct {
	Issuer    string      `json:"iss"`
	Subject   string      `json:"sub"`
	Audience  audience    `json:"aud"`
	ClientID  string      `json:"client_id"`
	ExpiresAt int64       `json:"exp"`
	IssuedAt  int64       `json:"iat"`
	ID        string      `json:"jti"`
	Scope     oauth.Scope `json:"scope"`
	AuthTime  int64       `json:"auth_time,omitempty"`
}

// An audience is one string or a list (RFC 7519 section 4.1.3). One is written
// as a string, which every verifier understands.
type audience []string

func (a audience) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// A token id is grant 16 | generation 4 | issued 6 | authorized 6, in base64url:
// introspection finds the row by it, and subscribers of the revocation feed find
// out whether the token is revoked.
const tokenIDSize = 16 + 4 + 6 + 6

func tokenID(id grant.ID, generation uint32, issued, authorized grant.Instant) string {
	b := append(make([]byte, 0, tokenIDSize+2), id[:]...)
	b = binary.BigEndian.AppendUint32(b, generation)
	b = issued.Append(b)
	return base64.RawURLEncoding.EncodeToString(authorized.Append(b))
}

// A TokenID is the content of the jti of an access token.
type TokenID struct {
	GrantID    grant.ID
	Generation uint32 // 0: of no grant
	IssuedAt   grant.Instant
	// AuthorizedAt is what cutoffs compare.
	AuthorizedAt grant.Instant
}

// ParseTokenID decodes the jti of an access token of this server.
func ParseTokenID(text string) (TokenID, bool) {
	id, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(id) != tokenIDSize {
		return TokenID{}, false
	}
	return TokenID{grant.ID(id[:16]), binary.BigEndian.Uint32(id[16:]), grant.ReadInstant(id[20:]), grant.ReadInstant(id[26:])}, true
}

// signAccess returns the JWT of an access token, signed by the key in use now: a
// repeated response has the same claims, but perhaps another signature.
func (iss *Issuer) signAccess(view *directory.View, c *store.Client, t Token, now grant.Instant) (string, error) {
	claims, err := json.Marshal(AccessClaims{
		Issuer: iss.ID, Subject: t.Subject, Audience: t.Audience, ClientID: t.ClientID,
		ExpiresAt: int64(t.ExpiresAt) / 1000, IssuedAt: int64(t.IssuedAt) / 1000, ID: t.ID, Scope: t.Scope,
		AuthTime: int64(t.AuthTime) / 1000,
	})
	if err != nil {
		return "", err
	}
	return view.Ring.Sign(cmp.Or(c.SigningAlg, keys.ES256), cmp.Or(c.JWTType, store.JWTTypes[0]), AddClaims(claims, t.Claims), now)
}

// SignPhantom returns an active access token as a JWT, which a gateway passes on
// instead of the opaque token (phantom token).
func (iss *Issuer) SignPhantom(ctx context.Context, t Token) (string, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return "", store.Unavailable(err)
	}
	c, err := iss.present(ctx, view, t.ClientID)
	if err != nil {
		return "", err
	}
	text, err := iss.signAccess(view, c, t, iss.now())
	if err != nil {
		return "", store.Unavailable(err)
	}
	return text, nil
}

// SignIntrospection returns an introspection response as a JWT for the caller (RFC
// 9701 section 5), signed by the algorithm that it is registered for.
func (iss *Issuer) SignIntrospection(caller *store.Client, answer json.RawMessage) (string, error) {
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
	if err != nil {
		return "", store.Unavailable(err)
	}
	return text, nil
}

// ExpiresIn returns the remaining lifetime of a token in whole seconds.
func (iss *Issuer) ExpiresIn(t Token) int64 {
	return max(0, iss.Policy.ExpiresIn(grant.Access{ExpiresAt: t.ExpiresAt, Lifetime: t.Lifetime}, iss.now()))
}

// PublicKeys returns the public signing keys, for verifiers of JWTs.
func (iss *Issuer) PublicKeys() ([]jose.JSONWebKey, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return nil, store.Unavailable(err)
	}
	return view.Ring.JWKS(iss.now(), iss.publication(view)), nil
}

// publication is the schedule of published keys: a key is published for the
// longest lifetime of what it signs, which a client's registration may prolong.
func (iss *Issuer) publication(view *directory.View) keys.Schedule {
	return iss.Directory.Schedule.Retaining(max(view.IDTokenLifetime(), view.LongestAccess(0)))
}

// PublicPEM returns one of PublicKeys by its kid.
func (iss *Issuer) PublicPEM(kid string) (text []byte, found bool, err error) {
	view, err := iss.Directory.View()
	if err != nil {
		return nil, false, store.Unavailable(err)
	}
	text, found = view.Ring.PublicPEM(kid, iss.now(), iss.publication(view))
	return text, found, nil
}
