package conformance

const (
	inSQLite   = "go test ./internal/store/sqlite -run "
	inPostgres = "go test ./internal/store/postgres -run "
)

// storeMutations remove safeguards of how engines report the outcome of a write, and of
// what a sweep removes.
var storeMutations = []Mutation{
	{
		Name: "a synced log that is not written", In: "syncLog",
		Old: "l.write(tls, file)", New: "int32(lib.SQLITE_OK)",
		Test: inSQLite + "TestWhatIsAcknowledged",
	},
	{
		Name: "a log that does not fit", In: "syncLog",
		Old: "SQLITE_OK {\n\t\treturn rc", New: "SQLITE_OK {\n\t\treturn lib.SQLITE_OK",
		Test: inSQLite + "TestCollectedWritesReachTheLog",
	},
	{
		Name: "a commit that is not forced to the disk", In: "syncLog",
		Old: "return syncData(file)", New: "return lib.SQLITE_OK",
		Test: inSQLite + "TestCollectedWritesReachTheLog",
	},
	{
		Name: "failed commit answered as success", In: "writer.commitBatch",
		Old: "fail(fmt.Errorf(\"commit: %w\", err))", New: "fail(nil)",
		Test: inSQLite + "TestACommitThatFailed",
	},
	{
		Name: "failed commit said to be unwritten", In: "writer.commitBatch",
		Old: "fail(fmt.Errorf(\"commit: %w\", err))", New: "fail(fmt.Errorf(\"commit: %w: %w\", store.ErrBusy, err))",
		Test: inSQLite + "TestACommitThatFailed",
	},
	{
		Name: "versions of a change before it is written in a batch", In: "writer.commitDocuments",
		Old: "} else if !fits {", New: "} else if !fits && false {",
		Test: inSQLite + "TestStoreKeepsItsPromises/commit",
	},
	{
		Name: "own work after an unknown outcome in SQLite", In: "writer.recognised",
		Old: "if !errors.Is(conflict, store.ErrConflict) {", New: "if !errors.Is(conflict, store.ErrConflict) || true {",
		Test: inSQLite + "TestStoreKeepsItsPromises/commit",
	},
	{
		Name: "own work after an unknown outcome in PostgreSQL", In: "internal/store/postgres/commit.go",
		Old: "return s.recognised(ctx, c, err)", New: "return err",
		Test: inPostgres + "TestStoreKeepsItsPromises/read_committed/commit",
	},
	{
		Name: "every record of a change that is held", In: "Change.Held",
		Old: "wrapped = $5`, Args: keyArgs(k)})", New: "(wrapped = $5 OR 1 = 1)`, Args: keyArgs(k)})",
		Test: inSQLite + "TestStoreKeepsItsPromises/commit",
	},
	{
		Name: "version in SQLite's sweep", In: "deleteGrantSQL",
		Old: "AND version = ? AND delete_after < ?`", New: "AND version >= ? AND delete_after < ?`",
		Test: inSQLite + "TestTheSweepLeaves",
	},
	{
		Name: "delete_after in SQLite's sweep", In: "deleteGrantSQL",
		Old: "AND version = ? AND delete_after < ?`", New: "AND version = ? AND delete_after < ? + 1000000000000`",
		Test: inSQLite + "TestTheSweepLeaves",
	},
	{
		Name: "partial index of what a rotation changes", In: "internal/store/sqlite/migrations/0001_grants.sql",
		Old: "CREATE INDEX grants_by_subject ON grants (subject);", New: "CREATE INDEX grants_by_subject ON grants (subject); CREATE INDEX grants_ended ON grants (subject) WHERE generation > 1;",
		Test: inSQLite + "TestNoIndexHoldsAColumn",
	},
	{
		Name: "version in PostgreSQL's sweep", In: "deleteGrantsSQL",
		Old: "g.version = u.version AND g.delete_after", New: "g.version >= u.version AND g.delete_after",
		Test: inPostgres + "TestTheSweepLeaves",
	},
	{
		Name: "version of a decision", In: "serveUpdates",
		Old: "case u.next.Version != have.Version+1 || u.next.ID != u.id:", New: "case u.next.ID != u.id:",
		Test: inPostgres + "TestStoreKeepsItsPromises/read_committed/grants/version_is_not_the_next",
	},
	{
		Name: "statement whose completion is unknown", In: "judgeAnswer",
		Old: "case \"40003\": // statement completion unknown\n\t\treturn unknown", New: "case \"40003\": // statement completion unknown\n\t\treturn refused",
		Test: inPostgres + "TestOnlyARefusal",
	},
	{
		Name: "FATAL is no refusal", In: "judgeAnswer",
		Old: "if e.SeverityUnlocalized != \"ERROR\" {", New: "if e.SeverityUnlocalized == \"never\" {",
		Test: inPostgres + "TestOnlyARefusal",
	},
	{
		Name: "outcome of a member that is settled", In: "seat.settle",
		Old: "if !s.settled {\n\t\ts.settled, s.err = true, err", New: "if s.err = err; !s.settled {\n\t\ts.settled = true",
		Test: inPostgres + "TestAWrittenOperationKeepsItsOutcome",
	},
	{
		Name: "a caller that has gone while the lock was held", In: "writer.commitBatch",
		Old: "return !op.begins() })", New: "return false })",
		Test: inSQLite + "GivenUpWhileAnotherProcess",
	},
	{
		Name: "a write to files that are gone", In: "openFiles.present",
		Old: "err != nil || !os.SameFile(here, opened)", New: "err == nil && here == nil && opened == nil",
		Test: inSQLite + "WhoseFilesAreGone",
	},
	{
		Name: "a new store in an empty directory", In: "lostStore",
		Old: "dev || err == nil {", New: "dev || err == nil || found == nil {",
		Test: "go test ./internal/deployment -run TestAStoreIsMade",
	},
	{
		Name: "an expired certificate in the place of a good one", In: "Certificate.worse",
		Old: "case now.After(next.NotAfter) &&", New: "case now.IsZero() &&",
		Test: "go test ./internal/server -run TestABadCertificate",
	},
	{
		Name: "advice on a key file leaves the server able to read it", In: "User.Close",
		Old: "info.Mode()&0o040 != 0 &&", New: "info != nil &&",
		Test: "go test ./internal/secretfile",
	},
	{
		Name: "page size of a new file", In: "pageSize",
		Old: "pageSize    = 1024", New: "pageSize    = 4096",
		Test: inSQLite + "TestANewStoreHasPages",
	},
	{
		Name: "limit of the log", In: "checkpointer.committed",
		Old: "if pages < c.from+2*c.limit {", New: "if pages < c.from+2*c.limit || true {",
		Test: inSQLite + "TestTheWriterWaitsForASlowCheckpoint",
	},
	{
		Name: "limit of the log in proportion to the file", In: "checkpointer.setLimit",
		Old: "c.limit = max(c.least, pages/2)", New: "c.limit = max(c.least, pages/2000)",
		Test: inSQLite + "TestACheckpointIsDueAtHalf",
	},
	{
		Name: "size of a log that was long", In: "checkpointer.setLimit",
		Old: "2*c.limit*(pageSize+frameHeader))", New: "-1)",
		Test: inSQLite + "TestALogThatGrewDuringALongRead",
	},
}
