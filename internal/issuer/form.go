package issuer

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// A Kind is the use of a token.
type Kind uint8

const (
	AccessToken Kind = iota + 1
	RefreshToken
)

// A Form is how a token is written.
type Form uint8

const (
	// OfGrant is an opaque text with the id of a grant and positions in the grant's
	// lists. The grant's row has the rest.
	OfGrant Form = iota + 1
	// SelfContained is an opaque text with every field.
	SelfContained
	// JWT has the claims of RFC 9068.
	JWT
)

// A Token is a token of this issuer, whatever its form. A new field is added here, to
// the forms that have it (read and write), and where it is decided.
type Token struct {
	Kind Kind
	Form Form
	Key  grant.KeyID // that made it

	// GrantID and Generation are those of the token's grant. The GrantID of a token
	// without a grant is the token's own id; see IsService.
	GrantID    grant.ID
	Generation uint32

	ClientID  string
	Subject   string
	Scope     oauth.Scope
	Audience  []string // never empty for an active access token
	APIs      []uint16 // numbers of the APIs that an opaque token names
	IssuedAt  grant.Instant
	ExpiresAt grant.Instant
	// AuthorizedAt is the instant with which cutoffs are compared.
	AuthorizedAt grant.Instant
	AuthTime     grant.Instant // when the subject was authenticated; zero if unknown
	ACR          string        // the class of that authentication, if the request asked for one
	Claims       string        // for AddClaims
	// JKT is the key whose proof must accompany the token (RFC 9449); zero: none.
	JKT oauth.JKT
	// Named are the claims for userinfo that the request named, beside those of Scope.
	Named claims.Set

	// Device is set if the user agreed to the request of a device (RFC 8628).
	Device bool
	// Restricted is set if the token names APIs, which are its audience.
	Restricted bool
	// ForClient is set if Audience also contains the audience of the client's registration.
	ForClient bool

	// Actors act for the subject (RFC 8693 section 4.1), the present one first.
	Actors []grant.Actor
	// MayAct is the only client that may act with the token (RFC 8693 section 4.4), or "".
	MayAct string
	// Serial is the id of an exchanged token (RFC 8693), with which the token is revoked
	// without its grant; zero for other tokens. ExchangedAt is the instant of the exchange, or
	// a later one, so that no cutoff of the client from before the exchange ends the token.
	// GrantedTo is the client of the grant.
	Serial      grant.ID
	ExchangedAt grant.Instant
	GrantedTo   string
	// Trust is the id of the trust by which an active token was issued, or "".
	Trust string

	scopes uint64 // of the form OfGrant: positions in the grant's scope
	apis   uint8  // of the form OfGrant: positions in the grant's APIs
}

// IsService reports whether the client got the token for itself (RFC 6749 section 4.4):
// there is no user and no grant, and GrantID is the token's own id.
func (t Token) IsService() bool {
	return t.Generation == 0 && (t.Form == SelfContained || t.Form == JWT)
}

// Exchanged reports whether the client got the token in exchange for one of a grant (RFC
// 8693), which may be another client's.
func (t Token) Exchanged() bool { return t.Serial != grant.ID{} }

// GrantType returns the grant type of the request that an access token was issued for.
func (t Token) GrantType() string {
	switch {
	case t.Trust != "" && !t.Exchanged():
		return oauth.GrantJWTBearer
	case t.IsService():
		return store.GrantClientCredentials
	case t.Exchanged():
		return store.GrantTokenExchange
	case t.Generation == 1 && t.Device:
		return store.GrantDeviceCode
	case t.Generation == 1:
		return store.GrantAuthorizationCode
	}
	return store.GrantRefreshToken
}

// ID returns the jti (RFC 9068) of an active access token of any form, or "" for any
// other token.
func (t Token) ID() string {
	if t.Kind != AccessToken {
		return ""
	}
	return tokenID(t)
}

// Of returns t with the fields that its grant holds. The text of an opaque token names
// positions in the grant's lists; a JWT contains its own scope.
func (t Token) Of(g grant.Grant) Token {
	t.Subject, t.AuthorizedAt, t.AuthTime, t.ACR, t.Claims, t.Device = g.Subject, g.AuthorizedAt, g.AuthTime, ClassOf(g.Facts), g.Claims, g.Device
	if t.Exchanged() {
		t.GrantedTo = g.ClientID
		return t
	}
	t.ClientID, t.Trust, t.Actors = g.ClientID, g.Trust, g.Actors()
	switch {
	case t.Kind == RefreshToken:
		t.Scope, t.JKT = g.Scope, g.JKT
	case t.Form == OfGrant:
		t.Scope = g.Scope.Pick(t.scopes)
	}
	for i, number := range g.APIs {
		if number != 0 && t.apis&(1<<i) != 0 {
			t.APIs = append(t.APIs, number)
		}
	}
	return t
}

// ClassOf returns the acr of access tokens, or "" if the request did not ask for it.
func ClassOf(f grant.Facts) string {
	if !f.SaysACR {
		return ""
	}
	return openid.Login{ACR: f.ACR, ReportedACR: f.ReportedACR}.Class()
}

// Authenticated reports whether the subject of t was authenticated within maxAge, unless
// that is 0, and in one of classes, unless there are none (RFC 9470 section 3).
func Authenticated(iss *Issuer, t Token, maxAge time.Duration, classes []string) bool {
	return (maxAge == 0 || t.AuthTime != 0 && iss.now().Since(t.AuthTime) <= maxAge) && (len(classes) == 0 || slices.Contains(classes, t.ACR))
}

// Read verifies that a text is a token of this issuer, active or not, and returns its
// fields. It reads nothing from the store. The error for every other text is
// keys.ErrNotAuthentic.
func (iss *Issuer) Read(view *directory.View, text string) (Token, error) {
	switch {
	case strings.HasPrefix(text, keys.RefreshPrefix):
		t, err := view.Ring.OpenRefresh(iss.Realm, text)
		return readOfGrant(RefreshToken, t), err
	case strings.HasPrefix(text, keys.AccessPrefix):
		t, err := view.Ring.OpenAccess(iss.Realm, text)
		return readOfGrant(AccessToken, t), err
	case strings.HasPrefix(text, keys.ServicePrefix):
		t, err := view.Ring.OpenService(iss.Realm, text)
		out := Token{
			Kind: AccessToken, Form: SelfContained, Key: t.Key, GrantID: t.ID, ClientID: t.ClientID, Subject: t.ClientID, Scope: t.Scope, APIs: t.APIs,
			IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt, AuthorizedAt: t.AuthorizedAt, JKT: t.JKT,
		}
		if t.GrantID != (grant.ID{}) {
			out.GrantID, out.Generation, out.Actors, out.Serial, out.ExchangedAt = t.GrantID, t.Generation, t.Actors, t.ID, t.AuthorizedAt
			out.Subject, out.AuthorizedAt = "", 0 // the grant holds them: see Of
		}
		return out, err
	}
	typ, payload, key, err := view.Ring.VerifyAt(text, iss.now(), iss.Directory.Schedule.Retaining(view.LongestAccess(0)))
	if err != nil {
		return Token{}, err
	}
	var c AccessClaims
	// Other JWTs of this issuer have types of their own (RFC 8725 section 3.11).
	if !slices.Contains(store.JWTTypes, typ) || json.Unmarshal(payload, &c) != nil || c.Issuer != iss.ID {
		return Token{}, keys.ErrNotAuthentic
	}
	t, ok := c.Token()
	if !ok {
		return Token{}, keys.ErrNotAuthentic
	}
	t.Key = key
	return t, nil
}

// readOfGrant returns the Token for t, the opened text of a grant's opaque token.
func readOfGrant(kind Kind, t keys.Token) Token {
	return Token{
		Kind: kind, Form: OfGrant, Key: t.Key, GrantID: t.GrantID, Generation: t.Generation, IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt,
		JKT: t.JKT, scopes: t.Bits, apis: t.APIs,
	}
}

// write returns the text of a token in its form: an opaque one under t.Key, a JWT signed
// by the key in use now. A JWT that is written again has the same claims, but perhaps
// another signature.
func (iss *Issuer) write(view *directory.View, c *store.Client, t Token, now grant.Instant) (string, error) {
	switch {
	case t.Kind == RefreshToken:
		return view.Ring.SealRefresh(t.Key, iss.Realm, keys.Token{GrantID: t.GrantID, Generation: t.Generation, IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt})
	case t.Form == OfGrant:
		return view.Ring.SealAccess(t.Key, iss.Realm, keys.Token{
			GrantID: t.GrantID, Generation: t.Generation, IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt, Bits: t.scopes, APIs: t.apis, JKT: t.JKT,
		})
	case t.Form == SelfContained:
		s := keys.ServiceToken{
			ID: t.GrantID, ClientID: t.ClientID, APIs: t.APIs, Scope: t.Scope, IssuedAt: t.IssuedAt, AuthorizedAt: t.AuthorizedAt, ExpiresAt: t.ExpiresAt, JKT: t.JKT,
		}
		if t.Exchanged() {
			s.ID, s.AuthorizedAt, s.GrantID, s.Generation, s.Actors = t.Serial, t.ExchangedAt, t.GrantID, t.Generation, t.Actors
		}
		return view.Ring.SealService(t.Key, iss.Realm, s)
	}
	claims, err := json.Marshal(AccessClaims{
		Issuer: iss.ID, Subject: t.Subject, Audience: t.Audience, ClientID: t.ClientID,
		ExpiresAt: int64(t.ExpiresAt) / 1000, IssuedAt: int64(t.IssuedAt) / 1000, ID: t.ID(), Scope: t.Scope,
		AuthTime: int64(t.AuthTime) / 1000, ACR: t.ACR, Confirmation: ConfirmationOf(t.JKT),
		Delegation: t.Delegation(),
	})
	if err != nil {
		return "", err
	}
	return view.Ring.Sign(cmp.Or(c.SigningAlg, keys.ES256), cmp.Or(c.JWTType, store.JWTTypes[0]), AddClaims(claims, t.Claims), now)
}

// kindOf returns the kind of a text by its prefix. JWTs are access tokens.
func kindOf(text string) Kind {
	if strings.HasPrefix(text, keys.RefreshPrefix) {
		return RefreshToken
	}
	return AccessToken
}

// AccessClaims are the claims of a JWT access token: all that RFC 9068 section
// 2.2 requires, the scope, and when and how the subject was authenticated (section
// 2.2.1, RFC 9470 section 6). AddClaims adds the claims about the subject; nothing else
// names a person.
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
	ACR       string      `json:"acr,omitempty"`

	Confirmation *Confirmation `json:"cnf,omitempty"`
	Delegation
}

// A Delegation holds the claims act and may_act of a token (RFC 8693 section 4) and, if the
// token was exchanged, the client of its grant.
type Delegation struct {
	Actor     *Actor `json:"act,omitempty"`
	MayAct    *Actor `json:"may_act,omitempty"`
	GrantedTo string `json:"granted_client_id,omitempty"`
}

// An Actor is the claim act: the acting party, and in Before the prior actor (RFC 8693
// section 4.1).
type Actor struct {
	Issuer  string `json:"iss,omitempty"` // of a party of another issuer
	Subject string `json:"sub"`
	Before  *Actor `json:"act,omitempty"`
}

// Delegation returns the claims about the actors of a token.
func (t Token) Delegation() (d Delegation) {
	for _, a := range slices.Backward(t.Actors) {
		d.Actor = &Actor{a.Issuer, a.Subject, d.Actor}
	}
	if t.MayAct != "" {
		d.MayAct = &Actor{Subject: t.MayAct}
	}
	if t.Exchanged() {
		d.GrantedTo = t.GrantedTo
	}
	return d
}

// A Confirmation is the claim cnf (RFC 7800) of a token that is bound to a key (RFC
// 9449 section 6).
type Confirmation struct {
	JKT string `json:"jkt"`
}

// ConfirmationOf returns the claim cnf for a key, or nil for none.
func ConfirmationOf(key oauth.JKT) *Confirmation {
	if !key.Bound() {
		return nil
	}
	return &Confirmation{key.String()}
}

// Token returns the token that the claims describe, and whether their jti and cnf have
// the form in which this server writes them.
func (c AccessClaims) Token() (t Token, ok bool) {
	t = Token{
		Kind: AccessToken, Form: JWT, ClientID: c.ClientID, Subject: c.Subject, Scope: c.Scope, Audience: c.Audience,
		IssuedAt: grant.Instant(c.IssuedAt) * 1000, ExpiresAt: grant.Instant(c.ExpiresAt) * 1000,
	}
	if c.Confirmation != nil {
		if t.JKT, ok = oauth.ParseJKT(c.Confirmation.JKT); !ok {
			return t, false
		}
	}
	id, err := base64.RawURLEncoding.Strict().DecodeString(c.ID)
	if err != nil || len(id) != tokenIDSize && len(id) != exchangedIDSize {
		return t, false
	}
	t.GrantID, t.Generation = grant.ID(id[:16]), binary.BigEndian.Uint32(id[16:])
	t.IssuedAt, t.AuthorizedAt = grant.ReadInstant(id[20:]), grant.ReadInstant(id[26:])
	if len(id) == exchangedIDSize {
		t.Serial, t.ExchangedAt, t.GrantedTo = grant.ID(id[tokenIDSize:]), grant.ReadInstant(id[tokenIDSize+16:]), c.GrantedTo
	}
	for a := c.Actor; a != nil; a = a.Before {
		t.Actors = append(t.Actors, grant.Actor{Issuer: a.Issuer, Subject: a.Subject})
	}
	return t, true
}

// A token id is grant 16 | generation 4 | issued 6 | authorized 6, and of a token that was
// exchanged its own id 16 | exchanged 6, in base64url: introspection finds the row by it,
// and subscribers of the revocation feed find out whether the token is revoked.
const (
	tokenIDSize     = 16 + 4 + 6 + 6
	exchangedIDSize = tokenIDSize + 16 + 6
)

func tokenID(t Token) string {
	b := append(make([]byte, 0, exchangedIDSize), t.GrantID[:]...)
	b = binary.BigEndian.AppendUint32(b, t.Generation)
	b = t.AuthorizedAt.Append(t.IssuedAt.Append(b))
	if t.Exchanged() {
		b = t.ExchangedAt.Append(append(b, t.Serial[:]...))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}
