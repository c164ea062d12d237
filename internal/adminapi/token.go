package adminapi

import "time"

// A Token is a token of the admin API, without its text.
type Token struct {
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	Realm      string     `json:"realm,omitempty"` // the only one that it is for
	State      string     `json:"state"`           // active or expired
	CreatedBy  string     `json:"created_by"`
	CreatedAt  *time.Time `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at"` // to the hour; null: never
}

// A TokenRequest is the body of POST /admin/v1/admin-tokens.
type TokenRequest struct {
	Name      string `json:"name"`
	Role      string `json:"role"`
	Realm     string `json:"realm,omitempty"`      // the only one that it is for
	ExpiresIn string `json:"expires_in,omitempty"` // such as 90d, which it is if absent
}

// A NewToken is its answer: the only one that has the text.
type NewToken struct {
	Token     string     `json:"token"`
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	Realm     string     `json:"realm,omitempty"`
	ExpiresAt *time.Time `json:"expires_at"`
}
