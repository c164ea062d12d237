package sqlite

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

const (
	// The log is moved into the main file when it is half as large as that
	// file, or has leastLogPages pages. The longer the log, the more rows share
	// a block of the disk when they are moved: with ten million grants, moving
	// 30,000 pages at a time wrote a block of 4 KiB for each of them.
	leastLogPages = 30_000
	// restPages is how many pages the writer may move by itself.
	restPages = 500
	// readersPause is how long the writer waits for readers to leave the log.
	readersPause = 20 * time.Millisecond
)

// checkpointer moves pages from the write-ahead log into the main file, on a
// connection of its own and beside the writer, which would otherwise stop for
// it. It repeats until few pages are left; the writer moves those, because
// the log can begin anew only if all of it has been moved and nothing was
// written meanwhile. The log reaches twice the limit at most, plus what is
// written while another process reads: the writer waits for a move that is
// slower than it.
//
// Its fields belong to the writer.
type checkpointer struct {
	conn   *connection
	due    chan chan struct{}
	done   sync.WaitGroup
	limit  int           // pages
	least  int           // leastLogPages, or fewer in tests
	from   int           // pages in the log when the last move ended
	moving chan struct{} // closed when the move that runs has ended; nil if none does
}

func startCheckpointer(path string, writer *connection) (*checkpointer, error) {
	conn, err := connect(path, Pragmas)
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

// move runs on the checkpointer's goroutine. A fault is left to the next move:
// everything is in the log, and the log may grow.
func (c *checkpointer) move() {
	for range 8 {
		pages, moved, err := c.conn.checkpoint(passiveCheckpoint)
		if err != nil || pages-moved < restPages {
			return
		}
	}
}

// committed is called by the writer after each commit, when its callers have
// their outcomes: it may wait for a move.
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

// restart moves the pages that are left and lets the next commit write to the
// log's beginning. While another process reads, the log goes on: the next move
// begins after as many pages again.
func (c *checkpointer) restart(writer *connection, pages int) {
	c.from = pages
	err := patiently(readersPause, func() error {
		_, _, err := writer.checkpoint(restartingCheckpoint)
		return err
	})
	if err != nil {
		return
	}
	c.from = 0
	_ = c.setLimit(writer) // or the old one stays
}

// setLimit makes the limit fit the main file. A log that a long read has let
// grow is cut when it begins anew.
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
