package store

// A FileCondition is what can be told of a store's file and of the disk it is on.
type FileCondition struct {
	JournalMode string // wal
	Synchronous int    // 2 is FULL
	Size, WAL   int64  // bytes
	Free        int64  // bytes that this user may still write
	// Network names the kind of network file system that the file is on, or "".
	Network string
}

// A ServerCondition is what can be told of a database server and of the store in
// it. What an engine does not know is absent: a setting from Settings, and the
// numbers of the table are -1.
type ServerCondition struct {
	// Settings that bear on durability and speed, by their names.
	Settings map[string]string
	// Standby tells that the server replays another one's log.
	Standby bool
	// Encrypted tells that this connection is, as the server sees it.
	Encrypted bool
	// Of the table of grants: its rows, and those that are dead and not yet removed.
	Live, Dead int64
	Nodes      []Node
}
