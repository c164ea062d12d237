package openid

import (
	"encoding/json"

	"github.com/mintage/mintage/internal/grant"
)

// LogoutType is the typ header of a logout token (OpenID Connect Back-Channel Logout
// 1.0 section 2.4).
const LogoutType = "logout+jwt"

// LogoutEvent is the only member of the claim events of a logout token.
const LogoutEvent = "http://schemas.openid.net/event/backchannel-logout"

// logoutLifetime is how long a logout token is valid, in seconds. Each attempt to
// deliver it signs another one.
const logoutLifetime = 120

// A LogoutToken holds the content of a logout token.
type LogoutToken struct {
	Issuer    string
	Subject   string
	ClientID  string // its audience
	SessionID string // "": all sessions of the subject have ended
	IssuedAt  grant.Instant
	ID        string // its jti
}

// Claims returns the claims of a logout token. A logout token has no nonce, so that no
// client takes it for an id_token.
func (t LogoutToken) Claims() ([]byte, error) {
	at := int64(t.IssuedAt) / 1000
	return json.Marshal(struct {
		Issuer    string              `json:"iss"`
		Subject   string              `json:"sub"`
		Audience  string              `json:"aud"`
		IssuedAt  int64               `json:"iat"`
		ExpiresAt int64               `json:"exp"`
		ID        string              `json:"jti"`
		SessionID string              `json:"sid,omitempty"`
		Events    map[string]struct{} `json:"events"`
	}{t.Issuer, t.Subject, t.ClientID, at, at + logoutLifetime, t.ID, t.SessionID, map[string]struct{}{LogoutEvent: {}}})
}
