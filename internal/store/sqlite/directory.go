package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const insertEventSQL = `INSERT INTO events (id, at, name, about, actor, detail) VALUES (?, ?, ?, ?, ?, ?)`

// putEvents stores events in the writer's transaction.
func (w *writer) putEvents(events []store.Event) error {
	s := w.insertEvent
	for _, e := range events {
		id := make([]byte, 16)
		rand.Read(id)
		s.bindInt(2, int64(e.At))
		err := errors.Join(s.bindBlob(1, id), s.bindText(3, string(e.Name)), s.bindText(4, e.About), s.bindText(5, e.Actor), s.bindText(6, e.Detail))
		if err != nil {
			s.reset()
		} else {
			_, err = s.exec()
		}
		if err != nil {
			return fmt.Errorf("write event: %w", err)
		}
	}
	return nil
}

// Changes implements store.Store.
func (s *Store) Changes(ctx context.Context, since int64) (ch store.Changes, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read directory: %w", err)
		}
	}()
	// The poll of each second ends here unless something has changed.
	if err := s.db.QueryRowContext(ctx, `SELECT version FROM directory WHERE id = 1`).Scan(&ch.Version); err != nil || ch.Version == since {
		return ch, err
	}
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return ch, err
	}
	defer tx.Rollback()
	if err := tx.QueryRow(`SELECT version FROM directory WHERE id = 1`).Scan(&ch.Version); err != nil {
		return ch, err
	}
	err = Each(ctx, tx, func(rows *sql.Rows) error {
		var e store.Entry
		if err := rows.Scan(&e.Kind, &e.Body); err != nil {
			return err
		}
		return ch.Add(e)
	}, `SELECT kind, doc FROM clients WHERE changed > ?`, since)
	if err != nil {
		return ch, err
	}
	if ch.Cutoffs, err = List(ctx, tx, ScanCutoff, `SELECT realm, subject, client, at FROM cutoffs WHERE changed > ?`, since); err != nil {
		return ch, err
	}
	if ch.Keys, err = List(ctx, tx, ScanKey, `SELECT id, purpose, created_at, active_at, wrapped FROM keys WHERE changed > ?`, since); err != nil {
		return ch, err
	}
	ch.Restores, err = List(ctx, tx, func(rows *sql.Rows, r *grant.Restore) error {
		return rows.Scan(&r.At, &r.Backup, &r.Until)
	}, `SELECT at, backup_at, until FROM restores WHERE changed > ?`, since)
	return ch, err
}

// Client implements store.Store.
func (s *Store) Client(ctx context.Context, id string) (c store.Client, err error) {
	e := store.Entry{Kind: store.EntryClient, ID: id}
	err = s.db.QueryRowContext(ctx, `SELECT doc FROM clients WHERE id = ? AND kind = 'client'`, id).Scan(&e.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return c, store.ErrNotFound
	}
	if err == nil {
		c, err = e.Client()
	}
	for i := range c.Secrets {
		if err != nil {
			break
		}
		err = s.db.QueryRowContext(ctx, `SELECT used_at FROM secret_uses WHERE secret = ?`, c.Secrets[i].ID).Scan(&c.Secrets[i].LastUsedAt)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
	}
	if err != nil {
		return c, fmt.Errorf("read client: %w", err)
	}
	return c, nil
}

// Events implements store.Store.
func (s *Store) Events(ctx context.Context, about string, limit int) ([]store.Event, error) {
	events, err := List(ctx, s.db, func(rows *sql.Rows, e *store.Event) error {
		return rows.Scan(&e.At, &e.Name, &e.About, &e.Actor, &e.Detail)
	}, `SELECT at, name, about, actor, detail FROM events WHERE about = ? ORDER BY at, id LIMIT ?`, about, limit)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}
