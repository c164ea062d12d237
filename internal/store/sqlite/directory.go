package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

const insertEventSQL = `INSERT INTO events (id, at, name, about, actor, detail) VALUES (?, ?, ?, ?, ?, ?)`

func newEventID() []byte {
	id := make([]byte, 16)
	rand.Read(id)
	return id
}

func bindEvent(s *statement, e store.Event) error {
	s.bindInt(2, int64(e.At))
	return errors.Join(s.bindBlob(1, newEventID()), s.bindText(3, string(e.Name)), s.bindText(4, e.About),
		s.bindText(5, e.Actor), s.bindText(6, e.Detail))
}

// Changes implements store.Store.
func (s *Store) Changes(ctx context.Context, since int64) (ch store.Changes, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read directory: %w", err)
		}
	}()
	// The poll of every second ends here when nothing has changed.
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
	err = each(tx, `SELECT kind, doc FROM clients WHERE changed > ?`, since, func(rows *sql.Rows) error {
		var e store.Entry
		if err := rows.Scan(&e.Kind, &e.Body); err != nil {
			return err
		}
		return ch.Add(e)
	})
	if err != nil {
		return ch, err
	}
	err = each(tx, `SELECT realm, subject, client, at FROM cutoffs WHERE changed > ?`, since, func(rows *sql.Rows) error {
		var c store.Cutoff
		err := rows.Scan(&c.Realm, &c.Subject, &c.ClientID, &c.At)
		ch.Cutoffs = append(ch.Cutoffs, c)
		return err
	})
	if err != nil {
		return ch, err
	}
	err = each(tx, `SELECT id, purpose, created_at, active_at, wrapped FROM keys WHERE changed > ?`, since, func(rows *sql.Rows) error {
		var r keys.Record
		err := rows.Scan(&r.ID, &r.Purpose, &r.CreatedAt, &r.ActiveAt, &r.Wrapped)
		ch.Keys = append(ch.Keys, r)
		return err
	})
	if err != nil {
		return ch, err
	}
	err = each(tx, `SELECT at, backup_at, until FROM restores WHERE changed > ?`, since, func(rows *sql.Rows) error {
		var r grant.Restore
		err := rows.Scan(&r.At, &r.Backup, &r.Until)
		ch.Restores = append(ch.Restores, r)
		return err
	})
	return ch, err
}

func each(tx *sql.Tx, query string, arg any, f func(*sql.Rows) error) error {
	rows, err := tx.Query(query, arg)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
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
func (s *Store) Events(ctx context.Context, about string, limit int) (list []store.Event, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT at, name, about, actor, detail FROM events WHERE about = ? ORDER BY at, id LIMIT ?`, about, limit)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e store.Event
		if err := rows.Scan(&e.At, &e.Name, &e.About, &e.Actor, &e.Detail); err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		list = append(list, e)
	}
	return list, rows.Err()
}
