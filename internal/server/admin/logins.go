package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// LoginAnswer is the answer of GET /admin/v1/logins/{challenge} about a login that
// was handed off: who asks for it, and how it has to be.
type LoginAnswer struct {
	ClientID     string      `json:"client_id,omitempty"` // absent: the user asks, for the account pages
	ClientName   string      `json:"client_name,omitempty"`
	RedirectHost string      `json:"redirect_host,omitempty"`
	Scope        oauth.Scope `json:"scope,omitempty"`
	Prompt       []string    `json:"prompt,omitempty"`
	MaxAge       *int        `json:"max_age,omitempty"` // seconds
	LoginHint    string      `json:"login_hint,omitempty"`
	Subjects     []string    `json:"subjects,omitempty"`   // whom the client expects: one of them
	ACRValues    []string    `json:"acr_values,omitempty"` // that the login should have, the best first
	UILocales    string      `json:"ui_locales,omitempty"`
	// Fresh says that the user must log in now: a session of before does not do.
	Fresh       bool      `json:"fresh"`
	RequestedAt time.Time `json:"requested_at"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// AcceptRequest is the body of POST /admin/v1/logins/{challenge}/accept.
type AcceptRequest struct {
	Subject  string          `json:"subject"`
	AuthTime time.Time       `json:"auth_time,omitzero"` // now if absent
	Name     string          `json:"name,omitempty"`     // to greet the user by
	Claims   json.RawMessage `json:"claims,omitempty"`   // an object
	ACR      string          `json:"acr,omitempty"`      // of the login, for id_tokens
	AMR      []string        `json:"amr,omitempty"`
}

// RejectRequest is the body of POST /admin/v1/logins/{challenge}/reject.
type RejectRequest struct {
	Error  oauth.ErrorCode `json:"error,omitempty"`  // access_denied if absent
	Reason string          `json:"reason,omitempty"` // for the log
}

// ContinueAnswer is what both return.
type ContinueAnswer struct {
	ContinueURL string `json:"continue_url"` // where the browser goes
}

// maxReason bounds a reason, in bytes.
const maxReason = 200

// answerLogin makes a handler of what is done with a challenge.
func answerLogin(handle func(x *call, challenge string) (any, error)) func(*call, string) (int, any, *Problem) {
	return func(x *call, challenge string) (int, any, *Problem) {
		body, err := handle(x, challenge)
		if err != nil {
			return 0, nil, loginProblem(err)
		}
		return http.StatusOK, body, nil
	}
}

func (a *Admin) loginRequest(x *call, challenge string) (any, error) {
	l, err := a.logins.Login(x.Context(), challenge)
	if err != nil {
		return nil, err
	}
	return LoginAnswer{
		ClientID: l.ClientID, ClientName: l.ClientName, RedirectHost: l.RedirectHost, Scope: l.Scope, Prompt: prompts(l.Prompt),
		MaxAge: l.MaxAge, LoginHint: l.LoginHint, Subjects: l.Subjects, ACRValues: l.ACRValues, UILocales: l.UILocales, Fresh: l.Fresh, RequestedAt: l.RequestedAt, ExpiresAt: l.ExpiresAt,
	}, nil
}

// prompts are the words that the client has sent.
func prompts(p oauth.Prompt) (list []string) {
	for _, word := range []struct {
		sent bool
		name string
	}{{p.None, "none"}, {p.Login, "login"}, {p.Consent, "consent"}, {p.SelectAccount, "select_account"}} {
		if word.sent {
			list = append(list, word.name)
		}
	}
	return list
}

func (a *Admin) acceptLogin(x *call, challenge string) (any, error) {
	var req AcceptRequest
	if p := x.read(&req); p != nil {
		return nil, p
	}
	who := login.Identity{Subject: req.Subject, Name: req.Name, Claims: string(req.Claims)}
	var ok bool
	if who.Login.SaidACR = req.ACR; len(req.AMR) > 0 {
		if who.Login.SaidAMR, ok = openid.JoinAMR(req.AMR); !ok {
			return nil, &oauth.Invalid{Field: "amr", Message: fmt.Sprintf("words of ASCII without spaces and quotes, together at most %d characters", grant.MaxSaidAMR)}
		}
	}
	if !req.AuthTime.IsZero() {
		if who.AuthTime = grant.At(req.AuthTime); who.AuthTime <= 0 {
			return nil, &oauth.Invalid{Field: "auth_time", Message: "is before 1970"}
		}
	}
	url, err := a.logins.AcceptLogin(x.Context(), challenge, who)
	if err != nil {
		return nil, err
	}
	a.log.Info("login accepted", "request_id", x.id, "remote_ip", peerAddress(x.Request))
	return ContinueAnswer{url}, nil
}

func (a *Admin) rejectLogin(x *call, challenge string) (any, error) {
	var req RejectRequest
	if p := x.read(&req); p != nil {
		return nil, p
	}
	if len(req.Reason) > maxReason || strings.ContainsFunc(req.Reason, oauth.IsControl) {
		return nil, &oauth.Invalid{Field: "reason", Message: "at most 200 bytes without control characters"}
	}
	if req.Error == "" {
		req.Error = oauth.AccessDenied
	}
	url, err := a.logins.RejectLogin(x.Context(), challenge, req.Error)
	if err != nil {
		return nil, err
	}
	a.log.Info("login rejected", "request_id", x.id, "error", string(req.Error), "reason", req.Reason, "remote_ip", peerAddress(x.Request))
	return ContinueAnswer{url}, nil
}

// loginProblem is the answer about an error of a challenge, and what to do.
func loginProblem(err error) *Problem {
	var malformed *Problem
	switch {
	case errors.As(err, &malformed):
		return malformed
	case errors.Is(err, login.ErrInteraction):
		return &Problem{Title: "no such login", Status: http.StatusNotFound,
			Detail: "the challenge is unknown: pass it on as it came, and let the user start again at the application"}
	case errors.Is(err, login.ErrExpired):
		return &Problem{Title: "login expired", Status: http.StatusGone,
			Detail: "the user took too long: let the user start again at the application"}
	case errors.Is(err, login.ErrAnswered):
		return &Problem{Title: "login answered before", Status: http.StatusConflict,
			Detail: "something else was said about this login, or it has gone on: let the user start again at the application"}
	}
	return problem(err)
}

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
