package adminapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A Trust lets a client present assertions of an issuer as a grant. What a request leaves
// out has its default; the id and the instants in it are ignored. The issuer, the kind and
// the client of a trust never change.
type Trust struct {
	ID       string   `json:"id,omitempty"`
	Issuer   string   `json:"issuer"`
	Kind     string   `json:"kind"`
	ClientID string   `json:"client_id"`
	Disabled bool     `json:"disabled"`
	APIs     []string `json:"apis"`
	// The keys are JWKS, or at JWKSURI, or else at the jwks_uri of the issuer's metadata.
	JWKS         json.RawMessage `json:"jwks,omitempty"`
	JWKSURI      string          `json:"jwks_uri,omitempty"`
	JWKSCA       string          `json:"jwks_ca,omitempty"`
	Audience     string          `json:"audience,omitempty"`
	MaxLifetime  string          `json:"max_lifetime,omitempty"`
	Tenant       string          `json:"tenant,omitempty"`
	Subjects     []string        `json:"subjects,omitempty"`
	SubjectFrom  string          `json:"subject_from,omitempty"`
	EmailDomains []string        `json:"email_domains,omitempty"`
	CreatedAt    *time.Time      `json:"created_at,omitempty"`
	UpdatedAt    *time.Time      `json:"updated_at,omitempty"`
	Events       []Event         `json:"events,omitempty"` // only in the output of a command
}

// Changes describes in one line how t differs from old, "" if it does not.
func (t Trust) Changes(old Trust) string {
	var list []string
	was := old.Settings()
	for i, s := range t.Settings() {
		if s[1] != was[i][1] {
			list = append(list, fmt.Sprintf("%s %q, was %q", s[0], s[1], was[i][1]))
		}
	}
	if string(t.JWKS) != string(old.JWKS) {
		list = append(list, "jwks")
	}
	if t.JWKSCA != old.JWKSCA {
		list = append(list, "jwks ca")
	}
	return strings.Join(list, "; ")
}

// Settings returns names and values of the settings, except keys and certificates.
func (t Trust) Settings() [][2]string {
	return [][2]string{{"disabled", fmt.Sprint(t.Disabled)}, {"apis", strings.Join(t.APIs, ", ")}, {"jwks uri", t.JWKSURI}, {"audience", t.Audience},
		{"max lifetime", t.MaxLifetime}, {"tenant", t.Tenant}, {"subjects", strings.Join(t.Subjects, ", ")}, {"subject from", t.SubjectFrom},
		{"email domains", strings.Join(t.EmailDomains, ", ")}}
}

// An AssertionRequest is the body of POST /admin/v1/assertions, which tests an assertion.
type AssertionRequest struct {
	Assertion string `json:"assertion"`
}

// An AssertionVerdict is the outcome that an assertion would have if the client of its trust
// presented it now. Nothing is recorded.
type AssertionVerdict struct {
	Accepted bool               `json:"accepted"`
	Trust    *Trust             `json:"trust"` // null: no trust covers the assertion
	Subject  string             `json:"subject,omitempty"`
	Scope    string             `json:"scope,omitempty"` // that its client would get
	Findings []AssertionFinding `json:"findings"`
}

// An AssertionFinding is the result of one rule for an assertion. The first fault decides.
type AssertionFinding struct {
	Claim string `json:"claim"`
	Fault string `json:"fault,omitempty"`
}
