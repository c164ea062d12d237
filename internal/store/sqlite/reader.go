package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// readLength is the greatest number of rows read in one transaction.
const readLength = 64

// A reader reads grants and documents concurrently with the writer. Every commit
// invalidates the cache of a reading connection, so the reader serves all queued
// reads in one transaction, which locks once and reads the upper pages of the
// tree once. One reader is faster than several, because its batches are larger.
type reader struct {
	conn                        *connection
	selectGrant, selectDocument *statement
	begin, commit               *statement

	inbox[*lookup]
	// lookups holds finished lookups, to be used again with their channels.
	lookups sync.Pool
}

// A lookup is one caller's read: of a document if key is set, otherwise of a
// grant.
type lookup struct {
	id       grant.ID
	key      *store.DocumentKey
	grant    grant.Grant
	document store.Document
	err      error
	result   chan struct{} // has one message when it is done
}

func newReader(path string) (r *reader, err error) {
	r = &reader{inbox: newInbox[*lookup]()}
	if r.conn, err = connect(path, 0, slices.Concat(Pragmas, []string{"query_only = ON"})); err != nil {
		return nil, err
	}
	err = r.conn.keep(textSize, map[**statement]string{
		&r.selectGrant: selectGrantSQL, &r.selectDocument: selectDocumentSQL, &r.begin: "BEGIN", &r.commit: "COMMIT",
	})
	if err != nil {
		r.conn.close()
		return nil, err
	}
	return r, nil
}

func (r *reader) run() {
	defer close(r.done)
	defer r.conn.close()
	batch := make([]*lookup, 0, readLength)
	for {
		first, ok := r.next()
		if !ok {
			return
		}
		batch = append(batch[:0], first)
		// Let other goroutines queue their reads: a larger batch costs less per read.
		runtime.Gosched()
	drain:
		for len(batch) < cap(batch) {
			select {
			case l := <-r.queue:
				batch = append(batch, l)
			default:
				break drain
			}
		}
		r.serve(batch)
	}
}

// serve executes the lookups of a batch. The transaction begins after every lookup was
// queued, so each lookup sees every write that was acknowledged before it.
func (r *reader) serve(batch []*lookup) {
	inOne := false
	if len(batch) > 1 {
		_, err := r.begin.exec()
		inOne = err == nil // otherwise each has a transaction of its own
	}
	for _, l := range batch {
		if l.key != nil {
			l.document, l.err = findDocument(r.selectDocument, *l.key)
		} else {
			l.grant, l.err = find(r.selectGrant, l.id)
		}
	}
	if inOne {
		if _, err := r.commit.exec(); err != nil {
			// An open transaction would show the same old snapshot to later reads.
			_ = r.conn.run("ROLLBACK")
			for _, l := range batch {
				l.err = fmt.Errorf("read: %w", err)
			}
		}
	}
	for _, l := range batch {
		l.result <- struct{}{}
	}
}

// look reads a grant, or a document if key is set.
func (r *reader) look(ctx context.Context, id grant.ID, key *store.DocumentKey) (g grant.Grant, d store.Document, err error) {
	l, again := r.lookups.Get().(*lookup)
	if !again {
		l = &lookup{result: make(chan struct{}, 1)}
	}
	l.id, l.key = id, key
	switch err := r.submit(ctx, l, l.result); {
	case err == nil:
	case err == ctx.Err(): // the reader may still use l
		return g, d, fmt.Errorf("read: %w", err)
	default:
		return g, d, err
	}
	g, d, err = l.grant, l.document, l.err
	l.grant, l.document = grant.Grant{}, store.Document{}
	r.lookups.Put(l)
	return g, d, err
}

// Grant implements store.Store.
func (s *Store) Grant(ctx context.Context, id grant.ID) (grant.Grant, error) {
	g, _, err := s.reader.look(ctx, id, nil)
	return g, err
}

// Document implements store.Store.
func (s *Store) Document(ctx context.Context, key store.DocumentKey) (store.Document, error) {
	_, d, err := s.reader.look(ctx, grant.ID{}, &key)
	return d, err
}
