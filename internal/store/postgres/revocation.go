package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	// The events name the grants that were revoked recently; their rows have the
	// rest. A grant counts once, however often its access tokens were revoked, so
	// that one grant cannot fill the list.
	revokedSQL = `SELECT about, max(at) AS latest FROM events WHERE at >= $1 AND name IN ('code_replayed', 'refresh_replayed', 'grant_revoked', 'access_revoked')
		GROUP BY about ORDER BY latest DESC LIMIT $2`
	floorsSQL = `SELECT id, state, access_floor FROM grants WHERE id = ANY($1::bytea[])`
	// floorsAtOnce is the number of grants in one statement.
	floorsAtOnce = 500
)

// Revocations implements store.Store.
func (s *Store) Revocations(ctx context.Context, since grant.Instant, limit int) (list []store.Revocation, from grant.Instant, err error) {
	defer func() {
		if err != nil {
			list, from, err = nil, 0, fmt.Errorf("read revocations: %w", err)
		}
	}()
	err = s.reading(ctx, func() error {
		list, from = nil, since
		return each(ctx, s.pool, func(rows pgx.Rows) error {
			var about string
			var event int64
			if err := rows.Scan(&about, &event); err != nil {
				return err
			}
			if len(list) == limit {
				from = grant.Instant(event) + 1 // others of that instant may be missing
				return nil
			}
			id, err := grant.ParseID(about)
			list = append(list, store.Revocation{GrantID: id, At: grant.Instant(event)})
			return err
		}, revokedSQL, int64(since), limit+1)
	})
	if err != nil {
		return nil, 0, err
	}
	for part := range slices.Chunk(list, floorsAtOnce) {
		if err := s.reading(ctx, func() error { return s.floors(ctx, part) }); err != nil {
			return nil, 0, err
		}
	}
	// The tokens of a grant whose row was deleted have all expired.
	list = slices.DeleteFunc(list, func(r store.Revocation) bool { return r.Floor == 0 })
	return list, from, nil
}

// floors reads the access floors of grants: older access tokens are revoked.
func (s *Store) floors(ctx context.Context, list []store.Revocation) error {
	at := make(map[grant.ID]int, len(list))
	ids := make([][]byte, len(list))
	for i, r := range list {
		at[r.GrantID], ids[i] = i, r.GrantID[:]
	}
	return each(ctx, s.pool, func(rows pgx.Rows) error {
		var id []byte
		var state int16
		var floor int64
		if err := rows.Scan(&id, &state, &floor); err != nil {
			return err
		}
		if grant.State(state) == grant.Revoked {
			floor = int64(grant.Never)
		}
		list[at[grant.ID(id)]].Floor = grant.Instant(floor)
		return nil
	}, floorsSQL, ids)
}
