package conformance

const engine = "go test ./internal/store/postgres -run "

// nodeMutations remove safeguards of several nodes on one database.
var nodeMutations = []Mutation{
	{
		Name: "compare-and-swap of a batch", In: "updateGrantsSQL",
		Old: "WHERE g.id = u.id AND g.version = u.version - 1\n", New: "WHERE g.id = u.id AND g.version <> u.version - 2\n",
		Test: engine + "TestStoreKeepsItsPromises/read_committed",
	},
	{
		Name: "one grant at a time in a batch", In: "batcher.take",
		Old: "b.underway[m.key()] = struct{}{}", New: "_ = m.key()",
		Test: engine + "TestOperationsOnOneGrantNeverShareABatch",
	},
	{
		Name: "warnings of a commit", In: "confirmed",
		Old: "if text, warned := c.CustomData()[warningKey]; warned {", New: "if text, warned := c.CustomData()[warningKey]; warned && false {",
		Test: engine + "TestACommitThatNoStandbyHasConfirmedIsNeitherAcknowledgedNorShown",
	},
	{
		Name: "no cancelling of statements", In: "dialer",
		Old: "stands.Store(true)", New: "stands.Store(false)",
		Test: engine + "TestACommitThatNoStandbyHasConfirmedIsNeitherAcknowledgedNorShown",
	},
	{
		Name: "confirmation of a new connection", In: "settings",
		Old: "err := confirmPrimary(ctx, conn)", New: "var err error",
		Test: engine + "TestHostsThatConfirmNoWriteArePassedOver",
	},
	{
		Name: "warnings from before a write", In: "confirmPrimary",
		Old: "\tforgetWarning(conn)\n", New: "",
		Test: engine + "TestAServerThatWarnsAtEachConnectionsStartIsUsed",
	},
	{
		Name: "confirmation of a connection that stands", In: "hosts.usable",
		Old: "noted && time.Since(at) <", New: "noted || time.Since(at) <",
		Test: engine + "TestAServerThatConfirmsNothingIsNotReadFrom",
	},
	{
		Name: "connections to another host", In: "hosts.current",
		Old: "return o == origin{*h.last.Load(), h.epoch.Load()}", New: "return o.epoch == h.epoch.Load()",
		Test: engine + "TestConnectionsToAnotherHostThanTheLatestAreNotUsed",
	},
	{
		Name: "a store that has moved", In: "Store.Heartbeat",
		Old: "err = s.checkUsable(ctx)", New: "_ = s.checkUsable(ctx)",
		Test: engine + "TestAHeartbeatReportsThatTheStoreHasMoved",
	},
	{
		Name: "heartbeat before a poll counts", In: "Directory.poll",
		Old: "err := d.heartbeat(try, tick)", New: "err := error(nil)\n\t\t_ = d.heartbeat(try, tick)",
		Test: "go test ./internal/directory -run TestANodeWithoutHeartbeatsIsStale",
	},
	{
		Name: "clocks that deviate more than the allowed skew", In: "peers.compare",
		Old: "case b.apart(bearing{}) <= skew:", New: "case b.apart(bearing{}) <= skew || true:",
		Test: "go test ./internal/directory -run TestANodeWhoseClockIsOffIsNotReady",
	},
	{
		Name: "clocks behind", In: "bearing.apart",
		Old: "max(b.least-o.most, o.least-b.most)", New: "max(b.least-o.most, 0)",
		Test: "go test ./internal/directory -run TestANodeWhoseClockIsOffIsNotReady",
	},
	{
		Name: "forms that an older node does not read", In: "Directory.heartbeat",
		Old: "missing = max(missing, store.Forms-n.Forms)", New: "_ = n.Forms",
		Test: "go test ./internal/directory -run TestAFormWaitsForEveryNode",
	},
}
