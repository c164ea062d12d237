package postgres

import (
	"bytes"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
)

// column returns the values of one column of rows, to be passed as an array.
func column[R, T any](rows []R, of func(R) T) []T {
	list := make([]T, len(rows))
	for i, r := range rows {
		list[i] = of(r)
	}
	return list
}

// changing returns the columns of the id and of what a rotation or a revocation
// changes.
func changing(grants []*grant.Grant) []any {
	number := func(of func(g *grant.Grant) int64) []int64 { return column(grants, of) }
	small := func(of func(g *grant.Grant) int16) []int16 { return column(grants, of) }
	return []any{
		column(grants, func(g *grant.Grant) []byte { return g.ID[:] }),
		number(func(g *grant.Grant) int64 { return int64(g.Generation) }),
		number(func(g *grant.Grant) int64 { return g.Version }),
		number(func(g *grant.Grant) int64 { return int64(g.RotatedAt) }),
		number(func(g *grant.Grant) int64 { return int64(g.KeyID) }),
		number(func(g *grant.Grant) int64 { return int64(g.ExpiresAt) }),
		number(func(g *grant.Grant) int64 { return int64(g.DeleteAfter) }),
		number(func(g *grant.Grant) int64 { return int64(g.AccessFloor) }),
		small(func(g *grant.Grant) int16 { return int16(g.State) }),
		small(func(g *grant.Grant) int16 { return int16(g.Reason) }),
		number(func(g *grant.Grant) int64 { return int64(g.Attempt) }),
	}
}

// fixed returns the columns that no change of a grant changes.
func fixed(grants []*grant.Grant) []any {
	text := func(of func(g *grant.Grant) string) []string { return column(grants, of) }
	return []any{
		text(func(g *grant.Grant) string { return g.Realm }),
		text(func(g *grant.Grant) string { return g.ClientID }),
		text(func(g *grant.Grant) string { return g.Subject }),
		text(func(g *grant.Grant) string { return string(g.Scope) }),
		column(grants, func(g *grant.Grant) int64 { return int64(g.AuthorizedAt) }),
		column(grants, func(g *grant.Grant) int64 { return int64(g.AuthTime) }),
		text(func(g *grant.Grant) string { return g.Facts.Text() }),
	}
}

// writtenOf runs a statement that returns the ids of the rows that it has written. For each
// of grants, which are sorted by id, it reports whether its row was written. An id
// identifies an operation of the batch, because a batch holds one operation for each id.
func writtenOf(ctx context.Context, q querier, grants []*grant.Grant, text string, args ...any) ([]bool, error) {
	written := make([]bool, len(grants))
	var id []byte
	err := each(ctx, q, func(rows pgx.Rows) error {
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if i, ok := slices.BinarySearchFunc(grants, id, func(g *grant.Grant, id []byte) int { return bytes.Compare(g.ID[:], id) }); ok {
			written[i] = true
		}
		return nil
	}, text, args...)
	return written, err
}
