package admin_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A client with a metadata document is trusted by its URL, for APIs that allow
// self-registered clients.
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
		v.Issuer += "/" + strconv.Itoa(len(want)) // a new issuer each time
		change(&v)
		_, err := a.Trusts().Create(t.Context(), v)
		if invalid := (*oauth.Invalid)(nil); want == "" && err != nil || want != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// A trust of a registered client is limited to the client's APIs and to their scopes.
func TestATrustGivesNoMoreThanItsClientHas(t *testing.T) {
	a, _ := newAdmin(t)
	const orders, stock = "https://orders.example", "https://stock.example"
	for _, id := range []string{orders, stock} {
		if _, err := a.APIs().Create(t.Context(), adminapi.API{ID: id, Name: "A", Scopes: []adminapi.APIScope{{Name: id[8:13]}}}); err != nil {
			t.Fatal(err)
		}
	}
	for id, auth := range map[string]store.AuthRule{"agent": store.AuthEither, "page": store.AuthNone, "gone": store.AuthEither} {
		if _, _, err := a.Clients().Create(t.Context(), client.Registration{ID: id, Settings: store.Settings{
			Name: "Agent", Auth: auth, RedirectURIs: []string{"https://agent.example/cb"}, APIs: []string{orders},
		}}, store.ClientEnabled); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Clients().Delete(t.Context(), "gone", ""); err != nil {
		t.Fatal(err)
	}
	fieldOf := func(err error) string {
		if invalid := (*oauth.Invalid)(nil); errors.As(err, &invalid) {
			return invalid.Field
		}
		return ""
	}
	good := adminapi.Trust{Issuer: "https://idp.example", Kind: "id-jag", ClientID: "agent", APIs: []string{orders + " order"}}
	for name, c := range map[string]struct {
		field  string
		change func(*adminapi.Trust)
	}{
		"a deleted client":           {"client_id", func(v *adminapi.Trust) { v.ClientID = "gone" }},
		"a public client":            {"client_id", func(v *adminapi.Trust) { v.ClientID = "page" }},
		"no API":                     {"apis", func(v *adminapi.Trust) { v.APIs = nil }},
		"an API that is not there":   {"apis", func(v *adminapi.Trust) { v.APIs = []string{"https://none.example"} }},
		"an API of others":           {"apis", func(v *adminapi.Trust) { v.APIs = []string{orders, stock} }},
		"a scope of another API":     {"apis", func(v *adminapi.Trust) { v.APIs = []string{orders + " stock"} }},
		"a scope beside a right one": {"apis", func(v *adminapi.Trust) { v.APIs = []string{orders + " order stock"} }},
	} {
		v := good
		c.change(&v)
		if _, err := a.Trusts().Create(t.Context(), v); fieldOf(err) != c.field {
			t.Errorf("%s: %v, want an error about %q", name, err, c.field)
		}
	}
	trust, err := a.Trusts().Create(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Trusts().Create(t.Context(), good); codeOf(err) != admin.Taken {
		t.Errorf("the same again: %v", err)
	}
	other, wider := good, good
	other.Issuer += "/other"
	wider.APIs = append(wider.APIs, stock)
	for _, v := range []adminapi.Trust{other, wider} {
		if _, err := a.Trusts().Change(t.Context(), trust.ID, "", v); fieldOf(err) == "" {
			t.Errorf("changed to %+v: %v", v, err)
		}
	}
	if _, err := a.Trusts().Change(t.Context(), trust.ID, `"stale"`, good); codeOf(err) != admin.Changed {
		t.Errorf("changed with an old ETag: %v", err)
	}
	if err := a.Trusts().Delete(t.Context(), trust.ID, `"stale"`); codeOf(err) != admin.Changed {
		t.Errorf("deleted with an old ETag: %v", err)
	}
	if now, err := a.Trusts().Read(t.Context(), trust.ID); err != nil || now.Version != 1 || len(now.APIs) != 1 {
		t.Errorf("it is %+v, %v", now, err)
	}
	// Changing the lifetime does not move Since, so that existing grants stay active.
	good.MaxLifetime = "10m"
	if now, err := a.Trusts().Change(t.Context(), trust.ID, "", good); err != nil || now.Since != trust.Since {
		t.Errorf("changed, it is %+v, %v", now, err)
	}
}

// Ending a trust again revokes the grants that remained the first time.
func TestEndingATrustAgainRevokesTheRest(t *testing.T) {
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
	for n, end := range []func() error{
		func() error { _, err := a.Trusts().Change(t.Context(), trust.ID, "", v); return err },
		func() error { return a.Trusts().Delete(t.Context(), trust.ID, "") },
		func() error { // deleted before
			if err := a.Trusts().Delete(t.Context(), trust.ID, ""); codeOf(err) != admin.NotFound {
				return fmt.Errorf("a trust that is deleted: %w", err)
			}
			return nil
		},
	} {
		left := grant.Grant{
			ID: grant.ID{byte(n + 1)}, Realm: "/api", ClientID: agent, Subject: "u", Scope: "open", State: grant.Active, Generation: 1, Version: 1,
			AuthorizedAt: 1, RotatedAt: 1, ExpiresAt: 1 << 50, DeleteAfter: 1 << 50, Facts: grant.Facts{Trust: trust.ID},
		}
		if err := a.Store.CreateGrant(t.Context(), left); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if g, err := a.Store.Grant(t.Context(), left.ID); err != nil || g.State != grant.Revoked {
			t.Errorf("step %d: the grant is %s, %v", n, g.State, err)
		}
	}
}
