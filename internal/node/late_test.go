package node

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/testkit"
)

// On a busy machine a start may take so long that the directory is outdated before its
// end.
func TestAStartThatTakesLongReadsTheDemoClient(t *testing.T) {
	st, now := testkit.Create(t, t.TempDir()), time.Now()
	dir, err := directory.Open(t.Context(), st, testkit.KEK(t), testkit.Schedule(), slog.New(slog.DiscardHandler), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	err = admitDemoPage(t.Context(), config.Default(), st, dir, deployment.DevInfo{ClientID: "demo"})
	if err == nil || !strings.Contains(err.Error(), "there is no demo client") {
		t.Error(err)
	}
}
