// Package openid makes the claims of id_tokens and reads them back from hints
// (OpenID Connect Core sections 2 and 3.1.2.1). Its functions are pure: they read
// no clock, store or key.
package openid

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/plain"
)

// Type is the typ header of an id_token. Access tokens and logout tokens have
// types of their own, except access tokens of clients registered for JWT.
const Type = "JWT"

// MaxSubject is the longest subject in bytes (OpenID Connect Core section 2).
const MaxSubject = 255

// IsSubject reports whether s can be the sub of an id_token: at most 255 ASCII
// characters (OpenID Connect Core section 2), none of them a control character.
func IsSubject(s string) bool {
	return s != "" && len(s) <= MaxSubject && !strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c > 0x7e })
}

// A Login is how a subject was authenticated, in the form of grant.Facts: ACR and AMR
// for built-in users, ReportedACR and ReportedAMR as another system reported them for its users.
type Login struct {
	ACR         uint8  `json:"acr,omitempty"`
	AMR         uint8  `json:"amr,omitempty"`
	ReportedACR string `json:"said_acr,omitempty"`
	ReportedAMR string `json:"said_amr,omitempty"` // values with spaces between them
}

// LoginMembers are the members of a login in the order of its fields.
var LoginMembers = []plain.Member[Login]{
	plain.At("acr", func(p *plain.Reader, l *Login) { l.ACR = plain.Unsigned[uint8](p) }),
	plain.At("amr", func(p *plain.Reader, l *Login) { l.AMR = plain.Unsigned[uint8](p) }),
	plain.At("said_acr", func(p *plain.Reader, l *Login) { l.ReportedACR = p.Text() }),
	plain.At("said_amr", func(p *plain.Reader, l *Login) { l.ReportedAMR = p.Text() }),
}

// Logins of built-in users.
var (
	Password       = Login{ACR: 1, AMR: amrPassword}
	PasswordAndOTP = Login{ACR: 2, AMR: amrPassword | amrOTP | amrMFA}
)

// Authentication methods (RFC 8176). Facts hold a bit for each: the order is fixed.
const (
	amrPassword = 1 << iota
	amrOTP
	amrMFA
)

var methods = []string{"pwd", "otp", "mfa"}

// Classes are the authentication context classes (acr). Facts hold the index plus 1.
var Classes = []string{"urn:mintage:1", "urn:mintage:2"}

// Class returns the acr claim, or "" if the class is unknown.
func (l Login) Class() string {
	if l.ACR == 0 || int(l.ACR) > len(Classes) {
		return l.ReportedACR
	}
	return Classes[l.ACR-1]
}

// Methods returns the amr claim.
func (l Login) Methods() []string {
	list := strings.Fields(l.ReportedAMR)
	for i, m := range methods {
		if l.AMR&(1<<i) != 0 {
			list = append(list, m)
		}
	}
	return list
}

// IsACR reports whether text can be the acr of another system: one value of acr_values,
// in which spaces separate the values.
func IsACR(text string) bool { return isWord(text) && len(text) <= grant.MaxReportedACR }

// JoinAMR returns the form of a list in Login.ReportedAMR, and whether the list can be
// the amr of another system.
func JoinAMR(list []string) (text string, ok bool) {
	text = strings.Join(list, " ")
	return text, len(text) <= grant.MaxReportedAMR && !slices.ContainsFunc(list, func(m string) bool { return !isWord(m) })
}

// isWord reports whether text is of printable ASCII without spaces, quotes and
// backslashes.
func isWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
}

// A Token holds the content of an id_token.
type Token struct {
	Issuer   string
	Subject  string
	ClientID string // its audience
	IssuedAt, ExpiresAt,
	AuthTime grant.Instant // zero if unknown
	Nonce       string // of the authentication request; "" in the answer to a refresh
	AccessToken string // of the same answer
	// AuthorizedAt is when the user agreed. The id_token contains it only if it is later
	// than IssuedAt: AgreedAt of package issuer has moved it past a cutoff.
	AuthorizedAt grant.Instant
	Facts        grant.Facts
	// More are the claims about the user that the request asked for by name. None
	// of them has the name of another claim here.
	More map[string]json.RawMessage
}

// ClaimsSupported lists the claims of id_tokens.
var ClaimsSupported = []string{"acr", "amr", "at_hash", "aud", "auth_time", "exp", "iat", "iss", "nonce", "sid", "sub"}

// claims are the members of an id_token, in their order. An id_token never has
// client_id, scope or a jti: see ReadHint.
type claims struct {
	Issuer     string   `json:"iss"`
	Subject    string   `json:"sub"`
	Audience   string   `json:"aud"`
	ExpiresAt  int64    `json:"exp"`
	IssuedAt   int64    `json:"iat"`
	AuthTime   int64    `json:"auth_time,omitempty"`
	Nonce      string   `json:"nonce,omitempty"`
	AccessHash string   `json:"at_hash"`
	SessionID  string   `json:"sid,omitempty"`
	ACR        string   `json:"acr,omitempty"`
	AMR        []string `json:"amr,omitempty"`

	AuthorizedAt grant.Instant `json:"authorized_at,omitempty"` // in milliseconds
}

// LoginOf returns how the subject of facts was authenticated.
func LoginOf(f grant.Facts) Login { return Login{f.ACR, f.AMR, f.ReportedACR, f.ReportedAMR} }

// Claims returns the claims of an id_token that is signed by an algorithm. Equal
// arguments give equal bytes.
func (t Token) Claims(alg string) ([]byte, error) {
	login := LoginOf(t.Facts)
	c := claims{
		Issuer: t.Issuer, Subject: t.Subject, Audience: t.ClientID,
		ExpiresAt: int64(t.ExpiresAt) / 1000, IssuedAt: int64(t.IssuedAt) / 1000, AuthTime: int64(t.AuthTime) / 1000,
		Nonce: t.Nonce, AccessHash: accessHash(alg, t.AccessToken), ACR: login.Class(), AMR: login.Methods(),
	}
	if t.Facts.Session != [16]byte{} {
		c.SessionID = SessionID(t.Facts.Session, t.ClientID)
	}
	if t.AuthorizedAt > t.IssuedAt {
		c.AuthorizedAt = t.AuthorizedAt
	}
	body, err := json.Marshal(c)
	if err != nil || len(t.More) == 0 {
		return body, err
	}
	more, err := json.Marshal(t.More)
	if err != nil {
		return nil, err
	}
	return append(append(body[:len(body)-1], ','), more[1:]...), nil
}

// accessHash is the left half of the hash of an access token (OpenID Connect Core
// section 3.1.3.6): SHA-256, or SHA-512 for EdDSA, because Ed25519 itself uses SHA-512.
func accessHash(alg, text string) string {
	if alg == "EdDSA" {
		sum := sha512.Sum512([]byte(text))
		return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
	}
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}

// SessionID returns the sid by which a client knows a session: an HMAC, so that
// clients cannot tell whether they share one.
func SessionID(session [16]byte, clientID string) string {
	mac := hmac.New(sha256.New, session[:])
	mac.Write([]byte(clientID))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// A Hint holds the claims of an id_token_hint (OpenID Connect Core section 3.1.2.1).
type Hint struct {
	Subject   string
	ClientID  string
	SessionID string // "" if the login had no session
	IssuedAt, ExpiresAt,
	AuthTime grant.Instant // zero if unknown
	ACR string
	AMR string // values with spaces between them
	// Authorized is the instant that a cutoff is compared with: IssuedAt, or authorized_at
	// if the id_token has it.
	Authorized grant.Instant
}

// ErrHint means that a text is no id_token of this issuer for one client.
var ErrHint = errors.New("not an id_token of this issuer")

// ReadHint reads the claims of a JWT whose signature is verified. It refuses every
// other kind of JWT that this issuer signs: those of another type, and access
// tokens of type JWT, which have client_id, scope and, unless they were exchanged, a jti
// of 32 bytes. An expired id_token is a valid hint.
func ReadHint(typ string, payload []byte, issuer string) (Hint, error) {
	var c struct {
		Issuer    string   `json:"iss"`
		Subject   string   `json:"sub"`
		Audience  string   `json:"aud"` // one; a list is refused
		SessionID string   `json:"sid"`
		IssuedAt  int64    `json:"iat"`
		ExpiresAt int64    `json:"exp"`
		AuthTime  int64    `json:"auth_time"`
		ACR       string   `json:"acr"`
		AMR       []string `json:"amr"`

		AuthorizedAt grant.Instant `json:"authorized_at"`

		ClientID json.RawMessage `json:"client_id"`
		Scope    json.RawMessage `json:"scope"`
		Events   json.RawMessage `json:"events"`
		ID       string          `json:"jti"`
	}
	switch {
	case typ != Type, json.Unmarshal(payload, &c) != nil,
		c.Issuer != issuer, c.Subject == "", c.Audience == "", c.IssuedAt <= 0, c.ExpiresAt < c.IssuedAt,
		c.ClientID != nil, c.Scope != nil, c.Events != nil, isTokenID(c.ID):
		return Hint{}, ErrHint
	}
	return Hint{
		Subject: c.Subject, ClientID: c.Audience, SessionID: c.SessionID, IssuedAt: grant.Instant(c.IssuedAt) * 1000, ExpiresAt: grant.Instant(c.ExpiresAt) * 1000,
		AuthTime: grant.Instant(c.AuthTime) * 1000, ACR: c.ACR, AMR: strings.Join(c.AMR, " "),
		Authorized: max(c.AuthorizedAt, grant.Instant(c.IssuedAt)*1000),
	}, nil
}

// isTokenID reports whether id has the form of the jti of an access token, unless the
// token was exchanged.
func isTokenID(id string) bool {
	b, err := base64.RawURLEncoding.DecodeString(id)
	return err == nil && len(b) == 32
}
