package conformance

// grantMutations remove safeguards against replayed codes, about registered windows, and
// about writes with an unknown outcome.
var grantMutations = []Mutation{
	{
		Name: "key of a bound code", In: "Code.Redeem",
		Old: "case c.JKT.Bound() && c.JKT != r.JKT:", New: "case false:",
		Test: "go test ./internal/grant -run TestRedeemWithAKey",
	},
	{
		Name: "key of a public client's grant", In: "Code.Redeem",
		Old: "g.JKT = r.JKT //", New: "g.JKT = c.JKT //",
		Test: "go test ./internal/grant -run TestRedeemWithAKey",
	},
	{
		Name: "key of a bound refresh token", In: "Grant.Refresh",
		Old: "case !g.JKT.Bound() && r.MustBeBound, g.JKT.Bound() && g.JKT != r.JKT:", New: "case false:",
		Test: "go test ./internal/grant -run TestRefreshOfABoundGrant",
	},
	{
		Name: "key of a repeated refresh", In: "Grant.Refresh",
		Old: "case repeats && !g.boundAs(r.JKT):", New: "case false:",
		Test: "go test ./internal/grant -run TestRepeatedRefreshOfAConfidentialClient",
	},
	{
		Name: "key in the MAC's text of an access token", In: "Ring.sealToken",
		Old: "if size == boundSize {", New: "if false {",
		Test: "go test ./internal/keys -run TestBoundTokens",
	},
	{
		Name: "bound token as Bearer", In: "Request.Presented",
		Old: "case bound.Bound() != r.dpop:", New: "case bound.Bound() != r.dpop && false:",
		Test: here + "TestDP30",
	},
	{
		Name: "key of an access token", In: "Request.Presented",
		Old: "case key != bound:", New: "case key != bound && false:",
		Test: here + "TestDP30",
	},
	{
		Name: "proofs that were used", In: "Request.isFirst",
		Old: "if !of.Seen.First(proof, now) {", New: "if false {",
		Test: here + "TestDP02",
	},
	{
		Name: "proofs that another node has seen", In: "Request.isFirst",
		Old: "of.Shared == nil || !demanded", New: "of.Shared == nil || demanded",
		Test: here + "TestDP39",
	},
	{
		Name: "proofs that cannot be recorded", In: "Request.Proof",
		Old: "if fault != nil {", New: "if false {",
		Test: here + "TestAProofThatCannotBeRecordedIsNotAccepted",
	},
	{
		Name: "nonces before the client", In: "Endpoints.token",
		Old: "if err = r.AskNonce(p); err != nil {", New: "if false {",
		Test: here + "TestDP23",
	},
	{
		Name: "nonces of workloads", In: "Request.AskNonce",
		Old: "err != nil && !alone", New: "err != nil",
		Test: here + "TestDP23",
	},
	{
		Name: "nonces of clients with credentials that are not verified", In: "Request.OwnProof",
		Old: "public && !asked", New: "false && asked",
		Test: here + "TestDP23_ANonceIsDemandedOfAClientThatIsNotVerified",
	},
	{
		Name: "clients that must have proofs", In: "keyOf",
		Old: "case c.DPoP == store.DPoPRequired && !r.HasProof():", New: "case false:",
		Test: here + "TestDP02",
	},
	{
		Name: "signature of a proof", In: "Proof.Verify",
		Old: "if !p.verifies() {", New: "if false {",
		Test: "go test ./internal/dpop -run TestProofsThatAreRefused",
	},
	{
		Name: "private members of a key", In: "readKey",
		Old: "if k.D != nil ||", New: "if false ||",
		Test: "go test ./internal/dpop -run TestProofsThatAreRefused",
	},
	{
		Name: "hash of the token in a proof", In: "Proof.Verify",
		Old: "subtle.ConstantTimeCompare([]byte(want), []byte(p.tokenHash)) != 1", New: `subtle.ConstantTimeCompare([]byte(want), []byte(p.tokenHash)) > 1`,
		Test: "go test ./internal/dpop -run TestATokenIsNamedByItsHash",
	},
	{
		Name: "nonces of other minutes", In: "Nonces.Valid",
		Old: "n.At(now.Add(at))", New: "nonce[:len(nonce)+0*int(at)]",
		Test: "go test ./internal/dpop -run TestNonces",
	},
	{
		Name: "key of a token at an API in Go", In: "Verifier.VerifyBound",
		Old: "if p.KeyThumbprint != base64", New: "if false && p.KeyThumbprint != base64",
		Test: "go test ./resource -run TestBoundTokens",
	},
	{
		Name: "nodes that know no keys", In: "Issuer.viewFor",
		Old: "key.Bound() && iss.Directory.OlderNodes(store.FormsBound)", New: "false",
		Test: "go test ./internal/issuer -run TestNothingIsBoundBesideAnEarlierVersion",
	},
	{
		Name: "end of a grant by a code under a cutoff", In: "Refusal.Foreign",
		Old: "r == KeyMismatch\n", New: "r == KeyMismatch || r == CutOff\n",
		Test: "go test ./internal/issuer -run TestACodePresentedAgain",
	},
	{
		Name: "end of a grant by a code without scopes left", In: "Refusal.Foreign",
		Old: "r == KeyMismatch\n", New: "r == KeyMismatch || r == ScopeTooWide\n",
		Test: "go test ./internal/issuer -run TestACodePresentedAgain",
	},
	{
		Name: "end of a grant by a code from before a restore", In: "Refusal.Foreign",
		Old: "r == KeyMismatch\n", New: "r == KeyMismatch || r == CodeBeforeRestore\n",
		Test: "go test ./internal/issuer -run TestACodePresentedAgain",
	},
	{
		Name: "end of a grant by an expired code", In: "Refusal.Foreign",
		Old: "r == KeyMismatch\n", New: "r == KeyMismatch || r == CodeExpired\n",
		Test: "go test ./internal/issuer -run TestACodePresentedAgain",
	},
	{
		Name: "instant of the row's own generation after a restore", In: "Grant.Refresh",
		Old: "(r.Generation == g.Generation || g.RotatedAt >= r.Restore.At) && !shared,", New: "(g.RotatedAt >= r.Restore.At) && !shared,",
		Test: "go test ./internal/grant -run TestOP13",
	},
	{
		Name: "a registered retry window of zero", In: "Issuer.PolicyOf",
		Old: "p.RetryWindow = c.RetryWindow.Or(p.RetryWindow)", New: "if w := c.RetryWindow.Or(0); w > 0 {\n\t\tp.RetryWindow = w\n\t}",
		Test: "go test ./internal/issuer -run TestARegisteredRetryWindow",
	},
	{
		Name: "end of the reuse grace", In: "Grant.shared",
		Old: "now.Since(r.IssuedAt) < p.ReuseGrace+p.MaxSkew", New: "r.IssuedAt > 0",
		Test: "go test ./internal/grant -run TestReuseGrace",
	},
	{
		Name: "one chain for all holders of a token", In: "Grant.Refresh",
		Old: "case repeats, shared && (g.inWindow(p, now) || p.accessExpiry(again).Since(now) >= nearlySpent):", New: "case repeats:",
		Test: "go test ./internal/grant -run TestReuseGrace",
	},
	{
		Name: "no search for what a busy store has not written", In: "Issuer.settled",
		Old: "if errors.Is(err, store.ErrBusy) || next.State != grant.Active {", New: "if next.State != grant.Active {",
		Test: "go test ./internal/issuer -run TestAFullStore",
	},
	{
		Name: "no look at a decision after its request", In: "change.commit",
		Old: "case ctx.Err() == nil && c.iss.settled(ctx, c.made.Next, err):", New: "case c.iss.settled(ctx, c.made.Next, err):",
		Test: "go test ./internal/issuer -run TestAWriteIsNotSearchedFor",
	},
	{
		Name: "what decides is used again while it may still decide", In: "Issuer.Refresh",
		Old: "return Tokens{}, err // the store may", New: "rot.reuse()\n\t\treturn Tokens{}, err // the store may",
		Test: "go test ./internal/issuer -run TestALateDecision",
	},
	{
		Name: "what records is used again while it may still decide", In: "Store.UpdateGrant",
		Old: "if err == nil { // after any other", New: "{ // after any other",
		Test: "go test ./internal/audit -run TestALateDecision",
	},
	{
		Name: "a token of a later generation that is older than its row", In: "Grant.Refresh",
		Old: "case r.Generation > g.Generation && r.IssuedAt < g.RotatedAt && g.RotatedAt < r.Restore.At:", New: "case false:",
		Test: "go test ./internal/grant -run TestAfterARestoreNoOlderToken",
	},
}
