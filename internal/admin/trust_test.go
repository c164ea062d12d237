package admin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/adminapi"
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
		change(&v)
		_, err := a.Trusts().Create(t.Context(), v)
		if invalid := (*oauth.Invalid)(nil); want == "" && err != nil || want != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
