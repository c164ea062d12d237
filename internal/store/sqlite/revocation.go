package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	// The events name the grants that were revoked recently; their rows have the
	// rest. A grant counts once, however often its access tokens were revoked, so
	// that one grant cannot fill the list.
	revokedSQL = `SELECT about, max(at) AS latest FROM events WHERE at >= ? AND name IN ('code_replayed', 'refresh_replayed', 'grant_revoked', 'access_revoked')
		GROUP BY about ORDER BY latest DESC LIMIT ?`
	// One more parameter for each further grant follows.
	floorsSQL = `SELECT id, state, access_floor FROM grants WHERE prefix IN (?`
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
	from = since
	err = Each(ctx, s.db, func(rows *sql.Rows) error {
		var about string
		var event grant.Instant
		if err := rows.Scan(&about, &event); err != nil {
			return err
		}
		if len(list) == limit {
			from = event + 1 // others of that instant may be missing
			return nil
		}
		id, err := grant.ParseID(about)
		list = append(list, store.Revocation{GrantID: id, At: event})
		return err
	}, revokedSQL, int64(since), limit+1)
	if err != nil {
		return nil, 0, err
	}
	for part := range slices.Chunk(list, floorsAtOnce) {
		if err := s.floors(ctx, part); err != nil {
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
	prefixes := make([]any, len(list))
	for i, r := range list {
		at[r.GrantID], prefixes[i] = i, Prefix(r.GrantID)
	}
	return Each(ctx, s.db, func(rows *sql.Rows) error {
		var id []byte
		var state grant.State
		var floor grant.Instant
		if err := rows.Scan(&id, &state, &floor); err != nil {
			return err
		}
		if state == grant.Revoked {
			floor = grant.Never
		}
		if i, ok := at[grant.ID(id)]; ok {
			list[i].Floor = floor
		}
		return nil
	}, floorsSQL+strings.Repeat(", ?", len(list)-1)+")", prefixes...)
}
