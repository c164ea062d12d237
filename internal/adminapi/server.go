package adminapi

import (
	"time"

	"github.com/mintage/mintage/internal/audit"
)

// A Realm is a realm of the deployment.
type Realm struct {
	Name   string `json:"name"`
	Issuer string `json:"issuer"`
	Login  string `json:"login"` // where its users authenticate: login.mode
}

// Realms is the list of realms, the default one first.
type Realms struct {
	Realms []Realm `json:"realms"`
}

// Settings are the settings of the server that answers. Passwords are left out.
type Settings struct {
	Settings []SettingValue `json:"settings"`
	// OnReload and OnRestart name what a reload and a restart would change, by the present
	// configuration on the server's machine. Faults are why that cannot be used.
	OnReload  []string `json:"on_reload"`
	OnRestart []string `json:"on_restart"`
	Faults    []string `json:"faults"`
}

// A SettingValue is a setting, and where its value comes from.
type SettingValue struct {
	Name    string `json:"name"` // as in the file: tls.cert
	Group   string `json:"group"`
	Value   string `json:"value"` // items of a list are separated by commas
	Source  string `json:"source"`
	Given   bool   `json:"given"`   // it is not the default
	Reloads bool   `json:"reloads"` // a reload applies another value; other settings need a restart
}

// A Checkup is what the server that answers found when it last examined the deployment, as
// mintage doctor does.
type Checkup struct {
	Running  bool       `json:"running"`           // another checkup is running
	At       *time.Time `json:"at,omitempty"`      // nil: there was none since the start
	Verdict  string     `json:"verdict,omitempty"` // the level of the worst finding
	Findings []Finding  `json:"findings"`
}

// A Finding is one line of a checkup.
type Finding struct {
	Check  string `json:"check"`
	Level  string `json:"level"` // ok, note, unknown, warning or fault
	Text   string `json:"finding"`
	Advice string `json:"advice,omitempty"`
}

// Traffic counts what all nodes have answered in a period, in equal steps.
type Traffic struct {
	From   time.Time `json:"from"`
	Step   int       `json:"step_seconds"`
	Series []Series  `json:"series"`
}

// A Series is one thing that is counted: requests, refreshes, codes, logins, or a cause of
// errors.
type Series struct {
	Name   string   `json:"name"`
	Error  bool     `json:"error,omitempty"` // it is a cause of errors
	Total  uint64   `json:"total"`
	Counts []uint64 `json:"counts"` // one for each step, the earliest first
}

// Periods are the periods of Traffic: the length of each, and its step.
var Periods = map[string][2]time.Duration{
	"hour": {time.Hour, 5 * time.Minute}, "day": {24 * time.Hour, 5 * time.Minute}, "week": {7 * 24 * time.Hour, time.Hour},
}

// AuditRecords is a page of the audit log of the machine that answers, the latest record
// first.
type AuditRecords struct {
	Records []audit.Entry `json:"records"`
	// Next is the value of before for the records before these; absent: there is none.
	Next uint64 `json:"next,omitempty"`
}

// An AuditHead names the last record of the audit log of the machine that answers. Kept
// elsewhere, it proves that nothing before it was removed or rewritten.
type AuditHead struct {
	Chain string `json:"chain"`
	Seq   uint64 `json:"seq"`
	Hash  string `json:"hash"`
}

// A Watch lists the requests of a client to the server that answers, since an operator
// began to watch. It ends ten minutes after it was last read.
type Watch struct {
	Stages   []Stage          `json:"stages"`
	Requests []WatchedRequest `json:"requests"` // at most 50, the earliest first
	Finished bool             `json:"finished"` // every stage is done
}

// A Stage is a first request that a new client of its kind must complete.
type Stage struct {
	Name string `json:"name"` // authorize, device, token or refresh
	Done bool   `json:"done"`
}

// A WatchedRequest is one request of a Watch.
type WatchedRequest struct {
	At        time.Time `json:"at"`
	RequestID string    `json:"request_id"`
	Endpoint  string    `json:"endpoint"`
	GrantType string    `json:"grant_type,omitempty"`
	Answered  bool      `json:"answered"`
	Repeated  bool      `json:"repeated,omitempty"` // the answer was the same token pair again
	Unknown   bool      `json:"unknown,omitempty"`  // no client has its client_id
	Why       string    `json:"why,omitempty"`      // why it was refused
	Next      string    `json:"next,omitempty"`     // what to do
}
