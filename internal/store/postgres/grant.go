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
	// Without a subject or a client, a listing scans the table.
	listGrantsSQL = `SELECT ` + store.GrantColumns + ` FROM grants WHERE id > $1 AND ($2::text = '' OR realm = $2) ORDER BY id LIMIT $3`
	listClientSQL = `SELECT ` + store.GrantColumns + ` FROM grants WHERE client = $4 AND id > $1 AND ($2::text = '' OR realm = $2) ORDER BY id LIMIT $3`
	// A subject has few grants, and a client may have most. The expression client || ''
	// keeps the server from using the index of clients.
	listSubjectSQL = `SELECT ` + store.GrantColumns + ` FROM grants WHERE subject = $5 AND id > $1 AND ($2::text = '' OR realm = $2)
		AND ($4::text = '' OR client || '' = $4) ORDER BY id LIMIT $3`
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
	text, args := listGrantsSQL, []any{f.After[:], f.Realm, f.Limit}
	switch {
	case f.Subject != "":
		text, args = listSubjectSQL, append(args, f.ClientID, f.Subject)
	case f.ClientID != "":
		text, args = listClientSQL, append(args, f.ClientID)
	}
	grants, err := store.ReadList(ctx, s.Reader, store.ScanGrant, text, args...)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	return grants, nil
}
