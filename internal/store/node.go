package store

import "github.com/mintage/mintage/internal/grant"

// A NodeID is random, and another one after each start.
type NodeID [16]byte

// A Node is a server that uses the store, as the others see it.
type Node struct {
	ID    NodeID
	Name  string        // of its machine, for people
	Since grant.Instant // its start
	Clock grant.Instant // its time at its latest heartbeat
}
