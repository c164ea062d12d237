package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	readers    = 2
	readLength = 64 // grants read in one transaction
)

// A pool of readers reads grants beside the writer. Every commit makes SQLite
// forget what a reading connection has cached, so those who wait at the same
// moment are served in one transaction: it locks once, and reads the upper
// pages of the tree once.
type pool struct {
	queue   chan *lookup
	closed  chan struct{}
	once    sync.Once
	running sync.WaitGroup
	done    chan struct{} // closed when no reader runs
}

// A lookup is one caller's read.
type lookup struct {
	id     grant.ID
	grant  grant.Grant
	err    error
	result chan struct{}
}

type reader struct {
	conn                       *sql.Conn
	selectGrant, begin, commit *statement
}

func startReaders(ctx context.Context, db *sql.DB) (*pool, error) {
	p := &pool{queue: make(chan *lookup, queueLength), closed: make(chan struct{}), done: make(chan struct{})}
	for range readers {
		r, err := newReader(ctx, db)
		if err != nil {
			p.stop()
			return nil, err
		}
		p.running.Go(func() {
			r.run(p)
			r.close()
		})
	}
	return p, nil
}

// stop refuses further reads and waits for those that were asked for.
func (p *pool) stop() {
	p.once.Do(func() {
		close(p.closed)
		p.running.Wait()
		close(p.done)
	})
	<-p.done
}

func newReader(ctx context.Context, db *sql.DB) (r *reader, err error) {
	r = &reader{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.conn, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	if _, err := r.conn.ExecContext(ctx, "PRAGMA query_only = ON"); err != nil {
		return nil, err
	}
	if r.selectGrant, err = prepare(r.conn, selectGrantSQL, grantColumns); err != nil {
		return nil, err
	}
	if r.begin, err = prepare(r.conn, "BEGIN", 0); err != nil {
		return nil, err
	}
	r.commit, err = prepare(r.conn, "COMMIT", 0)
	return r, err
}

func (r *reader) close() {
	r.selectGrant.close()
	r.begin.close()
	r.commit.close()
	if r.conn != nil {
		r.conn.Close()
	}
}

func (r *reader) run(p *pool) {
	batch := make([]*lookup, 0, readLength)
	for {
		batch = batch[:0]
		select {
		case l := <-p.queue:
			batch = append(batch, l)
		case <-p.closed:
			select {
			case l := <-p.queue:
				batch = append(batch, l)
			default:
				return
			}
		}
	drain:
		for len(batch) < cap(batch) {
			select {
			case l := <-p.queue:
				batch = append(batch, l)
			default:
				break drain
			}
		}
		r.serve(batch)
	}
}

// serve reads for all of the batch. The transaction begins after each of them
// was asked for, so each sees every write that was answered before.
func (r *reader) serve(batch []*lookup) {
	inOne := false
	if len(batch) > 1 {
		_, err := r.begin.exec()
		inOne = err == nil // else each reads for itself
	}
	for _, l := range batch {
		l.grant, l.err = r.read(l.id)
	}
	if inOne {
		if _, err := r.commit.exec(); err != nil {
			for _, l := range batch {
				l.err = fmt.Errorf("read grant: %w", err)
			}
		}
	}
	for _, l := range batch {
		close(l.result)
	}
}

func (r *reader) read(id grant.ID) (grant.Grant, error) {
	row, err := r.selectGrant.queryRow(id[:])
	if err != nil {
		return grant.Grant{}, fmt.Errorf("read grant: %w", err)
	}
	if row == nil {
		return grant.Grant{}, store.ErrNotFound
	}
	return scanGrant(row), nil
}

// Grant implements store.Store.
func (s *Store) Grant(ctx context.Context, id grant.ID) (grant.Grant, error) {
	p := s.readers
	select {
	case <-p.closed:
		return grant.Grant{}, errClosed
	default:
	}
	l := &lookup{id: id, result: make(chan struct{})}
	select {
	case p.queue <- l:
	default:
		return grant.Grant{}, store.ErrBusy
	}
	select {
	case <-l.result:
		return l.grant, l.err
	case <-ctx.Done():
		return grant.Grant{}, fmt.Errorf("read grant: %w", ctx.Err())
	case <-p.done:
		// The readers have emptied the queue for the last time.
		select {
		case <-l.result:
			return l.grant, l.err
		default:
			return grant.Grant{}, errClosed
		}
	}
}
