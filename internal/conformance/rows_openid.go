package conformance

// openidRows are the rules of OpenID Connect.
var openidRows = []Row{
	{ID: "OC-01", Star: true, Source: "OpenID Connect Core sections 2 and 3.1.3.3", Title: "a code with the scope openid gives an id_token beside the five members, which go-oidc verifies from the issuer alone"},
	{ID: "OC-02", Star: true, Source: "OpenID Connect Core section 3.1.2.1", Title: "without the scope openid, and with login.mode off, nothing is added to codes, rows, answers and metadata", By: []string{"TestWithoutOpenIDNothingIsAdded"}},
	{ID: "OC-03", Star: true, Source: "OpenID Connect Core section 3.1.2.1", Title: "nonce is returned as it was sent, of at most 255 bytes; it is in the code only"},
	{ID: "OC-04", Star: true, Source: "OpenID Connect Core section 12.2", Title: "a refresh with openid returns an id_token without nonce, unless the client is registered otherwise", By: []string{"TestARefreshReturnsAnIDToken"}},
	{ID: "OC-05", Source: ownRule, Title: "a repeated answer has the same id_token, byte for byte", By: []string{"TestARepeatedAnswerHasTheSameIDToken"}},
	{ID: "OC-06", Star: true, Source: "OpenID Connect Core section 15.1", Title: "RS256 signs, unless the client is registered for ES256 or EdDSA; id_tokens live as configured or registered", By: []string{"TestIDTokensFollowTheRegistration"}},
	{ID: "OC-07", Star: true, Source: "RFC 9700 section 2.3; RFC 9068 section 5", Title: "an id_token is no access token", By: []string{"TestAnIDTokenIsNoAccessToken"}},
	{ID: "OC-08", Star: true, Source: "OpenID Connect Discovery section 3", Title: "the metadata say what OpenID Connect clients need, and what absence would say wrongly"},
	{ID: "OC-09", Source: "OpenID Connect Core section 2", Title: "a subject that cannot be a sub gets no code with openid", By: []string{"TestSubjectsThatCannotBeInAnIDToken"}},
	{ID: "OC-10", Source: "OpenID Connect Core section 2; RFC 8176", Title: "acr and amr say how the user logged in; sid differs by client, and stays at a new login in the same browser"},
	{ID: "OC-11", Star: true, Source: "OpenID Connect Core section 3.1.2.1", Title: "only id_tokens of this server are hints, expired ones too; forged ones are refused", By: []string{"TestHints", "TestReadHint"}},
	{ID: "OC-12", Source: "OpenID Connect Core section 10.1.1", Title: "a key is published for the longest lifetime of what it signed", By: []string{"TestAKeyIsPublishedForTheLongestLifetimeOfWhatItSigns"}},
	{ID: "OC-13", Source: "RFC 6749 section 4.1.2", Title: "a code with openid has at most 1,600 characters, others 1,000", By: []string{"TestCodeOfAnAuthenticationRequest"}},
	{ID: "OC-14", Source: ownRule, Title: "while a node of an earlier version runs, no code is made that it cannot read", By: []string{"TestNewFormsWaitForEveryNode"}},
	{ID: "OC-15", Source: "OpenID Connect Core sections 2 and 5.5.1.1", Title: "acr and amr of a login elsewhere are what the login page or the provider says, and an essential acr is enforced with them", By: []string{"TestAnotherSystemSaysACRAndAMR", "TestTheProviderSaysACRAndAMR"}},
	{ID: "OC-16", Star: true, Source: "OpenID Connect Core section 5.5", Title: "claims that a request names are in userinfo or in the id_token, as far as the client is registered and the user agrees; the consent page names them", By: []string{"TestAnIDTokenHasTheClaimsThatTheRequestNamed"}},
	{ID: "OC-20", Star: true, Source: "OpenID Connect Core section 3.1.2.1", Title: "an id_token_hint of another client, or that does not verify, is refused; an expired one counts; another user than it names must log in"},
	{ID: "OC-21", Star: true, Source: "OpenID Connect Core section 5.5", Title: "claims is read strictly; value and values of sub and of an essential acr are enforced, of other claims ignored", By: []string{"TestReadClaims", "TestNextWithAnExpectedUser"}},
	{ID: "OC-22", Source: "OpenID Connect Core section 3.1.2.1", Title: "acr_values, display and claims_locales are accepted"},
	{ID: "OC-23", Source: "OpenID Connect Core sections 3.1.2.1 and 6", Title: "prompt=select_account lets the user choose; request and request_uri are refused with their own errors"},
}
