package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

const (
	versionSQL      = `SELECT version FROM directory WHERE id = 1`
	insertEventsSQL = `INSERT INTO events (id, at, name, about, actor, detail)
		SELECT u.id, u.at, u.name, u.about, u.actor, u.detail
		FROM unnest($1::bytea[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[]) AS u (id, at, name, about, actor, detail)`
	noteUsesSQL = `INSERT INTO secret_uses (secret, used_at) SELECT u.secret, u.used_at FROM unnest($1::text[], $2::bigint[]) AS u (secret, used_at)
		ON CONFLICT (secret) DO UPDATE SET used_at = excluded.used_at WHERE excluded.used_at > secret_uses.used_at`
)

func insertEvents(ctx context.Context, q querier, events []store.Event) error {
	if len(events) == 0 {
		return nil
	}
	text := func(of func(store.Event) string) []string { return column(events, of) }
	err := each(ctx, q, func(pgx.Rows) error { return nil }, insertEventsSQL,
		column(events, func(store.Event) []byte {
			id := make([]byte, 16)
			rand.Read(id)
			return id
		}),
		column(events, func(e store.Event) int64 { return int64(e.At) }),
		text(func(e store.Event) string { return string(e.Name) }),
		text(func(e store.Event) string { return e.About }),
		text(func(e store.Event) string { return printable(e.Actor) }),
		text(func(e store.Event) string { return printable(e.Detail) }))
	if err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// printable replaces what a text column cannot hold. A line of evidence may quote a
// request, and must not prevent the revocation of its grant.
func printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// Changes implements store.Store.
func (s *Store) Changes(ctx context.Context, since int64) (ch store.Changes, err error) {
	err = s.reading(ctx, func() error {
		ch, err = s.changes(ctx, since)
		return err
	})
	if err != nil {
		return store.Changes{}, fmt.Errorf("read directory: %w", err)
	}
	return ch, nil
}

func (s *Store) changes(ctx context.Context, since int64) (ch store.Changes, err error) {
	// The poll of each second ends here unless something has changed.
	if err := s.pool.QueryRow(ctx, versionSQL).Scan(&ch.Version); err != nil || ch.Version == since {
		return ch, err
	}
	// One snapshot for all statements.
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return ch, err
	}
	defer abort(ctx, tx)
	if err := tx.QueryRow(ctx, versionSQL).Scan(&ch.Version); err != nil {
		return ch, err
	}
	err = each(ctx, tx, func(rows pgx.Rows) error {
		var e store.Entry
		if err := rows.Scan((*string)(&e.Kind), &e.Body); err != nil {
			return err
		}
		return ch.Add(e)
	}, `SELECT kind, doc FROM clients WHERE changed > $1`, since)
	if err != nil {
		return ch, err
	}
	ch.Cutoffs, err = list(ctx, tx, func(rows pgx.Rows) (c store.Cutoff, err error) {
		err = rows.Scan(&c.Realm, &c.Subject, &c.ClientID, (*int64)(&c.At))
		return c, err
	}, `SELECT realm, subject, client, at FROM cutoffs WHERE changed > $1`, since)
	if err != nil {
		return ch, err
	}
	ch.Keys, err = list(ctx, tx, func(rows pgx.Rows) (r keys.Record, err error) {
		var id int64
		err = rows.Scan(&id, (*string)(&r.Purpose), (*int64)(&r.CreatedAt), (*int64)(&r.ActiveAt), &r.Wrapped)
		r.ID = grant.KeyID(id)
		return r, err
	}, `SELECT id, purpose, created_at, active_at, wrapped FROM keys WHERE changed > $1`, since)
	if err != nil {
		return ch, err
	}
	ch.Restores, err = list(ctx, tx, func(rows pgx.Rows) (r grant.Restore, err error) {
		err = rows.Scan((*int64)(&r.At), (*int64)(&r.Backup), (*int64)(&r.Until))
		return r, err
	}, `SELECT at, backup_at, until FROM restores WHERE changed > $1`, since)
	return ch, err
}

// Client implements store.Store.
func (s *Store) Client(ctx context.Context, id string) (c store.Client, err error) {
	err = s.reading(ctx, func() error {
		c, err = s.client(ctx, id)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("read client: %w", err)
	}
	return c, err
}

func (s *Store) client(ctx context.Context, id string) (c store.Client, err error) {
	e := store.Entry{Kind: store.EntryClient, ID: id}
	err = s.pool.QueryRow(ctx, `SELECT doc FROM clients WHERE id = $1 AND kind = 'client'`, id).Scan(&e.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, store.ErrNotFound
	}
	if err == nil {
		c, err = e.Client()
	}
	if err != nil {
		return store.Client{}, err
	}
	secrets := column(c.Secrets, func(s store.Secret) string { return s.ID })
	err = each(ctx, s.pool, func(rows pgx.Rows) error {
		var secret string
		var at int64
		if err := rows.Scan(&secret, &at); err != nil {
			return err
		}
		c.Secrets[slices.Index(secrets, secret)].LastUsedAt = grant.Instant(at)
		return nil
	}, `SELECT secret, used_at FROM secret_uses WHERE secret = ANY($1::text[])`, secrets)
	return c, err
}

// NoteSecretUses implements store.Store.
func (s *Store) NoteSecretUses(ctx context.Context, uses map[string]grant.Instant) error {
	secrets := slices.Sorted(maps.Keys(uses)) // two nodes lock rows in one order
	at := column(secrets, func(id string) int64 { return int64(uses[id]) })
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, noteUsesSQL, secrets, at)
		return err
	})
}

// Events implements store.Store.
func (s *Store) Events(ctx context.Context, about string, limit int) ([]store.Event, error) {
	events, err := readList(ctx, s, func(rows pgx.Rows) (e store.Event, err error) {
		err = rows.Scan((*int64)(&e.At), (*string)(&e.Name), &e.About, &e.Actor, &e.Detail)
		return e, err
	}, `SELECT at, name, about, actor, detail FROM events WHERE about = $1 ORDER BY at, id LIMIT $2`, about, limit)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}
