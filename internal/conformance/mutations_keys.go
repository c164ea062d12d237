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
		Old: "if t.Generation == 0 || t.ExpiresAt > t.IssuedAt.Add(MaxAccessLifetime+time.Second) {", New: "if t.Generation == 0 {",
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
		Old: "Attempt: grant.MarkAttempt(attempt(), tok.Key),", New: "Attempt: attempt(),",
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
		Old: "if k == nil || r.Phase(k.ID, now, s) == Gone {", New: "if k == nil {",
		Test: "go test ./internal/issuer -run TestARetiredSigningKey",
	},
}
