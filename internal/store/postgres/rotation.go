package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	// The rows of a batch are passed as columns and sorted by id, so that two
	// batches lock common rows in one order. A batch never holds two rows of one
	// id: this statement would apply only one of them.
	updateGrantsSQL = `UPDATE grants AS g SET generation = u.generation, version = u.version, rotated_at = u.rotated_at, key_id = u.key_id,
		expires_at = u.expires_at, delete_after = u.delete_after, access_floor = u.access_floor, state = u.state, reason = u.reason,
		attempt = u.attempt
		FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
			$9::smallint[], $10::smallint[], $11::bigint[])
			AS u (id, generation, version, rotated_at, key_id, expires_at, delete_after, access_floor, state, reason, attempt)
		WHERE g.id = u.id AND g.version = u.version - 1
		RETURNING g.id`
	insertGrantsSQL = `INSERT INTO grants (` + store.GrantColumns + `)
		SELECT u.id, u.realm, u.client, u.subject, u.scope, u.authorized_at, u.generation, u.version, u.rotated_at, u.key_id,
			u.expires_at, u.delete_after, u.access_floor, u.state, u.reason, u.attempt, u.auth_time, u.claims
		FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
			$9::smallint[], $10::smallint[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::bigint[], $18::text[])
			AS u (id, generation, version, rotated_at, key_id, expires_at, delete_after, access_floor, state, reason, attempt,
				realm, client, subject, scope, authorized_at, auth_time, claims)
		ON CONFLICT (id) DO NOTHING
		RETURNING id`
)

// An update is one caller's UpdateGrant.
type update struct {
	seat
	id     grant.ID
	decide store.Decide
	// The last decision.
	next   grant.Grant
	events []store.Event
}

func (u *update) key() grant.ID { return u.id }

// decideOn calls decide. A panic is passed on to the caller's goroutine.
func (u *update) decideOn(have grant.Grant) {
	defer func() {
		if u.panicked = recover(); u.panicked != nil {
			u.next, u.events = have, nil
		}
	}()
	u.next, u.events = u.decide(have)
}

// UpdateGrant implements store.Store.
func (s *Store) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	return s.updates.do(ctx, &update{id: id, decide: decide})
}

// serveUpdates reads the rows of a batch, calls decide for each, and writes the
// results by compare-and-swap of the version.
func serveUpdates(ctx context.Context, conn *pgxpool.Conn, batch []*update) error {
	found, err := findGrants(ctx, conn, column(batch, func(u *update) []byte { return u.id[:] }))
	if err != nil {
		return err
	}
	var plain, recorded []*update
	for _, u := range batch {
		have, ok := found[u.id]
		if !ok {
			u.settle(store.ErrNotFound)
			continue
		}
		u.decideOn(have)
		switch {
		case u.next == have:
			u.settle(nil)
		case u.next.Version != have.Version+1 || u.next.ID != u.id:
			u.settle(fmt.Errorf("write grant: version %d cannot follow %d", u.next.Version, have.Version))
		case len(u.events) > 0:
			recorded = append(recorded, u)
		default:
			plain = append(plain, u)
		}
	}
	if len(plain) > 0 {
		won, err := updateGrants(ctx, conn, plain)
		if err == nil {
			err = confirmed(conn.Conn().PgConn())
		}
		if err != nil {
			return err
		}
		settle(won)
	}
	if len(recorded) > 0 {
		return updateAndRecord(ctx, conn, recorded)
	}
	return nil
}

func settle(won []*update) {
	for _, u := range won {
		u.settle(nil)
	}
}

// updateAndRecord writes grants with their events in one transaction: revocations
// of grants and of access tokens.
func updateAndRecord(ctx context.Context, conn *pgxpool.Conn, batch []*update) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	won, err := updateGrants(ctx, tx, batch)
	var events []store.Event
	for _, u := range won {
		events = append(events, u.events...)
	}
	if err == nil {
		err = insertEvents(ctx, tx, events)
	}
	if err != nil {
		abort(ctx, tx)
		return err
	}
	if err = tx.Commit(ctx); err == nil {
		err = confirmed(conn.Conn().PgConn())
	}
	if err == nil {
		settle(won)
	}
	return err
}

// updateGrants writes the decisions of a batch and returns those that were
// written.
func updateGrants(ctx context.Context, q querier, batch []*update) (won []*update, err error) {
	slices.SortFunc(batch, func(a, b *update) int { return bytes.Compare(a.id[:], b.id[:]) })
	next := column(batch, func(u *update) *grant.Grant { return &u.next })
	written, err := writtenOf(ctx, q, next, updateGrantsSQL, changing(next)...)
	if err != nil {
		return nil, fmt.Errorf("write grants: %w", err)
	}
	for i, u := range batch {
		if written[i] {
			won = append(won, u)
		}
	}
	return won, nil
}

// A creation is one caller's CreateGrant.
type creation struct {
	seat
	grant grant.Grant
}

func (c *creation) key() grant.ID { return c.grant.ID }

// CreateGrant implements store.Store.
func (s *Store) CreateGrant(ctx context.Context, g grant.Grant) error {
	return s.creations.do(ctx, &creation{grant: g})
}

func serveCreations(ctx context.Context, conn *pgxpool.Conn, batch []*creation) error {
	slices.SortFunc(batch, func(a, b *creation) int { return bytes.Compare(a.grant.ID[:], b.grant.ID[:]) })
	grants := column(batch, func(c *creation) *grant.Grant { return &c.grant })
	written, err := writtenOf(ctx, conn, grants, insertGrantsSQL, append(changing(grants), fixed(grants)...)...)
	if err == nil {
		err = confirmed(conn.Conn().PgConn())
	}
	if err != nil {
		return fmt.Errorf("write grants: %w", err)
	}
	var taken []*creation
	var ids [][]byte
	for i, n := range batch {
		if written[i] {
			n.settle(nil)
		} else {
			taken, ids = append(taken, n), append(ids, n.grant.ID[:])
		}
	}
	if len(taken) == 0 {
		return nil
	}
	found, err := findGrants(ctx, conn, ids)
	if err != nil {
		return err
	}
	for _, n := range taken {
		switch have, ok := found[n.grant.ID]; {
		case !ok: // deleted by a sweep meanwhile
		case have == n.grant:
			n.settle(nil)
		default:
			n.settle(store.ErrConflict)
		}
	}
	return nil
}
