package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminclient"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

// A session is the store opened for one command. A server may run on it.
type session struct {
	admin.Admin
	cfg config.Config
	now grant.Instant // when the session began
}

// open opens the configured store; the caller closes the session. It reads no key,
// so that an operator without the key-encryption key can look, disable and revoke.
func (s *settings) open(ctx context.Context) (*session, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	st, err := deployment.OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	a := &session{cfg: cfg, now: grant.At(time.Now())}
	a.Admin = admin.Admin{
		Store: deployment.Audited(cfg, st), Realm: cfg.Realm, Actor: admin.ByUser(deployment.User()), Now: time.Now,
		Policy: adminclient.Policy(cfg), Schedule: deployment.KeySchedule(cfg),
		KEK:     func() (*keys.KEK, error) { return deployment.ReadKEK(cfg) },
		Ring:    a.ring,
		Changed: func(ctx context.Context) { adminclient.Poll(ctx, cfg) },
	}
	return a, nil
}

// Close closes the store and writes the audit log.
func (a *session) Close() { a.Store.Close() }

// with returns the RunE of a command that needs a session.
func (s *settings) with(run func(cmd *cobra.Command, a *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a, err := s.open(cmd.Context())
		if err != nil {
			return err
		}
		defer a.Close()
		return run(cmd, a, args)
	}
}

// ring opens the key ring.
func (a *session) ring(ctx context.Context) (*keys.Ring, error) {
	kek, err := a.KEK()
	if err != nil {
		return nil, err
	}
	dir, err := directory.Open(ctx, a.Store, kek, keys.Schedule{}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return nil, err
	}
	return dir.Ring(), nil
}

// serverRuns reports whether a server seems to run on a data directory: the process
// that its lock file names exists.
func serverRuns(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "serve.lock"))
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH
}
