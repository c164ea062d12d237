// Package adminapi holds the requests and answers of the admin API, as
// docs/reference/openapi.yaml describes them. The server writes what the command
// line reads: both use these types.
package adminapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// A Problem is an error answer (RFC 9457).
type Problem struct {
	Type   string `json:"type,omitempty"` // absent: about:blank, so that Status is all
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Advice string `json:"advice,omitempty"` // what an operator can do about it
	Field  string `json:"field,omitempty"`  // the member or parameter that is wrong
}

// NoTime says what is wrong with a text that should be a time.
const NoTime = "is not a time in RFC 3339, such as 2026-11-21T09:30:00Z"

// jsonTypes describes types of JSON for people. Its keys are the names that errors of
// encoding/json contain, and kinds of package reflect.
var jsonTypes = map[string]string{
	"string": "a string", "number": "a number", "bool": "true or false",
	"array": "an array", "slice": "an array", "object": "an object", "struct": "an object", "map": "an object",
}

// Misread describes in terms of JSON why encoding/json cannot decode a text: which member
// has a value of the wrong type, and what it must be. whole is the name of the text itself.
func Misread(whole string, err error) string {
	if errors.As(err, new(*time.ParseError)) {
		return NoTime
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	found, _, _ := strings.Cut(wrong.Value, " ") // the value of a number may follow
	return strings.TrimSpace(fmt.Sprintf("%s has %s where %s must be", cmp.Or(wrong.Field, whole), jsonTypes[found], jsonTypes[wrong.Type.Kind().String()]))
}

// Version is the header of an answer to a command with the version of the server.
const Version = "Mintage-Version"

// Agent begins the User-Agent of a command; the version follows.
const Agent = "mintage/"

// A Page selects a part of a sorted list (keyset pagination).
type Page struct {
	Match string // contained in one of the names, in any case
	State string
	After string // key of the last item of the page before
	Limit int
}

// MaxLimit is the largest number of items that a command lists, and MaxPage the
// largest of one answer.
const (
	MaxLimit = 100000
	MaxPage  = 1000
)

// Check checks the page of a list whose items have one of the states.
func (p Page) Check(states ...string) error {
	if p.State != "" && !slices.Contains(states, p.State) {
		return &oauth.Invalid{Field: "state", Message: fmt.Sprintf("%q is none of %s", p.State, strings.Join(states, ", "))}
	}
	if p.Limit < 1 || p.Limit > MaxLimit {
		return &oauth.Invalid{Field: "limit", Message: fmt.Sprintf("%d is outside 1 to %d", p.Limit, MaxLimit)}
	}
	return nil
}

// An Event is a recorded change.
type Event struct {
	At     *time.Time `json:"at"`
	Name   string     `json:"name"`
	Actor  string     `json:"actor"`
	Detail string     `json:"detail"`
}

// A CodeRequest is the body of POST /admin/v1/codes.
type CodeRequest struct {
	ClientID    string `json:"client_id"`
	RedirectURI string `json:"redirect_uri"`
	Subject     string `json:"subject"`
	Scope       string `json:"scope,omitempty"`          // all of the client's if absent
	Challenge   string `json:"code_challenge,omitempty"` // S256

	AuthTime time.Time       `json:"auth_time,omitzero"`
	Claims   json.RawMessage `json:"claims,omitempty"` // an object
	// Resource are ids of APIs, which the access tokens name.
	Resource []string `json:"resource,omitempty"`
}

// A CodeAnswer is the answer to a CodeRequest.
type CodeAnswer struct {
	Code        string    `json:"code"`
	CallbackURL string    `json:"callback_url"`
	Scope       string    `json:"scope"`
	ExpiresAt   time.Time `json:"expires_at"`
	GrantID     string    `json:"grant_id"`
}

// A Login is a login that was handed off to the provider's own login page: the client that
// requested it, and what the login must fulfil.
type Login struct {
	ClientID     string      `json:"client_id,omitempty"` // absent: the login is for the account pages
	ClientName   string      `json:"client_name,omitempty"`
	RedirectHost string      `json:"redirect_host,omitempty"`
	Scope        oauth.Scope `json:"scope,omitempty"`
	Prompt       []string    `json:"prompt,omitempty"`
	MaxAge       *int        `json:"max_age,omitempty"` // seconds
	LoginHint    string      `json:"login_hint,omitempty"`
	Subjects     []string    `json:"subjects,omitempty"`   // the client accepts only one of these
	ACRValues    []string    `json:"acr_values,omitempty"` // that the login should have, the best first
	UILocales    string      `json:"ui_locales,omitempty"`
	// Fresh means that the user must log in now: an existing session is not enough.
	Fresh       bool      `json:"fresh"`
	RequestedAt time.Time `json:"requested_at"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// An AcceptRequest is the body of POST /admin/v1/logins/{challenge}/accept.
type AcceptRequest struct {
	Subject  string          `json:"subject"`
	AuthTime time.Time       `json:"auth_time,omitzero"` // now if absent
	Name     string          `json:"name,omitempty"`     // of the user, for greetings
	Claims   json.RawMessage `json:"claims,omitempty"`   // an object
	ACR      string          `json:"acr,omitempty"`      // of the login, for id_tokens
	AMR      []string        `json:"amr,omitempty"`
}

// A RejectRequest is the body of POST /admin/v1/logins/{challenge}/reject.
type RejectRequest struct {
	Error  oauth.ErrorCode `json:"error,omitempty"`  // access_denied if absent
	Reason string          `json:"reason,omitempty"` // for the log
}

// A ContinueAnswer is the answer to an AcceptRequest or a RejectRequest.
type ContinueAnswer struct {
	ContinueURL string `json:"continue_url"` // where the browser goes
}

// A Probe is the answer of POST /admin/v1/probes.
type Probe struct {
	Probe string `json:"probe"`
}

// A RestoreRequest is the body of POST /admin/v1/restores.
type RestoreRequest struct {
	BackupTime time.Time `json:"backup_time"` // when the backup began
}

// A Restore is a restore that was declared.
type Restore struct {
	At      *time.Time `json:"at"`
	Backup  *time.Time `json:"backup"`
	Until   *time.Time `json:"until"`
	InForce bool       `json:"in_force"`
	// ClockIsBehind reports, in the answer to a RestoreRequest, that the server's clock is
	// behind by more than a restore tolerates.
	ClockIsBehind bool `json:"clock_is_behind,omitempty"`
}
