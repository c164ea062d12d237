package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/store"
)

const (
	putNodeSQL = `INSERT INTO nodes (id, name, since, clock) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET clock = excluded.clock`
	listNodesSQL = `SELECT id, name, since, clock FROM nodes ORDER BY id LIMIT $1`
	// Nodes that have ended are forgotten when another one starts.
	deleteNodesSQL = `DELETE FROM nodes WHERE clock < $1 OR clock > $2`
	nodeMemory     = time.Hour
	// nodesAtOnce bounds a list that nodes which crash and start again fill.
	nodesAtOnce = 1000
)

// Meet implements store.Store. Its write is what a server that has been replaced
// cannot confirm.
func (s *Store) Meet(ctx context.Context, self store.Node) (others []store.Node, err error) {
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if self.Clock == self.Since {
			if _, err := tx.Exec(ctx, deleteNodesSQL, int64(self.Clock.Add(-nodeMemory)), int64(self.Clock.Add(nodeMemory))); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, putNodeSQL, self.ID[:], self.Name, int64(self.Since), int64(self.Clock))
		return err
	})
	if err == nil {
		err = s.reading(ctx, func() error {
			others = nil
			return each(ctx, s.pool, func(rows pgx.Rows) error {
				var n store.Node
				var id []byte
				if err := rows.Scan(&id, &n.Name, (*int64)(&n.Since), (*int64)(&n.Clock)); err != nil {
					return err
				}
				if n.ID = store.NodeID(id); n.ID != self.ID {
					others = append(others, n)
				}
				return nil
			}, listNodesSQL, nodesAtOnce)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("meet other nodes: %w", err)
	}
	return others, nil
}
