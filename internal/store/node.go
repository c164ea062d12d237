package store

import "github.com/mintage/mintage/internal/grant"

// A NodeID is the random name of a node. A node has a new one after each start.
type NodeID [16]byte

// Forms is the version number of the formats of codes, tokens and rows that this version
// reads. A version with a new format has a higher number, and writes the new format only
// after directory.OlderNodes reports that no running node is too old to read it. Numbers
// below 4 are those of versions before the first release.
const Forms = FormsAsserted

const (
	// FormsBound is the least Forms of a node that reads tokens bound to keys of clients
	// (RFC 9449).
	FormsBound = 5
	// FormsExchanged is the least Forms of a node that reads tokens with actors (RFC 8693).
	FormsExchanged = 6
	// FormsAsserted is the least Forms of a node that reads tokens issued by a trust.
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

// A FileCondition describes a store's file and its disk.
type FileCondition struct {
	JournalMode string // wal
	Synchronous int    // 2 is FULL
	Size, WAL   int64  // bytes
	Free        int64  // bytes available to this user
	// Network names the kind of network file system of the file, or is empty.
	Network string
}

// A ServerCondition describes a database server and its store. A setting that the
// engine does not have is absent; unknown numbers are -1.
type ServerCondition struct {
	// Settings that affect durability and speed, by name.
	Settings map[string]string
	// Standby is set if the server is a standby.
	Standby bool
	// Encrypted is set if the connection uses TLS.
	Encrypted bool
	// Denied names the tables on which the user lacks a privilege to read or write rows.
	Denied string
	// The rows of the table of grants, and its dead rows that are not removed yet.
	Live, Dead int64
}
