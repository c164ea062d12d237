package web_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/upstream"
	"github.com/mintage/mintage/internal/web"
)

// The metadata lists only claims that the login mode can provide.
func TestClaimsInTheMetadataFollowTheWayOfLogin(t *testing.T) {
	t.Parallel()
	provider := func(mapped map[string]string) *web.Front {
		return &web.Front{Upstream: upstream.New(upstream.Config{Claims: mapped, Now: time.Now})}
	}
	for _, c := range []struct {
		about    string
		front    *web.Front
		has, not []string
		classes  bool
	}{
		{"built-in users", &web.Front{Users: &account.Users{}}, []string{"sub", "sid", "acr", "amr", "email_verified", "address"}, nil, true},
		{"handoff", &web.Front{Handoff: "https://portal.example/login"}, []string{"sub", "sid", "acr", "amr", "email_verified", "address"}, nil, false},
		{"upstream", provider(map[string]string{"email": "mail", "name": "name"}), []string{"sub", "sid", "acr", "amr", "email", "name"}, []string{"email_verified", "mail"}, false},
		{"upstream without a mapping", provider(nil), []string{"sub", "auth_time", "acr", "amr"}, []string{"email", "name"}, false},
	} {
		m := c.front.Metadata()
		list, _ := m["claims_supported"].([]string)
		if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("%s: %v is not a sorted set", c.about, list)
		}
		for _, name := range c.has {
			if !slices.Contains(list, name) {
				t.Errorf("%s: %s is missing", c.about, name)
			}
		}
		for _, name := range c.not {
			if slices.Contains(list, name) {
				t.Errorf("%s: %s is there", c.about, name)
			}
		}
		if _, there := m["acr_values_supported"]; there != c.classes {
			t.Errorf("%s: acr_values_supported is there: %t", c.about, there)
		}
	}
}

// The member is absent if documents are off: clients then register dynamically instead.
func TestDocumentsAreInTheMetadataIfTheyAreOn(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		f := &web.Front{Users: &account.Users{}, Documents: on}
		if value, there := f.Metadata()["client_id_metadata_document_supported"]; there != on || on && value != true {
			t.Errorf("on %t: %v", on, value)
		}
	}
}
