package cli

import (
	"context"
	"fmt"
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
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

// A session is the store opened for one command. A server may run on it.
type session struct {
	admin.Admin
	cfg   config.Config
	nodes func(context.Context) ([]store.Node, error) // that share the store; nil if only one can
	now   grant.Instant                               // when the session began
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
	if shared, ok := st.(*postgres.Store); ok {
		a.nodes = shared.Nodes
	}
	a.Admin = admin.Admin{
		Store: deployment.Audited(cfg, st), Realm: deployment.Realm, Actor: deployment.Operator(), Now: time.Now,
		Policy: policyOf(cfg), Schedule: deployment.KeySchedule(cfg),
		KEK:     func() (*keys.KEK, error) { return deployment.ReadKEK(cfg) },
		Ring:    a.ring,
		Changed: func(ctx context.Context) { adminclient.Poll(ctx, cfg) },
		Settle:  a.settle,
	}
	return a, nil
}

// policyOf returns what commands have to know of the tokens that servers issue.
func policyOf(cfg config.Config) grant.Policy {
	return grant.Policy{AccessLifetime: cfg.AccessTokenLifetime.Std(), RetryWindow: max(cfg.RetryWindow, cfg.RetryWindowPublic).Std(), RefreshLifetime: cfg.RefreshTokenLifetime.Std(), MaxSkew: cfg.Skew()}
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

// settle waits until the running servers have written the uses of secrets.
func (a *session) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, directory.SettleTime)
	defer cancel()
	reached := adminclient.Poll(ctx, a.cfg)
	switch {
	case a.nodes != nil:
		directory.AwaitHeartbeats(ctx, a.nodes, a.now)
	case !reached && serverRuns(a.cfg.Data):
		directory.Pause(ctx, 2*directory.PollInterval)
	}
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

// adviceFor returns advice for a use case that failed.
func adviceFor(e *admin.Error) string {
	switch e.Code {
	case admin.NotFound:
		switch e.Kind {
		case "grant":
			return "it never began, or its last token expired and its row was removed"
		case "secret":
			return "see: mintage client secret list " + e.ID
		}
		if e.Kind == "session" {
			return "see: mintage session list --subject"
		}
		return fmt.Sprintf("see: mintage %s list", e.Kind)
	case admin.Deleted:
		return "see: mintage client list --all"
	case admin.Taken:
		if e.Kind == "client" {
			return "choose another with --id; ids never come back, even after deletion"
		}
	case admin.Changed:
		if e.Kind == "restore" {
			return "see: mintage restore --status"
		}
		return fmt.Sprintf("look at it and try again: mintage %s show %s", e.Kind, e.ID)
	case admin.Conflict:
		return "see: mintage api list, and mintage client list"
	case admin.InUse:
		return "add --force to do it all the same"
	}
	return fmt.Sprintf("see: mintage %s show %s", e.Kind, e.ID)
}
