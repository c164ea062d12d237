package upstream

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// A Logout is the content of a logout token: it ends a session if it has a SessionID, or
// else all sessions of a subject.
type Logout struct {
	SessionID string // sid, of the provider's session
	Subject   string // the user's subject here; "" if the token has no sub, or SubjectClaim is not sub
	ID        string // its jti
	IssuedAt  time.Time
	ExpiresAt time.Time
}

const (
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
	// longestLogout is how long a logout token may be valid: its jti is remembered for
	// that long.
	longestLogout = time.Hour
	maxSessionID  = 255
)

// Logout verifies a logout token of the provider (OpenID Connect Back-Channel Logout
// 1.0 section 2.6).
func (p *Provider) Logout(ctx context.Context, raw string) (Logout, error) {
	if !isLogoutType(raw) {
		return Logout{}, invalid("logout_token: it is of another type")
	}
	m, err := p.metadata(ctx)
	if err != nil {
		return Logout{}, err
	}
	token, err := p.verify(ctx, m, raw)
	if err != nil {
		return Logout{}, err
	}
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return Logout{}, invalid("logout_token: %s", short(err))
	}
	var events map[string]map[string]json.RawMessage
	_, nonce := claims["nonce"]
	now := p.cfg.Now()
	switch {
	case nonce:
		return Logout{}, invalid("logout_token: it has a nonce")
	case json.Unmarshal(claims["events"], &events) != nil || events[logoutEvent] == nil:
		return Logout{}, invalid("logout_token: events does not have %s", logoutEvent)
	case claims["iat"] == nil || token.IssuedAt.After(now.Add(leeway)) || token.Expiry.Sub(now) > longestLogout:
		return Logout{}, invalid("logout_token: iat is in the future or missing, or exp is more than an hour ahead")
	}
	l := Logout{IssuedAt: token.IssuedAt, ExpiresAt: token.Expiry}
	for name, to := range map[string]*string{"jti": &l.ID, "sid": &l.SessionID} {
		if *to, err = text(claims, name); err != nil {
			return Logout{}, err
		}
		if !oauth.IsText(*to, maxSessionID) {
			return Logout{}, invalid("logout_token: %s is too long, or no text", name)
		}
	}
	if claims["sub"] != nil && p.cfg.SubjectClaim == "sub" {
		if l.Subject, err = p.Subject(claims); err != nil {
			return Logout{}, err
		}
	}
	switch {
	case l.ID == "":
		return Logout{}, invalid("logout_token: no jti")
	case l.SessionID == "" && l.Subject == "":
		return Logout{}, invalid("logout_token: no sid, and no sub that names a user here")
	}
	return l, nil
}

// EndSession returns the address that ends the browser's session at the provider and leads
// back with state (OpenID Connect RP-Initiated Logout 1.0 section 2), or "" if the
// provider has none. It sends no id_token_hint, because no id_token is stored: the
// provider may ask the user.
func (p *Provider) EndSession(ctx context.Context, subject, state string) (string, error) {
	m, err := p.metadata(ctx)
	if err != nil || m.endSession == "" {
		return "", err
	}
	u, err := url.Parse(m.endSession)
	if err != nil {
		return "", invalid("discovery: end_session_endpoint: not a URL")
	}
	q := u.Query()
	q.Set("client_id", p.cfg.ClientID)
	q.Set("post_logout_redirect_uri", p.cfg.LogoutURL)
	q.Set("logout_hint", strings.TrimPrefix(subject, p.cfg.SubjectPrefix))
	if state != "" {
		q.Set("state", state)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// isLogoutType reports whether the typ header of a JWT allows it to be a logout token.
// Many providers send JWT or no typ: then only events and nonce distinguish a logout token
// from an id_token.
func isLogoutType(raw string) bool {
	head, _, _ := strings.Cut(raw, ".")
	b, err := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		Type string `json:"typ"`
	}
	if err != nil || json.Unmarshal(b, &header) != nil {
		return false
	}
	switch strings.TrimPrefix(strings.ToLower(header.Type), "application/") {
	case "", "jwt", "logout+jwt":
		return true
	}
	return false
}
