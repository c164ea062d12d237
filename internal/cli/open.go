package cli

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/keys"
)

// An opened store belongs to one command that works on the store itself: explain, kek
// rotate, and restore --declare. A server may run on it.
type opened struct {
	admin.Admin
	cfg config.Config
}

// open opens the configured store; the caller closes it. It reads no key, so that an
// operator without the key-encryption key can look.
func (s *settings) open(ctx context.Context) (*opened, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	st, err := deployment.OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &opened{admin.Admin{
		Store: deployment.Audited(cfg, st), Realm: cfg.Realm, Issuer: cfg.IssuerID(), Actor: admin.ByUser(deployment.User()), Now: time.Now,
		Policy: deployment.Policy(cfg), Schedule: deployment.KeySchedule(cfg),
		KEK: func(context.Context) (*keys.KEK, error) { return deployment.ReadKEK(cfg) },
	}, cfg}, nil
}

// Close closes the store and writes the audit log.
func (a *opened) Close() { a.Store.Close() }

// serverRuns reports whether a server answers at the admin socket of a data directory.
func serverRuns(dir string) bool {
	conn, err := net.Dial("unix", filepath.Join(dir, "admin.sock"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
