package conformance_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// An authentic token without a row proves that the store has lost an acknowledged write.
// The log, a metric and the audit log report that to the operator.
func TestOP13_ARecordThatIsLostIsLoggedCountedAndRecorded(t *testing.T) {
	var tr auditLog
	m := metrics.New("test", 0)
	d := start(t, audited(t, &tr), func(o *options) { o.Metrics = m })
	pair, id := d.tokens(d.a)
	if _, n, err := d.sqlite.Sweep(t.Context(), store.SweptGrants, "", grant.Never, 100); err != nil || n != 1 {
		t.Fatalf("%d rows were taken away, %v", n, err)
	}
	a := d.send(newRequest(d.a.refresh(pair.RefreshToken)))
	want(t, a, 503, "temporarily_unavailable")
	if e := sole(t, tr.entries(), audit.TokenRefused, a); e.Outcome != audit.Failed || e.GrantID != id.String() || !strings.HasPrefix(e.Detail, "store_behind, ") {
		t.Errorf("recorded is %+v", e)
	}
	alarms := 0
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, `"level":"ERROR","msg":"an authentic token has no record: the store has lost commits`) &&
			strings.Contains(line, a.header["X-Request-Id"][0]) {
			alarms++
		}
	}
	if alarms != 1 {
		t.Errorf("%d alarms in the log:\n%s", alarms, d.log.String())
	}
	// One error line a minute suffices: the next request is logged at debug level.
	next := d.send(newRequest(d.a.refresh(pair.RefreshToken)))
	want(t, next, 503, "temporarily_unavailable")
	lines := strings.Count(d.log.String(), `"level":"ERROR"`)
	if lines != 1 || !strings.Contains(d.log.String(), `"level":"DEBUG","msg":"an authentic token has no record`) || !strings.Contains(d.log.String(), next.header["X-Request-Id"][0]) {
		t.Errorf("%d errors in the log after another request:\n%s", lines, d.log.String())
	}
	counted := testkit.Series(t, m)["mintage_store_behind_total"]
	if counted != 2 {
		t.Errorf("%v are counted, want 2", counted)
	}
}
