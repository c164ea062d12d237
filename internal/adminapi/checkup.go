package adminapi

import "time"

// A Checkup is what the server that answers found when it last examined the deployment, as
// mintage doctor does.
type Checkup struct {
	Running  bool       `json:"running"`           // another one is
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
