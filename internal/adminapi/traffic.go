package adminapi

import "time"

// Traffic is what all nodes have answered in a period, in equal steps.
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

// Periods are those that traffic is asked about: how long each is, and its step.
var Periods = map[string][2]time.Duration{
	"hour": {time.Hour, 5 * time.Minute}, "day": {24 * time.Hour, 5 * time.Minute}, "week": {7 * 24 * time.Hour, time.Hour},
}
