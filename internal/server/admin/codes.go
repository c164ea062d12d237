package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// CodeRequest is the body of POST /admin/v1/codes.
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

// CodeAnswer is what it returns.
type CodeAnswer struct {
	Code        string    `json:"code"`
	CallbackURL string    `json:"callback_url"`
	Scope       string    `json:"scope"`
	ExpiresAt   time.Time `json:"expires_at"`
	GrantID     string    `json:"grant_id"`
}

// poll is POST /admin/v1/directory/poll: a command has changed clients, cutoffs
// or keys, and does not want to wait until this node looks.
func (a *Admin) poll(x *call, _ string) (int, any, *Problem) {
	a.issuer.Directory.FlushUses(x.Context())
	if err := a.issuer.Directory.Poll(x.Context()); err != nil {
		return 0, nil, problem(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
	}
	return http.StatusOK, struct{}{}, nil
}

// codes is POST /admin/v1/codes.
func (a *Admin) codes(x *call, _ string) (int, any, *Problem) {
	var req CodeRequest
	if p := x.read(&req); p != nil {
		return 0, nil, p
	}
	code, err := a.issuer.IssueCode(x.Context(), issuer.Authorization{
		ClientID: req.ClientID, RedirectURI: req.RedirectURI, Subject: req.Subject, Scope: req.Scope, Challenge: req.Challenge,
		AuthTime: req.AuthTime, Claims: req.Claims, Resources: req.Resource,
	})
	if err != nil {
		return 0, nil, problem(err)
	}
	a.auditCode(x, req, code)
	a.log.Info("code issued", "request_id", x.id, "client_id", req.ClientID, "grant_id", code.GrantID.String(),
		"scope", string(code.Scope), "remote_ip", peerAddress(x.Request))
	return http.StatusCreated, CodeAnswer{
		Code: code.Code, CallbackURL: code.CallbackURL(), Scope: string(code.Scope),
		ExpiresAt: code.ExpiresAt, GrantID: code.GrantID.String(),
	}, nil
}

// ProbeAnswer is what POST /admin/v1/probes returns.
type ProbeAnswer struct {
	Probe string `json:"probe"`
}

// announceProbe is POST /admin/v1/probes.
func (a *Admin) announceProbe(*call, string) (int, any, *Problem) {
	return http.StatusCreated, ProbeAnswer{a.Probes.Announce(a.issuer.Now())}, nil
}

// probeArrival is GET /admin/v1/probes/{probe}.
func (a *Admin) probeArrival(_ *call, name string) (int, any, *Problem) {
	arrival, ok := a.Probes.Arrival(name, a.issuer.Now())
	if !ok {
		return 0, nil, &Problem{Title: "no such probe", Status: http.StatusNotFound, Detail: "it was not announced to this server, or more than a minute ago"}
	}
	return http.StatusOK, arrival, nil
}
