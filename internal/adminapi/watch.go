package adminapi

import "time"

// A Watch is what a client has sent to the server that answers since somebody began to
// look. It ends ten minutes after the last look.
type Watch struct {
	Stages   []Stage          `json:"stages"`
	Requests []WatchedRequest `json:"requests"` // at most 50, the earliest first
	Finished bool             `json:"finished"` // every stage is done
}

// A Stage is something that a client of its kind does first.
type Stage struct {
	Name string `json:"name"` // authorize, device, token or refresh
	Done bool   `json:"done"`
}

// A WatchedRequest is one request.
type WatchedRequest struct {
	At        time.Time `json:"at"`
	RequestID string    `json:"request_id"`
	Endpoint  string    `json:"endpoint"`
	GrantType string    `json:"grant_type,omitempty"`
	Answered  bool      `json:"answered"`
	Repeated  bool      `json:"repeated,omitempty"` // the same pair again
	Unknown   bool      `json:"unknown,omitempty"`  // its client_id is that of no client
	Why       string    `json:"why,omitempty"`      // why it was refused
	Next      string    `json:"next,omitempty"`     // what to do
}
