package conformance

const (
	inAudit  = "go test ./internal/audit -run "
	inLeaks  = "go test ./internal/e2e/binary -run "
	auditLog = "internal/audit/"
)

// auditMutations break what makes the audit trail worth something.
var auditMutations = []Mutation{
	{
		Name: "chain of the audit trail", File: auditLog + "verify.go",
		Old: "case prev != w.v.Head.Hash:", New: "case false:",
		Test: inAudit + "TestWhatWasChangedIsFoundAtItsPlace",
	},
	{
		Name: "gap in the numbers of the audit trail", File: auditLog + "verify.go",
		Old: "case e.Seq != w.v.Last.Seq+1:", New: "case false:",
		Test: inAudit + "TestWhatWasChangedIsFoundAtItsPlace",
	},
	{
		Name: "removed beginning of the audit trail", File: auditLog + "verify.go",
		Old: "if end, known := w.ends[r.seq]; known && end == r.hash {", New: "if r.seq != 0 {",
		Test: inAudit + "TestRetentionRemoves",
	},
	{
		Name: "record of a write that failed", File: auditLog + "store.go",
		Old:  "if len(events) == 0 || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrNotFound) {",
		New:  "if len(events) == 0 || errors.Is(err, store.ErrNotFound) || errors.Is(err, errors.ErrUnsupported) {",
		Test: inAudit + "TestTheRecordIsTrue",
	},
	{
		Name: "escapes in the audit trail", File: auditLog + "line.go",
		Old: "case unicode.IsPrint(r):", New: "case unicode.IsPrint(r) || true:",
		Test: inAudit + "TestTextsOfStrangers",
	},
	{
		Name: "lost records told of", File: auditLog + "log.go",
		Old: "if gap.any() {\n\t\tw.batch", New: "if gap.grant == \"x\" {\n\t\tw.batch",
		Test: inAudit + "TestWhatIsLost",
	},
	{
		Name: "unknown client ids kept out of the records", File: "internal/server/audit.go",
		Old: "if id == \"\" || s.issuer.Knows(id) {", New: "if id != \"\" || s.issuer.Knows(id) {",
		Test: here + "TestOP08",
	},
	{
		Name: "search for secrets in files", File: "internal/e2e/binary/leaks.go",
		Old: "for _, leak := range l.Search(text) {\n\t\t\tfound = append(found, fmt.Sprintf(\"%s holds %s\", path, leak))", New: "for _, leak := range l.Search(text[:0]) {\n\t\t\tfound = append(found, fmt.Sprintf(\"%s holds %s\", path, leak))",
		Test: inLeaks + "TestEveryKindOfSecret",
	},
}
