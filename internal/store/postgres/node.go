package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/store"
)

const (
	putNodeSQL = `INSERT INTO nodes (id, name, since, clock, forms) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET clock = excluded.clock, since = excluded.since`
	listNodesSQL = `SELECT id, name, since, clock, forms FROM nodes ORDER BY id LIMIT $1`
	// The first heartbeat of a node deletes the rows of nodes that have ended.
	deleteNodesSQL = `DELETE FROM nodes WHERE clock < $1 OR clock > $2`
	nodeMemory     = time.Hour
	// nodesAtOnce limits the list: nodes that crash and restart add rows.
	nodesAtOnce = 1000
)

// Heartbeat implements store.Store. A primary that was replaced cannot commit the
// heartbeat.
func (s *Store) Heartbeat(ctx context.Context, self store.Node) (others []store.Node, err error) {
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, putNodeSQL, self.ID[:], self.Name, int64(self.Since), int64(self.Clock), self.Forms)
		return err
	})
	if err == nil {
		// A running server detects here that the store has moved.
		err = s.checkUsable(ctx)
	}
	var all []store.Node
	if err == nil {
		all, err = s.Nodes(ctx)
	}
	if err == nil && self.Clock == self.Since { // the first heartbeat
		// The list is read before the deletion: to a node whose clock is off by hours, all
		// others have ended.
		err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, deleteNodesSQL, int64(self.Clock.Add(-nodeMemory)), int64(self.Clock.Add(nodeMemory)))
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("write heartbeat: %w", err)
	}
	return slices.DeleteFunc(all, func(n store.Node) bool { return n.ID == self.ID }), nil
}

// Nodes lists the nodes that use the store or did within the hour, with their clocks.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	return store.ReadList(ctx, s.Reader, func(rows store.Scanner) (n store.Node, err error) {
		var id []byte
		if err = rows.Scan(&id, &n.Name, (*int64)(&n.Since), (*int64)(&n.Clock), &n.Forms); err == nil {
			n.ID = store.NodeID(id)
		}
		return n, err
	}, listNodesSQL, nodesAtOnce)
}
