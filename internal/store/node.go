package store

import "github.com/mintage/mintage/internal/grant"

// A NodeID is random, and another one after each start.
type NodeID [16]byte

// Forms is the number of the newest forms of codes, tokens and rows that this version
// reads. A version that writes a form which the version before does not read has a
// higher one, and writes that form only once directory.OlderNodes reports that every
// node reads it. Numbers below 4 are those of versions before the first release.
const Forms = FormsAsserted

const (
	// FormsBound is the number of the first forms that name keys of clients (RFC 9449).
	FormsBound = 5
	// FormsExchanged is the number of the first forms that name actors (RFC 8693).
	FormsExchanged = 6
	// FormsAsserted is the number of the first forms that end with a trust.
	FormsAsserted = 7
)

// A Node is a server that uses the store, as the others see it.
type Node struct {
	ID    NodeID
	Name  string        // of its machine, for people
	Since grant.Instant // its start
	Clock grant.Instant // its time at its latest heartbeat
	Forms int64         // the newest forms of codes and rows that it reads; see Forms
}

// Running returns the nodes that run: those whose heartbeat has changed between
// two reads. The others have ended.
func Running(before, after []Node) (list []Node) {
	last := map[NodeID]grant.Instant{}
	for _, n := range before {
		last[n.ID] = n.Clock
	}
	for _, n := range after {
		if n.Clock != last[n.ID] {
			list = append(list, n)
		}
	}
	return list
}
