package client_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// A self-registered client gets no tokens for itself: anyone may use the id of a public
// client.
func TestSelfRegisteredClientsGetNoTokensForThemselvesByTheirDocument(t *testing.T) {
	t.Parallel()
	d := client.Documents{Realm: "/api", Now: time.Now, Fetch: func(context.Context, string, netip.Prefix) (client.Document, error) {
		return client.Document{Name: "Agent", Auth: store.AuthNone, GrantTypes: store.DefaultGrantTypes, RedirectURIs: []string{"https://agent.example/cb"}}, nil
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

// TestSealedNamesAreCheckedAgain: an earlier version sealed names with quotation marks,
// which end the quotation on pages.
func TestSealedNamesAreCheckedAgain(t *testing.T) {
	t.Parallel()
	b := testkit.New(t, func(s *testkit.Setup) { s.Schedule.Registrations = true })
	r := client.Registrations{Realm: realm, Directory: b.Directory, Now: b.Clock.Now}
	for name, want := range map[string]string{"Agent": "Agent", `x" is verified by Mintage. "`: "agent.example"} {
		id, err := b.View().Ring.Registrations(realm).Seal(keys.SealedRegistration{Method: 2, Name: name, At: b.At(), Redirects: [][16]byte{keys.RedirectDigest("https://agent.example/cb")}})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := r.Client(id, "https://agent.example/cb"); err != nil || c.Name != want {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}
