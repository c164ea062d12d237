// Package store states what Mintage needs from a database, as one interface
// whose verbs are the transitions of the domain. Engines store; they decide
// nothing. Package storetest checks an engine against every promise made here.
package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

var (
	// ErrNotFound means that there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the row is not in the state which the write
	// requires, and that nothing was written.
	ErrConflict = errors.New("conflict")
	// ErrBusy means that surely nothing was written: too many operations wait,
	// the context ended before this one's turn came, or the database could not
	// be reached.
	ErrBusy = errors.New("store is busy")
	// ErrUnavailable wraps every fault that passes: the same request may succeed
	// later, and the client must keep its tokens.
	ErrUnavailable = errors.New("temporarily unavailable")
)

// Unavailable wraps a fault in ErrUnavailable.
func Unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// Store is a database of grants, clients, keys, cutoffs and documents.
//
// Methods are safe for concurrent use, also by several processes. A write is
// durable once its method returns nil. If it returns an error other than
// ErrConflict or ErrBusy, it may or may not have happened, and may still
// happen until the context's deadline. Reads see every write that returned
// before they were called, whoever made it. Operations that wait at the same
// moment may be committed together; each has its own outcome.
type Store interface {
	// Grant reads one grant, or returns ErrNotFound.
	Grant(ctx context.Context, id grant.ID) (grant.Grant, error)

	// CreateGrant stores g, whose Version is 1. It returns ErrConflict if the
	// id is taken. A store that already holds exactly g has done it: that is
	// success.
	CreateGrant(ctx context.Context, g grant.Grant) error

	// UpdateGrant shows the stored grant to decide and stores what it returns,
	// with the events, both or neither, as if nobody else used the grant
	// meanwhile. What decide returns has the next version; if it returns the
	// grant as it was, nothing is written. UpdateGrant returns ErrNotFound, and
	// does not call decide, if there is no such row.
	//
	// Decide may be called again, with what others have made of the grant: its
	// last call counts. It must be quick, and must not use the store. If
	// UpdateGrant returns because ctx has ended, decide may still be running.
	// Id, realm, client, subject, scope, AuthorizedAt, AuthTime and Facts never
	// change.
	UpdateGrant(ctx context.Context, id grant.ID, decide Decide) error

	// Grants lists grants in the order of their ids, after an id.
	Grants(ctx context.Context, f GrantFilter) ([]grant.Grant, error)

	// Sweep scans at most limit rows of a table in the order of their keys, after a
	// key, and deletes those that are due and do not change meanwhile: grants
	// whose DeleteAfter, documents whose ExpiresAt is before now. Events of a grant
	// are deleted with it. It returns the key to continue after, which is "" at the
	// end of the table, as it is before the beginning.
	Sweep(ctx context.Context, table SweptTable, after string, now grant.Instant, limit int) (next string, deleted int, err error)

	// Changes reads everything in the directory that changed after version
	// since; 0 reads all of it.
	Changes(ctx context.Context, since int64) (Changes, error)

	// Client reads one client, with the last use of its secrets, or returns
	// ErrNotFound. A deleted client is found: its id never comes back.
	Client(ctx context.Context, id string) (Client, error)

	// Commit stores a change: all of it or, with ErrConflict, nothing, if a version
	// that it requires is not the one before, a restore of the same instant is
	// stored, or a key has another record. A store that already holds every
	// record of such a change exactly has done it: that is success, and no event
	// is stored again. A later cutoff of the same name is never replaced by an
	// earlier one, which is no conflict.
	//
	// Entries, Cutoffs, Keys and Restores change the directory's version, and
	// nothing else does. A document's kind never changes.
	Commit(ctx context.Context, c Change) error

	// NoteSecretUses records the last use of secrets by their ids. An earlier
	// instant never replaces a later one. It does not change the directory's
	// version.
	NoteSecretUses(ctx context.Context, uses map[string]grant.Instant) error

	// Revocations lists the grants that were revoked, or whose access tokens
	// were, at or after an instant, the latest first, as they are by now. It
	// lists no more than limit of them, which is at least 1: none at or after
	// the instant that it returns is missing.
	Revocations(ctx context.Context, since grant.Instant, limit int) (list []Revocation, from grant.Instant, err error)

	// Document reads one document, or returns ErrNotFound. One that has expired
	// is found until it is swept.
	Document(ctx context.Context, key DocumentKey) (Document, error)

	// Documents lists documents in the order of their keys, after a key.
	Documents(ctx context.Context, f DocumentFilter) ([]Document, error)

	// Heartbeat records the time of a node that uses the store, durably, and lists
	// the other nodes, also some that have ended. At a node's first one, Clock is
	// Since. A node whose heartbeat succeeds uses the primary server, and not one
	// that has been replaced. It fails if the store must not be used any more (see
	// Displaced). A store that serves one node alone has nothing to do.
	Heartbeat(ctx context.Context, self Node) (others []Node, err error)

	// Ready returns why the store takes no write at present, or nil.
	Ready(ctx context.Context) error

	// Load reports how busy the engine is.
	Load() Load

	// Events lists what is recorded of one grant or client, oldest first; those
	// of one instant come in any order. Limit is at least 1.
	Events(ctx context.Context, about string, limit int) ([]Event, error)

	// Close waits for running operations and releases the database. After it,
	// every method but Close returns an error.
	Close() error
}

// Decide is what a caller makes of a grant, and what is to be recorded of it.
type Decide = func(g grant.Grant) (next grant.Grant, events []Event)

// A SweptTable is a table from which Sweep deletes.
type SweptTable string

const (
	SweptGrants    SweptTable = "grants"
	SweptDocuments SweptTable = "documents"
)

// A GrantFilter selects grants. Empty members select all; Limit is at least 1.
type GrantFilter struct {
	Realm, Subject, ClientID string
	After                    grant.ID
	Limit                    int
}

// Changes are rows of the directory: what every node holds in memory.
type Changes struct {
	Version  int64 // of the directory; grows with each change
	Clients  []Client
	Cutoffs  []Cutoff
	Keys     []keys.Record
	Restores []grant.Restore
}

// A Cutoff refuses everything that was authorized at or before an instant, for
// a subject, a client, or one client of one subject. An empty member means
// any; at least one is given.
type Cutoff struct {
	Realm    string
	Subject  string
	ClientID string
	At       grant.Instant
}

// A Revocation is how far back the access tokens of a grant are dead: those
// issued at or before Floor.
type Revocation struct {
	GrantID grant.ID
	Floor   grant.Instant // grant.Never for a revoked grant
	At      grant.Instant // of the latest event
}

// An Event records a change other than a redemption or a rotation. It holds no
// secret, no code and no token.
type Event struct {
	At    grant.Instant
	Name  EventName
	About string // grant id, client id, or AboutSubject
	// Actor is who caused it: a client id, or the operator's account.
	Actor  string
	Detail string // one line of evidence for people
}

// AboutSubject is what an event is about that names a subject and no client.
func AboutSubject(subject string) string { return "subject:" + subject }

// An EventName says what happened.
type EventName string

const (
	EventCodeReplayed    EventName = "code_replayed"
	EventRefreshReplayed EventName = "refresh_replayed"
	EventGrantRevoked    EventName = "grant_revoked"
	EventAccessRevoked   EventName = "access_revoked" // the access tokens so far
	EventKeyAdded        EventName = "key_added"
	EventKeyWithdrawn    EventName = "key_withdrawn"
	EventKEKRotated      EventName = "kek_rotated"
	EventRestored        EventName = "restored"
	EventCutoff          EventName = "cutoff"
	EventDisconnected    EventName = "disconnected" // a client, by the subject
	EventClientCreated   EventName = "client_created"
	EventClientChanged   EventName = "client_changed"
	EventClientDeleted   EventName = "client_deleted"
	EventSecretAdded     EventName = "secret_added"
	EventSecretRevoked   EventName = "secret_revoked"
	EventSecretUpgraded  EventName = "secret_upgraded"
	EventUserCreated     EventName = "user_created"
	EventUserChanged     EventName = "user_changed" // the name or the claims
	EventUserDisabled    EventName = "user_disabled"
	EventUserEnabled     EventName = "user_enabled"
	EventPasswordChanged EventName = "password_changed"
	EventTOTPSet         EventName = "totp_set"
	EventTOTPRemoved     EventName = "totp_removed"
)
