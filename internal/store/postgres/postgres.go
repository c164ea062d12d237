// Package postgres is the storage engine for several nodes and for high
// availability: PostgreSQL, or an engine with its protocol and dialect. Every
// operation of a refresh is a single statement on one table by its primary key.
// Queued operations are sent as rows of one statement, so that they share a round
// trip and a commit (group commit).
//
// An acknowledged write is as durable as the server's settings make it: fsync and
// synchronous_commit on, and synchronous_standby_names set if it must survive the
// loss of the primary.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// Operations in a batch, and concurrent batches (lanes), by kind; see decision 14.
const (
	updateLength, updateLanes     = 128, 2
	creationLength, creationLanes = 128, 1
	documentLength, documentLanes = 32, 1
	readLength, readLanes         = 128, 2
	changeLength, changeLanes     = 32, 1
)

// Store is a store.Store on one database.
type Store struct {
	store.Reader
	pool    *pgxpool.Pool
	hosts   *hosts
	failure atomic.Pointer[error]
	full    atomic.Bool // a write has failed on the server's disk, and no test write has succeeded since
	closed  atomic.Bool
	batches store.BatchCounter // of writes

	updates       *batcher[grant.ID, *update]
	creations     *batcher[grant.ID, *creation]
	grantReads    *batcher[grant.ID, *read[grant.ID, grant.Grant]]
	puts          *batcher[store.DocumentKey, *put]
	documentReads *batcher[store.DocumentKey, *read[store.DocumentKey, store.Document]]
	changes       *batcher[*change, *change]
}

var _ store.Store = (*Store)(nil)

// A Database is the location of a store.
type Database struct {
	// URL is postgres://user@host:5432/database, with libpq's parameters and
	// several hosts if there are standbys.
	URL string
	// Password, if not nil, is called for each connection, so that the password
	// may change while the server runs.
	Password func() (string, error)
}

// Create opens the store in a database, creates it if the database is empty, and
// upgrades its schema. Several nodes may do so concurrently. If absent is not nil
// and the database holds no store, Create calls it first, and returns its error
// instead of creating a store.
func Create(ctx context.Context, d Database, absent func() error) (*Store, error) {
	return openToUse(ctx, d, func(ctx context.Context, pool *pgxpool.Pool) error {
		if absent != nil {
			held, err := holdsKeys(ctx, pool)
			if err == nil && !held {
				err = absent()
			}
			if err != nil {
				return err
			}
		}
		return migrate(ctx, pool)
	})
}

// holdsKeys reports whether a server or a move has ever used the database's store.
// The first server creates keys before it serves, keys are never deleted, and a
// move writes its migration state before it copies keys.
func holdsKeys(ctx context.Context, pool *pgxpool.Pool) (held bool, err error) {
	for _, table := range []string{"keys", "moves"} {
		err = persist(ctx, func() error { return pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+table+`)`).Scan(&held) })
		if server, ok := errors.AsType[*pgconn.PgError](err); ok && server.Code == "42P01" { // no such table
			err = nil
		}
		if held || err != nil {
			break
		}
	}
	return held, err
}

// Open opens the store in a database for a command. It fails if there is none.
func Open(ctx context.Context, d Database) (*Store, error) {
	return openToUse(ctx, d, func(ctx context.Context, pool *pgxpool.Pool) error {
		marker, _, err := tables(ctx, pool)
		if err == nil && marker == 0 {
			err = errors.New("this database holds no store: check the URL's database and search_path, or let `mintage serve` make one there")
		}
		if err != nil {
			return err
		}
		return migrate(ctx, pool)
	})
}

// openToUse is open, but fails if a move has begun or is complete.
func openToUse(ctx context.Context, d Database, prepare func(context.Context, *pgxpool.Pool) error) (*Store, error) {
	s, err := open(ctx, d, prepare)
	if err != nil {
		return nil, err
	}
	if err := s.checkUsable(ctx); err != nil {
		s.Close()
		return nil, explain(err)
	}
	return s, nil
}

func open(ctx context.Context, d Database, prepare func(context.Context, *pgxpool.Pool) error) (*Store, error) {
	c, err := settings(d)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	known := &hosts{}
	known.confirmedFor.Store(int64(confirmedFor))
	known.watch(c)
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, explain(err)
	}
	s := &Store{pool: pool, hosts: known}
	s.Reader = store.Reader{Run: s.run, Floors: floors, ListDocuments: listDocumentsSQL, ListOwner: listOwnerSQL}
	s.updates = newBatcher(s, updateLength, updateLanes, false, serveUpdates)
	s.creations = newBatcher(s, creationLength, creationLanes, false, serveCreations)
	s.grantReads = newBatcher(s, readLength, readLanes, true, serveReads(findGrants))
	s.puts = newBatcher(s, documentLength, documentLanes, false, servePuts)
	s.changes = newBatcher(s, changeLength, changeLanes, false, serveChanges)
	s.documentReads = newBatcher(s, documentLength, documentLanes, true, serveReads(findDocuments))
	if err := prepare(ctx, pool); err != nil {
		s.Close()
		return nil, explain(err)
	}
	return s, nil
}

// Close completes the queued operations and closes the connections.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.updates.close()
	s.creations.close()
	s.puts.close()
	s.changes.close()
	s.grantReads.close()
	s.documentReads.close()
	s.pool.Close() // waits for connections in use
	return nil
}

// Ready returns an error if the store fails at present. Servers make a write each
// second (see Heartbeat), so Ready makes a test write only after an operation has
// failed: a node without requests would otherwise not notice that the fault has
// passed.
func (s *Store) Ready(ctx context.Context) error {
	if s.failure.Load() == nil && !s.full.Load() {
		return nil
	}
	if err := s.TryWrite(ctx); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// note records the result of the last operation. A small write that succeeds does
// not prove that the disk has space: rows are updated within their pages.
func (s *Store) note(err error) {
	switch {
	case err != nil:
		s.failure.Store(&err)
		if diskFailed(err) {
			s.full.Store(true)
		}
	case s.failure.Load() != nil:
		s.failure.Store(nil)
	}
}

// diskFailed reports whether the server could not write its files.
func diskFailed(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "53100" || server.Code == "58030") // disk full, I/O error
}

// Load returns the number of queued operations, without changes of the directory, and the
// batch counters.
func (s *Store) Load() store.Load {
	return store.Load{
		Waiting: s.updates.queued() + s.creations.queued() + s.grantReads.queued() + s.puts.queued() + s.documentReads.queued(),
		Batches: s.batches.Read(),
	}
}
