package store

import "github.com/mintage/mintage/internal/grant"

// A NodeID is random, and another one after each start.
type NodeID [16]byte

// Forms is the number of the newest forms of codes and rows that this version
// reads. It grows with each form that earlier versions do not read: facts beside
// claims, and codes with them, are 1.
const Forms = FormsOfScopes

// FormsOfAPIs is the number of the first forms that name APIs; FormsOfOpenID that of
// those for id_tokens; FormsOfOrderedIDs that of decisions whose grant has an id that
// begins with its time; FormsOfScopes that of grants whose APIs follow from their
// scope, with ClientAudience among them.
const (
	FormsOfOpenID     = 1
	FormsOfAPIs       = 2
	FormsOfOrderedIDs = 3
	FormsOfScopes     = 4
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
