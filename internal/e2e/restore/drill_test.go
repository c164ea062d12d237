//go:build e2e

package restore

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A scene is the set of clients that a drill prepares before its backup, with different
// fates.
type scene struct {
	*site
	crowd      *crowd
	replayed   *holder // an old token of it is replayed after the restore
	stolen     *holder // a thief presents an older token, before the holder
	late       *holder // a thief presents an older token, after the holder
	twin       *holder // a thief presents the token whose generation is in the backup
	revoked    *holder // revoked after the backup
	revokedID  string
	shortlived []*holder // their grants began after the backup
	unredeemed string    // a code of after the backup
}

func (s *site) newScene(holders int) *scene {
	s.Helper()
	c := &scene{site: s, crowd: s.newCrowd(holders)}
	for _, h := range []**holder{&c.replayed, &c.stolen, &c.late, &c.twin} {
		*h = &holder{pairs: []binary.Answer{s.redeem(s.code())}}
		(*h).move(s, 2)
	}
	mallory := "mallory" + rand.Text()
	code, err := s.nodes[0].FastCode(s.Context(), mallory)
	if err != nil {
		s.Fatal(err)
	}
	c.revoked = &holder{pairs: []binary.Answer{s.redeem(code)}}
	c.revokedID = s.grantOf(mallory)
	return c
}

// move refreshes a number of times.
func (h *holder) move(s *site, times int) {
	s.Helper()
	for i := range times {
		h.pairs = append(h.pairs, s.refresh(i, h.newest().RefreshToken))
	}
}

// afterBackup makes the changes that the backup does not contain.
func (c *scene) afterBackup() {
	c.Helper()
	for _, h := range []*holder{c.replayed, c.stolen, c.late, c.twin} {
		h.move(c.site, 4)
	}
	for range 3 {
		h := &holder{pairs: []binary.Answer{c.redeem(c.code())}}
		h.move(c.site, 2)
		c.shortlived = append(c.shortlived, h)
	}
	c.nodes[0].Run(c.T, "grant", "revoke", c.revokedID)
	c.dead(c.revoked.newest().RefreshToken)
	// Wait for the audit log: a killed server loses events that it has not written yet.
	for deadline := time.Now().Add(time.Minute); !strings.Contains(c.nodes[0].Run(c.T, "audit", "show", "--grant", c.revokedID), "grant_revoked"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatal("the audit log does not have the revocation")
		}
	}
	c.unredeemed = c.code()
}

// check requires what clients must see after the restore was declared.
func (c *scene) check() {
	c.Helper()
	newest := c.crowd.holders[0].newest().AccessToken
	if status, active := c.introspect(0, newest); status != http.StatusOK || !active {
		c.Errorf("an access token of before the restore: status %d, active %t", status, active)
	}
	c.crowd.goOn()
	c.refused(c.nodes[0].ExchangeForm(c.unredeemed))
	for _, h := range c.shortlived {
		c.dead(h.newest().RefreshToken)
		if status, active := c.introspect(0, h.newest().AccessToken); status != http.StatusOK || active {
			c.Errorf("an access token of a grant that is lost: status %d, active %t", status, active)
		}
	}
	// A replay: generation 1 was already spent in the backup.
	c.replayed.move(c.site, 2)
	c.dead(c.replayed.pairs[0].RefreshToken)
	c.dead(c.replayed.newest().RefreshToken)
	// The backup contains generation 3: one thief comes before the holder, one after.
	taken := c.refresh(0, c.stolen.pairs[4].RefreshToken)
	c.dead(c.stolen.newest().RefreshToken)
	c.dead(taken.RefreshToken)
	c.late.move(c.site, 1)
	c.dead(c.late.pairs[4].RefreshToken)
	c.dead(c.late.newest().RefreshToken)
	taken = c.refresh(0, c.twin.pairs[2].RefreshToken)
	c.dead(c.twin.pairs[3].RefreshToken)
	c.dead(taken.RefreshToken)
}

func TestOP13_EveryClientOfAnOlderBackupGoesOnWithoutALogin(t *testing.T) {
	t.Parallel()
	server := binary.Start(t, t.TempDir())
	s := open(t, server)
	c := s.newScene(binary.Scaled(16, 64))
	file := filepath.Join(t.TempDir(), "backup.db")
	for round := range binary.Scaled(2, 10) {
		if round > 0 {
			file += "x"
			c = s.newScene(len(c.crowd.holders))
		}
		// Take the backup while the clients work.
		ctx, stop := context.WithCancel(t.Context())
		wait := c.crowd.work(ctx)
		time.Sleep(200 * time.Millisecond)
		says(t, server.Run(t, "backup", file), "key-encryption key", "(fits: ", "holds all keys until")
		c.afterBackup()
		server.Kill()
		if _, text, err := server.Try(t, "restore", file); err == nil || !strings.Contains(text, "add --yes to do it") {
			t.Fatalf("without --yes: %v\n%s", err, text)
		}
		out := server.Run(t, "restore", file, "--yes")
		says(t, out, "were refreshed since", "3 newer grants", "grants that were revoked: 1", "the previous store is kept")
		s.start(0)
		time.Sleep(100 * time.Millisecond)
		stop()
		wait()
		c.dead(c.revoked.newest().RefreshToken)
		c.check()
		if c.crowd.lost.Load() == 0 {
			t.Error("no answer was lost: nothing was at risk")
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	// Restore the same backup again, over the store that has changed since.
	c.crowd.workFor(200 * time.Millisecond)
	server.Kill()
	server.Run(t, "restore", file, "--yes")
	s.start(0)
	c.crowd.goOn()
	if n := strings.Count(server.Run(t, "restore", "--status"), "in force"); n != 1 {
		t.Errorf("%d restores are in force, want the latest", n)
	}
	if strings.Contains(server.Log(), `"level":"ERROR"`) {
		t.Errorf("the log has errors:\n%s", server.Log())
	}
}

func TestOP13_AnUndeclaredRestoreIsOurLossAndIsMendedByItsDeclaration(t *testing.T) {
	t.Parallel()
	server := binary.Start(t, t.TempDir())
	s := open(t, server)
	c := s.newScene(4)
	file := filepath.Join(t.TempDir(), "backup.db")
	server.Run(t, "backup", file)
	began := time.Now().UTC()
	c.crowd.workFor(300 * time.Millisecond)
	c.afterBackup()
	server.Kill()
	// Copy the file, as an operator would who has not read the manual.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"-wal", "-shm"} {
		os.Remove(filepath.Join(server.Dir, "mintage.db"+end))
	}
	if err := os.WriteFile(filepath.Join(server.Dir, "mintage.db"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(0)
	for _, h := range append(c.crowd.holders, c.shortlived...) {
		s.post(0, server.RefreshForm(h.newest().RefreshToken), http.StatusServiceUnavailable, "temporarily_unavailable")
	}
	server.Run(t, "restore", "--declare", "--backup-time", began.Add(-time.Minute).Format(time.RFC3339), "--yes")
	// The server reads the declaration with its next poll.
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if status, _ := c.introspect(0, c.crowd.holders[0].newest().AccessToken); status == http.StatusOK {
			break
		}
	}
	c.check()
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	says(t, server.Log(), `"level":"ERROR"`, "restore")
}

func TestOP13_ARestoreThatIsKilledLeavesOneStoreWhole(t *testing.T) {
	t.Parallel()
	server := binary.Start(t, t.TempDir())
	s := open(t, server)
	crowd := s.newCrowd(4)
	file := filepath.Join(t.TempDir(), "backup.db")
	server.Run(t, "backup", file)
	crowd.workFor(200 * time.Millisecond)
	lost := s.redeem(s.code())
	_, text := command(t, 1, "restore", file, "--data", server.Dir, "--yes")
	says(t, text, "nothing was done: another mintage server is running", "stop the server")
	server.Kill()
	for range binary.Scaled(8, 80) {
		cmd := binary.Command(t, "restore", file, "--data", server.Dir, "--yes")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(mathrand.IntN(120))*time.Millisecond, func() { cmd.Process.Kill() })
		cmd.Wait()
		// The store is either the previous one, or the backup with its declaration.
		grants, _ := command(t, 0, "grant", "list", "--data", server.Dir)
		status, _ := command(t, 0, "restore", "--status", "--data", server.Dir)
		old, declared := strings.Count(grants, "\n") == 1+5, strings.Contains(status, "in force")
		if old == declared {
			t.Fatalf("the store of before: %t; the restore is declared: %t\n%s%s", old, declared, grants, status)
		}
	}
	command(t, 0, "restore", file, "--data", server.Dir, "--yes")
	s.start(0)
	crowd.goOn()
	s.dead(lost.RefreshToken)
}
