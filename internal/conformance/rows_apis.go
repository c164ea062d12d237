package conformance

// apiRows are the rules of APIs, the audiences of access tokens.
var apiRows = []Row{
	{ID: "RS-01", Star: true, Source: "RFC 8707 sections 2 and 2.2", Title: "resource narrows a token to one API at each exchange and refresh; aud follows it at introspection and verify, and in JWTs"},
	{ID: "RS-02", Source: "RFC 3986 section 6.2.2.1; RFC 8707 section 2", Title: "scheme and host are compared without case, and one trailing slash is ignored; aud is the id as registered", By: []string{"TestATokenIsForOneAPIOfItsGrantOrForAll", "TestAPIsOfAView"}},
	{ID: "RS-03", Star: true, Source: "RFC 8707 section 2", Title: "one to five APIs of the client at the authorization endpoint; anything else is invalid_target", By: []string{"TestAnAuthorizationNamesOneToFiveAPIsOfTheClient"}},
	{ID: "RS-04", Source: "RFC 8707 section 2.2", Title: "two resources at the token endpoint, one that the user has not agreed to, or nothing left of the scope: invalid_target, and the refresh token lives on", By: []string{"TestNothingLeftForAnAPIIsAnUnknownTarget", "TestATokenIsForOneAPIOfItsGrantOrForAll"}},
	{ID: "RS-05", Source: "RFC 8707 section 2", Choice: true, Title: "a client that an operator registered without APIs gets the tokens that it gets where no API exists, and a grant made before an API was registered keeps its audience", By: []string{"TestAnAPIDoesNotChangeTheTokensOfClientsWithoutAPIs", "TestAGrantFromBeforeItsAPIKeepsItsAudience"}},
	{ID: "RS-06", Source: "RFC 6749 section 10.4", Choice: true, Title: "a repeated request with another resource gets the same refresh token and an access token for that API", By: []string{"TestARepeatedRequestMayNameAnotherAPI"}},
	{ID: "RS-07", Star: true, Source: "RFC 8707 section 2.2", Title: "tokens that name a deleted API are inactive at once, also if it is registered again; grants go on for the others", By: []string{"TestADeletedAPIEndsItsTokens"}},
	{ID: "RS-08", Source: "RFC 6749 section 5.1", Title: "several APIs: the shortest lifetime, and a JWT only if all have JWTs; keys and the feed outlive the longest lifetime that there was", By: []string{"TestATokenIsForOneAPIOfItsGrantOrForAll", "TestKeysAndTheFeedOutliveTheLongestTokenOfAnAPI", "TestTheLongestLifetimeOfAnAPIIsNeverForgotten"}},
	{ID: "RS-09", Source: "OpenID Connect Core section 11", Title: "offline_access is removed from every scope, and never answered", By: []string{"TestOfflineAccessIsNoScope"}},
	{ID: "RS-10", Star: true, Source: "OpenID Connect Core section 5.3; RFC 8707 section 3", Title: "userinfo refuses a token that is for other APIs: 401; one without openid: 403"},
	{ID: "RS-11", Source: "RFC 6749 section 3.3", Title: "clients that registered themselves get open APIs only: the covered part of the scope they ask for, at a refresh as well, or the API's default", By: []string{"TestClientsThatRegisteredThemselvesGetOpenAPIs", "TestAClientThatRegisteredItselfGetsTheCoveredPartAtARefresh"}},
	{ID: "RS-12", Source: "RFC 8414 section 2", Title: "with registered APIs, scopes_supported lists the scopes of OpenID Connect and of open APIs, and no others"},
	{ID: "RS-13", Star: true, Source: "RFC 8707 section 2", Choice: true, Title: "without resource, the scopes name the APIs of the grant: aud, format and lifetime follow; scopes of no API keep the client's audience beside them; more than five APIs are invalid_target", By: []string{"TestScopesNameTheirAPIs", "TestFiveAPIsLeaveRoomForTheClientsAudience", "TestAnAuthorizationNamesOneToFiveAPIsOfTheClient", "TestTheClientsAudienceGoesOnWithoutItsAPIs"}},
	{ID: "RS-16", Source: "RFC 6749 sections 3.1 and 3.2", Choice: true, Title: "audience is a resource for a client that is registered so, and ignored for all others"},
	{ID: "RS-15", Star: true, Source: "NIST SP 800-38D section 8", Title: "an agreement that is sealed again with other APIs has another nonce", By: []string{"TestAnAgreementWithOtherAPIsHasAnotherNonce"}},
}
