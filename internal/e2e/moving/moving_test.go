//go:build e2e

// Package moving moves the store of a running service from SQLite to PostgreSQL, while
// its clients keep their tokens.
package moving

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
	"github.com/mintage/mintage/internal/store/sqlite"
)

var database *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &database)) }

// A service is a server with one of its clients.
type service struct {
	*testing.T
	*binary.Server
	client *http.Client
}

func (s service) post(form url.Values, status int, code string) binary.Answer {
	s.Helper()
	a, err := s.Post(s.Context(), s.client, form)
	if err != nil {
		s.Fatal(err)
	}
	if a.Status != status || a.Error != code {
		s.Fatalf("%s: status %d %s, want %d %s", form.Get("grant_type"), a.Status, a.Error, status, code)
	}
	return a
}

func (s service) redeem(code string) string {
	s.Helper()
	return s.post(s.ExchangeForm(code), http.StatusOK, "").RefreshToken
}

func (s service) refresh(token string) string {
	s.Helper()
	return s.post(s.RefreshForm(token), http.StatusOK, "").RefreshToken
}

func (s service) refused(form url.Values) {
	s.Helper()
	s.post(form, http.StatusBadRequest, "invalid_grant")
}

// command runs the program and requires an exit status.
func command(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := binary.Command(t, args...)
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("mintage %s: %v, want exit status %d\n%s", strings.Join(args, " "), err, status, text.String())
	}
	return out.String(), text.String()
}

func says(t *testing.T, text string, phrases ...string) {
	t.Helper()
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, text)
		}
	}
}

// fill adds grants, so that a move takes a while.
func fill(t *testing.T, dir string, grants int) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	now := grant.At(time.Now())
	errs := make([]error, 64)
	var done sync.WaitGroup
	for worker := range errs {
		done.Go(func() {
			for i := range grants / len(errs) {
				g := grant.Grant{
					Realm: "/api", ClientID: "demo", Subject: fmt.Sprint("user", i), Scope: "read write", AuthorizedAt: now, Generation: 1, Version: 1,
					RotatedAt: now, ExpiresAt: now.Add(time.Hour), DeleteAfter: now.Add(2 * time.Hour), State: grant.Active, Attempt: rand.Uint64(),
				}
				for at := range g.ID {
					g.ID[at] = byte(rand.Uint32())
				}
				if err := st.CreateGrant(t.Context(), g); err != nil {
					errs[worker] = err
					return
				}
			}
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestLiveTokensGoOnAfterTheStoreHasMoved(t *testing.T) {
	// The long form kills the move forty times, and the code must outlive that.
	lasting := []string{"--code-lifetime", "10m"}
	old := binary.Start(t, t.TempDir(), lasting...)
	s := service{t, old, &http.Client{Transport: old.Transport(t, ""), Timeout: 30 * time.Second}}
	from, to := "sqlite:"+old.Dir, database.URL(database.Database(t))
	move := []string{"migrate-store", "--from", from, "--to", to}

	live := s.refresh(s.redeem(old.Code(t, "alice")))
	unredeemed := old.Code(t, "bob")
	spent := old.Code(t, "carol")
	s.redeem(spent)
	stolen := s.redeem(old.Code(t, "dave"))
	daves := s.refresh(s.refresh(s.refresh(stolen)))
	revoked := s.redeem(old.Code(t, "mallory"))
	old.Run(t, "grant", "revoke", "--subject", "mallory")
	s.refused(s.RefreshForm(revoked))
	old.Run(t, "client", "create", "--id", "former", "--name", "Former", "--redirect-uri", "https://a.example/cb", "--scope", "read")
	old.Run(t, "client", "delete", "former", "--yes")

	_, text := command(t, 1, move...)
	says(t, text, "mintage: another mintage server is running on "+old.Dir, "stop the server on it")
	live = s.refresh(live)
	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	fill(t, old.Dir, 10_000)

	// Kill the move repeatedly at random moments.
	for range binary.Scaled(4, 40) {
		cmd := binary.Command(t, move...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(rand.IntN(900))*time.Millisecond, func() { cmd.Process.Kill() })
		ended := cmd.Wait()
		sourceOut, sourceErr := binary.Command(t, "client", "list", "--data", old.Dir).CombinedOutput()
		copyOut, copyErr := binary.Command(t, "client", "list", "--data", t.TempDir(), "--store", to).Output()
		if sourceErr == nil && copyErr == nil && bytes.Contains(copyOut, []byte(old.ClientID)) {
			t.Errorf("both stores are usable at the same time")
		}
		if sourceErr != nil && ended != nil {
			says(t, string(sourceOut), "mintage: open store "+old.Dir, " to postgres://127.0.0.1:")
		}
	}
	out, _ := command(t, 0, move...)
	says(t, out, " to postgres://127.0.0.1:", "Serve it with --store and the same key-encryption key")
	out, _ = command(t, 0, move...)
	says(t, out, "had moved before to postgres://127.0.0.1:")

	const gone = "it has moved to postgres://127.0.0.1:"
	says(t, binary.StartRefused(t, old.Dir), gone, "use that store (--store)")
	_, text = command(t, 1, "client", "create", "--data", old.Dir, "--name", "A", "--redirect-uri", "https://a.example/cb", "--scope", "read")
	says(t, text, gone)

	u, err := url.Parse(old.TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = binary.Start(t, old.Dir, append(lasting, "--store", to, "--listen", u.Host)...)
	live = s.refresh(live)
	s.redeem(unredeemed)
	s.refused(s.RefreshForm(revoked))
	s.refused(s.ExchangeForm(spent))
	s.refused(s.RefreshForm(stolen))
	s.refused(s.RefreshForm(daves)) // the spent token is still a replay, which ends the grant
	s.refused(s.ExchangeForm(unredeemed))
	s.redeem(s.Code(t, "erin"))
	if _, _, err := s.Try(t, "client", "create", "--id", "former", "--name", "Former", "--redirect-uri", "https://a.example/cb", "--scope", "read"); err == nil {
		t.Error("the id of a deleted client can be used again")
	}
	if n := strings.Count(s.Server.Run(t, "grant", "list", "--limit", "100000"), "\n"); n != 1+10_000/64*64+6 {
		t.Errorf("%d lines of grants, want %d", n, 1+10_000/64*64+6)
	}

	// Undo the move, which loses the changes since then. The move does not see the lock
	// of a node on another machine.
	node := s.Peer(t, "--listen", "127.0.0.1:0")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	undo := []string{"migrate-store", "--undo", "--from", from}
	_, text = command(t, 2, undo...)
	says(t, text, "was finished, and servers may be using it", "name it with --to", "--destination-is-gone")
	undo = append(undo, "--to", to)
	_, text = command(t, 1, append(undo, "--yes")...)
	says(t, text, "a server on ", "stop all servers first")
	if err := node.Stop(); err != nil {
		t.Fatal(err)
	}
	_, text = command(t, 2, undo...)
	says(t, text, "nothing was done", "add --yes to do it")
	out, _ = command(t, 0, append(undo, "--yes")...)
	says(t, out, from+" can be served again; postgres://127.0.0.1:", "get 503 until", "mintage restore --declare --backup-time INSTANT")
	says(t, binary.StartRefused(t, s.Dir, "--store", to), "the store is at "+from+" again")
	s.Server = binary.Start(t, old.Dir, "--listen", u.Host)
	s.redeem(s.Code(t, "frank"))
	// alice's current token was issued by the database's server after the move: the old
	// store does not know it.
	s.post(s.RefreshForm(live), http.StatusServiceUnavailable, "temporarily_unavailable")
	s.Server.Run(t, "restore", "--declare", "--backup-time", stopped.UTC().Format(time.RFC3339), "--yes")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if a, err := s.Post(t.Context(), s.client, s.RefreshForm(live)); err == nil && a.Status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a client that has refreshed in the database cannot refresh")
		}
	}
	_, text = command(t, 1, move...)
	says(t, text, "another mintage server is running")
}

func TestAnInterruptedMoveSaysHowToGoOnAndCanBeGivenUp(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	fill(t, s.Dir, 20_000)
	from, to := "sqlite:"+s.Dir, database.URL(database.Database(t))
	cmd := binary.Command(t, "migrate-store", "--from", from, "--to", to)
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Wait until the move has set the migration state. doctor reads the store although
	// the move has locked it.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		out, _ := binary.Command(t, "doctor", "--data", s.Dir).CombinedOutput()
		if strings.Contains(string(out), "it is being moved to postgres://127.0.0.1:") {
			says(t, string(out), "mintage migrate-store --undo --from "+from)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the move does not set the migration state")
		}
	}
	_, second := command(t, 1, "migrate-store", "--from", from, "--to", to)
	says(t, second, "wait for the other migrate-store")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("interrupted: %v\n%s", err, text.String())
	}
	says(t, text.String(), "mintage: stopped; the move is not finished", "the same command starts again", "mintage migrate-store --undo --from "+from)
	says(t, binary.StartRefused(t, s.Dir, "--store", to), "is not finished: run the same migrate-store command again")
	_, elsewhere := command(t, 1, "migrate-store", "--from", from, "--to", database.URL(database.Database(t)))
	says(t, elsewhere, "is already being moved to postgres://127.0.0.1:", "to move to another database instead, first run: mintage migrate-store --undo --from "+from)

	out, _ := command(t, 0, "migrate-store", "--undo", "--from", from)
	says(t, out, from+" can be served again")
	if err := s.Restart(t); err != nil {
		t.Fatal(err)
	}
	s.Code(t, "alice")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	out, _ = command(t, 0, "migrate-store", "--from", from, "--to", to)
	says(t, out, "same\n", "has moved to postgres://127.0.0.1:")
}
