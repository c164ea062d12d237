package conformance

// setupMutations remove checks that happen before the server starts to serve.
var setupMutations = []Mutation{
	{
		Name: "rotation of public clients' refresh tokens", In: "generalSettings",
		Old: "if r.NoRotation && r.Auth == store.AuthNone {", New: "if false {",
		Test: here + "TestOP19",
	},
	{
		Name: "least size of a certificate's key", In: "strong",
		Old: "if key.N.BitLen() < 2048 {", New: "if key.N.BitLen() < 512 {",
		Test: "go test ./internal/server -run TestTL05",
	},
	{
		Name: "connections after the start alone", In: "Serve",
		Old: "	cfg := p.cfg\n", New: "	cfg := p.cfg\n	p.public, _ = listenPublic(cfg)\n",
		Test: "go test ./internal/node -run TestNoConnectionIsAccepted",
	},
	{
		Name: "the name of another site at the management listener", In: "isOwn",
		Old: `!strings.Contains(name, ".") ||`, New: `true ||`,
		Test: "go test ./internal/server -run TestAForeignName",
	},
	{
		Name: "a member of an admin request that is there twice", In: "duplicate",
		Old: "if in.seen[key] {", New: "if in.seen[key] && false {",
		Test: "go test ./internal/server/admin -run TestABodyWithAMemberTwice",
	},
	{
		Name: "a member that is there twice in another case", In: "duplicate",
		Old: "strings.Map(foldRune, name)", New: "strings.Clone(name)",
		Test: "go test ./internal/server/admin -run TestABodyWithAMemberTwice",
	},
	{
		Name: "values that an update would remove", In: "listFlags.confirm",
		Old: `lost == "" || l.replace`, New: `lost == "" || l.replace || true`,
		Test: "go test ./internal/cli -run TestScripts/lists",
	},
	{
		Name: "the number of a deleted API", In: "apis.with",
		Old: "next.last[api.Realm] = max(next.last[api.Realm], api.Number)", New: "if !api.Deleted {\n			next.last[api.Realm] = max(next.last[api.Realm], api.Number)\n		}",
		Test: "go test ./internal/admin -run TestNumbersOfAPIs",
	},
	{
		Name: "an actor of one realm in another", In: "API.reaches",
		Old: "actor.Realm != a.cases.Realm || !rt.ofRealm()", New: "!rt.ofRealm()",
		Test: "go test ./internal/server/admin -run TestAnActorOfOneRealm",
	},
	{
		Name: "an actor of one realm at the deployment's routes", In: "API.reaches",
		Old: "actor.Realm != a.cases.Realm || !rt.ofRealm()", New: "actor.Realm != a.cases.Realm",
		Test: "go test ./internal/server/admin -run TestAnActorOfOneRealm",
	},
	{
		Name: "users of the default realm beside a console", In: "API.reaches",
		Old: "|| !rt.about(\"users\", \"imports\")", New: "|| true",
		Test: "go test ./internal/server/admin -run TestAnActorOfOneRealm",
	},
	{
		Name: "the address of a proof where the path was rewritten", In: "Request.OwnURI",
		Old: `!strings.HasPrefix(path, "/")`, New: "true",
		Test: "go test ./internal/node -run TestOP20_NothingIssuedCrossesRealms",
	},
	{
		Name: "the realm in the nonce of a proof", In: "realm.proofs",
		Old: "[]byte(n.name), ", New: "",
		Test: "go test ./internal/node -run TestOP20_NothingIssuedCrossesRealms",
	},
	{
		Name: "the realm in the key of a document", In: "KeyOf",
		Old: "+ realm +", New: "+",
		Test: "go test ./internal/node -run TestOP20",
	},
	{
		Name: "the realm of a grant that is read", In: "RealmStore.Grant",
		Old: "if err == nil && g.Realm != r.Name {", New: "if err == nil && g.Realm != r.Name && false {",
		Test: "go test ./internal/node -run TestTC28",
	},
	{
		Name: "the realm of an audit record", In: "Event.Realm",
		Old: "return oauth.DefaultRealm", New: "return oauth.DefaultRealm[:0]",
		Test: "go test ./internal/node -run TestRecordsName",
	},
	{
		Name: "an imported user with the id of a client", In: "Users.Import",
		Old: "if err := a.isNoClient(ctx, u.Subject); err != nil {", New: "if err := a.isNoClient(ctx, u.Subject); err != nil && false {",
		Test: "go test ./internal/admin -run TestClientsAndUsersShareNoName",
	},
	{
		Name: "two imported users with one subject", In: "account.CreateAll",
		Old: "names[u.Username], subjects[u.Subject] = true, u.Username", New: "names[u.Username] = true",
		Test: "go test ./internal/admin -run TestUsersAreImported",
	},
	{
		Name: "a client id that means another path", In: "Registration.Client",
		Old: `c.ID == "." || c.ID == ".."`, New: `c.ID == "."`,
		Test: "go test ./internal/server/admin -run TestAnyClientIDCanBeAddressed",
	},
	{
		Name: "a header that the description of the API demands", In: "Server.respond",
		Old: "h[\"X-Request-Id\"] = r.ids[:]", New: "h[\"X-Request-Id\"] = []string{r.ID[1:]}",
		Test: here + "TestTR01",
	},
	{
		Name: "the console's page does not reveal a correct password without a second factor", In: "Console.signIn",
		Old: "if !user.SecondFactor {\n", New: "if !user.SecondFactor {\n			p.Minutes = 1\n			return reply{status: http.StatusUnprocessableEntity, page: p}, nil\n",
		Test: "go test ./internal/console -run TestARefusedSignIn",
	},
	{
		Name: "the browser of an operator's login elsewhere", In: "entrance.enter",
		Old: "!oauth.VerifyS256(list[0].Value, challenge)", New: "len(challenge) == 0",
		Test: "go test ./internal/console -run TestATicketIsValidOnceInOneBrowser",
	},
	{
		Name: "the second factor of an operator's login elsewhere", In: "entrance.enter",
		Old: "case !strong:", New: "case !strong && false:",
		Test: "go test ./internal/console -run TestOperatorsSignInElsewhere",
	},
	{
		Name: "a rule that was removed", In: "Console.operatorOf",
		Old: "r.String() == rule })", New: "rule != \"\" })",
		Test: "go test ./internal/console -run TestARuleIsReadAtEachRequest",
	},
	{
		Name: "a ticket that is spent once", In: "operator.SpendTicket",
		Old: "if t.Nonce != 0 || now >= d.ExpiresAt {", New: "if now >= d.ExpiresAt {",
		Test: "go test ./internal/console -run TestATicketIsValidOnceInOneBrowser",
	},
	{
		Name: "the login of the account that opens the console", In: "Authorizer.resume",
		Old: "return st, nil // whoever is signed in", New: "st.Session, err = a.Session(ctx, v.Session)\n\t\treturn st, err",
		Test: "go test ./internal/web -run TestAnOperatorSignsIn",
	},
	{
		Name: "a session of the account by an operator's login", In: "turn.signIn",
		Old: "return t.admit(ctx, who)", New: "_, _ = t.a.SignIn(ctx, t.it, who.Identity, t.v)\n\t\treturn t.admit(ctx, who)",
		Test: "go test ./internal/web -run TestAnOperatorSignsIn",
	},
	{
		Name: "the login of an operator by a token of one realm", In: "API.acceptLogin",
		Old: "if it.Console != \"\" {", New: "if it.Console != \"\" && false {",
		Test: "go test ./internal/node -run TestOperatorsSignInByHandoff",
	},
	{
		Name: "the realm of an operator", In: "console.actor",
		Old: "Role: admin.Role(o.Role), Realm: o.Realm}", New: "Role: admin.Role(o.Role)}",
		Test: "go test ./internal/console -run TestAnOperatorOfOneRealm",
	},
	{
		Name: "the number of grants that a question has named", In: "console.asks",
		Old: `p.N != nil && p.N.N > counted(r.PostFormValue("counted"))`, New: "false",
		Test: "go test ./internal/console -run TestGrantsEnd",
	},
	{
		Name: "the name to type before what cannot be undone", In: "console.asks",
		Old: `p.Typed != "" && strings.TrimSpace(r.PostFormValue("typed")) != p.Typed`, New: `strings.TrimSpace("") != ""`,
		Test: "go test ./internal/console -run TestUndoAndDelete",
	},
	{
		Name: "the end of a growing page with its session", In: "streamResponse.poll",
		Old: "g.r.session, g.r.who, g.r.now = nil, nil, g.now()", New: "g.r.now = g.now()",
		Test: "go test ./internal/console -run TestAGrowingPageEnds",
	},
	{
		Name: "a growing page that is no use of a session", In: "streamResponse.pollLoop",
		Old: "g.r.polled = true\n", New: "\n",
		Test: "go test ./internal/console -run TestAGrowingPageKeepsNobodySignedIn",
	},
	{
		Name: "the password with which an operator's session began", In: "Console.identify",
		Old: "u.Epoch != s.Epoch || ", New: "",
		Test: "go test ./internal/console -run TestAChangedUserIsSignedOut",
	},
	{
		Name: "the second factor of an operator who is signed in", In: "Console.identify",
		Old: " || !u.SecondFactor && s.Factor == nil", New: "",
		Test: "go test ./internal/console -run TestAChangedUserIsSignedOut",
	},
	{
		Name: "the realm of a watched client", In: "Watches.note",
		Old: "key.realm == realm && ", New: "",
		Test: "go test ./internal/server -run TestWatches",
	},
	{
		Name: "own counts that are added up twice", In: "Recorder.Sum",
		Old: "own[d.Key] || ", New: "",
		Test: "go test ./internal/traffic -run TestNodes",
	},
}
