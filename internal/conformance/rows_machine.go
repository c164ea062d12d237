package conformance

// machineRows are the rules of clients without a user, and of assertions.
var machineRows = []Row{
	{ID: "PK-01", Star: true, Source: "RFC 7523 sections 2.2 and 3; RFC 7521 section 4.2", Title: "an assertion authenticates its client at the token, introspection and revocation endpoints"},
	{ID: "PK-03", Source: "RFC 7523 section 3, item 3", Title: "the token endpoint's address is an audience only for clients registered so", By: []string{"TestAssertions"}},
	{ID: "PK-07", Star: true, Source: "RFC 7523 section 3, items 4 to 6; FAPI 2.0 section 5.3.2.1", Title: "an assertion lives 5 minutes at most; iat and nbf 10 s ahead are accepted, 60 s are not", By: []string{"TestAssertions"}},
	{ID: "PK-11", Star: true, Source: "RFC 7523 section 3, item 7; OpenID Connect Core section 9", Title: "a jti is accepted once, on several nodes and over a restart", By: []string{"TestAnAssertionIsUsedOnce", "TestAnAssertionCostsOneWrite", "TestARestartForgetsNoAssertion", "TestUsedAssertionsOutliveTheirPeriod", "TestUsedAssertionsAreBounded", "TestAnAssertionBeyondTheLimitIsNotInvalid", "TestAssertionsOfSelfRegisteredClientsHaveTheirOwnPool"}},
	{ID: "PK-16", Star: true, Source: "RFC 8725 sections 2.1, 3.1 and 3.11", Title: "the registration names the algorithm; tokens of other types are no assertions", By: []string{"TestAssertionHeaders", "TestAssertionAlgorithms"}},
	{ID: "PK-28", Star: true, Source: "RFC 6749 section 5.2", Title: "a wrong assertion is invalid_client, whatever is wrong; a fault of the server is 503", By: []string{"TestFaultsOfTheServerAreNotInvalidClient"}},
	{ID: "PK-29", Star: true, Source: "RFC 7517 section 4.5; CWE-400", Title: "a kid that the client does not have is invalid_client and counts as a failure; the keys are fetched for it once a minute, and are 503 if they cannot be"},
	{ID: "PK-30", Star: true, Source: "RFC 7518 section 3.3; CWE-400", Title: "published keys: ten at most, RSA of 2048 to 4096 bits with exponent 65537, a kid where more than one fits, two tried", By: []string{"TestWhichRSAKeysAreAccepted", "TestAPublishedSetHasTenKeysAtMost", "TestPublishedKeysAndTheirKids"}},
	{ID: "PK-31", Source: "RFC 7515 section 4.1.11; RFC 7797 section 7", Title: "assertions with b64, crit or zip are refused", By: []string{"TestAssertionHeaders"}},
	{ID: "CC-01", Star: true, Source: "RFC 6749 section 4.4", Title: "a confidential client registered for client_credentials gets an access token for itself, without a refresh token; nothing is written", By: []string{"TestServiceTokens", "TestServiceTokensNeedASecret"}},
	{ID: "CC-02", Star: true, Source: "RFC 9068 section 2.2; RFC 7662 section 2.2; OpenID Connect Core section 5.3", Title: "sub is the client_id in JWT, introspection and verification; userinfo refuses the token"},
	{ID: "CC-03", Star: true, Source: "RFC 7009; RFC 9700 section 4.14", Title: "disabling the client, a cutoff or a revocation ends its tokens at the next check", By: []string{"TestChangesThatEndServiceTokens", "TestRevokedServiceTokens", "TestARevokedServiceTokenIsDeadAtOnceAtAnotherNode", "TestManyRevocationsBecomeACutoff", "TestARevokedServiceTokenTakesItsJWTsAlong", "TestAFullListRefusesTokensThatItCannotName"}},
	{ID: "CC-04", Star: true, Source: "RFC 6749 section 3.3; RFC 8707 section 2", Title: "scope and resource narrow the token to what the client is registered for", By: []string{"TestServiceTokensOfAPIs"}},
	{ID: "CC-05", Star: true, Source: ownRule, Title: "an altered text, or one of another kind, is no service token", By: []string{"TestForgedServiceTokens"}},
	{ID: "PK-40", Star: true, Source: "RFC 7521 section 6.1; RFC 7523 section 3", Title: "a token of a trusted issuer authenticates a client if issuer, subject, audience, claims and lifetime are as registered", By: []string{"TestFederatedAssertions", "TestSubjectPatterns", "TestAssertionSettings", "TestSubjectsWithAnyOwnerAreRefused"}},
}
