package issuer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// Codes issues authorization codes.
type Codes struct{ *Issuer }

// An Authorization states that an authenticated subject has consented to a client's
// access.
type Authorization struct {
	ClientID    string
	RedirectURI string
	Subject     string
	Scope       string // "": all scopes of the client's registration
	Challenge   string // S256 code challenge (RFC 7636), or ""
	// AuthTime is when the subject was authenticated; zero if that is unknown.
	AuthTime time.Time
	// Claims is a JSON object with more about the subject; see CheckClaims.
	Claims json.RawMessage
	// Resources are the APIs that the request names (RFC 8707); none: those of Scope.
	Resources []string
	// Resolved is what Issuer.Resources has returned for Resources and Scope in the same
	// request; nil: they are resolved when the code is made.
	Resolved *Resources
	// Nonce, Session and Login are for id_tokens. Without the scope openid, only Login
	// counts, and only with SaysACR.
	Nonce   string // of the authentication request, or ""
	Session [16]byte
	Login   openid.Login
	// SaysACR: access tokens contain the acr of the login, because the request asked
	// for one (RFC 9470 section 6).
	SaysACR bool
	// Device: a polling device redeems the code, and no browser receives it.
	Device bool
	// InUserInfo and InIDToken are the claims that the request named, as grant.Facts
	// hold them.
	InUserInfo, InIDToken uint32
	// JKT is the key that alone may redeem the code (RFC 9449 section 10), or zero.
	JKT oauth.JKT
}

// An IssuedCode is a code and its redirect URI. Its text is a secret.
type IssuedCode struct {
	Code      string
	Scope     oauth.Scope
	ExpiresAt time.Time
	GrantID   grant.ID

	redirectURI, issuer string
}

// CallbackURL returns the redirect URI with the code, and with iss (RFC 9207), which
// identifies the server to a client of several servers. It is a secret.
func (c IssuedCode) CallbackURL() string {
	return AppendQuery(AppendQuery(c.redirectURI, "code", c.Code), "iss", c.issuer)
}

// authTimeAhead is how far the clock of the authenticating system may be ahead.
const authTimeAhead = time.Minute

// deviceRedirect stands for the redirect URI of codes that wait for a device: no request
// can name it.
const deviceRedirect = store.GrantDeviceCode

// A Device is the stored device authorization of a user code. It changes once, with the
// user's decision.
type Device struct {
	ClientID    string        `json:"client_id"`
	Scope       oauth.Scope   `json:"scope,omitempty"`
	Resources   []string      `json:"resources,omitempty"`
	Challenge   string        `json:"challenge,omitempty"`
	From        string        `json:"from,omitempty"` // address of the device
	RequestedAt grant.Instant `json:"requested_at"`
	ExpiresAt   grant.Instant `json:"expires_at"` // of the codes
	Grant       string        `json:"grant"`
	Denied      bool          `json:"denied,omitempty"`
	Code        string        `json:"code,omitempty"` // sealed; "" until the user has allowed access

	key     store.DocumentKey
	version int64
}

// GrantID returns the id of the grant that the device code is redeemed for.
func (d Device) GrantID() grant.ID {
	id, _ := grant.ParseID(d.Grant)
	return id
}

// Decided reports whether a user has answered.
func (d Device) Decided() bool { return d.Denied || d.Code != "" }

// clientOf returns the client of a token that was found active a moment ago. It fails if
// the client was disabled meanwhile.
func (iss *Issuer) clientOf(ctx context.Context, view *directory.View, id string) (*store.Client, error) {
	c, err := iss.Directory.Client(ctx, view, iss.Realm, id)
	if c == nil && err == nil {
		err = store.Unavailable(fmt.Errorf("client %s was disabled a moment ago", id))
	}
	return c, err
}

// recordAfter is how long the record of a client that registered itself stays after
// its last grant.
const recordAfter = 31 * 24 * time.Hour

// RecordUntil returns until when the record of a client that registered itself is kept
// if the client gets tokens at now.
func (iss *Issuer) RecordUntil(now grant.Instant) grant.Instant {
	return now.Add(iss.CodeLifetime + iss.Policy.RefreshLifetime + recordAfter)
}

// keepRecord extends the record of a client that registered itself, so that the record
// outlives the grant of the client's latest tokens. It writes at most once a day.
func (iss *Issuer) keepRecord(ctx context.Context, c *store.Client, now grant.Instant) {
	if c.RecordedUntil == 0 {
		return
	}
	until := iss.RecordUntil(now)
	if until.Since(c.RecordedUntil) < 24*time.Hour {
		return
	}
	err := iss.Store.Commit(ctx, store.Change{Documents: []store.Document{c.Record(now, until)}})
	if err != nil && !errors.Is(err, store.ErrConflict) { // else another request has done so
		iss.Log.Warn("cannot extend the record of a client; trying again at its next request", "client_id", c.ID, "error", err)
	}
}

// Issue seals an authorization into a code. Nothing is written.
func (iss Codes) Issue(ctx context.Context, a Authorization) (IssuedCode, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return IssuedCode{}, store.Unavailable(err)
	}
	c, err := iss.Directory.Client(ctx, view, iss.Realm, a.ClientID)
	if c == nil && err == nil {
		// The client may have been created or enabled since the last poll.
		if err := iss.Directory.Poll(ctx); err != nil {
			return IssuedCode{}, store.Unavailable(err)
		}
		if view, err = iss.Directory.View(); err != nil {
			return IssuedCode{}, store.Unavailable(err)
		}
		c, err = iss.Directory.Client(ctx, view, iss.Realm, a.ClientID)
	}
	if err != nil {
		return IssuedCode{}, err
	}
	if c == nil {
		return IssuedCode{}, &oauth.Invalid{Field: "client_id", Message: "no such client, or it is disabled (see: mintage client list)"}
	}
	if c.FAPI() {
		return IssuedCode{}, &oauth.Invalid{Field: "client_id", Message: "the client follows the FAPI 2.0 Security Profile: it can get codes only for pushed requests, from the authorization endpoint (section 5.3.2.2-3)"}
	}
	if c.RequiresPKCE() && !c.Public() && a.Challenge == "" {
		// A code without a challenge can be redeemed without a verifier (RFC 9700
		// section 2.1.1).
		return IssuedCode{}, &oauth.Invalid{Field: "code_challenge", Message: "the client must use PKCE: pass on the code_challenge of its request, or register it with --no-pkce"}
	}
	return iss.IssueTo(c, a)
}

// IssueTo is Issue for a client that the caller has found.
func (iss Codes) IssueTo(c *store.Client, a Authorization) (IssuedCode, error) {
	view, err := iss.viewFor(a.JKT)
	if err != nil {
		return IssuedCode{}, store.Unavailable(err)
	}
	now := iss.now()
	agreed := Agreement{
		Authorization: a, KeyID: view.Ring.Current(keys.Seal, now),
		AuthorizedAt: iss.AgreedAt(view, a.Subject, c.ID, now), ExpiresAt: now.Add(iss.CodeLifetimeOf(c)),
	}
	var random [16]byte
	rand.Read(random[:])
	agreed.GrantID = grant.NewID(agreed.AuthorizedAt, random)
	rand.Read(agreed.Nonce[:])
	return iss.seal(view, c, agreed)
}

// AppendQuery adds a parameter to a URI and leaves every other byte of it as
// it is (RFC 6749 section 4.1.2: a registered query is retained).
func AppendQuery(uri, name, value string) string {
	sep := "?"
	if strings.Contains(uri, "?") {
		sep = "&"
	}
	return uri + sep + url.QueryEscape(name) + "=" + url.QueryEscape(value)
}

// An Agreement is an authorization with every input of its code, so that the same
// code can be issued again.
type Agreement struct {
	Authorization
	GrantID      grant.ID
	Nonce        [keys.NonceSize]byte
	KeyID        grant.KeyID
	AuthorizedAt grant.Instant
	ExpiresAt    grant.Instant
}

// AgreedAt returns the authorization instant of a consent given at now: after every
// cutoff that applies, so that an earlier cutoff does not end the grant, and not
// before the latest restore. The client may be empty.
func (iss *Issuer) AgreedAt(view *directory.View, subject, clientID string, now grant.Instant) grant.Instant {
	now = max(now, view.Restore().At)
	if cut := view.Cutoff(iss.Realm, subject, clientID); cut != 0 {
		return max(now, cut.Add(iss.Policy.MaxSkew)+1)
	}
	return now
}

// IssueAgreed seals an agreement into its code. The same agreement gives the same code.
// Nothing is written.
func (iss Codes) IssueAgreed(c *store.Client, a Agreement) (IssuedCode, error) {
	view, err := iss.viewFor(a.JKT)
	if err != nil {
		return IssuedCode{}, store.Unavailable(err)
	}
	return iss.seal(view, c, a)
}

// seal checks an agreement and seals its code.
func (iss Codes) seal(view *directory.View, c *store.Client, a Agreement) (IssuedCode, error) {
	code, err := iss.check(view, c, a)
	if err != nil {
		return IssuedCode{}, err
	}
	nonce := a.Nonce
	if code.APIs != (grant.APIs{}) {
		// An agreement is sealed again for a repeated answer, and its APIs may have
		// changed: another code must have another nonce (see keys.SealCode).
		sum := sha256.Sum256(code.Facts.Append(nonce[:]))
		copy(nonce[:], sum[:])
	}
	text, err := view.Ring.SealCode(a.KeyID, code, nonce)
	if err != nil {
		return IssuedCode{}, &oauth.Invalid{Field: "scope", Message: err.Error()}
	}
	return IssuedCode{
		Code: text, Scope: code.Scope, ExpiresAt: code.ExpiresAt.Time(), GrantID: code.GrantID, redirectURI: a.RedirectURI, issuer: iss.ID,
	}, nil
}

// check returns the content of an agreement's code. Its errors are oauth.Invalids.
func (iss Codes) check(view *directory.View, c *store.Client, a Agreement) (code grant.Code, err error) {
	invalid := func(field, format string, args ...any) (grant.Code, error) {
		return grant.Code{}, &oauth.Invalid{Field: field, Message: fmt.Sprintf(format, args...)}
	}
	if _, taken := view.Registered(iss.Realm, a.Subject); taken {
		// The sub of a client's own tokens is its id (RFC 9068 section 5).
		return invalid("subject", "is the id of a client, which is the sub of that client's own tokens")
	}
	named := a.Resolved
	if named == nil {
		of, err := iss.Resources(view, c, a.Resources, oauth.Scope(a.Scope))
		if err != nil {
			return invalid("resource", "resource and scope must name 1 to %d registered APIs that the client may use (see: mintage api list)", grant.MaxAPIs)
		}
		named = &of
	}
	switch {
	case a.Device && !c.MayUse(store.GrantDeviceCode):
		return invalid("client_id", "the client is not registered for the device grant")
	case !a.Device && !c.MayUse(store.GrantAuthorizationCode):
		return invalid("client_id", "the client is not registered for the authorization_code grant")
	case !a.Device && !oauth.MatchRedirectURI(c.RedirectURIs, a.RedirectURI):
		return invalid("redirect_uri", "not one of the client's registered redirect URIs, which are compared character by character")
	case !oauth.IsSubject(a.Subject):
		return invalid("subject", "1 to %d bytes of UTF-8 without control characters", oauth.MaxSubject)
	case !a.Device && a.Challenge == "" && c.Public():
		return invalid("code_challenge", "required for a public client (RFC 9700 section 2.1.1)")
	}
	code = grant.Code{
		GrantID: a.GrantID, Realm: iss.Realm, ClientID: c.ID, Subject: a.Subject, AuthorizedAt: a.AuthorizedAt, ExpiresAt: a.ExpiresAt,
		RedirectHash: grant.HashRedirectURI(a.RedirectURI), Facts: grant.Facts{APIs: named.APIs, JKT: a.JKT, Device: a.Device},
	}
	if code.Scope, err = oauth.ParseScope(a.Scope); err != nil {
		return invalid("scope", "%v", err)
	}
	if code.Scope = code.Scope.Without(oauth.OfflineAccess); code.Scope == "" {
		if code.Scope, err = oauth.ParseScope(string(named.Default)); err != nil || code.Scope == "" {
			return invalid("scope", "the request names no scope, and the client's default is empty or too long: name scopes")
		}
	}
	if !named.Scope.Covers(code.Scope) {
		return invalid("scope", "the client is registered for %q only", named.Scope)
	}
	if a.Challenge != "" {
		if code.Challenge, code.Challenged = oauth.ParseChallenge(a.Challenge); !code.Challenged {
			return invalid("code_challenge", "an S256 challenge is 43 characters of base64url without padding (RFC 7636 section 4.2)")
		}
	}
	if !a.AuthTime.IsZero() {
		if code.AuthTime = grant.At(a.AuthTime); code.AuthTime <= 0 || code.AuthTime > a.AuthorizedAt.Add(authTimeAhead) {
			return invalid("auth_time", "not between 1970 and now")
		}
		code.AuthTime = min(code.AuthTime, a.AuthorizedAt)
	}
	if code.Claims, err = CheckClaims(a.Claims); err != nil {
		return grant.Code{}, err
	}
	// Without the scope openid, tokens contain the acr of the login only if the request
	// asked for it, and nothing else about the login.
	if code.SaysACR = a.SaysACR && a.Login.Class() != ""; code.SaysACR {
		code.ACR, code.ReportedACR = a.Login.ACR, a.Login.ReportedACR
	}
	if !iss.speaksOpenID(code.Scope) {
		return code, nil
	}
	switch {
	case !openid.IsSubject(a.Subject):
		return invalid("subject", "the sub of an id_token has 1 to 255 ASCII characters without control characters (OpenID Connect Core section 2)")
	case len(a.Authorization.Nonce) > oauth.MaxNonce:
		return invalid("nonce", "at most 255 bytes")
	}
	code.Nonce, code.Session = a.Authorization.Nonce, a.Session
	code.ACR, code.AMR, code.ReportedACR, code.ReportedAMR = a.Login.ACR, a.Login.AMR, a.Login.ReportedACR, a.Login.ReportedAMR
	code.InUserInfo, code.InIDToken = a.InUserInfo, a.InIDToken
	return code, nil
}

// Redeemed reports whether the code of a grant id was redeemed.
func (iss Codes) Redeemed(ctx context.Context, id grant.ID) (bool, error) {
	_, err := iss.Store.Grant(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, store.Unavailable(err)
}

// Codes returns the use cases of authorization codes.
func (iss *Issuer) Codes() Codes { return Codes{iss} }
