package postgres

import (
	"runtime"
	"time"
)

const (
	QueueLength  = queueLength
	UpdateLength = updateLength
	Connections  = connections

	SelectGrantsSQL = selectGrantsSQL
	InsertGrantsSQL = insertGrantsSQL
	UpdateGrantsSQL = updateGrantsSQL
	DeleteGrantsSQL = deleteGrantsSQL
	WalkGrantsSQL   = walkGrantsSQL
	ListClientSQL   = listClientSQL
	ListSubjectSQL  = listSubjectSQL

	ExamineTableSQL  = examineTableSQL
	ExamineServerSQL = examineServerSQL
	BackendSQL       = backendSQL

	SelectDocumentsSQL = selectDocumentsSQL
	InsertDocumentsSQL = insertDocumentsSQL
	UpdateDocumentsSQL = updateDocumentsSQL
	DeleteDocumentsSQL = deleteDocumentsSQL
	SweepDocumentsSQL  = sweepDocumentsSQL
	WalkDocumentsSQL   = walkDocumentsSQL
	ListDocumentsSQL   = listDocumentsSQL
	ListOwnerSQL       = listOwnerSQL
)

// hold keeps lanes from starting until release is called, so that operations stay in the
// queue. It waits for running lanes to end, because a lane would take the queued
// operations.
func hold[K comparable, M member[K]](b *batcher[K, M]) (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.busy > 0 {
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
	b.busy += b.lanes
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy -= b.lanes - 1
		go b.lane()
	}
}

// Connecting reports whether a connection is being made.
func (s *Store) Connecting() bool { return s.pool.Stat().ConstructingConns() > 0 }

// A Kind is a kind of operations that share batches.
type Kind int

const (
	Updates Kind = iota
	Creations
	Puts
	GrantReads
	Changes
)

// Hold keeps the operations of a kind waiting until release is called.
func (s *Store) Hold(k Kind) (release func()) {
	switch k {
	case Updates:
		return hold(s.updates)
	case Creations:
		return hold(s.creations)
	case Puts:
		return hold(s.puts)
	case Changes:
		return hold(s.changes)
	}
	return hold(s.grantReads)
}

// Waiting returns the number of queued operations of a kind.
func (s *Store) Waiting(k Kind) int {
	switch k {
	case Updates:
		return s.updates.queued()
	case Creations:
		return s.creations.queued()
	case Puts:
		return s.puts.queued()
	case Changes:
		return s.changes.queued()
	}
	return s.grantReads.queued()
}

// Closing reports whether Close has begun to refuse operations of a kind.
func (s *Store) Closing() bool {
	s.updates.mu.Lock()
	defer s.updates.mu.Unlock()
	return s.updates.closed
}

// Singly makes each update a batch of its own, with at most this many lanes. Call it
// before any operation.
func (s *Store) Singly(lanes int) { s.updates.limit, s.updates.lanes = 1, lanes }

// Trust sets how long a confirmed connection is trusted.
func (s *Store) Trust(d time.Duration) { s.hosts.confirmedFor.Store(int64(d)) }

// Judge returns the name of the verdict about an error.
func Judge(err error) string {
	return map[verdict]string{fine: "fine", unknown: "unknown", refused: "refused", outrun: "outrun", unsent: "unsent"}[judge(err)]
}

// SettledTwice returns the result of an operation whose outcome is set twice.
func SettledTwice(first, second error) error {
	s := seat{result: make(chan struct{})}
	s.settle(first)
	s.settle(second)
	return s.err
}
