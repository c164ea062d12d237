package conformance

const (
	judged   = "go test ./internal/client -run TestRefusedAssertions"
	asserted = "go test ./internal/issuer -run "
)

// trustMutations remove safeguards of assertions of other issuers as grants.
var trustMutations = []Mutation{
	{
		Name: "an ID-JAG is one by its type, letter by letter", In: "judgement.typ",
		Old: "case exact == oauth.JWTIDJAG:", New: "case typ == oauth.JWTIDJAG:",
		Test: judged,
	},
	{
		Name: "an ID-JAG needs an authenticated client", In: "judgement.typ",
		Old: "case exact == oauth.JWTIDJAG && !j.authenticated:", New: "case false:",
		Test: "go test ./internal/client -run TestWorkloadsWithoutAClient",
	},
	{
		Name: "this server as an issuer of assertions", In: "judgement.trust",
		Old: "if j.claims.Issuer == j.a.Issuer {", New: "if false {",
		Test: judged,
	},
	{
		Name: "assertions of a disabled trust", In: "judgement.trust",
		Old: "case t.Disabled:", New: "case false:",
		Test: judged,
	},
	{
		Name: "one trust of a workload fits", In: "judgement.fitting",
		Old: "case len(fits) == 1:", New: "case len(fits) > 0:",
		Test: "go test ./internal/client -run TestWorkloadsWithoutAClient",
	},
	{
		Name: "the signature of an assertion", In: "verifyWith",
		Old: "err == nil {\n\t\t\treturn nil", New: "err == nil || true {\n\t\t\treturn nil",
		Test: judged,
	},
	{
		Name: "keys of an issuer that cannot be fetched", In: "judgement.signature",
		Old: "return &store.ExternalFault{Cause: fmt.Errorf(\"fetch keys of trust %s: %w\", t.ID, err)}", New: "return wrongClaim(\"kid\", \"\")",
		Test: "go test ./internal/client -run TestKeysOfAnIssuerThatCannotBeFetched",
	},
	{
		Name: "documents that are fetched for an assertion", In: "Authenticator.described",
		Old: "!trusted || ", New: "!trusted && false || ",
		Test: "go test ./internal/client -run TestATrustVouchesForADocument",
	},
	{
		Name: "whose an ID-JAG is", In: "judgement.forClient",
		Old: "j.claims.ClientID != j.client", New: "false",
		Test: judged,
	},
	{
		Name: "an assertion has one audience", In: "judgement.aimed",
		Old: "if len(j.claims.Audience.names) != 1 {", New: "if len(j.claims.Audience.names) == 0 {",
		Test: judged,
	},
	{
		Name: "the lifetime of an assertion", In: "judgement.times",
		Old: "*c.ExpiresAt-*c.IssuedAt > life.Seconds()", New: "false",
		Test: judged,
	},
	{
		Name: "subjects of a trust", In: "judgement.sub",
		Old: "!matches(j.out.Trust, j.claims.Subject)", New: "false",
		Test: judged,
	},
	{
		Name: "the tenant of an assertion", In: "judgement.tenant",
		Old: "case given && j.claims.Tenant != j.out.Trust.Tenant:", New: "case false:",
		Test: judged,
	},
	{
		Name: "what narrows an assertion is not overlooked", In: "judgement.narrows",
		Old: "given := j.all[name]; given {", New: "given := j.all[name]; given && false {",
		Test: judged,
	},
	{
		Name: "an id_token is no assertion", In: "judgement.narrows",
		Old: "\"nonce\", ", New: "",
		Test: judged,
	},
	{
		Name: "confirmations that are not understood", In: "judgement.confirmation",
		Old: " || len(j.claims.Confirmation) != 1", New: "",
		Test: judged,
	},
	{
		Name: "actors of this server", In: "judgement.actors",
		Old: "case strings.TrimSuffix(issuer, \"/\") == strings.TrimSuffix(j.a.Issuer, \"/\"):", New: "case false:",
		Test: judged,
	},
	{
		Name: "verified addresses", In: "judgement.subject",
		Old: "case c.EmailVerified != true:", New: "case false:",
		Test: judged,
	},
	{
		Name: "a trust in this server", In: "CheckTrust",
		Old: "case strings.TrimSuffix(t.Issuer, \"/\") == strings.TrimSuffix(own, \"/\"):", New: "case false:",
		Test: "go test ./internal/client -run TestTrustsThatAreRefused",
	},
	{
		Name: "the key of an assertion", In: "Assertions.AssertionToken",
		Old: "case r.Bound.Bound() && r.Bound != r.JKT:", New: "case false:",
		Test: asserted + "TestAssertions$",
	},
	{
		Name: "an assertion narrows the trust", In: "entitlements.asserted",
		Old: "if of = of.Common(r.Named); of == \"\" {", New: "if of.Common(r.Named) == \"\" {",
		Test: asserted + "TestAssertions$",
	},
	{
		Name: "built-in users are not named by others", In: "Assertions.checkSubject",
		Old: "case known && (t.SubjectFrom != store.SubjectAudSub || !enabled):", New: "case known && enabled && t == nil:",
		Test: asserted + "TestAssertionsAboutBuiltInUsers",
	},
	{
		Name: "assertions of one jti", In: "Grant.Asserted",
		Old: "case g.Attempt != a.Digest || g.Trust != a.Trust:", New: "case false:",
		Test: asserted + "TestAnAssertionIsPresentedAgain",
	},
	{
		Name: "another client's assertion", In: "Grant.Asserted",
		Old: "case g.ClientID != a.ClientID || g.Realm != a.Realm:", New: "case false:",
		Test: asserted + "TestAnAssertionIsPresentedAgain",
	},
	{
		Name: "a revoked grant does not come back by its assertion", In: "Grant.asserted",
		Old: "case g.State == Revoked:", New: "case false:",
		Test: asserted + "TestEndsOfAssertions",
	},
	{
		Name: "cutoffs and assertions of before", In: "Grant.asserted",
		Old: "case p.cutOff(g.AuthorizedAt, r.Cutoff):", New: "case false:",
		Test: asserted + "TestEndsOfAssertions",
	},
	{
		Name: "a trust ends its grants", In: "Issuer.inspectOfGrant",
		Old: "!trust.Permits(g.RotatedAt)", New: "false",
		Test: asserted + "TestEndsOfAssertions",
	},
	{
		Name: "a trust ends the tokens of workloads", In: "services.trustedWorkload",
		Old: "case !trust.Permits(t.IssuedAt):", New: "case false:",
		Test: asserted + "TestEndsOfAssertions",
	},
	{
		Name: "a trust that was created again", In: "Trust.Permits",
		Old: " && issuedAt >= t.Since", New: "",
		Test: asserted + "TestEndsOfAssertions",
	},
	{
		Name: "a restore takes no end of a trust back", In: "Since.ofTrust",
		Old: "ID: now.ID, Deleted: true})\n\tcase now.Deleted:", New: "ID: now.ID})\n\tcase now.Deleted:",
		Test: "go test ./internal/restore -run TestARestoreTakesNoEndOfATrustBack",
	},
}
