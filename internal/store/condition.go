package store

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
	// Of the table of grants: its rows, and those that are dead and not yet removed.
	Live, Dead int64
	Nodes      []Node
}
