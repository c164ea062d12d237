package node

import (
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
)

// If no token file is configured, the commands must not name the current directory in its
// place.
func TestPrintedCommandsNameNoTokenFileThatIsNotConfigured(t *testing.T) {
	var cfg config.Config
	cfg.Admin.Listen = "127.0.0.1:8444"
	info := deployment.DevInfo{AdminSocket: cfg.Admin.Listen}
	if got := devAdminFlags(cfg, info); got != " --admin-listen 127.0.0.1:8444" {
		t.Errorf("without a file: %q", got)
	}
	cfg.Admin.TokenFile = "/run/token"
	if got := devAdminFlags(cfg, info); got != " --admin-listen 127.0.0.1:8444 --admin-token-file /run/token" {
		t.Errorf("with a file: %q", got)
	}
}
