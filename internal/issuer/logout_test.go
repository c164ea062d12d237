package issuer_test

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// The end of a session ends its grants at clients that are registered for this. A later
// look ends the grant of a code that was in flight. No other grant ends.
func TestEndGrantsEndsThoseOfTheSession(t *testing.T) {
	k := testkit.New(t, func(s *testkit.Setup) { s.Schedule.Algorithms = []keys.Purpose{keys.ES256} })
	k.Issuer.IDTokenLifetime = 5 * time.Minute
	register := func(id string, ends bool) *store.Client {
		c, _ := k.Register(client.Registration{
			ID: id, Settings: store.Settings{Name: id, RedirectURIs: []string{"https://client.example/cb"}, Scope: "openid read", Auth: store.AuthEither, NoPKCE: true, IDTokenAlg: keys.ES256, LogoutEndsGrants: ends},
		})
		return &c
	}
	keeps, ends := register("keeps", false), register("ends", true)
	issue := func(c *store.Client, subject string, session byte) string {
		t.Helper()
		code, err := k.Issuer.Codes().Issue(t.Context(), issuer.Authorization{ClientID: c.ID, RedirectURI: "https://client.example/cb", Subject: subject, Scope: "openid", Session: [16]byte{session}})
		if err != nil {
			t.Fatal(err)
		}
		return code.Code
	}
	redeem := func(c *store.Client, code string) grant.ID {
		t.Helper()
		got, err := k.Issuer.Exchange(t.Context(), c, issuer.CodeRequest{Code: code, RedirectURI: "https://client.example/cb"})
		if err != nil {
			t.Fatal(err)
		}
		return got.GrantID
	}
	kept := []grant.ID{redeem(keeps, issue(keeps, "alice", 1)), redeem(ends, issue(ends, "alice", 2)), redeem(ends, issue(ends, "bob", 1)), redeem(ends, issue(ends, "alice", 0))}
	ended := redeem(ends, issue(ends, "alice", 1))
	inFlight := issue(ends, "alice", 1)
	signedOut := issuer.SessionEnd{Subject: "alice", Reference: [16]byte{1}, Actor: "subject:alice", Detail: "the user has signed out"}
	end := func(want int) {
		t.Helper()
		if n, err := k.Issuer.EndGrants(t.Context(), signedOut); n != want || err != nil {
			t.Errorf("%d grants, %v; want %d", n, err, want)
		}
	}
	end(1)
	end(0)
	late := redeem(ends, inFlight)
	end(1)
	// A disabled client may be enabled again, so its grants end, too.
	ofDisabled := redeem(ends, issue(ends, "alice", 1))
	k.Administer("ends", func(c *store.Client) { c.State = store.ClientDisabled })
	end(1)
	for id, want := range map[grant.ID]grant.State{ended: grant.Revoked, late: grant.Revoked, ofDisabled: grant.Revoked, kept[0]: grant.Active, kept[1]: grant.Active, kept[2]: grant.Active, kept[3]: grant.Active} {
		g, err := k.Engine.Grant(t.Context(), id)
		if err != nil || g.State != want || want == grant.Revoked && g.Reason != grant.ReasonLogout {
			t.Errorf("%s is %s (%s), %v", g.ClientID, g.State, g.Reason, err)
		}
	}
	if n, err := k.Issuer.EndGrants(t.Context(), issuer.SessionEnd{Subject: "alice", Grants: true}); n != 0 || err != nil {
		t.Errorf("no session: %d, %v", n, err)
	}
	// The session end of an operator ends all grants of the session.
	if n, err := k.Issuer.EndGrants(t.Context(), issuer.SessionEnd{Subject: "alice", Reference: [16]byte{1}, Grants: true, Actor: "operator:root", Detail: "with the session"}); n != 1 || err != nil {
		t.Errorf("by an operator: %d grants, %v", n, err)
	}
	if g, err := k.Engine.Grant(t.Context(), kept[0]); err != nil || g.State != grant.Revoked || g.Reason != grant.ReasonOperator {
		t.Errorf("%s (%s), %v", g.State, g.Reason, err)
	}
	for id, by := range map[grant.ID]string{ended: "subject:alice: the user has signed out", kept[0]: "operator:root: with the session"} {
		events, err := k.Engine.Events(t.Context(), id.String(), 10)
		if err != nil || len(events) != 1 || events[0].Name != store.EventGrantRevoked || events[0].Actor+": "+events[0].Detail != by {
			t.Errorf("%+v, %v, want %s", events, err, by)
		}
	}
}
