package node

import (
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/oauth"
)

// Only a --dev server serves the pages of the demo client, and only in the default realm.
func TestOnlyADevServerHasDemoPages(t *testing.T) {
	for _, r := range []*realm{{node: &node{}, name: oauth.DefaultRealm}, {node: &node{dev: true}, name: "/other"}} {
		if r.demoPages(config.Default(), nil, nil) != nil {
			t.Errorf("dev %t, realm %s: there are demo pages", r.dev, r.name)
		}
	}
	if (&realm{node: &node{dev: true}, name: oauth.DefaultRealm}).demoPages(config.Default(), nil, nil) == nil {
		t.Error("serve --dev has no demo pages")
	}
}
