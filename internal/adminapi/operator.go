package adminapi

import "time"

// An Operator is a person who may use the console.
type Operator struct {
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	Realm     string     `json:"realm,omitempty"` // the only realm that the role covers
	CreatedBy string     `json:"created_by"`
	CreatedAt *time.Time `json:"created_at"`
	SeenAt    *time.Time `json:"last_sign_in_at"` // null: never
}

// An OperatorRequest is the body of POST /admin/v1/operators.
type OperatorRequest struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Realm string `json:"realm,omitempty"` // the only realm that the role covers
}

// An InvitationRequest is the body of POST /admin/v1/console/invitations.
type InvitationRequest struct {
	Operator string `json:"operator"`
}

// A NewInvitation is the answer to an InvitationRequest: the only one with the link.
type NewInvitation struct {
	Operator  string     `json:"operator"`
	URL       string     `json:"url"`
	ExpiresAt *time.Time `json:"expires_at"`
}

// A ConsoleSession is a browser in which an operator has signed in to the console.
type ConsoleSession struct {
	ID       string     `json:"id"`
	Operator string     `json:"operator"`
	How      string     `json:"how"`
	Address  string     `json:"address"`
	BeganAt  *time.Time `json:"began_at"`
	UsedAt   *time.Time `json:"last_used_at"` // to the minute
	EndsAt   *time.Time `json:"ends_at"`      // unless it is used again
}

// A Token is a token of the admin API, without its text.
type Token struct {
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	Realm      string     `json:"realm,omitempty"` // the only realm that the role covers
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
	Realm     string `json:"realm,omitempty"`      // the only realm that the role covers
	ExpiresIn string `json:"expires_in,omitempty"` // such as 90d, the default
}

// A NewToken is the answer to a TokenRequest: the only one with the token's text.
type NewToken struct {
	Token     string     `json:"token"`
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	Realm     string     `json:"realm,omitempty"`
	ExpiresAt *time.Time `json:"expires_at"`
}
