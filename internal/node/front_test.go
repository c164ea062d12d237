package node

import (
	"testing"

	"github.com/mintage/mintage/internal/config"
)

// A setting that nobody reads changes nothing: the switch must reach whoever
// makes the callback.
func TestCallbackParametersReachTheAuthorizationEndpoint(t *testing.T) {
	for _, on := range []bool{false, true} {
		cfg := config.Default()
		cfg.Login.Mode, cfg.Login.HandoffURL = config.LoginHandoff, "https://login.example/"
		cfg.Compat.CallbackParameters = on
		front, err := newFront(cfg, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if front.Authorizer.CallbackParameters != on {
			t.Errorf("compat.callback_parameters %t has no effect", on)
		}
	}
}
