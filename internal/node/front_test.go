package node

import (
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/issuer"
)

// A setting that nobody reads changes nothing: the switch must reach whoever
// makes the callback.
func TestCallbackParametersReachTheAuthorizationEndpoint(t *testing.T) {
	for _, on := range []bool{false, true} {
		cfg := config.Default()
		cfg.Login.Mode, cfg.Login.HandoffURL = config.LoginHandoff, "https://login.example/"
		cfg.Compat.CallbackParameters = on
		front, err := new(node).newFront(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if front.Authorizer.CallbackParameters != on {
			t.Errorf("compat.callback_parameters %t has no effect", on)
		}
	}
}

// The node keeps the interactions under way, the failures of logins, and the list of
// revocations, so that a reload forgets none.
func TestCountsAndCachesOutliveAReload(t *testing.T) {
	n := node{directory: &directory.Directory{}, feed: issuer.NewFeed(), guard: account.NewGuard(account.DefaultFailures)}
	cfg := config.Default()
	cfg.Login.HandoffURL, cfg.PublicURL = "https://login.example/", "https://auth.example"
	for _, mode := range []string{config.LoginHandoff, config.LoginUsers, config.LoginUsers} {
		cfg.Login.Mode = mode
		a, err := n.answer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if a.front.Authorizer.Pending != &n.pending || a.issuer.Feed != n.feed || a.front.Users != nil && a.front.Users.Guard != n.guard {
			t.Error("a reload begins to count anew")
		}
	}
}
