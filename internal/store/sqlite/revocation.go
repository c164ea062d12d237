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
	// Events tell which grants were revoked lately; their rows tell the rest.
	// However often a grant's access tokens were revoked, it counts once: nobody
	// fills the list with one grant.
	revokedSQL = `SELECT about, max(at) AS latest FROM events WHERE at >= ? AND name IN ('code_replayed', 'refresh_replayed', 'grant_revoked', 'access_revoked')
		GROUP BY about ORDER BY latest DESC LIMIT ?`
	// A parameter for each grant follows.
	floorsSQL = `SELECT id, state, access_floor FROM grants WHERE prefix IN (?`
	// floorsAtOnce bounds those of one statement.
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
	// A row that is gone has no token that could be alive.
	list = slices.DeleteFunc(list, func(r store.Revocation) bool { return r.Floor == 0 })
	return list, from, nil
}

// floors reads how far back the access tokens of grants are dead.
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
