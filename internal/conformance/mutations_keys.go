package conformance

const decisions = "go test ./internal/grant -run "

// keyMutations are about keys that were copied, retired or withdrawn.
var keyMutations = []Mutation{
	{
		Name: "a retired key's period", File: "internal/grant/maker.go",
		Old: "\treturn KeyRetired\n", New: "\treturn Allowed\n",
		Test: decisions + "TestARetiredKeyMakesNoAccessTokensOfLater",
	},
	{
		Name: "a code by a retired key", File: "internal/grant/grant.go",
		Old: "if why := r.Maker.disowns(c.AuthorizedAt, forced, p, now); why != Allowed {", New: "if why := r.Maker.disowns(c.AuthorizedAt, forced, p, now); why == KeyWithdrawn {",
		Test: decisions + "TestARetiredKeySealsNoCodesOfLater",
	},
	{
		Name: "what a retired key's code claims to live", File: "internal/grant/grant.go",
		Old: "case now >= r.Maker.expiry(c.ExpiresAt, p.CodeLifetime, p):", New: "case now >= c.ExpiresAt:",
		Test: decisions + "TestARetiredKeySealsNoCodesOfLater",
	},
	{
		Name: "what a retired key's access token claims to live", File: "internal/grant/maker.go",
		Old: "return min(claimed, m.Until.Add(p.MaxSkew+life+time.Second))", New: "return claimed",
		Test: decisions + "TestARetiredKeyMakesNoAccessTokensOfLater",
	},
	{
		Name: "what any access token claims to live", File: "internal/grant/inspect.go",
		Old: "if t.Generation == 0 || t.ExpiresAt > t.IssuedAt.Add(MaxAccessLifetime+time.Second) {", New: "if _ = time.Second; t.Generation == 0 {",
		Test: decisions + "TestARetiredKeyMakesNoAccessTokensOfLater",
	},
	{
		Name: "no generation 0 of access tokens", File: "internal/grant/inspect.go",
		Old: "if t.Generation == 0 || t.ExpiresAt >", New: "if t.ExpiresAt >",
		Test: decisions + "TestARetiredKeyMakesNoAccessTokensOfLater",
	},
	{
		Name: "no generation 0 of refresh tokens", File: "internal/grant/grant.go",
		Old: "case r.Generation == 0:", New: "case false:",
		Test: decisions + "TestARetiredKeyMakesNoRefreshTokens",
	},
	{
		Name: "the key of a row's own token", File: "internal/grant/grant.go",
		Old: "case present && !r.Maker.Withdrawn && r.Maker.Key == g.KeyID:", New: "case present && !r.Maker.Withdrawn:",
		Test: decisions + "TestARetiredKeyMakesNoRefreshTokens",
	},
	{
		Name: "a row's own token by a key that has retired", File: "internal/grant/grant.go",
		Old: "case present && !r.Maker.Withdrawn && r.Maker.Key == g.KeyID:", New: "case present && disowned == Allowed && r.Maker.Key == g.KeyID:",
		Test: decisions + "TestARetiredKeyMakesNoRefreshTokens",
	},
	{
		Name: "the key of the token that was spent", File: "internal/grant/grant.go",
		Old: "return !r.SpentByOther &&", New: "return",
		Test: decisions + "TestARetiredKeyMakesNoRefreshTokens",
	},
	{
		Name: "which key's token a rotation spends", File: "internal/issuer/token.go",
		Old: "Attempt: grant.NewAttempt(attempt(), tok.Key),", New: "Attempt: attempt(),",
		Test: "go test ./internal/issuer -run TestWhoeverCopiedTheKeys",
	},
	{
		Name: "spent tokens of earlier versions", File: "internal/keys/ring.go",
		Old: "return spent != id && r.lookup(spent, MAC) != nil", New: "return spent != id",
		Test: "go test ./internal/issuer -run TestARepeatOfARotationByAnEarlierVersion",
	},
	{
		Name: "a key that is withdrawn", File: "internal/grant/maker.go",
		Old: "case m.Withdrawn:", New: "case m.Withdrawn && m.Until != 0:",
		Test: decisions + "TestARetiredKeyMakesNoAccessTokensOfLater",
	},
	{
		Name: "what lies ahead because of a row", File: "internal/grant/maker.go",
		Old: "case issuedAt <= forced && forced > now.Add(p.MaxSkew):", New: "case issuedAt <= forced:",
		Test: decisions + "TestARetiredKeySealsNoCodesOfLater",
	},
	{
		Name: "access tokens by the key of their instant", File: "internal/issuer/token.go",
		Old: "if !d.Repeated || a.IssuedAt != g.RotatedAt {", New: "if false {",
		Test: "go test ./internal/issuer -run TestAccessTokensWithoutRotation",
	},
	{
		Name: "JWTs by keys that are gone", File: "internal/keys/jwt.go",
		Old: "if k == nil || !r.good(k.ID, now, s) {", New: "if k == nil {",
		Test: "go test ./internal/issuer -run TestARetiredSigningKey",
	},
	{
		Name: "JWTs by keys that are withdrawn", File: "internal/keys/jwt.go",
		Old: "return p != Gone && p != Withdrawn", New: "return p != Gone",
		Test: "go test ./internal/keys -run TestAWithdrawnKeyIsFollowedAtOnce",
	},
	{
		Name: "the successor of a withdrawn key, by a clock that is behind", File: "internal/keys/schedule.go",
		Old: "for at+1 < len(line) && line[at].WithdrawnAt() != 0 {", New: "for false {",
		Test: "go test ./internal/keys -run TestAWithdrawnKeyIsFollowedAtOnce",
	},
	{
		Name: "no use of a key that was withdrawn before it", File: "internal/keys/schedule.go",
		Old: "if at := r.WithdrawnAt(); at == 0 || at > r.ActiveAt {", New: "if true {",
		Test: "go test ./internal/keys -run TestAWithdrawnKeyIsFollowedAtOnce",
	},
	{
		Name: "the mark of a withdrawal is authenticated", File: "internal/keys/kek.go",
		Old: "b = append(append(b, 0), head...)", New: "b = append(b, 0)",
		Test: "go test ./internal/keys -run TestAWithdrawalCannotBeAltered",
	},
	{
		Name: "a successor key before this node has polled", File: "internal/issuer/withdraw.go",
		Old: "if !view.Ring.NamesUnknownKey(text) {", New: "if view.Ring.NamesUnknownKey(text) || true {",
		Test: "go test ./internal/issuer -run TestAWithdrawalEndsWhatTheKeysMade",
	},
	{
		Name: "polls for keys that strangers name", File: "internal/issuer/withdraw.go",
		Old: "if last != 0 && now-last < int64(PollInterval) || !d.learned", New: "if !d.learned",
		Test: "go test ./internal/issuer -run TestAKeyThatIsUnknown",
	},
	{
		Name: "new keys by the key-encryption key of the others", File: "internal/keys/kek.go",
		Old: "if k.next != nil && len(records) > 0 && records[0].WrappedBy() == k.next.Fingerprint() {", New: "if k.next != nil {",
		Test: "go test ./internal/keys -run TestKeysAreRewrapped",
	},
	{
		Name: "a key-encryption key that was replaced", File: "internal/issuer/directory.go",
		Old: "if d.ReadKEK == nil || !errors.As(err, &other) {", New: "if d.ReadKEK == nil || errors.As(err, &other) {",
		Test: "go test ./internal/issuer -run TestRunningNodesFollow",
	},
	{
		Name: "skew in what the feed covers", File: "internal/issuer/feed.go",
		Old: "covers := iss.Policy.AccessLifetime + 2*skew + time.Second", New: "covers := iss.Policy.AccessLifetime + time.Second",
		Test: "go test ./internal/issuer -run TestTheListCovers",
	},
	{
		Name: "a key's own algorithm in package resource", File: "resource/keyset.go",
		Old: "if h.Algorithm != string(k.algorithm) {", New: "if false {",
		Test: "go test ./resource -run TestATokenNamesTheAlgorithm",
	},
	{
		Name: "further algorithms in package resource", File: "resource/keyset.go",
		Old: "jose.ES256, jose.EdDSA, jose.RS256}", New: "jose.ES256, jose.EdDSA, jose.RS256, jose.PS256}",
		Test: "go test ./resource -run TestATokenNamesTheAlgorithm",
	},
}
