package conformance

const decisions = "go test ./internal/grant -run "

// keyMutations remove safeguards about copied, retired and withdrawn keys.
var keyMutations = []Mutation{
	{
		Name: "a retired key's period", In: "Maker.rejects",
		Old: "\treturn KeyRetired\n", New: "\treturn Allowed\n",
		Test: decisions + "TestAnAccessTokenOfARetiredKeyDatesFromTheKeysPeriod",
	},
	{
		Name: "a code by a retired key", In: "Code.Redeem",
		Old: "if why := r.Maker.rejects(c.AuthorizedAt, forced, p, now); why != Allowed {", New: "if why := r.Maker.rejects(c.AuthorizedAt, forced, p, now); why == KeyWithdrawn {",
		Test: decisions + "TestACodeOfARetiredKeyDatesFromTheKeysPeriod",
	},
	{
		Name: "what a retired key's code claims to live", In: "Code.Redeem",
		Old: "case now >= r.Maker.expiry(c.ExpiresAt, p.CodeLifetime, p):", New: "case now >= c.ExpiresAt:",
		Test: decisions + "TestACodeOfARetiredKeyDatesFromTheKeysPeriod",
	},
	{
		Name: "what a retired key's access token claims to live", In: "Maker.expiry",
		Old: "return min(claimed, m.Until.Add(p.MaxSkew+life+time.Second))", New: "return claimed",
		Test: decisions + "TestAnAccessTokenOfARetiredKeyDatesFromTheKeysPeriod",
	},
	{
		Name: "what any access token claims to live", In: "Presented.disowned",
		Old: "if t.Generation == 0 || t.ExpiresAt > t.IssuedAt.Add(MaxAccessLifetime+time.Second) {", New: "if _ = time.Second; t.Generation == 0 {",
		Test: decisions + "TestAnAccessTokenOfARetiredKeyDatesFromTheKeysPeriod",
	},
	{
		Name: "no generation 0 of access tokens", In: "Presented.disowned",
		Old: "if t.Generation == 0 || t.ExpiresAt >", New: "if t.ExpiresAt >",
		Test: decisions + "TestAnAccessTokenOfARetiredKeyDatesFromTheKeysPeriod",
	},
	{
		Name: "no generation 0 of refresh tokens", In: "Grant.Refresh",
		Old: "case r.Generation == 0:", New: "case false:",
		Test: decisions + "TestARetiredKeyMakesNoRefreshTokens",
	},
	{
		Name: "the key of a row's own token", In: "Grant.Refresh",
		Old: "case present && !r.Maker.Withdrawn && r.Maker.Key == g.KeyID:", New: "case present && !r.Maker.Withdrawn:",
		Test: decisions + "TestARetiredKeyMakesNoRefreshTokens",
	},
	{
		Name: "a row's own token by a key that has retired", In: "Grant.Refresh",
		Old: "case present && !r.Maker.Withdrawn && r.Maker.Key == g.KeyID:", New: "case present && disowned == Allowed && r.Maker.Key == g.KeyID:",
		Test: decisions + "TestARetiredKeyMakesNoRefreshTokens",
	},
	{
		Name: "the key of the token that was spent", In: "Grant.repeats",
		Old: "return !r.SpentByOther &&", New: "return",
		Test: decisions + "TestARetiredKeyMakesNoRefreshTokens",
	},
	{
		Name: "which key's token a rotation spends", In: "Issuer.Refresh",
		Old: "req.Attempt = grant.NewAttempt(attempt(), tok.Key, r.JKT)", New: "req.Attempt = attempt()",
		Test: "go test ./internal/issuer -run TestCopiedKeysForgeNothing",
	},
	{
		Name: "a spent token whose key is unknown", In: "Ring.SpentByOther",
		Old: "return spent != id && r.lookup(spent, MAC) != nil", New: "return spent != id",
		Test: "go test ./internal/issuer -run TestARepeatOfARotationWhoseSpentKeyIsUnknown",
	},
	{
		Name: "a key that is withdrawn", In: "Maker.rejects",
		Old: "case m.Withdrawn:", New: "case m.Withdrawn && m.Until != 0:",
		Test: decisions + "TestAnAccessTokenOfARetiredKeyDatesFromTheKeysPeriod",
	},
	{
		Name: "what lies ahead because of a row", In: "Maker.rejects",
		Old: "case issuedAt <= forced && forced > now.Add(p.MaxSkew):", New: "case issuedAt <= forced:",
		Test: decisions + "TestACodeOfARetiredKeyDatesFromTheKeysPeriod",
	},
	{
		Name: "access tokens by the key of their instant", In: "response.accessToken",
		Old: "if !r.d.Repeated || a.IssuedAt != g.RotatedAt {", New: "if false {",
		Test: "go test ./internal/issuer -run TestAccessTokensWithoutRotation",
	},
	{
		Name: "JWTs by keys that are gone", In: "Ring.VerifyAt",
		Old: "if err != nil || !r.good(id, now, s) {", New: "if err != nil {",
		Test: "go test ./internal/issuer -run TestIntrospectionRefusesLaterJWTsByARetiredKey",
	},
	{
		Name: "JWTs by keys that are withdrawn", In: "Ring.good",
		Old: "return p != Gone && p != Withdrawn", New: "return p != Gone",
		Test: "go test ./internal/keys -run TestAWithdrawnKeyHasASuccessorAtOnce",
	},
	{
		Name: "the successor of a withdrawn key, by a clock that is behind", In: "active",
		Old: "for at+1 < len(line) && line[at].WithdrawnAt() != 0 {", New: "for false {",
		Test: "go test ./internal/keys -run TestAWithdrawnKeyHasASuccessorAtOnce",
	},
	{
		Name: "no use of a key that was withdrawn before it", In: "NewTimeline",
		Old: "if at := r.WithdrawnAt(); at == 0 || at > r.ActiveAt {", New: "if true {",
		Test: "go test ./internal/keys -run TestAWithdrawnKeyHasASuccessorAtOnce",
	},
	{
		Name: "the mark of a withdrawal is authenticated", In: "Stored.binding",
		Old: "b = append(append(b, 0), head...)", New: "b = append(b, 0)",
		Test: "go test ./internal/keys -run TestAWithdrawalCannotBeAltered",
	},
	{
		Name: "a successor key before this node has polled", In: "Directory.PollForKey",
		Old: "if !unknown {", New: "if unknown || true {",
		Test: "go test ./internal/directory -run TestAWithdrawalEndsWhatTheKeysMade",
	},
	{
		Name: "polls for keys that unauthenticated callers name", In: "Directory.PollForKey",
		Old: "if absent, ask := d.mayPoll(id, now); absent {", New: "if absent, ask := false, true; absent {",
		Test: "go test ./internal/directory -run TestAKeyThatIsUnknown",
	},
	{
		Name: "new keys by the key-encryption key of the others", In: "KEK.Of",
		Old: "if k.next != nil && len(records) > 0 && records[0].WrappedBy() == k.next.Fingerprint() {", New: "if k.next != nil {",
		Test: "go test ./internal/keys -run TestKeysAreRewrapped",
	},
	{
		Name: "a key-encryption key that was replaced", In: "Directory.openRing",
		Old: "!errors.As(err, new(*keys.OtherKEK))", New: "errors.As(err, new(*keys.OtherKEK))",
		Test: "go test ./internal/directory -run TestRunningNodesFollow",
	},
	{
		Name: "skew in what the feed covers", In: "feed.text",
		Old: "covers := view.LongestAccess(iss.Policy.AccessLifetime) + 2*skew + time.Second", New: "covers := view.LongestAccess(iss.Policy.AccessLifetime) + time.Second",
		Test: "go test ./internal/issuer -run TestTheListCovers",
	},
	{
		Name: "a key's own algorithm in package resource", In: "Verifier.open",
		Old: "if h.Algorithm != string(k.algorithm) {", New: "if false {",
		Test: "go test ./resource -run TestATokenMustNameTheAlgorithm",
	},
	{
		Name: "further algorithms in package resource", In: "algorithms",
		Old: "jose.ES256, jose.EdDSA, jose.RS256}", New: "jose.ES256, jose.EdDSA, jose.RS256, jose.PS256}",
		Test: "go test ./resource -run TestATokenMustNameTheAlgorithm",
	},
}
