package conformance

// grantRows are the rules of grants without a browser of one's own: devices (DV).
var grantRows = []Row{
	{ID: "DV-01", Star: true, Source: "RFC 8628 sections 3.1, 3.2, 3.4 and 3.5", Title: "a device gets its codes, authorization_pending until its user has answered, and then a pair"},
	{ID: "DV-02", Star: true, Source: "RFC 8628 section 3.1", Title: "a confidential client authenticates at the device authorization endpoint; the refusal of one that sends its name alone says how"},
	{ID: "DV-03", Star: true, Source: "RFC 8628 section 3.1; RFC 8707 section 2.1", Title: "scope and resource are checked when the device asks; a client without the grant type is unauthorized_client"},
	{ID: "DV-04", Star: true, Source: "RFC 8628 sections 3.3.1, 5.1 and 6.1", Title: "a user code is read in any case, with or without hyphens; whether a device has it is answered to signed-in users alone"},
	{ID: "DV-05", Star: true, Source: "RFC 8628 section 5.4", Title: "the user compares the code, also behind a link, and is asked each time, for first-party clients too; the code leaves the address"},
	{ID: "DV-06", Star: true, Source: "RFC 8628 section 3.5", Title: "access_denied, expired_token and slow_down; two polls within a second are one; another client's device code is invalid_grant"},
	{ID: "DV-07", Star: true, Source: "RFC 8628 section 3.4; own rule", Title: "a device code is redeemed once; the same request gets the same pair while the retry window is open, and ends the grant later", By: []string{"TestRedeemedDeviceCodes"}},
	{ID: "DV-08", Source: "RFC 7636 sections 4.4 to 4.6", Title: "a code_challenge is S256; a wrong, missing or needless verifier is invalid_grant and consumes nothing"},
	{ID: "DV-09", Star: true, Source: ownRule, Title: "a poll writes nothing; a fault of the store is authorization_pending"},
	{ID: "DV-10", Star: true, Source: "RFC 8628 section 5.1; CWE-307", Title: "wrong user codes are limited by subject and network, and make new codes longer; nobody closes the page for others", By: []string{"TestGuessingUserCodes", "TestOpenDeviceCodesAreBounded"}},
	{ID: "DV-11", Source: "RFC 8628 section 3.1; own rule", Title: "a client that registers itself is looked up when its user enters the code, and needs the grant type"},
	{ID: "DV-12", Star: true, Source: "RFC 7009; own rule", Title: "what ends a grant ends one that waits, and one that was made"},
	{ID: "DV-13", Source: "RFC 8414 section 2; RFC 8628 section 4", Title: "metadata name the endpoint and the grant type while users can sign in"},
	{ID: "DV-14", Source: "OpenID Connect Core section 3.1.3.3", Title: "an id_token of a device has auth_time, at_hash and sid, and no nonce"},
	{ID: "DV-15", Star: true, Source: "RFC 9700 section 4.7", Title: "the answer about a device belongs to the browser and the user who were asked; only one of two answers counts"},
}
