package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/mintage/mintage/internal/store"
)

const (
	// tryEvery is how long a test write of Ready remains valid, unless another
	// write fails: each one syncs the disk, and there may be many callers.
	tryEvery = time.Second
	// tryRoom is how many documents of the largest size a test write stores after
	// a disk failure: on a nearly full disk, a small write may succeed while the
	// batches of a busy server fail.
	tryRoom = 16
)

// Ready returns an error if the store cannot write at present. It makes a test
// write, at most once a second: the disk may have filled up since the last
// request, and a node without requests would not notice that there is space
// again.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.Present(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	size, now := 1, int64(time.Since(s.opened))
	switch last := s.tried.Load(); {
	case s.writer.full.Load():
		size = tryRoom
	case !s.writer.failing.Load() && last != 0 && now-last < int64(tryEvery):
		return nil
	}
	if err := s.try(ctx, size); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.tried.Store(now)
	return nil
}

// TryWrite makes a durable write that needs disk space, and removes it again.
func (s *Store) TryWrite(ctx context.Context) error { return s.try(ctx, tryRoom) }

func (s *Store) try(ctx context.Context, size int) error {
	w := s.writer
	err := w.do(ctx, &operation{alone: func() error {
		err := w.transact(func() error { return w.tryDocuments(size) })
		if err == nil {
			w.batches.Add(1)
		}
		return err
	}})
	if err == nil && size == tryRoom {
		w.full.Store(false)
	}
	return err
}

// tryDocuments writes n documents and deletes them in the writer's transaction:
// the commit writes and syncs every page that they were on. An update that changes
// no value is not enough: SQLite then writes no page and does not sync. One
// document is small; several have the largest size.
func (w *writer) tryDocuments(n int) error {
	size := 0
	if n > 1 {
		size = store.MaxDocument
	}
	body := make([]byte, size)
	rand.Read(body) // a file system may store zeros without using space
	for i := range n {
		d := store.Document{Kind: "try", Key: store.KeyOf("try", "", strconv.Itoa(i)), Version: 1, Body: body}
		if err := w.documents.put(d); err != nil {
			return err
		}
	}
	for i := range n {
		if err := w.documents.erase(store.KeyOf("try", "", strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return nil
}

// failed makes the next Ready make a test write, even within tryEvery of the last one.
func (w *writer) failed(err error) {
	if diskFailed(err) {
		w.full.Store(true)
	}
	w.failing.Store(true)
}

// diskFailed reports whether SQLite could not write its files: the disk is full, or
// it has failed, which includes an exceeded quota.
func diskFailed(err error) bool { return IsCode(err, lib.SQLITE_FULL, lib.SQLITE_IOERR) }
