package deployment

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// HostName returns the name of this machine, or "?".
func HostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "?"
	}
	return host
}

// An Anchor records in the store how far the audit log reached and what was removed from
// it: the chain alone does not show that lines were cut off its end.
type Anchor struct {
	Chain string `json:"chain"`
	Node  string `json:"node"`
	// Directory of the audit log: a machine can run several servers of one database.
	Directory string        `json:"directory"`
	Seq       uint64        `json:"seq"`
	Hash      string        `json:"hash"`
	At        grant.Instant `json:"at"`
	// Removed is the seq of the last record that the server has removed, for its
	// age or the audit log's size.
	Removed uint64 `json:"removed"`
}

// Of reports whether the anchor is of the audit log in a directory of this machine.
func (a Anchor) Of(directory string) bool {
	return a.Node == HostName() && a.Directory == DirectoryName(directory)
}

// DirectoryName returns the name of an audit log's directory in anchors, however it is
// spelled in the configuration.
func DirectoryName(directory string) string {
	if path, err := filepath.EvalSymlinks(directory); err == nil {
		directory = path
	}
	if path, err := filepath.Abs(directory); err == nil {
		directory = path
	}
	return directory
}

// AnchorTime bounds the reading and the writing of anchors.
const AnchorTime = 2 * time.Second

// Anchors returns all anchors of the store.
func Anchors(ctx context.Context, st store.Store) (list []Anchor, err error) {
	for d, err := range store.EachDocument(ctx, st, store.DocumentFilter{Kind: store.DocumentAuditHead}) {
		if err != nil {
			return nil, err
		}
		var a Anchor
		if err := json.Unmarshal(d.Body, &a); err != nil {
			return nil, fmt.Errorf("read the anchor of an audit log in the store: %w", err)
		}
		list = append(list, a)
	}
	return list, nil
}

// A notingStore is the store of a command. Close writes its changes to the audit
// log.
type notingStore struct {
	*audit.Store
	auditLog *audit.Log
	stderr   io.Writer
}

// CommandAudit opens the audit log for a command, or returns nil if none is configured.
// It creates no file before the first event. Lines have MACs if the key-encryption key can
// be read, and opens the records of the keys.
func CommandAudit(cfg config.Config, records func() ([]keys.Stored, error)) *audit.Log {
	if cfg.AuditDirectory() == "" {
		return nil
	}
	ring := sync.OnceValue(func() *keys.Ring {
		kek, err := ReadKEK(cfg)
		if err != nil {
			return nil
		}
		list, err := records()
		if err != nil {
			return nil
		}
		ring, err := keys.Open(kek, list)
		if err != nil {
			return nil
		}
		return ring
	})
	return audit.Open(audit.Options{
		Directory: cfg.AuditDirectory(), Owner: cfg.Data, Node: HostName(), Routine: true, AtOnce: true,
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Keys: func() (*keys.Ring, bool) { return ring(), true },
	})
}

// Audited returns st with a command's changes recorded in the audit log.
func Audited(cfg config.Config, st store.Store) store.Store {
	auditLog := CommandAudit(cfg, func() ([]keys.Stored, error) {
		ctx, cancel := context.WithTimeout(context.Background(), AnchorTime)
		defer cancel()
		ch, err := st.Changes(ctx, 0)
		return ch.Keys, err
	})
	if auditLog == nil {
		return st
	}
	return notingStore{audit.NewStore(st, auditLog), auditLog, os.Stderr}
}

// Close closes the store and writes the records. If it cannot write them, it only warns the
// operator: the command itself reports whether its changes are stored.
func (s notingStore) Close() error {
	err := s.Store.Close()
	if missing := s.auditLog.Close(); missing != nil {
		fmt.Fprintf(s.stderr, "mintage: what this command has done or tried is not in the audit log: %v\n", missing)
		fmt.Fprintf(s.stderr, "         name the server's data directory with --data, run this as its user, and make room if its disk is full\n")
	}
	return err
}
