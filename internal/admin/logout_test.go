package admin_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/store"
)

// Whatever ends sessions stores, in the same commit, that clients must be notified.
func TestEverythingThatEndsSessionsStoresALogout(t *testing.T) {
	session := [16]byte{1, 2, 3}
	for _, c := range []struct {
		name string
		do   func(a *admin.Admin) error
		of   string // "" for nothing, "all", or a session
	}{
		{"cut a subject off", func(a *admin.Admin) error { _, err := a.Grants().CutOff(t.Context(), "alice", ""); return err }, "all"},
		{"cut a client off", func(a *admin.Admin) error { _, err := a.Grants().CutOff(t.Context(), "", "billing"); return err }, ""},
		{"cut a client of a subject off", func(a *admin.Admin) error {
			_, err := a.Grants().CutOff(t.Context(), "alice", "billing")
			return err
		}, ""},
		{"disable", func(a *admin.Admin) error { _, err := a.Users().Disable(t.Context(), "alice", ""); return err }, "all"},
		{"enable", func(a *admin.Admin) error { _, err := a.Users().Enable(t.Context(), "alice", ""); return err }, ""},
		{"password", func(a *admin.Admin) error {
			_, _, err := a.Users().SetPassword(t.Context(), "alice", "", "", false)
			return err
		}, "all"},
		{"password and grants", func(a *admin.Admin) error {
			_, _, err := a.Users().SetPassword(t.Context(), "alice", "", "", true)
			return err
		}, "all"},
		{"second factor", func(a *admin.Admin) error { _, _, err := a.Users().SetTOTP(t.Context(), "alice", ""); return err }, "all"},
		{"rename", func(a *admin.Admin) error {
			name := "Alice B"
			_, err := a.Users().Update(t.Context(), "alice", "", &name, nil)
			return err
		}, ""},
		{"end one session", func(a *admin.Admin) error {
			_, err := a.Sessions().End(t.Context(), "alice", grant.SessionName(session))
			return err
		}, hex.EncodeToString(session[:])},
		{"end all sessions", func(a *admin.Admin) error { _, err := a.Grants().CutOff(t.Context(), "alice", ""); return err }, "all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := newAdmin(t)
			a.Policy.MaxSkew = 2 * time.Second
			ctx := t.Context()
			if _, _, err := a.Users().Create(ctx, account.Registration{Username: "alice", Subject: "alice"}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := a.Clients().Create(ctx, billing(), "enabled"); err != nil {
				t.Fatal(err)
			}
			at := grant.At(a.Now())
			if err := a.Store.CreateGrant(ctx, grant.Grant{
				ID: grant.ID{1}, Realm: a.Realm, ClientID: "billing", Subject: "alice", Scope: "read", AuthorizedAt: at, Facts: grant.Facts{Session: session},
				Generation: 1, Version: 1, RotatedAt: at, ExpiresAt: at.Add(time.Hour), DeleteAfter: at.Add(time.Hour), State: grant.Active,
			}); err != nil {
				t.Fatal(err)
			}
			if err := c.do(a); err != nil {
				t.Fatal(err)
			}
			list, err := logout.Of(ctx, a.Store, a.Realm, "alice")
			if err != nil {
				t.Fatal(err)
			}
			if (len(list) == 0) != (c.of == "") || len(list) > 1 {
				t.Fatalf("%d logouts: %+v", len(list), list)
			}
			if c.of == "" {
				return
			}
			if got := list[0].Session; got != c.of && (got != "" || c.of != "all") {
				t.Errorf("it is about %q, not %q", got, c.of)
			}
			if c.of == "all" && (list[0].At < at.Add(a.Policy.MaxSkew) || !list[0].Concerns(session, at)) {
				t.Errorf("until %d, and the session began at %d", list[0].At, at)
			}
			cuts, _, err := a.Grants().Cutoffs(ctx, "alice", "", adminapi.Page{Limit: 1})
			if err != nil || len(cuts) > 0 && list[0].At < cuts[0].At {
				t.Errorf("until %d, and the cutoffs are %+v, %v", list[0].At, cuts, err)
			}
		})
	}
}

// A server may revoke a session's grants before the command that ends the session does.
// The command still counts them, once, and each revocation is recorded once.
func TestEndSessionsCountsWhatAServerWasFasterWith(t *testing.T) {
	a, _ := newAdmin(t)
	ctx, session := t.Context(), [16]byte{1, 2, 3}
	st := &faster{Store: a.Store}
	a.Store = st
	var late grant.Grant
	for i := range byte(5) {
		at := grant.At(a.Now())
		late = grant.Grant{
			ID: grant.ID{i + 1}, Realm: a.Realm, ClientID: "billing", Subject: "alice", Scope: "openid", AuthorizedAt: at, Facts: grant.Facts{Session: session},
			Generation: 1, Version: 1, RotatedAt: at, ExpiresAt: at.Add(time.Hour), DeleteAfter: at.Add(time.Hour), State: grant.Active,
		}
		if i == 4 {
			break // a grant that begins between the list and the end
		}
		if err := a.Store.CreateGrant(ctx, late); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Grants().Revoke(ctx, grant.ID{1}); err != nil { // revoked before
		t.Fatal(err)
	}
	st.ended = func() {
		if err := st.CreateGrant(ctx, late); err != nil {
			t.Fatal(err)
		}
		var e issuer.SessionEnd
		list, err := st.Documents(ctx, store.DocumentFilter{Kind: store.DocumentSessionEnd, Limit: 10})
		if err != nil || len(list) != 1 || json.Unmarshal(list[0].Body, &e) != nil || !e.Grants || e.Actor != a.Actor.String() || e.Detail != "with session "+grant.SessionName(session) {
			t.Fatalf("the end does not say who and why: %+v, %v", list, err)
		}
		if err := st.UpdateGrant(ctx, grant.ID{2}, func(g grant.Grant) (grant.Grant, []store.Event) { return e.Revoke(g, g.AuthorizedAt) }); err != nil {
			t.Fatal(err)
		}
		err = st.UpdateGrant(ctx, grant.ID{3}, func(g grant.Grant) (grant.Grant, []store.Event) { return g.Revoke(grant.ReasonClient).Next, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{3, 0} { // grants 2, 4 and 5: the client itself has revoked 3
		if n, err := a.Sessions().End(ctx, "alice", grant.SessionName(session)); err != nil || n != want {
			t.Errorf("%d grants, %v; want %d", n, err, want)
		}
		st.ended = nil
	}
	for _, id := range []grant.ID{{2}, {4}, {5}} {
		events, err := a.Events(ctx, id.String())
		if err != nil || len(events) != 1 || events[0].Actor != a.Actor.String() || events[0].Detail != "with session "+grant.SessionName(session) {
			t.Errorf("%s: %+v, %v", id, events, err)
		}
	}
}

// faster calls a function when a session has ended.
type faster struct {
	store.Store
	ended func()
}

func (f *faster) Commit(ctx context.Context, c store.Change) error {
	err := f.Store.Commit(ctx, c)
	if f.ended != nil {
		f.ended()
	}
	return err
}
