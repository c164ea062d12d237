package node

import (
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
)

// A setting that nobody reads changes nothing: the switch must reach whoever
// makes the callback.
func TestCallbackParametersReachTheAuthorizationEndpoint(t *testing.T) {
	for _, on := range []bool{false, true} {
		cfg := config.Default()
		cfg.Login.Mode, cfg.Login.HandoffURL = config.LoginHandoff, "https://login.example/"
		cfg.Compat.CallbackParameters = on
		front, err := newFront(cfg, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if front.Authorizer.CallbackParameters != on {
			t.Errorf("compat.callback_parameters %t has no effect", on)
		}
	}
}

// The node counts the interactions under way, so that a reload forgets none.
func TestInteractionsUnderWayCountOnUnderAnotherConfiguration(t *testing.T) {
	n := node{directory: &directory.Directory{}}
	cfg := config.Default()
	cfg.Login.Mode, cfg.Login.HandoffURL = config.LoginHandoff, "https://login.example/"
	cfg.PublicURL = "https://auth.example"
	for range 2 {
		a, err := n.answer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if a.front.Authorizer.Pending != &n.pending {
			t.Error("a reload begins to count anew")
		}
	}
}
