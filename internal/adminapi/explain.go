package adminapi

import (
	"time"

	"github.com/mintage/mintage/internal/audit"
)

// An ExplainRequest is the body of POST /admin/v1/explain. The text is not in the URL,
// because it may be a secret.
type ExplainRequest struct {
	Text    string `json:"text"`              // a token, a code or an id, or what contains one
	Subject string `json:"subject,omitempty"` // whose session the text names
	Recent  bool   `json:"recent,omitempty"`  // read only the end of the audit log
}

// An Explanation explains a token, a code, a request, a grant or a session. Nothing
// secret of the text is in it.
type Explanation struct {
	Kind      string            `json:"kind"`
	Realm     string            `json:"realm,omitempty"` // unless it is the default one
	Authentic *bool             `json:"genuine,omitempty"`
	Now       *Reading          `json:"now,omitempty"`
	Notes     []string          `json:"notes,omitempty"`
	Request   *ExplainedRequest `json:"request,omitempty"`
	Token     *ExplainedToken   `json:"token,omitempty"`
	Code      *ExplainedCode    `json:"code,omitempty"`
	Client    *ExplainedClient  `json:"client,omitempty"`
	Grant     *Grant            `json:"grant,omitempty"`
	Session   *ExplainedSession `json:"session,omitempty"`
	Holders   string            `json:"holders,omitempty"`
	Life      []LifeEntry       `json:"life,omitempty"`
	Trail     string            `json:"trail,omitempty"` // why the audit log could not be read to its end
}

// A Reading is an explanation in words.
type Reading struct {
	Verdict  string `json:"verdict"` // answered, refused, retry (503) or unknown
	Refusal  string `json:"refusal,omitempty"`
	Why      string `json:"why"`
	Response string `json:"told,omitempty"` // the answer to the client
	Next     string `json:"next"`           // what to do
}

// An ExplainedRequest is what the audit log and the server's log contain about a request.
type ExplainedRequest struct {
	ID      string        `json:"id"`
	Refusal string        `json:"refusal,omitempty"`
	Defect  string        `json:"defect,omitempty"`
	Hints   []string      `json:"hints,omitempty"`
	Audit   []audit.Entry `json:"audit"`
	Log     []LogLine     `json:"log"`
}

// A LogLine is a line of the server's log in JSON, as far as explanations use it.
type LogLine struct {
	Time      string  `json:"time"`
	Level     string  `json:"level"`
	Message   string  `json:"msg"`
	RequestID string  `json:"request_id"`
	Status    int     `json:"status,omitempty"`
	Method    string  `json:"method,omitempty"`
	RemoteIP  string  `json:"remote_ip,omitempty"`
	GrantType string  `json:"grant_type,omitempty"`
	ClientID  string  `json:"client_id,omitempty"`
	Took      float64 `json:"dur_ms,omitempty"`
	Reason    string  `json:"reason,omitempty"`
	Error     string  `json:"error,omitempty"`
	GrantID   string  `json:"grant_id,omitempty"`
	TraceID   string  `json:"trace_id,omitempty"`
}

// An ExplainedToken is what a token contains, or else what the row of its grant does.
type ExplainedToken struct {
	Key        string     `json:"key,omitempty"`
	Fault      string     `json:"fault,omitempty"`
	Actors     []string   `json:"actors,omitempty"` // clients that act by it, the present one first
	ID         string     `json:"id,omitempty"`     // of an exchanged token
	GrantID    string     `json:"grant_id,omitempty"`
	Generation uint32     `json:"generation,omitempty"`
	Standing   string     `json:"standing,omitempty"`
	Scope      string     `json:"scope,omitempty"`
	APIs       []string   `json:"apis,omitempty"`
	Audience   []string   `json:"audience,omitempty"`
	RefusedBy  []string   `json:"refused_by,omitempty"`
	Issuer     string     `json:"issuer,omitempty"`
	IssuedAt   *time.Time `json:"issued_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
}

// An ExplainedCode is what an authorization code contains.
type ExplainedCode struct {
	ClientID    string     `json:"client_id"`
	Subject     string     `json:"subject"`
	Scope       string     `json:"scope"`
	RedirectURI string     `json:"redirect_uri,omitempty"`
	APIs        []string   `json:"apis,omitempty"`
	PKCE        bool       `json:"pkce"`
	Redeemed    bool       `json:"redeemed"`
	IssuedAt    *time.Time `json:"issued_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
}

// An ExplainedClient is the client of an explained token, code or grant.
type ExplainedClient struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
}

// An ExplainedSession is a session, and the notifications of its end to clients.
type ExplainedSession struct {
	Session   string            `json:"session,omitempty"` // absent: there is none
	Subject   string            `json:"subject"`
	State     string            `json:"state"`
	AuthTime  *time.Time        `json:"auth_time,omitempty"`
	Began     *time.Time        `json:"began_at,omitempty"`
	ExpiresAt *time.Time        `json:"expires_at,omitempty"`
	Grants    []Grant           `json:"grants"`
	Logouts   []ExplainedLogout `json:"logouts,omitempty"`
}

// An ExplainedLogout is the notification of a logout to one client (back-channel logout).
type ExplainedLogout struct {
	EndedAt  *time.Time `json:"ended_at"`
	All      bool       `json:"all_sessions"`
	ClientID string     `json:"client_id"`
	State    string     `json:"state"`
	Attempts int        `json:"attempts"`
	Answer   string     `json:"answer,omitempty"`
	Next     *time.Time `json:"next_attempt_at,omitempty"`
}

// A LifeEntry is a past or future event in the life of a grant.
type LifeEntry struct {
	At     *time.Time `json:"at"` // null if unknown
	What   string     `json:"what"`
	Actor  string     `json:"actor,omitempty"`
	Detail string     `json:"detail,omitempty"`
}
