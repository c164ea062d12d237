package adminapi

import (
	"encoding/json"
	"time"
)

// A Grant is what a user has granted to a client.
type Grant struct {
	ID           string          `json:"id"`
	State        string          `json:"state"`
	Reason       string          `json:"reason,omitempty"`
	ClientID     string          `json:"client_id"`
	Subject      string          `json:"subject"`
	Claims       json.RawMessage `json:"claims,omitempty"`
	Scope        string          `json:"scope"`
	APIs         []string        `json:"apis,omitempty"`    // that the user agreed to; see show.APIs
	Session      string          `json:"session,omitempty"` // that made it; see grant.SessionName
	AuthTime     *time.Time      `json:"auth_time,omitempty"`
	AuthorizedAt *time.Time      `json:"authorized_at"`
	Generation   uint32          `json:"generation"`
	RotatedAt    *time.Time      `json:"rotated_at"`
	ExpiresAt    *time.Time      `json:"expires_at"`
	DeleteAfter  *time.Time      `json:"delete_after"`
	Key          string          `json:"key,omitempty"` // that made its tokens; not in lists
	Cutoff       *time.Time      `json:"cutoff,omitempty"`
	Events       []Event         `json:"events,omitempty"` // only in the output of a command
}

// A Session is a session of a subject with the grants that it made.
type Session struct {
	Session   string     `json:"session"`
	Subject   string     `json:"subject"`
	State     string     `json:"state"`
	Username  string     `json:"username,omitempty"` // of a built-in user
	AuthTime  *time.Time `json:"auth_time,omitempty"`
	Began     *time.Time `json:"began_at,omitempty"` // at its latest login
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	Grants    []Grant    `json:"grants"`
}

// A SessionRequest is the body of POST /admin/v1/sessions/end.
type SessionRequest struct {
	Subject string `json:"subject"`
	Session string `json:"session,omitempty"` // all if absent
}

// EndedSessions is the answer to a SessionRequest.
type EndedSessions struct {
	Subject string `json:"subject"`
	Session string `json:"session,omitempty"` // absent: all
	// Grants is the number of active grants that ended or, for a cutoff, of those that it
	// covers, at most MaxCovered. It is absent if they could not be counted.
	Grants *int       `json:"grants,omitempty"`
	Cutoff *time.Time `json:"cutoff,omitempty"`
}

// A CutoffRequest is the body of POST /admin/v1/cutoffs.
type CutoffRequest struct {
	Subject  string `json:"subject,omitempty"`
	ClientID string `json:"client_id,omitempty"`
}

// A Cutoff ends everything that was authorized until an instant.
type Cutoff struct {
	Subject  string     `json:"subject,omitempty"`
	ClientID string     `json:"client_id,omitempty"`
	At       *time.Time `json:"at"`
}

// A NewCutoff is a cutoff, and how many grants of the store it covers, at most
// MaxCovered; absent if they could not be counted.
type NewCutoff struct {
	Cutoff
	Grants *int `json:"grants,omitempty"`
}

// MaxCovered is the number of grants at which the count of those that a cutoff covers ends.
const MaxCovered = 10000
