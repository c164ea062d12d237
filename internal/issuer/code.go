package issuer

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// MaxSubject bounds a subject, in bytes.
const MaxSubject = 255

// An Authorization is what somebody who knows the user says: the subject agreed
// that the client may act for it.
type Authorization struct {
	ClientID    string
	RedirectURI string
	Subject     string
	Scope       string // "" for all that the client is registered for
	Challenge   string // S256 code challenge (RFC 7636), or ""
}

// An IssuedCode is a code and where it goes. Both texts are secrets.
type IssuedCode struct {
	Code        string
	CallbackURL string
	Scope       oauth.Scope
	ExpiresAt   time.Time
	GrantID     grant.ID
}

// Invalid is the error of an input that cannot be accepted, for people.
type Invalid struct {
	Field   string // as the caller spells it
	Message string
}

func (e *Invalid) Error() string { return e.Field + ": " + e.Message }

// IssueCode seals an authorization into a code. Nothing is written.
func (iss *Issuer) IssueCode(ctx context.Context, a Authorization) (IssuedCode, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return IssuedCode{}, unavailable(err)
	}
	c, ok := view.Client(iss.Realm, a.ClientID)
	if !ok {
		// An administrator may have made or enabled it a moment ago.
		if err := iss.Directory.Poll(ctx); err != nil {
			return IssuedCode{}, unavailable(err)
		}
		if view, err = iss.Directory.View(); err != nil {
			return IssuedCode{}, unavailable(err)
		}
		c, ok = view.Client(iss.Realm, a.ClientID)
	}
	if !ok {
		return IssuedCode{}, &Invalid{"client_id", "no such client, or it is disabled (see: mintage client list)"}
	}
	now := iss.now()
	code := grant.Code{Realm: iss.Realm, ClientID: c.ID, Subject: a.Subject}
	if err := iss.checkAuthorization(c, a, &code); err != nil {
		return IssuedCode{}, err
	}
	rand.Read(code.GrantID[:])
	// Consent is given after any cutoff that it meets.
	code.AuthorizedAt = now
	if cut := view.Cutoff(iss.Realm, a.Subject, c.ID); cut != 0 {
		code.AuthorizedAt = max(now, cut.Add(iss.Policy.MaxSkew)+1)
	}
	code.ExpiresAt = now.Add(iss.CodeLifetime)
	var nonce [keys.NonceSize]byte
	rand.Read(nonce[:])
	text, err := view.Ring.SealCode(view.Ring.Current(keys.Seal, now), code, nonce)
	if err != nil {
		return IssuedCode{}, &Invalid{"scope", err.Error()}
	}
	// RFC 9207: a client of several servers learns whose answer it is.
	callback := AppendQuery(AppendQuery(a.RedirectURI, "code", text), "iss", iss.ID)
	return IssuedCode{
		Code: text, CallbackURL: callback, Scope: code.Scope,
		ExpiresAt: code.ExpiresAt.Time(), GrantID: code.GrantID,
	}, nil
}

func (iss *Issuer) checkAuthorization(c *store.Client, a Authorization, code *grant.Code) error {
	switch {
	case !c.MayUse(store.GrantAuthorizationCode):
		return &Invalid{"client_id", "the client is not registered for the authorization_code grant"}
	case !oauth.MatchRedirectURI(c.RedirectURIs, c.Native, a.RedirectURI):
		return &Invalid{"redirect_uri", "not one of the client's registered redirect URIs, which are compared character by character"}
	case a.Subject == "" || len(a.Subject) > MaxSubject || !utf8.ValidString(a.Subject) || strings.ContainsFunc(a.Subject, oauth.IsControl):
		return &Invalid{"subject", fmt.Sprintf("1 to %d bytes of UTF-8 without control characters", MaxSubject)}
	case a.Challenge == "" && c.Public():
		return &Invalid{"code_challenge", "a public client needs one (RFC 9700 section 2.1.1): nothing else ties the code to it"}
	}
	scope, err := oauth.ParseScope(a.Scope)
	if err != nil {
		return &Invalid{"scope", err.Error()}
	}
	if scope == "" {
		scope = c.Scope
	}
	if !c.Scope.Covers(scope) {
		return &Invalid{"scope", fmt.Sprintf("the client is registered for %q only", c.Scope)}
	}
	code.Scope = scope
	code.RedirectHash = grant.HashRedirectURI(a.RedirectURI)
	if a.Challenge != "" {
		if code.Challenge, code.Challenged = oauth.ParseChallenge(a.Challenge); !code.Challenged {
			return &Invalid{"code_challenge", "an S256 challenge is 43 characters of base64url without padding (RFC 7636 section 4.2)"}
		}
	}
	return nil
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
