package sqlite

import (
	"sync"
	"sync/atomic"
)

const (
	// checkpointOps is the number of operations after which their pages are
	// moved from the log into the main file. The longer the log, the more of
	// them share a page or a block of the disk: with a million grants and 2,000
	// operations, each wrote a block of its own, and commits waited behind.
	checkpointOps = 30_000
	// restOps is how many operations' pages the writer may stop for.
	restOps = 500
)

// A checkpointer moves pages from the log into the main file, on a connection
// of its own and beside the writer, who would otherwise stop for it: with rows
// spread over a large table, for half a second each time. It goes on until
// little is left, which the writer moves itself: the log can begin anew only
// if all of it has been moved and nothing was written meanwhile.
type checkpointer struct {
	conn *connection
	due  chan struct{}
	done sync.WaitGroup

	behind atomic.Int64 // operations since a move began
	busy   atomic.Bool
	rest   atomic.Bool // the writer is to move the rest
}

const movePages = "PRAGMA wal_checkpoint(PASSIVE)"

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
			for range 8 {
				c.behind.Store(0)
				_ = conn.run(movePages)
				if c.behind.Load() < restOps {
					break
				}
			}
			c.rest.Store(true)
			c.busy.Store(false)
		}
	})
	return c, nil
}

// committed is told of the writer's operations, by the writer.
func (c *checkpointer) committed(writer *connection, ops int) {
	behind := c.behind.Add(int64(ops))
	switch {
	case c.rest.CompareAndSwap(true, false):
		_ = writer.run(movePages)
		c.behind.Store(0)
	case behind >= checkpointOps && c.busy.CompareAndSwap(false, true):
		c.due <- struct{}{}
	}
}

func (c *checkpointer) stop() {
	close(c.due)
	c.done.Wait()
}
