package conformance

// machineMutations remove safeguards about assertions, about clients that get tokens for
// themselves, and about self-registered clients.
var machineMutations = []Mutation{
	{
		Name: "audience of an assertion", In: "Authenticator.checkOwn",
		Old: "case claims.Audience.names[0] != a.Issuer && ", New: "case false && claims.Audience.names[0] != a.Issuer && ",
		Test: "go test ./internal/client -run TestAssertions",
	},
	{
		Name: "audience of a foreign assertion", In: "Authenticator.checkFederated",
		Old: "case claims.Audience.names[0] != cmp.Or(trust.Audience, a.Issuer):", New: "case cmp.Or(trust.Audience, a.Issuer) == \"\":",
		Test: "go test ./internal/client -run TestFederatedAssertions",
	},
	{
		Name: "name of the client beside a foreign assertion", In: "Authenticator.byAssertion",
		Old: "case cred.Unnamed && ", New: "case false && ",
		Test: "go test ./internal/client -run TestAForeignTokenDoesNotNameTheClient",
	},
	{
		Name: "end of a subject pattern", In: "MatchSubject",
		Old: " + `$`)", New: ")",
		Test: "go test ./internal/client -run TestSubjectPatterns",
	},
	{
		Name: "begin of a subject pattern", In: "MatchSubject",
		Old: "(`^` + ", New: "(",
		Test: "go test ./internal/client -run TestFederatedAssertions",
	},
	{
		Name: "registered algorithm of assertions", In: "Authenticator.verify",
		Old: "if header.Algorithm != string(alg) {", New: "if false {",
		Test: "go test ./internal/client -run TestAssertion",
	},
	{
		Name: "an assertion counts once on a node", In: "used.note",
		Old: "case again || before:", New: "case (again || before) && false:",
		Test: "go test ./internal/client -run TestAnAssertionIsUsedOnce",
	},
	{
		Name: "an assertion counts once on several nodes", In: "RecordUse",
		Old: "	rand.Read(d.Body)\n", New: "	rand.Read(d.Body[:0])\n",
		Test: "go test ./internal/client -run TestAnAssertionIsUsedOnce",
	},
	{
		Name: "keys of clients that registered themselves in public only", In: "Authenticator.keySet",
		Old: "a.OwnKeys(ctx, c.Assertion.KeysURI, networkOf(from), enough)", New: "a.Keys(ctx, c.Assertion.KeysURI, networkOf(from).String(), time.Time{}, enough)",
		Test: "go test ./internal/client -run TestClientsThatRegisteredThemselves",
	},
	{
		Name: "shortest RSA key of a client", In: "keyset.fits",
		Old: "k.N.BitLen() >= minRSA", New: "k.N.BitLen() >= 1024",
		Test: "go test ./internal/keyset -run TestWhichRSAKeysAreAccepted",
	},
	{
		Name: "exponents of a client's own keys", In: "Set.Bounded",
		Old: "k.E == operatorsExponent && operators", New: "k.E > 0",
		Test: "go test ./internal/keyset -run TestWhichRSAKeysAreAccepted",
	},
	{
		Name: "which of several published keys", In: "verifyWith",
		Old: `case published && header.KeyID == "" && len(candidates) > 1:`, New: "case false:",
		Test: "go test ./internal/client -run TestPublishedKeysAndTheirKids",
	},
	{
		Name: "extensions of an assertion", In: "client.checkHeader",
		Old: `{"b64", "crit", "zip"}`, New: `{}`,
		Test: "go test ./internal/client -run TestAssertionHeaders",
	},
	{
		Name: "an assertion of a clock ahead counts once over a restart", In: "Authenticator.use",
		Old: "issued > seconds(now) || ", New: "",
		Test: "go test ./internal/client -run TestARestartForgetsNoAssertionOfAClockAhead",
	},
	{
		Name: "owner of a workload in a subject pattern", In: "checkTrust",
		Old: "case AnyOwner(a.Subject) &&", New: "case false &&",
		Test: "go test ./internal/client -run TestSubjectsWithAnyOwnerAreRefused",
	},
	{
		Name: "pool of assertions of clients that registered themselves", In: "Authenticator.use",
		Old: "of = &a.ownUsed", New: "_ = &a.ownUsed",
		Test: "go test ./internal/client -run TestAssertionsOfSelfRegisteredClientsHaveTheirOwnPool",
	},
	{
		Name: "tokens for themselves of an operator's clients only", In: "Client.MayUse",
		Old: "(grantType != GrantClientCredentials || !c.Public() && !c.SelfRegistered())", New: "true",
		Test: "go test ./internal/issuer -run TestServiceTokensAreOf",
	},
	{
		Name: "revoked service tokens in the list of revocations", In: "feed.revoked",
		Old: "list = append(list, own...)", New: "list = append(list, own[:0]...)",
		Test: "go test ./internal/issuer -run TestARevokedServiceToken",
	},
	{
		Name: "list of revocations that is too short for all service tokens", In: "feed.revoked",
		Old: "max(from, list[limit].At+1)", New: "max(from, 0)",
		Test: "go test ./internal/issuer -run TestAFullListRefuses",
	},
	{
		Name: "bound of the revocations of one client", In: "services.manyRevoked",
		Old: "return living >= maxServiceRevoked", New: "return living > maxServiceRevoked",
		Test: "go test ./internal/issuer -run TestManyRevocations",
	},
	{
		Name: "disabled clients that registered themselves", In: "Requests.client",
		Old: "case isBarred(view, rs.Realm, r.ClientID):", New: "case false:",
		Test: "go test ./internal/conformance -run TestDR09",
	},
	{
		Name: "no subject is the id of a client", In: "Authorizer.checkSubject",
		Old: "; taken {", New: "; taken && false {",
		Test: "go test ./internal/login -run TestNobodySignsInAsAClient",
	},
	{
		Name: "audience by resource", In: "entitlements.target",
		Old: "!r.is(uri)", New: "uri == \"\"",
		Test: "go test ./internal/issuer -run TestATokenIsForOneAPI",
	},
	{
		Name: "scopes name their APIs", In: "entitlements.ofScope",
		Old: "if len(e.c.APIs) == 0 {\n\t\treturn apis, nil", New: "if true {\n\t\treturn apis, nil",
		Test: "go test ./internal/issuer -run TestScopesNameTheirAPIs",
	},
	{
		Name: "a scope only with its API", In: "entitlements.ownScope",
		Old: "e.c.Scope.Without(e.view.ScopeOf(e.iss.Realm, e.c.APIs))", New: "e.c.Scope",
		Test: "go test ./internal/issuer -run TestScopesNameTheirAPIs",
	},
	{
		Name: "the nonce of a code follows its APIs", In: "Codes.seal",
		Old: "code.APIs != (grant.APIs{})", New: "false",
		Test: "go test ./internal/issuer -run TestAnAgreementWithOtherAPIs",
	},
	{
		Name: "the issuer closed to clients that registered themselves", In: "entitlements.openIDScope",
		Old: "ok && a.Open", New: "ok && (a.Open || true)",
		Test: "go test ./internal/issuer -run TestClientsThatRegisteredThemselvesGetOpenAPIs",
	},
	{
		Name: "scopes of a service token that its client has lost", In: "entitlements.ownTargets",
		Old: "t.Scope = t.Scope.Common(e.c.Scope); t.Scope == \"\"", New: "t.Scope.Common(e.c.Scope) == \"\"",
		Test: "go test ./internal/issuer -run TestServiceTokensLoseTheScopes",
	},
	{
		Name: "the revocation of a service token outlives it", In: "services.revoke",
		Old: "t.ExpiresAt.Add(2*iss.Policy.MaxSkew + time.Minute)", New: "t.ExpiresAt.Add(time.Minute - time.Minute)",
		Test: "go test ./internal/issuer -run TestARevocationOutlivesItsServiceToken",
	},
	{
		Name: "expired revocations of one client", In: "services.manyRevoked",
		Old: "if now < d.ExpiresAt {", New: "if now < d.ExpiresAt || true {",
		Test: "go test ./internal/issuer -run TestExpiredRevocationsDoNotCount",
	},
	{
		Name: "tokens of an API outlive every retry window", In: "APIs.build",
		Old: "max(a.Policy.RetryWindow, view.LongestRetryWindow(a.Realm))", New: "a.Policy.RetryWindow",
		Test: "go test ./internal/admin -run TestTokensOfAnAPIOutliveEveryRetryWindow",
	},
	{
		Name: "what a client may have of APIs, as it was before one changed", In: "registration.at",
		Old: "known == nil || known.apis != apis", New: "known == nil",
		Test: "go test ./internal/directory -run TestTheScopeOfAClientFollowsItsAPIs",
	},
	{
		Name: "the retry window before the shortest token of an API", In: "Issuer.PolicyOf",
		Old: "iss.Directory.Latest().ShortestAccess(iss.Realm, p.AccessLifetime)", New: "p.AccessLifetime",
		Test: "go test ./internal/issuer -run TestTheRetryWindowEndsBefore",
	},
	{
		Name: "longest reuse grace that can be registered", In: "generalSettings",
		Old: "d.Duration() > grant.MaxReuseGrace)", New: "d.Duration() > 2*grant.MaxReuseGrace)",
		Test: "go test ./internal/client -run TestReuseGraceIsADayAtMost",
	},
	{
		Name: "whose tokens a client may exchange", In: "Exchange.Exchange",
		Old: "!slices.Contains(x.From, EveryClient) && ", New: "false && ",
		Test: "go test ./internal/issuer -run TestExchanges",
	},
	{
		Name: "which tokens a client may exchange", In: "Exchange.Exchange",
		Old: "case !x.Serves && ", New: "case false && ",
		Test: "go test ./internal/issuer -run TestExchanges",
	},
	{
		Name: "who may act", In: "Exchange.Exchange",
		Old: `case x.MayAct != "" && `, New: "case false && ",
		Test: "go test ./internal/issuer -run TestExchanges",
	},
	{
		Name: "an impersonation hides no actor", In: "Exchange.Exchange",
		Old: "case x.Hides && len(x.Actors) > 0:", New: "case false:",
		Test: "go test ./internal/issuer -run TestExchanges",
	},
	{
		Name: "length of a chain of actors", In: "Exchange.Exchange",
		Old: "case len(actors) > MaxActors:", New: "case false:",
		Test: "go test ./internal/issuer -run TestExchanges",
	},
	{
		Name: "an exchange only narrows", In: "entitlements.exchanged",
		Old: "scope = subject.Scope.Common(api.Scope())", New: "scope = api.Scope()",
		Test: "go test ./internal/issuer -run TestExchanges",
	},
	{
		Name: "an exchange is within the agreement", In: "entitlements.exchanged",
		Old: "scope = on.grant.Scope.Common(agreed.scope)", New: "scope = agreed.scope.Union(on.grant.Scope)",
		Test: "go test ./internal/issuer -run TestExchanges",
	},
	{
		Name: "since when an exchange may go beyond the agreement", In: "entitlements.exchanged",
		Old: " && b.Since < on.grant.AuthorizedAt", New: "",
		Test: "go test ./internal/issuer -run TestAChangeOfExchangeBeyondAppliesToLaterGrantsOnly",
	},
	{
		Name: "clients of an exchanged token", In: "Exchanges.inspect",
		Old: "if _, ok := view.Client(iss.Realm, a.Subject); !ok {", New: "if false {",
		Test: "go test ./internal/issuer -run TestEndsOfExchangedTokens",
	},
	{
		Name: "cutoffs of the clients of an exchanged token", In: "Exchanges.inspect",
		Old: "if grant.CutOffAt(t.ExchangedAt, cutoff, iss.Policy) {", New: "if grant.CutOffAt(t.ExchangedAt, cutoff, iss.Policy) && false {",
		Test: "go test ./internal/issuer -run TestEndsOfExchangedTokens",
	},
	{
		Name: "an exchanged token outlives no other", In: "Exchanges.ExchangeToken",
		Old: "ExpiresAt: min(ends, p.AccessExpiry(at)),", New: "ExpiresAt: max(ends, p.AccessExpiry(at)),",
		Test: "go test ./internal/issuer -run TestAnExchangedTokenExpiresAtTheEarliestLimit",
	},
	{
		Name: "whose an actor token is", In: "Exchanges.ExchangeToken",
		Old: "actor.ClientID != c.ID || ", New: "",
		Test: "go test ./internal/issuer -run TestTokensOfAnExchange",
	},
	{
		Name: "userinfo of an exchanged token", In: "Endpoints.userInfo",
		Old: "if t.IsService() || t.Exchanged() {", New: "if t.IsService() {",
		Test: here + "TestTX02",
	},
	{
		Name: "consent to what other clients may have", In: "Request.consent",
		Old: "case agreed.At > r.Beyond && ", New: "case agreed.At != 0 && ",
		Test: here + "TestTX11",
	},
	{
		Name: "actor that a proxy demands", In: "Endpoints.verify",
		Old: "case d.actor == actorRequired && len(t.Actors) == 0:", New: "case false:",
		Test: here + "TestTX02",
	},
	{
		Name: "audience of an identity assertion", In: "Settings.IDJAGFor",
		Old: "err == nil && oauth.CanonicalTarget(p.Audience)", New: "err == nil || oauth.CanonicalTarget(p.Audience)",
		Test: "go test ./internal/issuer -run TestWhoGetsIdentityAssertions",
	},
	{
		Name: "identity assertions of public clients", In: "Exchanges.IDJAG",
		Old: "if c.Public() && !p.Public {", New: "if false {",
		Test: "go test ./internal/issuer -run TestWhoGetsIdentityAssertions",
	},
	{
		Name: "whose the id_token of an identity assertion is", In: "Exchanges.byIDToken",
		Old: "case h.ClientID != c.ID:", New: "case false:",
		Test: "go test ./internal/issuer -run TestWhoGetsIdentityAssertions",
	},
	{
		Name: "expiry of the id_token of an identity assertion", In: "Exchanges.byIDToken",
		Old: "case now >= h.ExpiresAt:", New: "case now < 0:",
		Test: "go test ./internal/issuer -run TestWhoGetsIdentityAssertions",
	},
	{
		Name: "cutoffs before an identity assertion", In: "Exchanges.byIDToken",
		Old: "case grant.CutOffAt(", New: "case false && grant.CutOffAt(",
		Test: "go test ./internal/issuer -run TestWhoGetsIdentityAssertions",
	},
	{
		Name: "which session an identity assertion rests on", In: "Sessions.Lives",
		Old: "|| !is(s.reference()) ", New: "",
		Test: here + "TestIG04",
	},
	{
		Name: "ended session of an identity assertion", In: "Sessions.Lives",
		Old: `if state == SessionActive && `, New: "if state != SessionExpired && ",
		Test: here + "TestIG04",
	},
	{
		Name: "replay of the refresh token of an identity assertion", In: "Exchanges.byRefreshToken",
		Old: "if d.Next != g {", New: "if false {",
		Test: "go test ./internal/issuer -run TestIdentityAssertionsOfRefreshTokens",
	},
	{
		Name: "scope of an identity assertion", In: "Exchanges.IDJAG",
		Old: "err != nil || !p.Scope.Covers(asked)", New: "err != nil",
		Test: "go test ./internal/issuer -run TestWhoGetsIdentityAssertions",
	},
	{
		Name: "owner of a device code", In: "DeviceCodes.DeviceToken",
		Old: "if code.ClientID != c.ID {", New: "if false {",
		Test: here + "TestDV06",
	},
	{
		Name: "a device that polls too soon", In: "DeviceCodes.DeviceToken",
		Old: "if iss.Devices.tooSoon(code.UserCode, now) {", New: "if iss.Devices.tooSoon(code.UserCode, now) && false {",
		Test: here + "TestDV06",
	},
	{
		Name: "a device that was denied", In: "DeviceCodes.DeviceToken",
		Old: "case d.Denied:", New: "case false:",
		Test: here + "TestDV06",
	},
	{
		Name: "a repeated device code after the retry window", In: "Grant.Redeemed",
		Old: "case g.Generation == 1 && p.RetryWindow > 0 && g.inWindow(p, now):", New: "case g.Generation == 1:",
		Test: here + "TestDV07",
	},
	{
		Name: "a repeated device code after a refresh", In: "Grant.Redeemed",
		Old: "case g.Generation == 1 && ", New: "case ",
		Test: "go test ./internal/grant -run TestRedeemedDeviceCodes",
	},
	{
		Name: "a fault while a device polls", In: "DeviceCodes.DeviceToken",
		Old: `return Tokens{}, fmt.Errorf("%w: %w", oauth.ErrPending, err)`, New: "return Tokens{}, err",
		Test: here + "TestDV09",
	},
	{
		Name: "client of an exchanged token", In: "Exchanges.inspect",
		Old: "if !ok || !c.Exchanges() {", New: "if !ok && false {",
		Test: "go test ./internal/issuer -run TestEndsOfExchangedTokens",
	},
}
