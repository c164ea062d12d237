package store

import (
	"cmp"
	"strings"
)

// This file defines what a move from one engine to another requires of both: the
// tables as rows of plain values, and the migration state. Package moving does the
// rest.

// A ColumnKind says what a column holds.
type ColumnKind int

const (
	Number ColumnKind = iota
	Text
	Bytes
	// Evidence is text for people that may quote unauthenticated requests. An
	// engine may replace NUL and what is not UTF-8 by U+FFFD.
	Evidence
)

// A Column is a column of a table.
type Column struct {
	Name string
	Kind ColumnKind
}

// A Table is a table that every engine has. Its first Key columns are its primary
// key.
type Table struct {
	Name    string
	Key     int
	Columns []Column
}

// A Cell is the value of one column: a number, or else text or bytes.
type Cell struct {
	Number int64
	Text   string
}

// A Row has a cell for each of its table's columns.
type Row []Cell

// Tables lists the tables that a move copies: all except directory, which holds the
// directory's version, moves, which holds the migration state, and those of one engine.
var Tables = []Table{
	{"clients", 1, []Column{{"id", Text}, {"kind", Text}, {"version", Number}, {"changed", Number}, {"doc", Text}}},
	{"secret_uses", 1, []Column{{"secret", Text}, {"used_at", Number}}},
	{"cutoffs", 3, []Column{{"realm", Text}, {"subject", Text}, {"client", Text}, {"at", Number}, {"changed", Number}}},
	{"keys", 1, []Column{{"id", Number}, {"purpose", Text}, {"created_at", Number}, {"active_at", Number}, {"wrapped", Bytes}, {"changed", Number}}},
	{"restores", 1, []Column{{"at", Number}, {"backup_at", Number}, {"until", Number}, {"changed", Number}}},
	{"documents", 1, []Column{{"id", Bytes}, {"kind", Text}, {"version", Number}, {"expires_at", Number}, {"owner", Bytes}, {"body", Bytes}}},
	{"events", 1, []Column{{"id", Bytes}, {"at", Number}, {"name", Text}, {"about", Text}, {"actor", Evidence}, {"detail", Evidence}}},
	{"grants", 1, []Column{
		{"id", Bytes}, {"realm", Text}, {"client", Text}, {"subject", Text}, {"scope", Text}, {"authorized_at", Number},
		{"generation", Number}, {"version", Number}, {"rotated_at", Number}, {"key_id", Number}, {"expires_at", Number},
		{"delete_after", Number}, {"access_floor", Number}, {"state", Number}, {"reason", Number}, {"attempt", Number},
		{"auth_time", Number}, {"claims", Text},
	}},
}

// CompareKeys orders rows of a table by their keys: numbers by their value, text
// and bytes byte by byte.
func CompareKeys(t Table, a, b Row) int {
	for i := range t.Key {
		if c := cmp.Or(cmp.Compare(a[i].Number, b[i].Number), strings.Compare(a[i].Text, b[i].Text)); c != 0 {
			return c
		}
	}
	return 0
}

// A MoveState says which side of a move a store is on, and how far the move is.
type MoveState string

const (
	Leaving  MoveState = "leaving"  // a source: it is being copied, and nothing may change it
	Left     MoveState = "left"     // a source: it was copied, and must not be used any more
	Returned MoveState = "returned" // a source that is in use: before its first move, or after Undo
	Arriving MoveState = "arriving" // a destination: nothing may use it before the move is finished
	Arrived  MoveState = "arrived"  // a destination that is in use: the move is finished
	Undone   MoveState = "undone"   // a destination after Undo: its source is in use again
)

// A Migration is the migration state of a store; zero if it has never moved.
type Migration struct {
	State MoveState
	// Source, Move and Claim are random names. Source names the store that moves, for good.
	// Move names this move; the next one after an undone move has another name. Claim
	// names the copy: the destination chooses it, and the source stores it when it has
	// left, so that no other copy can be opened from then on.
	Source, Move, Claim string
	// OtherStore is the location of the other store, for people.
	OtherStore string
}

// Displaced is the error for a store that must not be used because of a move.
type Displaced struct {
	Migration Migration
	Place     string // location of the store itself
}

// Displaced returns an error if a store at a location must not be used.
func (m Migration) Displaced(place string) error {
	switch m.State {
	case "", Returned, Arrived:
		return nil
	}
	return &Displaced{m, place}
}

func (d *Displaced) Error() string {
	switch d.Migration.State {
	case Leaving:
		return "it is being moved to " + d.Migration.OtherStore + ": run the same migrate-store command again to continue, or cancel the move with: mintage migrate-store --undo --from " + d.Place
	case Left:
		return "it has moved to " + d.Migration.OtherStore + ": use that store (--store); to move back, see: mintage migrate-store --help"
	case Arriving:
		return "the move from " + d.Migration.OtherStore + " to this store is not finished: run the same migrate-store command again"
	}
	return "this copy was abandoned with --undo, and the store is at " + d.Migration.OtherStore + " again: use that store, or delete this copy and move again"
}
