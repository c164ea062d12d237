package adminapi

import (
	"encoding/json"
	"time"

	"github.com/mintage/mintage/internal/claims"
)

// UserStates are the states that a user can have.
var UserStates = []string{"enabled", "disabled"}

// A User is a built-in user, without anything secret.
type User struct {
	Username      string        `json:"username"`
	Name          string        `json:"name"`
	Subject       string        `json:"subject"`
	Claims        claims.Claims `json:"claims,omitempty"` // without Username and Name
	State         string        `json:"state"`
	SecondFactor  bool          `json:"second_factor"`
	SessionsEnded *time.Time    `json:"sessions_ended_at"`
	CreatedAt     *time.Time    `json:"created_at"`
	UpdatedAt     *time.Time    `json:"updated_at"`
	Events        []Event       `json:"events,omitempty"` // only in the output of a command
}

// A UserDocument is the body of POST /admin/v1/users.
type UserDocument struct {
	Username string        `json:"username"`
	Name     string        `json:"name,omitempty"`
	Subject  string        `json:"subject,omitempty"` // the username if absent
	Claims   claims.Claims `json:"claims,omitempty"`
	Password string        `json:"password,omitempty"` // generated if absent
	// PasswordHash is a hash from another system: argon2id in PHC format.
	PasswordHash string `json:"password_hash,omitempty"`
}

// An ImportRequest is the body of POST /admin/v1/imports.
type ImportRequest struct {
	Users  []ImportedUser `json:"users"` // at most MaxImport
	DryRun bool           `json:"dry_run,omitempty"`
}

// MaxImport is the largest number of users of an ImportRequest.
const MaxImport = 100

// An ImportedUser is a user of another system. Without a hash of a password, the user
// cannot log in until a password is set.
type ImportedUser struct {
	Username     string        `json:"username"`
	Name         string        `json:"name,omitempty"`
	Subject      string        `json:"subject,omitempty"` // the username if absent
	Claims       claims.Claims `json:"claims,omitempty"`
	PasswordHash string        `json:"password_hash,omitempty"` // argon2id in PHC text
}

// Imported counts the users of an ImportRequest that were created, and that existed.
type Imported struct {
	Created  int `json:"created"`
	Existing int `json:"existing"`
}

// A UserPatch is the body of PATCH .../users/{username}: a merge patch (RFC 7396), in which
// null removes a member.
type UserPatch struct {
	Name   json.RawMessage `json:"name,omitempty"`
	Claims claims.Claims   `json:"claims,omitempty"`
}

// A NewPassword is the answer to a new password.
type NewPassword struct {
	Password string `json:"password,omitempty"` // generated, shown once
	User     User   `json:"user"`
}

// A PasswordRequest is the body of POST .../password.
type PasswordRequest struct {
	Password  string `json:"password,omitempty"` // generated if absent
	EndGrants bool   `json:"end_grants,omitempty"`
}

// A NewSecondFactor is the answer to a new second factor.
type NewSecondFactor struct {
	Secret string `json:"secret"`
	URI    string `json:"uri"`
	User   User   `json:"user"`
}
