package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mintage/mintage/internal/store"
)

// networks are file systems on which SQLite's shared memory does not work between
// machines (statfs(2), linux/magic.h).
var networks = map[int64]string{0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x00c36400: "Ceph"}

// Examine returns the settings in effect and the sizes of the files.
func (s *Store) Examine(ctx context.Context) (c store.FileCondition, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous`).Scan(&c.JournalMode, &c.Synchronous); err != nil {
		return c, fmt.Errorf("read settings: %w", err)
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return c, err
	}
	c.Size = info.Size()
	if info, err := os.Stat(s.path + "-wal"); err == nil {
		c.WAL = info.Size()
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(s.path), &fs); err != nil {
		return c, fmt.Errorf("file system: %w", err)
	}
	c.Free = int64(fs.Bavail) * fs.Bsize
	c.Network = networks[fs.Type]
	return c, nil
}

// QuickCheck reads the whole file and returns an error if it is damaged. This takes
// long for a large file.
func (s *Store) QuickCheck(ctx context.Context) error {
	var text string
	if err := s.db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&text); err != nil {
		return err
	}
	if text != "ok" {
		return errors.New("damaged: " + text)
	}
	return nil
}
