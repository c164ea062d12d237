package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	lib "modernc.org/sqlite/lib"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	QueueLength   = queueLength
	BatchLength   = batchLength
	BusyTimeout   = busyTimeout
	LeastLogPages = leastLogPages
	FrameSize     = pageSize + frameHeader
	ApplicationID = applicationID

	SelectGrantSQL = selectGrantSQL
	InsertGrantSQL = insertGrantSQL
	UpdateGrantSQL = updateGrantSQL
	DeleteGrantSQL = deleteGrantSQL
	WalkGrantsSQL  = walkGrantsSQL
	ListClientSQL  = listClientSQL
	ListSubjectSQL = listSubjectSQL

	SelectDocumentSQL = selectDocumentSQL
	InsertDocumentSQL = insertDocumentSQL
	UpdateDocumentSQL = updateDocumentSQL
	DeleteDocumentSQL = deleteDocumentSQL
	SweepDocumentSQL  = sweepDocumentSQL
	WalkDocumentsSQL  = walkDocumentsSQL
	ListDocumentsSQL  = listDocumentsSQL
	ListOwnerSQL      = listOwnerSQL
)

// alone runs f on the writer's goroutine, between two batches.
func (s *Store) alone(ctx context.Context, f func() error) error {
	return s.writer.do(ctx, &operation{alone: f})
}

// Fill prevents the store's file from growing.
func (s *Store) Fill(ctx context.Context) error {
	return s.alone(ctx, func() error {
		_, err := s.writer.conn.exec("PRAGMA max_page_count = 1")
		return err
	})
}

// Hold keeps the writer in an operation until release is called, so that others wait in
// its queue. The channel receives the outcome of the operation.
func (s *Store) Hold(ctx context.Context) (release func(), outcome <-chan error) {
	begun, end, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		result <- s.alone(ctx, func() error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	return sync.OnceFunc(func() { close(end) }), result
}

// LimitLog sets the number of pages after which a checkpoint is due. A log is allowed half
// the size of the main file if that is more.
func (s *Store) LimitLog(ctx context.Context, pages int) error {
	return s.alone(ctx, func() error {
		s.writer.checkpoint.least, s.writer.checkpoint.limit = pages, pages
		return nil
	})
}

// LogLimit returns the present limit of the log, in pages.
func (s *Store) LogLimit(ctx context.Context) (pages int, err error) {
	err = s.alone(ctx, func() error {
		pages = s.writer.checkpoint.limit
		return nil
	})
	return pages, err
}

// LogPages returns the number of pages in the log.
func (s *Store) LogPages(ctx context.Context) (pages int, err error) {
	err = s.alone(ctx, func() error {
		pages, _, err = s.writer.conn.checkpoint(noCheckpoint)
		return err
	})
	return pages, err
}

// Moves replaces the checkpointer of an idle store: due receives each checkpoint that
// becomes due, and committed does what the writer does after a commit, with a limit of the
// log in pages.
func (s *Store) Moves(t testing.TB) (due <-chan chan struct{}, committed func(limit int)) {
	conn, err := connect(s.path, 0, Pragmas)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.close)
	c := &checkpointer{due: make(chan chan struct{}, 1)}
	return c.due, func(limit int) {
		c.limit, c.least = limit, limit
		c.committed(conn)
	}
}

// Waiting returns the number of operations in the writer's queue.
func (s *Store) Waiting() int { return len(s.writer.queue) }

// Closing returns a channel that is closed when Close begins.
func (s *Store) Closing() <-chan struct{} { return s.writer.closed }

// WithoutReaders returns a store that serves no reads, and whose queue has room for one.
func WithoutReaders() *Store {
	return &Store{reader: &reader{inbox: inbox[*lookup]{queue: make(chan *lookup, 1), closed: make(chan struct{}), done: make(chan struct{})}}}
}

// ReadTogether serves lookups that are queued together with one reader, and counts the
// runs of its statements.
func (s *Store) ReadTogether(ids ...grant.ID) (statements map[string]int, list []grant.Grant, err error) {
	r, err := newReader(s.path)
	if err != nil {
		return nil, nil, err
	}
	defer r.conn.close()
	var batch []*lookup
	for _, id := range ids {
		batch = append(batch, &lookup{id: id, result: make(chan struct{}, 1)})
	}
	r.serve(batch)
	for _, l := range batch {
		<-l.result
		list, err = append(list, l.grant), errors.Join(err, l.err)
	}
	return counts(map[string]*statement{"select grant": r.selectGrant, "begin": r.begin, "commit": r.commit}), list, err
}

// ReadBoth serves a lookup of a grant and a lookup of a document that are queued together.
func (s *Store) ReadBoth(id grant.ID, key store.DocumentKey) (statements map[string]int, g grant.Grant, d store.Document, err error) {
	r, err := newReader(s.path)
	if err != nil {
		return nil, g, d, err
	}
	defer r.conn.close()
	batch := []*lookup{{id: id, result: make(chan struct{}, 1)}, {key: &key, result: make(chan struct{}, 1)}}
	r.serve(batch)
	statements = counts(map[string]*statement{"select grant": r.selectGrant, "select document": r.selectDocument, "begin": r.begin, "commit": r.commit})
	return statements, batch[0].grant, batch[1].document, errors.Join(batch[0].err, batch[1].err)
}

// EachConnection calls f with a query function for each kind of connection: the writer's,
// a reader's, and those of administration.
func (s *Store) EachConnection(ctx context.Context, f func(kind string, query func(text string) string)) error {
	err := s.alone(ctx, func() error {
		f("writer", s.writer.conn.ask)
		return nil
	})
	r, readerErr := newReader(s.path)
	if readerErr != nil {
		return readerErr
	}
	defer r.conn.close()
	f("reader", r.conn.ask)
	for range 3 {
		conn, openErr := s.db.Conn(ctx)
		if openErr != nil {
			return openErr
		}
		defer conn.Close()
		f("administration", asker(func(text string, args ...any) *sql.Row { return conn.QueryRowContext(ctx, text, args...) }))
	}
	return err
}

func asker(query func(text string, args ...any) *sql.Row) func(string) string {
	return func(text string) string {
		var value string
		if err := query(text).Scan(&value); err != nil {
			return err.Error()
		}
		return value
	}
}

func (c *connection) ask(text string) string {
	value, err := c.value(text)
	return cmp.Or(value, fmt.Sprint(err))
}

// A Tally counts the writer's statements and the rows that it wrote.
type Tally struct {
	Statements map[string]int // runs of the prepared statements, by name
	Rows       int            // written
}

// Watch starts counting. The returned function returns the counts since its last call.
func (s *Store) Watch(t testing.TB) (take func() Tally) {
	written := 0
	take = func() (tally Tally) {
		// This runs on the writer's goroutine, the only one that may use these.
		err := s.alone(t.Context(), func() error {
			w := s.writer
			tally.Statements = counts(map[string]*statement{
				"insert grant": w.insertGrant, "update grant": w.updateGrant, "select grant in the writer": w.selectGrant,
				"insert event": w.insertEvent, "begin": w.begin, "commit": w.commit, "rollback": w.rollback,
				"insert document": w.documents.insert, "update document": w.documents.update,
				"select document in the writer": w.documents.find, "delete document": w.documents.remove,
			})
			total := int(lib.Xsqlite3_total_changes(w.conn.tls, w.conn.db))
			tally.Rows, written = total-written, total
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return tally
	}
	take()
	return take
}

// counts returns how often SQLite has started each statement since the last call, without
// statements that it has not started.
func counts(statements map[string]*statement) map[string]int {
	list := map[string]int{}
	for name, st := range statements {
		if n := int(lib.Xsqlite3_stmt_status(st.conn.tls, st.stmt, lib.SQLITE_STMTSTATUS_RUN, 1)); n > 0 {
			list[name] = n
		}
	}
	return list
}

// CheckReferences makes the writer's connection check foreign keys.
func (s *Store) CheckReferences(t testing.TB) {
	t.Helper()
	// This runs on the writer's goroutine, the only one that may use the connection.
	if err := s.alone(t.Context(), func() error { return s.writer.conn.run("PRAGMA foreign_keys = ON") }); err != nil {
		t.Fatal(err)
	}
}
