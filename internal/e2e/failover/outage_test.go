//go:build e2e

package failover

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// TestAnOutageOfTheDatabaseIsTwoLinesInTheLog stops the only database server for some
// seconds, under constant requests. The server logs one line when the outage begins, and
// one with the numbers when it ends; nothing about logouts, because none is pending.
func TestAnOutageOfTheDatabaseIsTwoLinesInTheLog(t *testing.T) {
	t.Parallel()
	database, err := pgtest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(database.Kill(), database.Stop()); err != nil {
			t.Error(err)
		}
	})
	database.Run(t, "postgres", "CREATE DATABASE mintage")
	s := binary.Start(t, t.TempDir(), "--store", database.URL("mintage"))
	client := &http.Client{Transport: s.Transport(t, ""), Timeout: 20 * time.Second}
	const sessions = 8
	var tokens [sessions]string
	for i := range tokens {
		code, err := s.FastCode(t.Context(), "alice")
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Post(t.Context(), client, s.ExchangeForm(code))
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("redeem a code: %d, %v", a.Status, err)
		}
		tokens[i] = a.RefreshToken
	}
	before := len(s.Log())
	if err := database.Kill(); err != nil {
		t.Fatal(err)
	}
	var working sync.WaitGroup
	for _, token := range tokens {
		working.Go(func() {
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if a, err := s.Post(t.Context(), client, s.RefreshForm(token)); err != nil || a.Status != http.StatusServiceUnavailable {
					t.Errorf("without a database: %d, %v", a.Status, err)
					return
				}
			}
		})
	}
	working.Wait()
	if err := database.Restart(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !strings.Contains(s.Log()[before:], "the failures have ended"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the log does not say that the outage has ended")
		}
	}
	for _, token := range tokens {
		if a, err := s.Post(t.Context(), client, s.RefreshForm(token)); err != nil || a.Status != http.StatusOK {
			t.Errorf("with the database again: %d, %v", a.Status, err)
		}
	}
	lines := strings.Split(strings.TrimSpace(s.Log()[before:]), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"level":"ERROR"`) || !strings.Contains(lines[1], `"failed":`) || strings.Contains(lines[1], `"failed":1,`) {
		t.Errorf("the log has %d lines:\n%s", len(lines), s.Log()[before:])
	}
}
