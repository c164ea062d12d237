package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	grantList = `id, realm, client, subject, scope, authorized_at, generation, version, rotated_at, key_id,
		expires_at, delete_after, access_floor, state, reason, attempt, auth_time, claims`

	selectGrantsSQL = `SELECT ` + grantList + ` FROM grants WHERE id = ANY($1::bytea[])`
	listGrantsSQL   = `SELECT ` + grantList + ` FROM grants WHERE id > $1 AND ($2::text = '' OR realm = $2)
		AND ($3::text = '' OR client = $3) ORDER BY id LIMIT $4`
	// Without a subject, a listing scans the table.
	listSubjectSQL = `SELECT ` + grantList + ` FROM grants WHERE subject = $5 AND id > $1 AND ($2::text = '' OR realm = $2)
		AND ($3::text = '' OR client = $3) ORDER BY id LIMIT $4`
)

// scanGrant reads a row of grantList.
func scanGrant(rows pgx.Rows) (g grant.Grant, err error) {
	var id []byte
	var generation, key, attempt int64
	var state, reason int16
	var facts string
	err = rows.Scan(&id, &g.Realm, &g.ClientID, &g.Subject, (*string)(&g.Scope), (*int64)(&g.AuthorizedAt), &generation, &g.Version,
		(*int64)(&g.RotatedAt), &key, (*int64)(&g.ExpiresAt), (*int64)(&g.DeleteAfter), (*int64)(&g.AccessFloor), &state, &reason, &attempt,
		(*int64)(&g.AuthTime), &facts)
	if err != nil {
		return g, err
	}
	g.ID, g.Generation, g.KeyID, g.Attempt = grant.ID(id), uint32(generation), grant.KeyID(key), uint64(attempt)
	g.State, g.Reason = grant.State(state), grant.Reason(reason)
	g.Facts, err = grant.ParseFacts(facts)
	return g, err
}

// findGrants reads the grants of some ids in one statement.
func findGrants(ctx context.Context, q querier, ids [][]byte) (map[grant.ID]grant.Grant, error) {
	found := make(map[grant.ID]grant.Grant, len(ids))
	err := each(ctx, q, func(rows pgx.Rows) error {
		g, err := scanGrant(rows)
		found[g.ID] = g
		return err
	}, selectGrantsSQL, ids)
	if err != nil {
		return nil, unwritten(fmt.Errorf("read grants: %w", err))
	}
	return found, nil
}

// Grant implements store.Store.
func (s *Store) Grant(ctx context.Context, id grant.ID) (grant.Grant, error) {
	r := &read[grant.ID, grant.Grant]{id: id}
	r.bytes = r.id[:]
	err := s.grantReads.do(ctx, r)
	return r.value, err
}

// Grants implements store.Store.
func (s *Store) Grants(ctx context.Context, f store.GrantFilter) ([]grant.Grant, error) {
	text, args := listGrantsSQL, []any{f.After[:], f.Realm, f.ClientID, f.Limit}
	if f.Subject != "" {
		text, args = listSubjectSQL, append(args, f.Subject)
	}
	grants, err := readList(ctx, s, scanGrant, text, args...)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	return grants, nil
}
