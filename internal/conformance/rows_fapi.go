package conformance

// fapiRows are the rules of the FAPI 2.0 Security Profile, which a registration chooses
// by its name.
var fapiRows = []Row{
	{ID: "FA-01", Star: true, Source: "FAPI 2.0 sections 5.3.2 and 5.4", Title: "one word of a registration sets every setting that the profile demands"},
	{ID: "FA-02", Star: true, Source: "FAPI 2.0 sections 5.3.2 and 5.4", Title: "what contradicts the profile is refused at registration, with its rule"},
	{ID: "FA-03", Star: true, Source: "FAPI 2.0 section 5.3.2.1-8", Title: "the issuer as a string is the only audience of assertions", By: []string{"TestFAPISecurityProfile"}},
	{ID: "FA-04", Star: true, Source: "FAPI 2.0 section 5.3.2.2-3", Title: "no code without a pushed request, and none of an operator's"},
	{ID: "FA-05", Star: true, Source: "FAPI 2.0 section 5.3.2.1-11", Title: "codes live a minute, whatever the configuration says", By: []string{"TestFAPISecurityProfile"}},
	{ID: "FA-06", Star: true, Source: "FAPI 2.0 section 5.3.2.1-9", Title: "refresh tokens do not rotate", By: []string{"TestFAPISecurityProfile"}},
	{ID: "FA-07", Source: "FAPI 2.0 section 5.3.2", Title: "a configuration that demands the profile of every client has no setting that weakens it", By: []string{"TestAConfigurationThatDemandsAProfile"}},
	{ID: "FA-08", Source: "FAPI 2.0 section 5.3.2.1-3", Title: "where every client follows the profile, others cannot be registered", By: []string{"TestEveryClientFollowsTheProfileOfTheDeployment"}},
	{ID: "FA-09", Source: "FAPI 2.0 section 5.2", Title: "doctor compares TLS and HSTS at the public address with the profile", By: []string{"TestThePublicAddressOfAProfile"}},
	{ID: "FA-10", Star: true, Source: "FAPI 2.0 section 5.3.2.1-6", Title: "a client of the profile authenticates beside the assertion of a workload, too"},
}

// stepUpRows are the rules of step-up authentication, which an API requires.
var stepUpRows = []Row{
	{ID: "SU-01", Star: true, Source: "RFC 9470 section 3", Title: "a token whose login is too old or of another class is 401 insufficient_user_authentication, with acr_values and max_age", By: []string{"TestAnAPIDemandsALogin"}},
	{ID: "SU-02", Source: ownRule, Title: "a demand that is empty or malformed is refused"},
	{ID: "SU-03", Star: true, Source: "RFC 9470 section 6", Title: "access tokens of each form and introspection have auth_time, and acr if the request asked for one"},
	{ID: "SU-04", Star: true, Source: "RFC 9470 section 6.1", Title: "a refresh keeps the time and the class of the login"},
	{ID: "SU-05", Star: true, Source: "RFC 9470 section 5", Title: "acr_values is fulfilled with the second factor that the user has, or the answer is unmet_authentication_requirements"},
	{ID: "SU-06", Star: true, Source: "RFC 9470 section 3", Title: "a token without a user fulfils no demand"},
}
