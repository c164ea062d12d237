package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
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

// admin runs f in a transaction of its own on the writer.
func (s *Store) admin(ctx context.Context, f func(tx *sql.Tx) error) error {
	return s.writer.do(ctx, &operation{admin: f})
}

// change runs f in a transaction that also moves the directory on to a new
// version, which f puts into the rows that it writes.
func (s *Store) change(ctx context.Context, events []store.Event, f func(tx *sql.Tx, version int64) error) error {
	return s.admin(ctx, func(tx *sql.Tx) error {
		var version int64
		if err := tx.QueryRow(`UPDATE directory SET version = version + 1 WHERE id = 1 RETURNING version`).Scan(&version); err != nil {
			return err
		}
		if err := f(tx, version); err != nil {
			return err
		}
		for _, e := range events {
			if _, err := tx.Exec(insertEventSQL, newEventID(), int64(e.At), string(e.Name), e.About, e.Actor, e.Detail); err != nil {
				return err
			}
		}
		return nil
	})
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
	err = each(tx, `SELECT doc FROM clients WHERE changed > ?`, since, func(rows *sql.Rows) error {
		var doc string
		var c store.Client
		if err := rows.Scan(&doc); err != nil {
			return err
		}
		err := json.Unmarshal([]byte(doc), &c)
		ch.Clients = append(ch.Clients, c)
		return err
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
	var doc string
	err = s.db.QueryRowContext(ctx, `SELECT doc FROM clients WHERE id = ?`, id).Scan(&doc)
	if errors.Is(err, sql.ErrNoRows) {
		return c, store.ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal([]byte(doc), &c)
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

// CreateClient implements store.Store.
func (s *Store) CreateClient(ctx context.Context, c store.Client, events ...store.Event) error {
	doc, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.change(ctx, events, func(tx *sql.Tx, version int64) error {
		return one(tx.Exec(`INSERT INTO clients (id, version, changed, doc) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			c.ID, c.Version, version, string(doc)))
	})
}

// UpdateClient implements store.Store.
func (s *Store) UpdateClient(ctx context.Context, c store.Client, cutoffs []store.Cutoff, events ...store.Event) error {
	doc, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.change(ctx, events, func(tx *sql.Tx, version int64) error {
		err := one(tx.Exec(`UPDATE clients SET version = ?, changed = ?, doc = ? WHERE id = ? AND version = ?`,
			c.Version, version, string(doc), c.ID, c.Version-1))
		for _, cut := range cutoffs {
			if err == nil {
				err = putCutoff(tx, cut, version)
			}
		}
		return err
	})
}

// one is store.ErrConflict unless exactly one row was written.
func one(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return store.ErrConflict
}

// NoteSecretUses implements store.Store.
func (s *Store) NoteSecretUses(ctx context.Context, uses map[string]grant.Instant) error {
	return s.admin(ctx, func(tx *sql.Tx) error {
		for id, at := range uses {
			if _, err := tx.Exec(`INSERT INTO secret_uses (secret, used_at) VALUES (?, ?)
				ON CONFLICT (secret) DO UPDATE SET used_at = excluded.used_at WHERE excluded.used_at > secret_uses.used_at`, id, int64(at)); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddCutoff implements store.Store.
func (s *Store) AddCutoff(ctx context.Context, c store.Cutoff, events ...store.Event) error {
	return s.change(ctx, events, func(tx *sql.Tx, version int64) error { return putCutoff(tx, c, version) })
}

func putCutoff(tx *sql.Tx, c store.Cutoff, version int64) error {
	_, err := tx.Exec(`INSERT INTO cutoffs (realm, subject, client, at, changed) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (realm, subject, client) DO UPDATE SET at = excluded.at, changed = excluded.changed WHERE excluded.at > cutoffs.at`,
		c.Realm, c.Subject, c.ClientID, int64(c.At), version)
	return err
}

// AddRestore implements store.Store.
func (s *Store) AddRestore(ctx context.Context, r grant.Restore, events ...store.Event) error {
	return s.change(ctx, events, func(tx *sql.Tx, version int64) error {
		return one(tx.Exec(`INSERT INTO restores (at, backup_at, until, changed) VALUES (?, ?, ?, ?) ON CONFLICT (at) DO NOTHING`,
			int64(r.At), int64(r.Backup), int64(r.Until), version))
	})
}

// AddKeys implements store.Store.
func (s *Store) AddKeys(ctx context.Context, expected int64, records []keys.Record, events ...store.Event) error {
	return s.ChangeKeys(ctx, expected, nil, records, events...)
}

// ChangeKeys implements store.Store.
func (s *Store) ChangeKeys(ctx context.Context, expected int64, changed, added []keys.Record, events ...store.Event) error {
	return s.change(ctx, events, func(tx *sql.Tx, version int64) error {
		if version != expected+1 {
			return store.ErrConflict
		}
		for _, r := range changed {
			if err := one(tx.Exec(`UPDATE keys SET wrapped = ?, changed = ? WHERE id = ?`, r.Wrapped, version, r.ID)); err != nil {
				return err
			}
		}
		for _, r := range added {
			if _, err := tx.Exec(`INSERT INTO keys (id, purpose, created_at, active_at, wrapped, changed) VALUES (?, ?, ?, ?, ?, ?)`,
				r.ID, r.Purpose, int64(r.CreatedAt), int64(r.ActiveAt), r.Wrapped, version); err != nil {
				return err
			}
		}
		return nil
	})
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

// Meet implements store.Store. A file serves one node; see Lock.
func (s *Store) Meet(context.Context, store.Node) ([]store.Node, error) { return nil, nil }
