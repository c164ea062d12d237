package conformance

// restoreMutations remove safeguards of a store that was restored to an older state.
var restoreMutations = []Mutation{
	{
		Name: "two holders after a restore", In: "Grant.Refresh",
		Old: "case ahead && (r.Generation == g.Generation || g.RotatedAt >= r.Restore.At) && !shared,", New: "case ahead && r.Generation == g.Generation && !shared,",
		Test: here + "TestOP13",
	},
	{
		Name: "codes of before a restore", In: "Code.Redeem",
		Old: "case r.Restore.explains(c.AuthorizedAt, now):", New: "case false:",
		Test: "go test ./internal/issuer -run TestOP13",
	},
	{
		Name: "checksum of a backup", In: "checkDigest",
		Old: "have != digest {", New: "have != digest && false {",
		Test: "go test ./internal/backup -run TestADamagedBackupIsFound",
	},
	{
		Name: "log of the store that was there", In: "Replacement.replace",
		Old: `append([]string{"-shm"}, sqlite.Logs...)`, New: `[]string{"-shm"}`,
		Test: "go test ./internal/restore -run TestABackupIsInstalledWhereThereIsNoStore",
	},
	{
		Name: "declaration before a store is put back", In: "restoration.install",
		Old: "if err := copied.Declare(cmd.Context(), merge, now, event); err != nil {", New: "if err := error(nil); err != nil {\n\t\t_, _ = event, merge",
		Test: "go test ./internal/cli -run TestScripts/backup",
	},
	{
		Name: "cutoff of a client that was deleted since a backup", In: "EndedClient.merge",
		Old: "cutoffs = []store.Cutoff{{Realm: st.Name, ClientID: c.ID, At: now}}", New: "cutoffs = nil",
		Test: "go test ./internal/admin -run TestEachThingThatHasEnded",
	},
	{
		Name: "a fault while the last grants are ended", In: "Ended.mergeGrants",
		Old: "return errors.Join(err, context.Cause(ctx))", New: "return err",
		Test: "go test ./internal/admin -run TestEachThingThatHasEnded",
	},
	{
		Name: "a fault while a grant is ended", In: "Ended.mergeGrants",
		Old: "cancel(err)\n				}", New: "cancel(nil)\n				}",
		Test: "go test ./internal/admin -run TestEachThingThatHasEnded",
	},
	{
		Name: "a fault while a cutoff is repeated", In: "Ended.Merge",
		Old: `return fmt.Errorf("cutoff: %w", err)`, New: "break",
		Test: "go test ./internal/admin -run TestEachThingThatHasEnded",
	},
	{
		Name: "a user who was disabled since a backup", In: "Since.ofUser",
		Old: "Disabled: disabled, ", New: "",
		Test: "go test ./internal/restore -run TestTheStoreShowsEachThing",
	},
	{
		Name: "what has ended since a backup", In: "end",
		Old: "return have.Revoke(since.Reason).Next, []store.Event", New: "return have, []store.Event",
		Test: "go test ./internal/admin -run TestWhatHasEndedSinceABackupIsEndedInItsCopy",
	},
}
