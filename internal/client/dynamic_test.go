package client_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/store"
)

// Who registers itself is no service: of a public client, anybody knows the id.
func TestClientsThatRegisterThemselvesAreNoServices(t *testing.T) {
	t.Parallel()
	d := client.Documents{Realm: "/api", Now: time.Now, Fetch: func(context.Context, string, netip.Prefix) (client.Document, error) {
		return client.Document{Name: "Agent", Auth: store.AuthNone, RedirectURIs: []string{"https://agent.example/cb"}}, nil
	}}
	c, err := d.Client(t.Context(), address, "https://agent.example/cb", netip.Prefix{})
	if err != nil || c.MayUse(store.GrantClientCredentials) || !c.MayUse(store.GrantRefreshToken) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestWithoutRegistrationNoIDIsAdmitted(t *testing.T) {
	t.Parallel()
	var none *client.Registrations
	if none.Admits("mintage_ci_x") {
		t.Error("admitted")
	}
}
