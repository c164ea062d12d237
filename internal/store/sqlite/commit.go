package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// Commit implements store.Store. A change of documents joins the batch of queued
// operations; a change of the directory has a transaction of its own.
func (s *Store) Commit(ctx context.Context, c store.Change) error {
	c, err := c.Checked()
	if err != nil {
		return err
	}
	w := s.writer
	if c.Expect == 0 && !c.Directory() {
		return w.do(ctx, &operation{change: &c})
	}
	return w.do(ctx, &operation{alone: func() error {
		err := w.transact(func() error {
			for _, st := range c.Statements() {
				if n, err := w.conn.exec(st.Text, st.Args...); err != nil {
					return fmt.Errorf("write directory: %w", err)
				} else if st.Must && n != 1 {
					return store.ErrConflict
				}
			}
			return w.putDocuments(&c)
		})
		return w.recognised(&c, err)
	}})
}

// commitDocuments applies a change within the transaction of a batch. It checks
// all versions before it writes, because a conflict does not roll the batch back.
func (w *writer) commitDocuments(c *store.Change) error {
	if !c.OneDocument() {
		for _, d := range c.Documents {
			if fits, err := w.documents.fits(d); err != nil {
				return err
			} else if !fits {
				return w.recognised(c, store.ErrConflict)
			}
		}
	}
	return w.recognised(c, w.putDocuments(c))
}

func (w *writer) putDocuments(c *store.Change) error {
	for _, d := range c.Documents {
		if err := w.documents.put(d); err != nil {
			return err
		}
	}
	for _, key := range c.Delete {
		if err := w.documents.erase(key); err != nil {
			return err
		}
	}
	return w.putEvents(c.Events)
}

// recognised returns nil instead of a conflict if the store already holds exactly
// what c stores.
func (w *writer) recognised(c *store.Change, conflict error) error {
	if !errors.Is(conflict, store.ErrConflict) {
		return conflict
	}
	for _, st := range c.Held() {
		if n, err := w.conn.number(st.Text, st.Args...); err != nil {
			return fmt.Errorf("read what is stored: %w", err)
		} else if n != 1 {
			return conflict
		}
	}
	return nil
}

// NoteSecretUses implements store.Store.
func (s *Store) NoteSecretUses(ctx context.Context, uses map[string]grant.Instant) error {
	return s.writer.do(ctx, &operation{alone: func() error {
		return s.writer.transact(func() error {
			for id, at := range uses {
				if _, err := s.writer.conn.exec(noteUseSQL, id, int64(at)); err != nil {
					return fmt.Errorf("write use of a secret: %w", err)
				}
			}
			return nil
		})
	}})
}

// A sweep holds the statements that find and delete expired rows of a table.
type sweep struct{ scan, delete string }

var sweeps = map[store.SweptTable]sweep{
	store.SweptGrants: {walkGrantsSQL, deleteGrantSQL}, store.SweptDocuments: {walkDocumentsSQL, sweepDocumentSQL},
}

const (
	noteUseSQL = `INSERT INTO secret_uses (secret, used_at) VALUES (?, ?)
		ON CONFLICT (secret) DO UPDATE SET used_at = excluded.used_at WHERE excluded.used_at > secret_uses.used_at`

	walkGrantsSQL    = `SELECT id, version, delete_after FROM grants WHERE prefix >= ? AND id > ? ORDER BY prefix LIMIT ?`
	deleteGrantSQL   = `DELETE FROM grants WHERE prefix = ? AND id = ? AND version = ? AND delete_after < ?`
	walkDocumentsSQL = `SELECT id, version, expires_at FROM documents WHERE id > ? ORDER BY id LIMIT ?`
	sweepDocumentSQL = `DELETE FROM documents WHERE id = ? AND version = ? AND expires_at <> 0 AND expires_at < ?`
	deleteEventsSQL  = `DELETE FROM events WHERE about = ?`
)

// Sweep implements store.Store.
func (s *Store) Sweep(ctx context.Context, table store.SweptTable, after string, now grant.Instant, limit int) (next string, deleted int, err error) {
	defer func() {
		if err != nil {
			next, deleted, err = after, 0, fmt.Errorf("sweep %s: %w", table, err)
		}
	}()
	of, grants := sweeps[table], table == store.SweptGrants
	// key returns the arguments that find a row by its id.
	key := func(id []byte) []any {
		if grants {
			return []any{Prefix(grant.ID(id)), id}
		}
		return []any{id}
	}
	from := make([]byte, len(grant.ID{}))
	if !grants {
		from = make([]byte, len(store.DocumentKey{}))
	}
	copy(from, after)
	next, due, err := s.FindDue(ctx, table, now, limit, of.scan, append(key(from), limit)...)
	if err != nil {
		return "", 0, err
	}
	if len(due) == 0 {
		return next, 0, nil
	}
	// The transaction must not write to the result deleted: if ctx ends, it may
	// still be running after the return.
	gone := 0
	err = s.writer.do(ctx, &operation{alone: func() error {
		return s.writer.transact(func() error {
			for _, row := range due {
				n, err := s.writer.conn.exec(of.delete, append(key(row.ID), row.Version, int64(now))...)
				if err != nil {
					return err
				}
				gone += n
				if n == 1 && grants {
					if _, err := s.writer.conn.exec(deleteEventsSQL, grant.ID(row.ID).String()); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}})
	if err != nil {
		return "", 0, err
	}
	return next, gone, nil
}

// Heartbeat implements store.Store. A file has one node only; see Lock.
func (s *Store) Heartbeat(context.Context, store.Node) ([]store.Node, error) { return nil, nil }

const insertEventSQL = `INSERT INTO events (id, at, name, about, actor, detail) VALUES (?, ?, ?, ?, ?, ?)`

// putEvents stores events in the writer's transaction.
func (w *writer) putEvents(events []store.Event) error {
	s := w.insertEvent
	for _, e := range events {
		id := make([]byte, 16)
		rand.Read(id)
		s.bindInt(2, int64(e.At))
		_, err := s.execBound(errors.Join(s.bindBlob(1, id), s.bindText(3, string(e.Name)), s.bindText(4, e.About), s.bindText(5, e.Actor), s.bindText(6, e.Detail)))
		if err != nil {
			return fmt.Errorf("write event: %w", err)
		}
	}
	return nil
}
