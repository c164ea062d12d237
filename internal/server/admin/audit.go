package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/oauth"
)

const auditPath = "/admin/v1/audit"

const (
	// maxSearches limits the searches of the audit log that run at once: each may read
	// the whole log.
	maxSearches = 2
	searchTime  = 4 * time.Second
)

// searching limits the time and the concurrency of an action that reads the audit log.
func (a *API) searching(act action) action {
	return func(x *call, u *admin.Admin) (any, error) {
		ctx, cancel := context.WithTimeout(x.Context(), searchTime)
		defer cancel()
		select {
		case a.searches <- struct{}{}:
			defer func() { <-a.searches }()
		case <-ctx.Done():
			return nil, &Problem{Problem: adminapi.Problem{Title: "try again later", Status: http.StatusServiceUnavailable, Detail: "other searches of the audit log are running"}}
		}
		x.Request = x.WithContext(ctx)
		return act(x, u)
	}
}

// explain answers with the server's explanation of a text, from records that the actor
// may read.
func (a *API) explain(x *call, u *admin.Admin, in adminapi.ExplainRequest) (any, error) {
	if in.Text == "" {
		return nil, &oauth.Invalid{Field: "text", Message: "is empty"}
	}
	if a.Explain == nil {
		return nil, noServer("use: mintage explain")
	}
	var realms []string
	if x.actor.Realm != "" {
		realms = []string{u.Realm}
	}
	return a.Explain(x.Context(), in, realms)
}

// auditOff returns the problem of a deployment, or of a command, without an audit log.
func auditOff() *Problem {
	return &Problem{Problem: adminapi.Problem{Type: "urn:mintage:problem:no-audit-log", Title: "no audit log", Status: http.StatusConflict,
		Detail: "no server runs here, or its audit log is off", Advice: "see audit.directory, or use: mintage audit show"}}
}

// listAudit answers with records of the audit log of this machine. Records without a realm
// are about the deployment. They are listed with the default realm, but not if the caller
// is confined to it.
func (a *API) listAudit(x *call, u *admin.Admin) (any, error) {
	if a.AuditDirectory == "" {
		return nil, auditOff()
	}
	p, err := x.page()
	if err != nil {
		return nil, err
	}
	f := audit.Filter{GrantID: x.params.Get("grant_id"), ClientID: x.params.Get("client_id"), Subject: x.params.Get("subject"), RequestID: x.params.Get("request_id"), Realms: []string{u.Realm}}
	if u.Realm == oauth.DefaultRealm && x.actor.Realm == "" {
		f.Realms = append(f.Realms, "")
	}
	if name := x.params.Get("event"); name != "" {
		if f.Events = []audit.Name{audit.Name(name)}; !slices.Contains(audit.Names(), f.Events[0]) {
			return nil, &oauth.Invalid{Field: "event", Message: "is no event"}
		}
	}
	for name, at := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if text := x.params.Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return nil, &oauth.Invalid{Field: name, Message: adminapi.NoTime}
			}
		}
	}
	var before uint64
	if text := x.params.Get("before"); text != "" {
		if before, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, &oauth.Invalid{Field: "before", Message: "is not the number of a record"}
		}
	}
	answer := adminapi.AuditRecords{Records: []audit.Entry{}}
	list, next, err := audit.Last(x.Context(), a.AuditDirectory, f, before, p.Limit)
	answer.Records, answer.Next = append(answer.Records, list...), next
	return answer, err
}

// auditHead answers with the last record that this server has written.
func (a *API) auditHead(*call, *admin.Admin) (any, error) {
	h := a.Audit.Head()
	switch {
	case a.Audit == nil:
		return nil, auditOff()
	case h.Seq == 0:
		return nil, &Problem{Problem: adminapi.Problem{Title: "try again later", Status: http.StatusServiceUnavailable, Detail: "this server has written no record since its start"}}
	}
	return adminapi.AuditHead{Chain: h.Chain, Seq: h.Seq, Hash: h.Hash.String()}, nil
}
