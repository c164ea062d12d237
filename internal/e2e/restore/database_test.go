//go:build e2e

package restore

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// everywhere limits the time until a declaration is in force on every node: ten times the
// product's two seconds, for a busy machine.
const everywhere = 20 * time.Second

// TestOP13_ADatabaseThatIsPutBackIsDeclared restores an older dump of the database of two
// nodes.
func TestOP13_ADatabaseThatIsPutBackIsDeclared(t *testing.T) {
	t.Parallel()
	place := database.URL(database.Database(t))
	first := binary.Start(t, t.TempDir(), "--store", place)
	s := open(t, first, first.Peer(t))
	c := s.newScene(binary.Scaled(8, 32))

	_, text := command(t, 1, "backup", "x", "--data", first.Dir, "--store", place)
	says(t, text, "nothing was done", "pg_dump --format=custom --file=x ", "PGPASSFILE", "mintage restore --declare --backup-time")
	_, text = command(t, 1, "restore", "x", "--data", first.Dir, "--store", place)
	says(t, text, "nothing was done", "pg_restore", "mintage restore --declare --backup-time")

	dump := filepath.Join(t.TempDir(), "dump")
	ctx, stop := context.WithCancel(t.Context())
	wait := c.crowd.work(ctx)
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	run(t, "pg_dump", "--format=custom", "--file="+dump, place)
	c.afterBackup()
	for _, n := range s.nodes {
		n.Kill()
	}
	run(t, "pg_restore", "--clean", "--if-exists", "--single-transaction", "--dbname="+place, dump)
	for i := range s.nodes {
		s.start(i)
	}
	stop()
	wait()
	// Until the restore is declared, no node refuses newer tokens as invalid: they get
	// 503.
	for i, h := range append(c.crowd.holders, c.shortlived...) {
		s.post(i, first.RefreshForm(h.newest().RefreshToken), http.StatusServiceUnavailable, "temporarily_unavailable")
	}
	if _, text, err := first.Try(t, "restore", "--declare", "--backup-time", began.UTC().Format(time.RFC3339Nano)); err == nil || !strings.Contains(text, "name the audit logs of the others") {
		t.Errorf("without --yes: %v\n%s", err, text)
	}
	first.Run(t, "restore", "--declare", "--backup-time", began.UTC().Format(time.RFC3339Nano), "--yes")
	declared := time.Now()
	for node := range s.nodes {
		for {
			if _, active := s.introspect(node, c.crowd.holders[0].newest().AccessToken); active {
				break
			}
			if time.Since(declared) > everywhere {
				t.Fatalf("node %d does not apply the declaration after %s", node, everywhere)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	c.check()
	// The audit log supplies the revocations since the dump, and new logins get grants.
	c.dead(c.revoked.newest().RefreshToken)
	for {
		code := s.code()
		a, err := first.Post(t.Context(), s.http, first.ExchangeForm(code))
		if err == nil && a.Status == http.StatusOK {
			break
		}
		if time.Since(declared) > 2*everywhere {
			t.Fatalf("no code can be redeemed after the restore: %d %s, %v", a.Status, a.Error, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	says(t, first.Run(t, "restore", "--status"), "in force")
}

// run runs a program of PostgreSQL that must succeed.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "PGCONNECT_TIMEOUT=10")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v (it is in the package postgresql-client)\n%s", name, err, strings.TrimSpace(string(out)))
	}
}
