package conformance

// registrationRows are the rules of dynamic registration.
var registrationRows = []Row{
	{ID: "DR-01", Star: true, Source: "RFC 7591 section 3.2.1", Title: "a registration is answered 201 with id, secret and the metadata as registered, never null; nothing is written"},
	{ID: "DR-02", Star: true, Source: "RFC 7591 sections 2 and 3.2.1", Title: "a client that registered itself gets tokens after a user has agreed, and its record begins there"},
	{ID: "DR-03", Choice: true, Source: "RFC 7591 section 3.2.2", Title: "metadata that are not accepted; redirect URIs that are not are left out"},
	{ID: "DR-04", Star: true, Choice: true, Source: "RFC 6749 section 5.2", Title: "a sealed id that is unknown or not authentic is 401 with a challenge at the token endpoint"},
	{ID: "DR-05", Source: "RFC 7591 section 3", Title: "the initial access token, if one is configured"},
	{ID: "DR-06", Star: true, Source: "RFC 7591 section 5", Title: "a flood of registrations leaves the store unchanged, memory bounded and clients unharmed; each network has its share"},
	{ID: "DR-07", Source: "RFC 8414 section 2; RFC 7591 section 3", Title: "registration_endpoint is in the metadata only if it is on; scripts of every origin may register"},
	{ID: "DR-08", Star: true, Source: "RFC 8252 section 7.3; RFC 9700 section 2.1", Title: "redirect URIs are those of the registration, loopback ones with any port; nobody is redirected elsewhere"},
	{ID: "DR-09", Star: true, Source: ownRule, Title: "a client that registered itself can be disabled: its tokens are inactive, refreshes and new authorizations refused, until it is enabled", By: []string{"TestClientsThatRegisteredThemselvesAreListed", "TestAClientThatRegisteredItselfIsOperated", "TestADisabledClientThatRegisteredItselfStaysSoAfterARestore"}},
	{ID: "DR-10", Source: "RFC 6749 section 4.1.2", Title: "the longest request of such a client gets a code that fits, for the longest login; where the issuer is open to it, it gets id_tokens"},
	{ID: "DR-20", Source: "CWE-770", Title: "metrics count clients that registered themselves together: they take no label from an operator's client"},
}
