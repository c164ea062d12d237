package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
)

// columns are grants on their way to the server: one array for each column.
type columns struct {
	id                                                                                [][]byte
	generation, version, rotatedAt, key, expiresAt, deleteAfter, accessFloor, attempt []int64
	state, reason                                                                     []int16
	authorizedAt, authTime                                                            []int64
	realm, client, subject, scope, facts                                              []string
}

func newColumns(n int) *columns {
	numbers := func() []int64 { return make([]int64, 0, n) }
	return &columns{
		id: make([][]byte, 0, n), generation: numbers(), version: numbers(), rotatedAt: numbers(), key: numbers(),
		expiresAt: numbers(), deleteAfter: numbers(), accessFloor: numbers(), attempt: numbers(),
		state: make([]int16, 0, n), reason: make([]int16, 0, n),
	}
}

func (c *columns) add(g grant.Grant) {
	c.id = append(c.id, g.ID[:])
	c.generation = append(c.generation, int64(g.Generation))
	c.version = append(c.version, g.Version)
	c.rotatedAt = append(c.rotatedAt, int64(g.RotatedAt))
	c.key = append(c.key, int64(g.KeyID))
	c.expiresAt = append(c.expiresAt, int64(g.ExpiresAt))
	c.deleteAfter = append(c.deleteAfter, int64(g.DeleteAfter))
	c.accessFloor = append(c.accessFloor, int64(g.AccessFloor))
	c.attempt = append(c.attempt, int64(g.Attempt))
	c.state = append(c.state, int16(g.State))
	c.reason = append(c.reason, int16(g.Reason))
	c.authorizedAt = append(c.authorizedAt, int64(g.AuthorizedAt))
	c.authTime = append(c.authTime, int64(g.AuthTime))
	c.realm = append(c.realm, g.Realm)
	c.client = append(c.client, g.ClientID)
	c.subject = append(c.subject, g.Subject)
	c.scope = append(c.scope, string(g.Scope))
	c.facts = append(c.facts, g.Facts.Text())
}

// changing lists the id and what a rotation or a revocation changes.
func (c *columns) changing() []any {
	return []any{c.id, c.generation, c.version, c.rotatedAt, c.key, c.expiresAt, c.deleteAfter, c.accessFloor, c.state, c.reason, c.attempt}
}

func (c *columns) all() []any {
	return append(c.changing(), c.realm, c.client, c.subject, c.scope, c.authorizedAt, c.authTime, c.facts)
}

// writings runs a statement that returns the ids of the rows that it has written.
// They tell whose write was done: a batch holds one operation for each id, and a
// statement returns no row that another one has written.
func writings(ctx context.Context, q querier, text string, args ...any) (map[grant.ID]bool, error) {
	written := map[grant.ID]bool{}
	err := each(ctx, q, func(rows pgx.Rows) error {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			return err
		}
		written[grant.ID(id)] = true
		return nil
	}, text, args...)
	return written, err
}
