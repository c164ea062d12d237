package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	selectGrantsSQL = `SELECT ` + store.GrantColumns + ` FROM grants WHERE id = ANY($1::bytea[])`
	listGrantsSQL   = `SELECT ` + store.GrantColumns + ` FROM grants WHERE id > $1 AND ($2::text = '' OR realm = $2)
		AND ($3::text = '' OR client = $3) ORDER BY id LIMIT $4`
	// Without a subject, a listing scans the table.
	listSubjectSQL = `SELECT ` + store.GrantColumns + ` FROM grants WHERE subject = $5 AND id > $1 AND ($2::text = '' OR realm = $2)
		AND ($3::text = '' OR client = $3) ORDER BY id LIMIT $4`
)

// findGrants reads the grants of some ids in one statement.
func findGrants(ctx context.Context, q querier, ids [][]byte) (map[grant.ID]grant.Grant, error) {
	found := make(map[grant.ID]grant.Grant, len(ids))
	err := each(ctx, q, func(rows pgx.Rows) error {
		g, err := store.ScanGrant(rows)
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
	grants, err := store.ReadList(ctx, s.Reader, store.ScanGrant, text, args...)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	return grants, nil
}
