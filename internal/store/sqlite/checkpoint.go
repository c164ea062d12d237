package sqlite

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

const (
	// A checkpoint begins when the log is half as large as the main file, and has
	// at least leastLogPages pages. The longer the log, the more rows share a disk
	// block when they are checkpointed: with ten million grants, a checkpoint of
	// 30,000 pages wrote a block of 4 KiB for each of them.
	leastLogPages = 30_000
	// restPages is how many pages the checkpointer may leave for the writer to move.
	restPages = 500
	// readersPause is how long the writer waits for readers to finish with the log.
	readersPause = 20 * time.Millisecond
)

// checkpointer checkpoints the write-ahead log on a connection of its own,
// concurrently with the writer. It repeats until few pages are left. The writer
// moves those, because the log restarts only if all of it was moved and nothing
// was written meanwhile. At twice the limit, the writer waits for the checkpoint, so
// that the log grows further only while another process reads.
//
// The writer's goroutine owns its fields.
type checkpointer struct {
	conn   *connection
	due    chan chan struct{}
	done   sync.WaitGroup
	limit  int           // pages
	least  int           // leastLogPages, or fewer in tests
	from   int           // pages in the log when the last checkpoint ended
	moving chan struct{} // closed when the running checkpoint ends; nil if none runs
}

func startCheckpointer(path string, writer *connection) (*checkpointer, error) {
	conn, err := connect(path, 0, Pragmas)
	if err != nil {
		return nil, err
	}
	c := &checkpointer{conn: conn, due: make(chan chan struct{}, 1), least: leastLogPages}
	if err := c.setLimit(writer); err != nil {
		conn.close()
		return nil, err
	}
	c.done.Go(func() {
		defer conn.close()
		for ended := range c.due {
			c.move()
			close(ended)
		}
	})
	return c, nil
}

// move runs on the checkpointer's goroutine. It ignores errors: everything is in
// the log, which may grow, and the next checkpoint tries again.
func (c *checkpointer) move() {
	for range 8 {
		pages, moved, err := c.conn.checkpoint(passiveCheckpoint)
		if err != nil || pages-moved < restPages {
			return
		}
	}
}

// committed is called by the writer after each commit, once the callers have their
// results: it may wait for a checkpoint.
func (c *checkpointer) committed(writer *connection) {
	pages, _, err := writer.checkpoint(noCheckpoint)
	if err != nil {
		return // the next commit tries again
	}
	if c.moving != nil {
		if pages < c.from+2*c.limit {
			select {
			case <-c.moving:
			default:
				return
			}
		}
		<-c.moving
		c.moving = nil
		c.restart(writer, pages)
		return
	}
	if pages >= c.from+c.limit {
		c.moving = make(chan struct{})
		c.due <- c.moving
	}
}

// restart moves the remaining pages, so that the next commit writes to the
// beginning of the log. While another process reads, the log continues to grow,
// and the next checkpoint begins after as many pages again.
func (c *checkpointer) restart(writer *connection, pages int) {
	c.from = pages
	err := retryBusy(readersPause, func() error {
		_, _, err := writer.checkpoint(restartingCheckpoint)
		return err
	})
	if err != nil {
		return
	}
	c.from = 0
	_ = c.setLimit(writer) // after an error, the old limit stays
}

// setLimit sets the limit by the size of the main file. A log that grew during a
// long read is truncated when it restarts.
func (c *checkpointer) setLimit(writer *connection) error {
	text, err := writer.value("PRAGMA page_count")
	if err != nil {
		return err
	}
	pages, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	c.limit = max(c.least, pages/2)
	_, err = writer.value(fmt.Sprintf("PRAGMA journal_size_limit = %d", 2*c.limit*(pageSize+frameHeader)))
	return err
}

func (c *checkpointer) stop() {
	close(c.due)
	c.done.Wait()
}
