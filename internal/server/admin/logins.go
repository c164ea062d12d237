package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
)

// maxReason is the longest reason of a rejection, in bytes.
const maxReason = 200

func (a *API) loginRequest(x *call, _ *admin.Admin) (any, error) {
	it, c, err := a.logins.Login(x.Context(), x.names[0])
	if err != nil {
		return nil, err
	}
	r := it.Request
	l := adminapi.Login{
		Prompt: prompts(r.Prompt), MaxAge: r.MaxAge, LoginHint: r.LoginHint, Subjects: r.Subjects, ACRValues: it.ACRValues(), UILocales: r.UILocales,
		Fresh: it.Fresh, RequestedAt: it.CreatedAt.Time(), ExpiresAt: it.ExpiresAt.Time(),
	}
	switch {
	case it.Console != "":
		l.ClientName = "Console"
	case c != nil:
		l.ClientID, l.ClientName, l.RedirectHost, l.Scope = c.ID, login.ShownName(c), strings.TrimSuffix(oauth.Host(r.RedirectURI), ":"), r.Scope
	}
	return l, nil
}

// prompts returns the values of the parameter prompt that the client has sent.
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

func (a *API) acceptLogin(x *call, _ *admin.Admin, req adminapi.AcceptRequest) (any, error) {
	who := login.Identity{Subject: req.Subject, Name: req.Name, Claims: string(req.Claims)}
	var ok bool
	if who.Login.ReportedACR = req.ACR; len(req.AMR) > 0 {
		if who.Login.ReportedAMR, ok = openid.JoinAMR(req.AMR); !ok {
			return nil, &oauth.Invalid{Field: "amr", Message: fmt.Sprintf("words of ASCII without spaces and quotes, together at most %d characters", grant.MaxReportedAMR)}
		}
	}
	if !req.AuthTime.IsZero() {
		if who.AuthTime = grant.At(req.AuthTime); who.AuthTime <= 0 {
			return nil, &oauth.Invalid{Field: "auth_time", Message: "is before 1970"}
		}
	}
	if x.actor.Realm != "" { // only an actor of the deployment may sign in an operator
		it, _, err := a.logins.Login(x.Context(), x.names[0])
		if err != nil {
			return nil, err
		}
		if it.Console != "" {
			return nil, &Problem{Problem: adminapi.Problem{Type: "urn:mintage:problem:realm", Title: "belongs to the deployment", Status: http.StatusForbidden,
				Detail: "console logins require an actor of the deployment, and " + x.actor.String() + " belongs to one realm", Advice: "give the login page a token without a realm"}}
		}
	}
	url, err := a.logins.AcceptLogin(x.Context(), x.names[0], who)
	if err != nil {
		return nil, err
	}
	a.log.Info("login accepted", "request_id", x.id, "remote_ip", peerAddress(x.Request))
	return adminapi.ContinueAnswer{ContinueURL: url}, nil
}

func (a *API) rejectLogin(x *call, _ *admin.Admin, req adminapi.RejectRequest) (any, error) {
	if len(req.Reason) > maxReason || strings.ContainsFunc(req.Reason, oauth.IsControl) {
		return nil, &oauth.Invalid{Field: "reason", Message: "at most 200 bytes without control characters"}
	}
	req.Error = cmp.Or(req.Error, oauth.AccessDenied)
	url, err := a.logins.RejectLogin(x.Context(), x.names[0], req.Error)
	if err != nil {
		return nil, err
	}
	a.log.Info("login rejected", "request_id", x.id, "error", string(req.Error), "reason", req.Reason, "remote_ip", peerAddress(x.Request))
	return adminapi.ContinueAnswer{ContinueURL: url}, nil
}

// codes is POST /admin/v1/codes.
func (a *API) codes(x *call, _ *admin.Admin, req adminapi.CodeRequest) (any, error) {
	code, err := a.issuer.Codes().Issue(x.Context(), issuer.Authorization{
		ClientID: req.ClientID, RedirectURI: req.RedirectURI, Subject: req.Subject, Scope: req.Scope, Challenge: req.Challenge,
		AuthTime: req.AuthTime, Claims: req.Claims, Resources: req.Resource,
	})
	if err != nil {
		return nil, err
	}
	a.auditCode(x, req, code)
	a.log.Info("code issued", "request_id", x.id, "client_id", req.ClientID, "grant_id", code.GrantID.String(),
		"scope", string(code.Scope), "remote_ip", peerAddress(x.Request))
	return adminapi.CodeAnswer{
		Code: code.Code, CallbackURL: code.CallbackURL(), Scope: string(code.Scope),
		ExpiresAt: code.ExpiresAt, GrantID: code.GrantID.String(),
	}, nil
}

// announceProbe is POST /admin/v1/probes.
func (a *API) announceProbe(*call, *admin.Admin) (any, error) {
	return adminapi.Probe{Probe: a.Probes.Announce(a.cases.Now())}, nil
}

// probeArrival is GET /admin/v1/probes/{probe}.
func (a *API) probeArrival(x *call, _ *admin.Admin) (any, error) {
	arrival, ok := a.Probes.Arrival(x.names[0], a.cases.Now())
	if !ok {
		return nil, &Problem{Problem: adminapi.Problem{Title: "no such probe", Status: http.StatusNotFound, Detail: "it was not announced to this server, or more than a minute ago"}}
	}
	return arrival, nil
}
