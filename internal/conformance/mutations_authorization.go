package conformance

// authorizationMutations are those of the authorization endpoint.
var authorizationMutations = []Mutation{
	{
		Name: "verified redirect URI", File: "internal/authorize/authorize.go",
		Old:  "if !oauth.MatchRedirectURI(c.RedirectURIs, c.Native, r.RedirectURI) {",
		New:  "if false {",
		Test: here + "TestAZ03",
	},
	{
		Name: "native clients alone on any port", File: "internal/oauth/redirect.go",
		Old:  "if r == uri || native && sameButPort(r, uri) {",
		New:  "if r == uri || sameButPort(r, uri) {",
		Test: here + "TestAZ11",
	},
	{
		Name: "challenge asked of clients", File: "internal/authorize/authorize.go",
		Old:  `case r.Challenge == "" && (c.RequirePKCE || c.Public()):`,
		New:  `case r.Challenge == "" && c.Public():`,
		Test: here + "TestAZ51",
	},
	{
		Name: "method of a challenge", File: "internal/oauth/authorize.go",
		Old:  `case method != "S256":`,
		New:  `case method != "S256" && method != "":`,
		Test: here + "TestAZ51",
	},
	{
		Name: "a repeated parameter", File: "internal/oauth/authorize.go",
		Old:  "\t\t\tr.note(ErrRepeated)",
		New:  "\t\t\tr.note(nil)",
		Test: here + "TestAZ19",
	},
	{
		Name: "scope of the client", File: "internal/authorize/authorize.go",
		Old:  "case !c.Scope.Covers(r.Scope):",
		New:  "case false:",
		Test: here + "TestAZ26",
	},
	{
		Name: "strangers are asked first", File: "internal/server/pageerrors.go",
		Old:  "(toClient.SignedIn || toClient.Request.Prompt.None):",
		New:  "true:",
		Test: here + "TestAZ59",
	},
	{
		Name: "browser of an interaction", File: "internal/authorize/interaction.go",
		Old:  `if v.Browser == "" || subtle`,
		New:  "if false || subtle",
		Test: here + "TestInteractionOfAnotherBrowser",
	},
	{
		Name: "one decision", File: "internal/authorize/decision.go",
		Old:  "\t\tcase it.Decision != nil:\n\t\t\tfirst = false\n\t\t\treturn errUnchanged\n",
		New:  "",
		Test: here + "TestAZ62",
	},
	{
		Name: "same code again", File: "internal/authorize/decision.go",
		Old:  "recorded := it.Decision.AuthorizedAt.Append(nil)",
		New:  "recorded := a.now().Append(nil)",
		Test: here + "TestAZ62",
	},
	{
		Name: "redeemed code is not repeated", File: "internal/authorize/decision.go",
		Old:  "if redeemed {",
		New:  "if redeemed && false {",
		Test: here + "TestInteractionResubmitted",
	},
	{
		Name: "user of a consent", File: "internal/authorize/decision.go",
		Old:  "case it.Identity == nil || s.Subject != it.Identity.Subject:",
		New:  "case it.Identity == nil:",
		Test: here + "TestUI13",
	},
	{
		Name: "forms of other sites", File: "internal/server/front.go",
		Old:  "if s.sameOrigin.Check(r) != nil {",
		New:  "if false {",
		Test: here + "TestUI02",
	},
	{
		Name: "session of its own for a login", File: "internal/authorize/session.go",
		Old:  "rand.Read(s.id[:])",
		New:  "if id, _, ok := openSessionCookie(view.Ring, old); ok {\n\t\ts.id = id\n\t} else {\n\t\trand.Read(s.id[:])\n\t}",
		Test: here + "TestUI10",
	},
	{
		Name: "idle time of a session", File: "internal/authorize/session.go",
		Old:  " || now.Since(used) > a.SessionIdle {",
		New:  " {",
		Test: here + "TestUI25",
	},
	{
		Name: "cutoff of a session", File: "internal/authorize/session.go",
		Old:  `view.Cutoff(a.Issuer.Realm, s.Subject, "") >= s.Began`,
		New:  "false",
		Test: "go test ./internal/authorize -run TestSessionEndsWithItsSubjectsCutoff",
	},
	{
		Name: "cutoff of a consent", File: "internal/authorize/consent.go",
		Old:  "return have, ok && have.At > view.Cutoff(a.Issuer.Realm, subject, clientID)",
		New:  "return have, ok",
		Test: "go test ./internal/authorize -run TestRecordConsentAdds",
	},
	{
		Name: "native clients are always asked for", File: "internal/authorize/consent.go",
		Old:  `return c.Native && !strings.HasPrefix(redirectURI, "https:")`,
		New:  "return false",
		Test: here + "TestAZ63",
	},
	{
		Name: "remembered is what was on the page", File: "internal/authorize/consent.go",
		Old:  "remembered = union(r.Scope, have.Remembered)",
		New:  "remembered = union(r.Scope, have.Scope)",
		Test: "go test ./internal/authorize -run TestRecordConsentAdds",
	},
	{
		Name: "verifier of a handoff", File: "internal/authorize/login.go",
		Old:  "if subtle.ConstantTimeCompare([]byte(verifier), []byte(want)) != 1 {",
		New:  "if false {",
		Test: "go test ./internal/authorize -run TestTakeLogin",
	},
	{
		Name: "forwarded address of strangers", File: "internal/server/address.go",
		Old:  "\tif !s.trusted(addr) {\n\t\treturn addr\n\t}\n\thops",
		New:  "\thops",
		Test: here + "TestTL12",
	},
	{
		Name: "one use of a one-time code", File: "internal/account/account.go",
		Old:  "user.TOTPStep = step",
		New:  "user.TOTPStep = 0",
		Test: "go test ./internal/account -run TestACodeIsGoodOnce",
	},
	{
		Name: "unknown users cost a hash", File: "internal/account/account.go",
		Old:  `hash, password, ok = u.dummy, "", false`,
		New:  "return Account{}, ErrWrong",
		Test: "go test ./internal/account -run TestWhateverIsWrong",
	},
}
