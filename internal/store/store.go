// Package store defines the contract of a database, as one interface whose methods
// are the transitions of the domain. Engines contain no rules. Package storetest
// tests an engine against every promise made here.
package store

import (
	"context"

	"github.com/mintage/mintage/internal/grant"
)

// Store is a database of grants, clients, keys, cutoffs and documents.
//
// Methods are safe for concurrent use, also by several processes. A write is
// durable once its method returns nil. If it returns an error other than
// ErrConflict or ErrBusy, it may or may not have happened, and may still
// happen until the context's deadline. Reads see every write, of any process, that
// returned before they were called. While the database cannot be reached, methods
// return errors that wrap ErrUnavailable or ErrBusy. Queued operations may be committed
// together; each has its own outcome.
type Store interface {
	// Grant reads one grant, or returns ErrNotFound.
	Grant(ctx context.Context, id grant.ID) (grant.Grant, error)

	// CreateGrant stores g, whose Version is 1. It returns ErrConflict if the id
	// is taken, and nil if the store already holds exactly g.
	CreateGrant(ctx context.Context, g grant.Grant) error

	// UpdateGrant calls decide with the stored grant and stores the result with
	// its events, atomically and serialised with other writes of the grant. The
	// result has the next version; if decide returns the grant unchanged, nothing
	// is written. UpdateGrant returns ErrNotFound, and does not call decide, if
	// there is no such row.
	//
	// Decide may be called again after a concurrent write: its last call counts.
	// It must be quick, and must not use the store. If
	// UpdateGrant returns because ctx has ended, decide may still be running.
	// Id, realm, client, subject, scope, AuthorizedAt, AuthTime and Facts never
	// change.
	UpdateGrant(ctx context.Context, id grant.ID, decide Decide) error

	// Grants lists grants in the order of their ids, after an id.
	Grants(ctx context.Context, f GrantFilter) ([]grant.Grant, error)

	// Sweep scans at most limit rows of a table in the order of their keys, after a
	// key, and deletes those that are due and do not change meanwhile: grants
	// whose DeleteAfter, documents whose ExpiresAt is before now. Events of a grant
	// are deleted with it. It returns the key to continue after, or "" at the end of
	// the table; a sweep of the whole table begins after "".
	Sweep(ctx context.Context, table SweptTable, after string, now grant.Instant, limit int) (next string, deleted int, err error)

	// Changes reads everything in the directory that changed after version
	// since; 0 reads all of it.
	Changes(ctx context.Context, since int64) (Changes, error)

	// Client reads one client by the id of its entry, with the last use of its
	// secrets, or returns ErrNotFound. It finds deleted clients as well: an id is
	// never reused.
	Client(ctx context.Context, id string) (Client, error)

	// ReadSecretUses sets the last uses of the secrets of clients.
	ReadSecretUses(ctx context.Context, clients []Client) error

	// Commit stores all of a change, or returns ErrConflict and stores nothing. It is a
	// conflict if the stored version of a record does not directly precede the
	// change's, if a restore of the same instant is stored, or if a key's id is stored
	// with other fields. If the store already holds every record of such a change
	// exactly, Commit succeeds and stores no event again. An earlier cutoff never
	// replaces a later one of the same name, and is no conflict.
	//
	// Entries, Cutoffs, Keys and Restores change the directory's version, and
	// nothing else does. A document's kind never changes.
	Commit(ctx context.Context, c Change) error

	// NoteSecretUses records the last use of secrets by their ids. An earlier
	// instant never replaces a later one. It does not change the directory's
	// version.
	NoteSecretUses(ctx context.Context, uses map[string]grant.Instant) error

	// Revocations lists the grants that were revoked at or after an instant, or whose
	// access tokens were. It returns at most limit grants, the latest first, in their
	// present state, and the instant from which the list is complete. Limit is at
	// least 1.
	Revocations(ctx context.Context, since grant.Instant, limit int) (list []Revocation, from grant.Instant, err error)

	// Document reads one document, or returns ErrNotFound. It finds expired
	// documents until a sweep deletes them.
	Document(ctx context.Context, key DocumentKey) (Document, error)

	// Documents lists documents in the order of their keys, after a key.
	Documents(ctx context.Context, f DocumentFilter) ([]Document, error)

	// TallyUsers counts the documents of built-in users and their versions.
	TallyUsers(ctx context.Context) (Tally, error)
	// CountDocuments counts the documents of a kind.
	CountDocuments(ctx context.Context, kind DocumentKind) (int, error)

	// Heartbeat durably records the clock of a node, and lists the other nodes,
	// including some that have ended. At the first heartbeat of a node, Clock equals Since.
	// Success proves that the node uses the primary server, not one that was
	// replaced (fencing). It fails if the store must not be used any more (see
	// Displaced). An engine for one node does nothing.
	Heartbeat(ctx context.Context, self Node) (others []Node, err error)

	// Ready returns an error if the store cannot write at present.
	Ready(ctx context.Context) error

	// Load returns the number of queued operations and the batch counters.
	Load() Load

	// Events lists the events of one grant or client, oldest first; those of one
	// instant in any order. Limit is at least 1.
	Events(ctx context.Context, about string, limit int) ([]Event, error)

	// Close waits for running operations and releases the database. After it,
	// every method but Close returns an error.
	Close() error
}
