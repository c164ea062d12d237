package upstream

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
)

// An Answer holds the parameters of the provider's redirect, except for state. Each of
// code, error and iss occurs at most once, and is "" if absent.
type Answer struct {
	Code   string
	Error  string
	Issuer string
}

// An Identity identifies the user.
type Identity struct {
	Subject  string    // 1 to oauth.MaxSubject bytes of UTF-8 without control characters
	AuthTime time.Time // when the provider authenticated the user; zero if unknown
	Name     string    // to be shown; "" if the provider gives none
	Claims   string    // a JSON object of standard claims; "" for none
	Said     string    // a JSON object of the claims that the request names; "" for none
	Login    openid.Login
	// SessionID is the sid of the id_token, "" if the provider gives none.
	SessionID string
	IssuedAt  time.Time // of the id_token
}

// Finish redeems the code of a login that p began, and returns the user's identity.
func (p *Provider) Finish(ctx context.Context, a Answer, pending Pending) (Identity, error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return Identity{}, err
	}
	// RFC 9207 section 2.4, for errors as well as codes: in a mix-up attack, another
	// issuer's answer makes the client send a code, and its secret, to the wrong
	// token endpoint.
	switch {
	case a.Issuer == "" && m.namesItself:
		return Identity{}, invalid("the answer has no iss, which this provider always sends (RFC 9207)")
	case a.Issuer != "" && a.Issuer != p.cfg.Issuer:
		return Identity{}, invalid("the answer is another issuer's (RFC 9207)")
	case a.Error != "":
		return Identity{}, refusal("authorization endpoint", a.Error)
	case a.Code == "":
		return Identity{}, invalid("the answer has neither code nor error")
	}
	tokens, err := p.oauth2(m).Exchange(p.context(ctx), a.Code, oauth2.VerifierOption(pending.Verifier))
	if err != nil {
		return Identity{}, tokenError(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return Identity{}, invalid("token endpoint: no id_token")
	}
	token, err := p.verify(ctx, m, raw)
	if err != nil {
		return Identity{}, err
	}
	return p.identity(ctx, m, token, tokens.AccessToken, pending)
}

// refusal translates an error code of the provider. It drops the description, which may
// repeat parameters of the request.
func refusal(where, code string) error {
	switch code {
	case "access_denied":
		return ErrDenied
	case "login_required", "consent_required", "interaction_required", "account_selection_required", string(oauth.UnmetRequirements):
		return &InteractionRequired{oauth.ErrorCode(code)}
	case string(oauth.TemporarilyUnavailable), string(oauth.ServerError):
		return unavailable("%s: %s", where, code)
	}
	// Registered error codes have this form, but the browser may send any text.
	known := len(code) <= 64 && !strings.ContainsFunc(code, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
	if !known {
		code = "an error of unknown form"
	}
	return invalid("%s: %s", where, code)
}

// tokenError translates an error of the token endpoint. It omits the body of the response,
// which may contain tokens.
func tokenError(err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case isFault(err):
		return unavailable("token endpoint: %w", err)
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return refusal(fmt.Sprintf("token endpoint answered %d", refused.Response.StatusCode), refused.ErrorCode)
	case errors.As(err, &refused):
		return invalid("token endpoint answered %d without an OAuth error code", refused.Response.StatusCode)
	case errors.Is(err, errTooLarge):
		return invalid("token endpoint: %w", errTooLarge)
	}
	return invalid("token endpoint: the answer cannot be read")
}

// notedKeys keeps the error of a signature check, because the verifier returns only its
// text.
type notedKeys struct {
	oidc.KeySet
	err error
}

func (k *notedKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	k.err = err
	return payload, err
}

// verify checks signature, iss, aud and exp.
func (p *Provider) verify(ctx context.Context, m *metadata, raw string) (*oidc.IDToken, error) {
	keys := &notedKeys{KeySet: m.keys}
	verifier := oidc.NewVerifier(p.cfg.Issuer, keys, &oidc.Config{ClientID: p.cfg.ClientID, SupportedSigningAlgs: m.algorithms, Now: p.cfg.Now})
	token, err := verifier.Verify(ctx, raw)
	switch {
	case isFault(keys.err):
		return nil, unavailable("keys: %w", keys.err)
	case err != nil:
		return nil, invalid("id_token: %s", short(err))
	}
	return token, nil
}

// identity makes the checks that the library leaves to its caller, and reads the claims.
func (p *Provider) identity(ctx context.Context, m *metadata, token *oidc.IDToken, accessToken string, pending Pending) (Identity, error) {
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return Identity{}, invalid("id_token: %s", short(err))
	}
	now := p.cfg.Now()
	party, err := text(claims, "azp")
	switch {
	case err != nil:
		return Identity{}, err
	case party != "" && party != p.cfg.ClientID, party == "" && len(token.Audience) > 1:
		return Identity{}, invalid("id_token: made for another client (azp)")
	case token.IssuedAt.After(now.Add(leeway)):
		return Identity{}, invalid("id_token: iat is in the future; compare the clocks")
	case pending.Nonce == "" || subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(pending.Nonce)) != 1:
		return Identity{}, invalid("id_token: nonce is not that of this login")
	}
	if token.AccessTokenHash != "" {
		if err := token.VerifyAccessToken(accessToken); err != nil {
			return Identity{}, invalid("id_token: at_hash does not fit the access token")
		}
	}
	var id Identity
	if id.AuthTime, err = authTime(claims, now, pending.AuthenticatedAfter); err != nil {
		return Identity{}, err
	}
	if id.Subject, err = p.Subject(claims); err != nil {
		return Identity{}, err
	}
	if pending.OpenID && !openid.IsSubject(id.Subject) {
		return Identity{}, invalid("id_token: claim %q gives a subject that is not ASCII, and the client asks for an id_token; map another claim in login.upstream.subject_claim (OIDC Core section 2)", p.cfg.SubjectClaim)
	}
	if id.Claims, id.Said, err = p.known(ctx, m, claims, accessToken, pending.Claims); err != nil {
		return Identity{}, err
	}
	id.Name, id.Login, id.IssuedAt = name(claims), reportedLogin(claims), token.IssuedAt
	if sid, err := text(claims, "sid"); err == nil && oauth.IsText(sid, maxSessionID) {
		id.SessionID = sid
	}
	return id, nil
}

// authTime returns when the user was authenticated. If the login required it, it
// must be present and recent.
func authTime(claims map[string]json.RawMessage, now, after time.Time) (time.Time, error) {
	raw, present := claims["auth_time"]
	if !present || string(raw) == "null" {
		if !after.IsZero() {
			return time.Time{}, invalid("id_token: no auth_time, which max_age and prompt=login require (OIDC Core section 2)")
		}
		return time.Time{}, nil
	}
	var seconds float64
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds <= 0 || seconds > 1<<40 {
		return time.Time{}, invalid("id_token: auth_time is not a time in seconds")
	}
	at := time.Unix(int64(seconds), 0)
	switch {
	case at.After(now.Add(leeway)):
		return time.Time{}, invalid("id_token: auth_time is in the future; compare the clocks")
	case at.Before(after):
		return time.Time{}, invalid("id_token: auth_time is too long ago: the provider has not made the user log in again")
	case at.After(now):
		at = now
	}
	return at, nil
}

// Subject returns the user's subject here: SubjectPrefix and the value of SubjectClaim in
// the claims of an id_token.
func (p *Provider) Subject(claims map[string]json.RawMessage) (string, error) {
	sub, err := text(claims, "sub")
	if err != nil {
		return "", err
	}
	if sub == "" {
		return "", invalid("id_token: no sub")
	}
	claim := p.cfg.SubjectClaim
	value, err := text(claims, claim)
	switch {
	case err != nil:
		return "", err
	case value == "":
		return "", invalid("id_token: no claim %q, which login.upstream.subject_claim names; ask for the scope that brings it", claim)
	case claim == "email" && string(claims["email_verified"]) != "true":
		// Otherwise a user could enter another user's address at the provider.
		return "", invalid("id_token: email_verified is not true, and email names the user")
	case strings.ContainsFunc(value, func(r rune) bool { return oauth.IsControl(r) || r == utf8.RuneError }):
		// The decoder replaces invalid UTF-8, so that two users could have the same subject.
		return "", invalid("id_token: claim %q holds control characters, or is not UTF-8", claim)
	case len(p.cfg.SubjectPrefix)+len(value) > oauth.MaxSubject:
		return "", invalid("id_token: claim %q is too long for a subject of at most %d bytes", claim, oauth.MaxSubject)
	}
	return p.cfg.SubjectPrefix + value, nil
}

// text returns a claim that must be a string if it is present. A number is an error,
// because one number can be written in several ways.
func text(claims map[string]json.RawMessage, name string) (string, error) {
	raw, there := claims[name]
	if !there || string(raw) == "null" {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", invalid("id_token: claim %q is not a string", name)
	}
	return s, nil
}

// reportedLogin returns acr and amr as the provider states them. It leaves out malformed and
// overlong values.
func reportedLogin(claims map[string]json.RawMessage) (l openid.Login) {
	if acr, err := text(claims, "acr"); err == nil && openid.IsACR(acr) {
		l.ReportedACR = acr
	}
	var amr []string
	if json.Unmarshal(claims["amr"], &amr) == nil {
		if joined, ok := openid.JoinAMR(amr); ok {
			l.ReportedAMR = joined
		}
	}
	return l
}

// name returns the user's name, or "" if it is missing or cannot be shown.
func name(claims map[string]json.RawMessage) string {
	s, err := text(claims, "name")
	if err != nil || !oauth.IsText(s, oauth.MaxName) {
		return ""
	}
	return strings.TrimSpace(s)
}
