//go:build e2e

// Package crash kills the built server under load, and sends it many requests
// simultaneously.
package crash

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/e2e/history"
)

const clients = 16

// TestOP01_KilledServerKeepsItsWord kills the server at random moments of a mixed load.
// After each restart, every acknowledged response is still valid.
func TestOP01_KilledServerKeepsItsWord(t *testing.T) {
	killLoop(t, binary.Scaled(5, 50), history.Habit{TwiceCode: 4, TwiceRefresh: 15, Replay: 3, Generations: 12})
}

// TestKilledServerLosesNoResponseOfBoundClients is TestOP01_KilledServerKeepsItsWord with
// public clients whose refresh tokens are bound to keys. Thieves present the tokens with
// other keys: they get no token and end no grant.
func TestKilledServerLosesNoResponseOfBoundClients(t *testing.T) {
	killLoop(t, binary.Scaled(3, 30), history.Habit{TwiceCode: 4, TwiceRefresh: 15, Replay: 3, Steal: 20, Generations: 12, Proofs: true})
}

// TestTC22_KilledRedemptionSpendsItsCodeOrDoesNothing only redeems codes. A code whose
// answer was lost is either spent, or the next request redeems it; no token exists whose
// code is not spent.
func TestTC22_KilledRedemptionSpendsItsCodeOrDoesNothing(t *testing.T) {
	l := killLoop(t, binary.Scaled(3, 25), history.Habit{Generations: 1})
	if l.LostCodes.Load() == 0 {
		t.Error("no redemption lost its answer: nothing was tested")
	}
}

// TestTR25_KilledRotationIsWholeOrDidNotHappen only refreshes tokens. After a kill the
// old token is still the newest one, or its successor is stored; a client that repeats
// its request sees no difference.
func TestTR25_KilledRotationIsWholeOrDidNotHappen(t *testing.T) {
	l := killLoop(t, binary.Scaled(3, 25), history.Habit{TwiceRefresh: 20, Generations: 1 << 20})
	if l.LostRefreshes.Load() == 0 {
		t.Error("no refresh lost its answer: nothing was tested")
	}
	for _, c := range l.Finished() {
		if c.Generations() < 3 && !c.Ended() {
			t.Error("a chain of refreshes made no progress")
		}
	}
}

// TestOP01_KilledFirstStartIsStartedAgain kills the server while it creates its data
// directory. The next start completes a half-created directory.
func TestOP01_KilledFirstStartIsStartedAgain(t *testing.T) {
	for range binary.Scaled(8, 100) {
		dir := t.TempDir()
		killAtStart(t, dir, time.Duration(rand.IntN(70))*time.Millisecond)
		s := binary.Start(t, dir)
		a, err := s.Post(t.Context(), &http.Client{Transport: s.Transport(t, "")}, s.ExchangeForm(s.Code(t, "alice")))
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("the first code: %d, %v", a.Status, err)
		}
		s.Kill()
	}
}

func killAtStart(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := binary.Command(t, "serve", "--dev", "--data", dir, "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(after)
	cmd.Process.Kill()
	cmd.Wait()
}

// killLoop runs clients against a server that is killed again and again, and
// checks everything that they saw.
func killLoop(t *testing.T, kills int, h history.Habit) *history.Load {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	// The longest retry window allowed: a repeat after a restart is still inside it.
	s := binary.Start(t, dir, "--retry-window", "4m", "--code-lifetime", "10m")
	l := history.NewLoad(t, h, s)
	l.Killed = true

	// Derived from t.Context, so that the clients also stop when the test fails.
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for i := range clients {
		working.Go(func() {
			l.Work(ctx, &http.Client{Transport: s.Transport(t, "")}, rand.New(rand.NewPCG(seed, uint64(i)+1)))
		})
	}
	defer working.Wait()
	defer stop()

	verifier := &http.Client{Transport: s.Transport(t, "")}
	verified := 0
	for range kills {
		time.Sleep(time.Duration(150+rng.IntN(500)) * time.Millisecond)
		s.Kill()
		finished := l.Finished()
		recent := finished[max(verified, len(finished)-60):]
		verified = len(finished)
		checkIntegrity(t, dir)
		if rng.IntN(3) == 0 { // kill the server during its recovery, too
			killAtStart(t, dir, time.Duration(rng.IntN(80))*time.Millisecond)
			checkIntegrity(t, dir)
		}
		restart(t, s)
		// Under load, verify what was acknowledged last before the kill.
		l.Verify(verifier, recent)
	}
	stop()
	working.Wait()

	s.Kill()
	restart(t, s)
	l.Verify(verifier, l.Finished())
	if err := s.Stop(); err != nil {
		t.Errorf("the last stop: %v", err)
	}
	checkIntegrity(t, dir)
	for _, word := range []string{`"level":"ERROR"`, "panic", "DATA RACE"} {
		if strings.Contains(s.Log(), word) {
			t.Errorf("the log has %s", word)
		}
	}
	l.Judge()
	if l.LostCodes.Load()+l.LostRefreshes.Load() == 0 {
		t.Error("no answer was lost: the kills met no request")
	}
	return l
}

// restart starts the server again, and retries: nobody reserved its port, which another
// connection may occupy for a moment.
func restart(t *testing.T, s *binary.Server) {
	t.Helper()
	var err error
	for range 20 {
		if err = s.Restart(t); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkIntegrity checks a copy of the killed server's files, so that the server itself
// recovers from the unchanged originals.
func checkIntegrity(t *testing.T, dir string) {
	t.Helper()
	copied := t.TempDir()
	for _, name := range []string{"mintage.db", "mintage.db-wal"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if os.IsNotExist(err) && strings.HasSuffix(name, "-wal") {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(copied, "mintage.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity check: %q, %v", verdict, err)
	}
}
