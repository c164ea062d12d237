package conformance

const (
	inAudit   = "go test ./internal/audit -run "
	inLeaks   = "go test ./internal/e2e/binary -run "
	inProgram = "go test ./internal/cli -run "
)

// auditMutations remove safeguards of the audit log's integrity.
var auditMutations = []Mutation{
	{
		Name: "chain of the audit log", In: "verifier.line",
		Old: "case prev != w.v.Head.Hash:", New: "case false:",
		Test: inAudit + "TestWhatWasChangedIsFoundAtItsPlace",
	},
	{
		Name: "gap in the numbers of the audit log", In: "verifier.line",
		Old: "case e.Seq != w.v.Last.Seq+1:", New: "case false:",
		Test: inAudit + "TestWhatWasChangedIsFoundAtItsPlace",
	},
	{
		Name: "removed beginning of the audit log", In: "verifier.finish",
		Old: "if end, known := w.ends[r.seq]; known && end == r.hash {", New: "if r.seq != 0 {",
		Test: inAudit + "TestRetentionRemoves",
	},
	{
		Name: "record of a write that failed", In: "Store.record",
		Old:  "if len(events) == 0 || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrNotFound) {",
		New:  "if len(events) == 0 || errors.Is(err, store.ErrNotFound) || errors.Is(err, errors.ErrUnsupported) {",
		Test: inAudit + "TestTheRecordIsTrue",
	},
	{
		Name: "escapes in the audit log", In: "appendRune",
		Old: "case unicode.IsPrint(r):", New: "case unicode.IsPrint(r) || true:",
		Test: inAudit + "TestTextsOfStrangers",
	},
	{
		Name: "lost events noted in the audit log", In: "writer.writeBatch",
		Old: "if gap.any() {\n\t\tw.batch", New: "if gap.count[0] == 1<<60 {\n\t\tw.batch",
		Test: inAudit + "TestWhatIsLost",
	},
	{
		Name: "unknown client ids kept out of the records", In: "Server.known",
		Old: "if id == \"\" || registered || s.directory.Admits(s.Realm, id) {", New: "if id != \"\" || registered {",
		Test: here + "TestOP08",
	},
	{
		Name: "search for secrets in files", In: "Leaks.searchFiles",
		Old: "for _, leak := range l.Search(text) {\n\t\t\tfound = append(found, fmt.Sprintf(\"%s holds %s\", path, leak))", New: "for _, leak := range l.Search(text[:0]) {\n\t\t\tfound = append(found, fmt.Sprintf(\"%s holds %s\", path, leak))",
		Test: inLeaks + "TestEveryKindOfSecret",
	},
	{
		Name: "MACs of the audit log", In: "verifier.mac",
		Old: "case err != nil:\n\t\t\treturn w.breaks(number, \"its mac is wrong", New: "case err != nil && number < 0:\n\t\t\treturn w.breaks(number, \"its mac is wrong",
		Test: inAudit + "TestAnAuditLogThatWasChainedAnew",
	},
	{
		Name: "what only servers record", In: "verifier.mac",
		Old: "case !byCommands(e.Event):", New: "case false:",
		Test: inAudit + "TestAForgedRemoval",
	},
	{
		Name: "records of commands beside a server", In: "writer.run",
		Old: "w.dir.catchUp()", New: "_ = w.dir.catchUp",
		Test: inAudit + "TestAServerNoticesTheRemoval",
	},
	{
		Name: "last line of a writer", In: "directory.seek",
		Old: "&& !ours.stands() {", New: "&& ours.seq == 0 {",
		Test: inAudit + "TestAWriterDoesNotGoOn",
	},
	{
		Name: "removals that the store does not know", In: "verification.judge",
		Old: "case v.verdict.Removed > a.Removed &&", New: "case a.Removed > 1<<60 &&",
		Test: inProgram + "TestARemovalIsBelieved",
	},
	{
		Name: "chains that the store knows", In: "verification.judge",
		Old: "(v.alone || a.Of(v.dir)):", New: "a.Node == \"\":",
		Test: inProgram + "TestTheAuditLogOfThisMachine",
	},
	{
		Name: "anchor of an audit log that was written anew", In: "anchoring.compare",
		Old: "if was.Seq >= place.First && !place.Found", New: "if was.Seq >= place.First && !place.Found && place.First == 0",
		Test: "go test ./internal/node -run TestAnAnchorIsNotMoved",
	},
	{
		Name: "lost record logged as an alarm", In: "severityOfFault",
		Old: "case status >= 500 && errors.As(err, &refused):\n\t\treturn slog.LevelError,", New: "case status >= 500 && errors.As(err, &refused):\n\t\treturn slog.LevelInfo,",
		Test: here + "TestOP13_ARecordThatIsLost",
	},
	{
		Name: "lost record counted", In: "countRefusal",
		Old: "m.StoreBehind()", New: "",
		Test: here + "TestOP13_ARecordThatIsLost",
	},
	{
		Name: "lost record in the audit log", In: "Server.auditRefusal",
		Old: "if refused.Why == grant.StoreBehind {\n\t\te.Outcome = audit.Failed", New: "if refused.Why == grant.StoreBehind {\n\t\te.Outcome = audit.Refused",
		Test: here + "TestOP13_ARecordThatIsLost",
	},
}
