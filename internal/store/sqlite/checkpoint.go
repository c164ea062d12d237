package sqlite

import "sync"

// checkpointOps is the number of operations after which their pages are moved
// from the log into the main file.
const checkpointOps = 2000

// A checkpointer moves pages from the log into the main file, on a connection
// of its own and beside the writer, who would otherwise stop for it: with rows
// spread over a large table, for a twentieth of a second each time. When most
// pages have been moved, the writer begins the log anew.
type checkpointer struct {
	conn *connection
	ops  int // since the last one; the writer's
	due  chan struct{}
	done sync.WaitGroup
}

func startCheckpointer(path string) (*checkpointer, error) {
	conn, err := connect(path, pragmas)
	if err != nil {
		return nil, err
	}
	c := &checkpointer{conn: conn, due: make(chan struct{}, 1)}
	c.done.Go(func() {
		defer conn.close()
		for range c.due {
			// It moves what it can, and a fault is the next one's affair: all
			// is in the log, and the log may grow.
			_ = conn.run("PRAGMA wal_checkpoint(PASSIVE)")
		}
	})
	return c, nil
}

// committed is told of the writer's operations, by the writer.
func (c *checkpointer) committed(ops int) {
	if c.ops += ops; c.ops < checkpointOps {
		return
	}
	select {
	case c.due <- struct{}{}:
		c.ops = 0
	default: // one is due already
	}
}

func (c *checkpointer) stop() {
	close(c.due)
	c.done.Wait()
}
