package login

import (
	"testing"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// TestTheCallersResourcesStay: the parameter audience is appended to a copy, not to the
// caller's list.
func TestTheCallersResourcesStay(t *testing.T) {
	t.Parallel()
	list := []string{"https://a.example", "https://b.example"}
	c := &store.Client{RegisteredBy: store.ByRequest, Settings: store.Settings{AudienceParameter: true}}
	r := oauth.AuthorizationRequest{Resources: list[:1], Audience: "https://c.example"}
	if got := (&Authorizer{}).covered(&Stage{view: testkit.New(t).View(), Client: c}, r); len(got.Resources) != 2 || list[1] != "https://b.example" {
		t.Errorf("%q; the caller's are %q", got.Resources, list)
	}
}

// The APIs of an agent's request are resolved again only if some of them were left out.
func TestTheAPIsOfAnAgentAreResolvedOnce(t *testing.T) {
	h := newFixture(t)
	d := h.agents(redirectURI)
	const mail, files = "https://mail.example", "https://files.example"
	h.api(mail, 1, true, "read", "read")
	h.api(files, 2, true, "get", "get")
	c := d.c.Clone()
	h.kit.View().Offer(&c)
	for _, row := range []struct {
		asked []string
		again bool
	}{{nil, false}, {[]string{mail}, false}, {[]string{mail, files}, true}} {
		st := &Stage{view: h.kit.View(), Client: &c}
		r := h.covered(st, asAgent(redirectURI, func(r *oauth.AuthorizationRequest) { r.Scope, r.Resources = "read", row.asked }))
		if len(r.Resources) != 1 || r.Resources[0] != mail || r.Defect != nil || (st.targets == nil) != row.again {
			t.Errorf("%q: %q, %v, resolved again: %t", row.asked, r.Resources, r.Defect, st.targets == nil)
		}
	}
}
