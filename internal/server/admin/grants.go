package admin

import (
	"errors"
	"slices"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	sessionsPath = "/admin/v1/sessions"
	cutoffsPath  = "/admin/v1/cutoffs"
)

func listGrants(x *call, u *admin.Admin) (any, error) {
	x.takeTime()
	var view *directory.View
	read := func(p adminapi.Page) (page []grant.Grant, more bool, err error) {
		f := store.GrantFilter{Subject: x.params.Get("subject"), ClientID: x.params.Get("client_id"), Limit: p.Limit}
		if p.After != "" {
			if f.After, err = grant.ParseID(p.After); err != nil {
				return nil, false, &oauth.Invalid{Field: "after", Message: err.Error()}
			}
		}
		page, view, more, err = u.Grants().List(x.Context(), f)
		return page, more, err
	}
	return pageOf(x, "grants", read, func(g grant.Grant) string { return g.ID.String() }, func(g grant.Grant) any { return u.Grants().View(g, view) })
}

// grantID parses the id of a grant in the path. It returns NotFound if that fails.
func (x *call) grantID() (grant.ID, error) {
	id, err := grant.ParseID(x.names[0])
	if err != nil {
		err = &admin.Error{Code: admin.NotFound, Kind: "grant", ID: x.names[0], Message: err.Error()}
	}
	return id, err
}

func showGrant(x *call, u *admin.Admin) (any, error) {
	id, err := x.grantID()
	if err != nil {
		return nil, err
	}
	g, view, err := u.Grants().Read(x.Context(), id)
	if err != nil {
		return nil, err
	}
	v := u.Grants().View(g, view)
	v.Key = g.KeyID.String()
	return v, nil
}

func revokeGrant(x *call, u *admin.Admin) (any, error) {
	id, err := x.grantID()
	if err != nil {
		return nil, err
	}
	return nil, u.Grants().Revoke(x.Context(), id)
}

func listSessions(x *call, u *admin.Admin) (any, error) {
	views, err := u.Sessions().List(x.Context(), x.params.Get("subject"))
	return list{name: "sessions", items: views}, err
}

func endSessions(x *call, u *admin.Admin, in adminapi.SessionRequest) (any, error) {
	x.takeTime()
	ended := adminapi.EndedSessions{Subject: in.Subject, Session: in.Session}
	switch {
	case in.Subject == "":
		return nil, &oauth.Invalid{Field: "subject", Message: "name a subject"}
	case in.Session != "":
		n, err := u.Sessions().End(x.Context(), in.Subject, in.Session)
		ended.Grants = &n
		return ended, err
	}
	// One cutoff ends everything, also codes that are not redeemed.
	cut, err := u.Grants().CutOff(x.Context(), in.Subject, "")
	if err != nil {
		return nil, err
	}
	ended.Cutoff, ended.Grants = admin.ViewCutoff(cut).At, x.covered(u, cut)
	return ended, nil
}

func listCutoffs(x *call, u *admin.Admin) (any, error) {
	read := func(p adminapi.Page) ([]store.Cutoff, bool, error) {
		return u.Grants().Cutoffs(x.Context(), x.params.Get("subject"), x.params.Get("client_id"), p)
	}
	return pageOf(x, "cutoffs", read, admin.CutoffKey, admin.ViewCutoff)
}

func cutOff(x *call, u *admin.Admin, in adminapi.CutoffRequest) (any, error) {
	x.takeTime()
	cut, err := u.Grants().CutOff(x.Context(), in.Subject, in.ClientID)
	if err != nil {
		return nil, err
	}
	return adminapi.NewCutoff{Cutoff: admin.ViewCutoff(cut), Grants: x.covered(u, cut)}, nil
}

// covered returns the number of grants that a cutoff covers; nil if counting fails.
func (x *call) covered(u *admin.Admin, cut store.Cutoff) *int {
	n, err := u.Grants().Covered(x.Context(), cut)
	if err != nil {
		x.uncounted(err)
		return nil
	}
	return &n
}

func listEvents(x *call, u *admin.Admin) (any, error) {
	if len(x.params) != 1 {
		return nil, &oauth.Invalid{Field: "subject", Message: "name one of subject, client_id, grant_id, api and trust"}
	}
	var name, about string
	for name = range x.params {
		about = x.params.Get(name)
	}
	if about == "" { // from a script whose variable is unset
		return nil, problem(&oauth.Invalid{Field: name, Message: "is empty"})
	}
	if name == "subject" {
		about = store.AboutSubject(about)
	}
	events, err := u.Events(x.Context(), about)
	if invalid := (*oauth.Invalid)(nil); errors.As(err, &invalid) {
		return nil, problem(&oauth.Invalid{Field: name, Message: invalid.Message}) // api is no setting of a client here
	}
	if x.actor.Realm != "" { // events of the deployment may be about the same name
		events = slices.DeleteFunc(events, func(e adminapi.Event) bool { return store.EventName(e.Name).OfDeployment() })
	}
	return list{name: "events", items: events}, err
}

func declareRestore(x *call, u *admin.Admin, in adminapi.RestoreRequest) (any, error) {
	x.takeTime()
	r, seen, err := u.Restores().Declare(x.Context(), grant.At(in.BackupTime), admin.Ended{}, nil)
	now := grant.At(u.Now())
	answer := admin.ViewRestore(r, now)
	answer.ClockIsBehind = admin.ClockIsBehind(now, seen)
	return answer, err
}
