package doctor

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
)

// After a day, an audit log has several files, of which the last one is checked alone.
func TestAnAuditLogOfSeveralFilesIsWell(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	tomorrow := func() time.Time { return time.Now().Add(25 * hour) }
	auditLog := audit.Open(audit.Options{Directory: p.Config.AuditDirectory(), Node: "test", Now: tomorrow, Log: slog.New(slog.DiscardHandler)})
	auditLog.Record(audit.Event{Name: audit.ServerStarted})
	must(t, auditLog.Close())
	if last := filepath.Base(lastOf(t, p)); last != "00000002.jsonl" {
		t.Fatalf("the last file is %s", last)
	}
	if f := checkAudit(t.Context(), p); len(f) != 1 || f[0].Level != levelOK {
		t.Errorf("%+v", f)
	}
}
