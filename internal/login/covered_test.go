package login

import (
	"testing"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// TestTheCallersResourcesStay: the parameter audience is added to a list of its own.
func TestTheCallersResourcesStay(t *testing.T) {
	t.Parallel()
	list := []string{"https://a.example", "https://b.example"}
	c := &store.Client{RegisteredBy: store.ByRequest, Settings: store.Settings{AudienceParameter: true}}
	r := oauth.AuthorizationRequest{Resources: list[:1], Audience: "https://c.example"}
	if got := (&Authorizer{}).covered(&Stage{view: testkit.New(t).View(), Client: c}, r); len(got.Resources) != 2 || list[1] != "https://b.example" {
		t.Errorf("%q; the caller's are %q", got.Resources, list)
	}
}
