package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

func TestAClockThatIsTooFarBehindIsTold(t *testing.T) {
	const now = grant.Instant(1_700_000_000_000)
	for ahead, told := range map[time.Duration]bool{-time.Hour: false, time.Minute: false, time.Minute + time.Millisecond: true} {
		var w strings.Builder
		warnOfClock(&w, now, grant.Issued{Latest: now.Add(ahead)})
		if strings.Contains(w.String(), "set the clock first") != told {
			t.Errorf("%s ahead: %q", ahead, &w)
		}
	}
}
