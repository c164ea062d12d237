package node

import (
	"log/slog"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
)

// The reuse grace of self-registered clients is configurable, and 24 hours by default.
func TestTheReuseGraceOfClientsThatRegisteredThemselvesIsASetting(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{24 * time.Hour, time.Hour, 0} {
		cfg := config.Default()
		if grace != 24*time.Hour {
			cfg.ClientMetadata.ReuseGrace = config.Duration(grace)
		}
		if got := NewIssuer(cfg, nil, nil, nil, slog.Default()).OwnReuseGrace; got != grace {
			t.Errorf("a grace of %s, want %s", got, grace)
		}
	}
}
