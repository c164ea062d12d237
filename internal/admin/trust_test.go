package admin_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// A client that describes itself is trusted by its address, for APIs that are open to it.
func TestTrustsOfClientsThatDescribeThemselves(t *testing.T) {
	a, _ := newAdmin(t)
	const agent, open, closed = "https://agent.example/client.json", "https://open.example", "https://closed.example"
	for id, isOpen := range map[string]bool{open: true, closed: false} {
		if _, err := a.APIs().Create(t.Context(), adminapi.API{ID: id, Name: "A", SelfRegistered: isOpen, Scopes: []adminapi.APIScope{{Name: id[8:12]}}}); err != nil {
			t.Fatal(err)
		}
	}
	good := adminapi.Trust{Issuer: "https://idp.example", Kind: "id-jag", ClientID: agent, APIs: []string{open + " open"}}
	for want, change := range map[string]func(*adminapi.Trust){
		"":                                     func(*adminapi.Trust) {},
		"is closed to clients that describe":   func(v *adminapi.Trust) { v.APIs = []string{closed} },
		"is for --kind id-jag":                 func(v *adminapi.Trust) { v.Kind, v.Subjects = "workload", []string{"system:serviceaccount:shop:a"} },
		`there is no client "http://agent.ex"`: func(v *adminapi.Trust) { v.ClientID = "http://agent.ex" },
		`there is no client "mintage_ci_x"`:    func(v *adminapi.Trust) { v.ClientID = "mintage_ci_x" },
	} {
		v := good
		v.Issuer += "/" + strconv.Itoa(len(want)) // of which there is no trust yet
		change(&v)
		_, err := a.Trusts().Create(t.Context(), v)
		if invalid := (*oauth.Invalid)(nil); want == "" && err != nil || want != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// A trust that is disabled again revokes the grants that were left the last time.
func TestDisablingATrustAgainRevokesTheRest(t *testing.T) {
	a, _ := newAdmin(t)
	const agent, open = "https://agent.example/client.json", "https://open.example"
	if _, err := a.APIs().Create(t.Context(), adminapi.API{ID: open, Name: "A", SelfRegistered: true, Scopes: []adminapi.APIScope{{Name: "open"}}}); err != nil {
		t.Fatal(err)
	}
	v := adminapi.Trust{Issuer: "https://idp.example", Kind: "id-jag", ClientID: agent, APIs: []string{open}, Disabled: true}
	trust, err := a.Trusts().Create(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	left := grant.Grant{
		ID: grant.ID{1}, Realm: "/api", ClientID: agent, Subject: "u", Scope: "open", State: grant.Active, Generation: 1, Version: 1,
		AuthorizedAt: 1, RotatedAt: 1, ExpiresAt: 1 << 50, DeleteAfter: 1 << 50, Facts: grant.Facts{Trust: trust.ID},
	}
	if err := a.Store.CreateGrant(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Trusts().Change(t.Context(), trust.ID, "", v); err != nil {
		t.Fatal(err)
	}
	if g, err := a.Store.Grant(t.Context(), left.ID); err != nil || g.State != grant.Revoked {
		t.Errorf("the grant is %s, %v", g.State, err)
	}
}
