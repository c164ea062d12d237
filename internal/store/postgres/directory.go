package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
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
	insertion := insertionOf(events)
	if err := each(ctx, q, func(pgx.Rows) error { return nil }, insertion.Text, insertion.Args...); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// insertionOf returns the statement that inserts events.
func insertionOf(events []store.Event) store.Statement {
	text := func(of func(store.Event) string) []string { return column(events, of) }
	return store.Statement{Text: insertEventsSQL, Args: []any{
		column(events, func(store.Event) []byte {
			id := make([]byte, 16)
			rand.Read(id)
			return id
		}),
		column(events, func(e store.Event) int64 { return int64(e.At) }),
		text(func(e store.Event) string { return string(e.Name) }),
		text(func(e store.Event) string { return e.About }),
		text(func(e store.Event) string { return printable(e.Actor) }),
		text(func(e store.Event) string { return printable(e.Detail) }),
	}}
}

// printable replaces what a text column cannot hold. A line of evidence may quote a
// request, and must not prevent the revocation of its grant.
func printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
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
