package adminapi

import "time"

// A Key is a key of the ring, without its key material.
type Key struct {
	ID        string     `json:"id"`
	Purpose   string     `json:"purpose"`
	Phase     string     `json:"phase"`
	CreatedAt *time.Time `json:"created_at"`
	ActiveAt  *time.Time `json:"active_at"`
	// EndsAt is when the phase ends, null if it does not.
	EndsAt *time.Time `json:"ends_at"`
}

// A KeyChange is a key that was made or withdrawn.
type KeyChange struct {
	ID          string     `json:"id"`
	Purpose     string     `json:"purpose"`
	ActiveAt    *time.Time `json:"active_at"`
	WithdrawnAt *time.Time `json:"withdrawn_at,omitempty"`
}

// A RotateRequest is the body of POST /admin/v1/keys/rotate.
type RotateRequest struct {
	Purposes []string `json:"purposes,omitempty"` // all that rotate if absent
	In       string   `json:"in,omitempty"`       // absent: as soon as every verifier can have them
}

// A WithdrawRequest is the body of POST /admin/v1/keys/withdraw.
type WithdrawRequest struct {
	Keys     []string `json:"keys,omitempty"`
	Purposes []string `json:"purposes,omitempty"`
	All      bool     `json:"all,omitempty"`
	DryRun   bool     `json:"dry_run,omitempty"` // only count what would end
}

// A Withdrawal lists and counts what a withdrawal ends, or would end.
type Withdrawal struct {
	Withdrawn []KeyChange `json:"withdrawn"`
	Added     []KeyChange `json:"added"`
	// The lifetimes are how long codes, access tokens and cached key sets from before
	// the withdrawal would have been valid.
	CodeLifetime        string `json:"code_lifetime"`
	AccessTokenLifetime string `json:"access_token_lifetime"`
	JWKSMaxAge          string `json:"jwks_max_age"`
	// Grants and JWTGrants are absent if they could not be counted.
	Grants    *int `json:"grants,omitempty"`
	JWTGrants *int `json:"jwt_grants,omitempty"`
}

// A Secret is a secret of a client in a list, which never contains its text.
type Secret struct {
	ID         string     `json:"id"`
	Stored     string     `json:"stored"`
	CreatedAt  *time.Time `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	State      string     `json:"state"`
	// Revocation is "safe", or why it is not.
	Revocation string `json:"revocation"`
}

// A SecretRequest is the body of POST .../secrets.
type SecretRequest struct {
	ExpiresIn string `json:"expires_in,omitempty"` // such as 90d; until it is revoked if absent
}

// A NewSecret is the answer to a SecretRequest: the only one that contains the secret.
type NewSecret struct {
	ClientID string `json:"client_id"`
	SecretID string `json:"secret_id"`
	Secret   string `json:"client_secret"`
}
