package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/restore"
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

func TestEndedAPIsAreListed(t *testing.T) {
	var w strings.Builder
	(&plan{Since: restore.Since{Ended: admin.Ended{APIs: []admin.EndedAPI{
		{ID: "https://api.example:8443/orders", Deleted: true}, {ID: "https://api.example", Closed: true, Scope: "b"},
	}}}}).printSince(&w)
	for _, line := range []string{"API https://api.example:8443/orders, deleted", "API https://api.example, closed to clients", "scope b of API https://api.example, removed"} {
		if !strings.Contains(w.String(), line) {
			t.Errorf("%q lacks %q", w.String(), line)
		}
	}
}
