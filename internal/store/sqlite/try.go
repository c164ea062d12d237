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
	// tryEvery is how long a write that Ready has made counts, unless another
	// one fails meanwhile: many may ask, and each write is a sync of the disk.
	tryEvery = time.Second
	// tryRoom is how many documents of the largest size must fit after a failure
	// of the disk: in its last blocks, one small write may succeed while the
	// batches of a busy server fail.
	tryRoom = 16
)

// Ready returns why the store takes no write at present, or nil. It makes a
// write, at most one a second, because what served the last request need not
// serve the next one: the disk may have filled up since, and a node that is
// sent no requests would not notice that there is room again.
func (s *Store) Ready(ctx context.Context) error {
	size, now := 1, int64(time.Since(s.opened))
	switch last := s.tried.Load(); {
	case s.writer.full.Load():
		size = tryRoom
	case s.writer.failure.Load() == nil && last != 0 && now-last < int64(tryEvery):
		return nil
	}
	if err := s.try(ctx, size); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.tried.Store(now)
	return nil
}

// TryWrite makes a durable write that leaves nothing behind, and that needs room.
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

// tryDocuments writes documents and removes them, in the writer's transaction:
// the commit writes and syncs every page that they were on. An update that
// leaves all values as they are would not do: SQLite then writes no page, and
// commits without a sync. One document is small; several are of the largest size.
func (w *writer) tryDocuments(n int) error {
	size := 0
	if n > 1 {
		size = store.MaxDocument
	}
	body := make([]byte, size)
	rand.Read(body) // a file system may store zeros for nothing
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

// failed keeps why a write has failed, for Ready.
func (w *writer) failed(err error) {
	if diskFailed(err) {
		w.full.Store(true)
	}
	w.failure.Store(&err)
}

// diskFailed reports whether SQLite could not write its files: for want of room,
// or for another fault of the disk, among which it counts an exceeded quota.
func diskFailed(err error) bool { return IsCode(err, lib.SQLITE_FULL, lib.SQLITE_IOERR) }
