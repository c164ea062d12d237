package conformance

// pushedRows are the rules of pushed authorization requests.
var pushedRows = []Row{
	{ID: "PA-01", Star: true, Source: "RFC 9126 section 2.2", Title: "a pushed request is answered 201 with request_uri and expires_in"},
	{ID: "PA-02", Star: true, Source: "RFC 9126 section 2.1", Title: "the client authenticates as at the token endpoint"},
	{ID: "PA-03", Star: true, Source: "RFC 9126 section 2.1", Title: "request_uri is refused in a pushed request"},
	{ID: "PA-04", Star: true, Source: "RFC 9126 section 2.3", Title: "POST alone"},
	{ID: "PA-05", Source: "RFC 9126 section 2.3", Title: "a request that is too large"},
	{ID: "PA-08", Star: true, Source: "RFC 9126 section 2.1", Title: "redirect URI and PKCE are checked when the request is pushed"},
	{ID: "PA-09", Star: true, Source: "RFC 9126 section 2.1", Title: "client_id of another client than the authenticated one"},
	{ID: "PA-10", Star: true, Source: "RFC 9126 section 4", Title: "another client's request_uri is a page, and is not used by it"},
	{ID: "PA-11", Star: true, Source: "RFC 9126 section 4", Title: "an expired request_uri is a page"},
	{ID: "PA-12", Star: true, Source: "RFC 9126 sections 4 and 7.3", Title: "a request_uri whose client is answered is a page"},
	{ID: "PA-13", Star: true, Source: "FAPI 2.0 section 5.3.2.2", Title: "the page of a pushed request may be loaded again until its client is answered"},
	{ID: "PA-14", Star: true, Source: "RFC 9101 section 5", Title: "client_id and request_uri are enough"},
	{ID: "PA-15", Star: true, Source: "RFC 9101 section 6.3", Title: "nothing else in the address counts"},
	{ID: "PA-16", Source: "RFC 9126 section 4", Title: "request_uri without client_id"},
	{ID: "PA-17", Source: "RFC 9126 section 7.1", Title: "request_uris of others are refused, and never fetched"},
	{ID: "PA-18", Star: true, Source: "RFC 9126 section 7.1", Title: "256 random bits"},
	{ID: "PA-19", Source: "RFC 9126 section 2.1", Title: "repeated parameters, JSON, and parameters in the address"},
	{ID: "PA-20", Source: "RFC 9126 section 2.1", Title: "other response types"},
	{ID: "PA-21", Source: "RFC 9126 section 2.3", Title: "the errors of the authorization endpoint, none about the user"},
	{ID: "PA-22", Source: "RFC 9126 section 7.4", Title: "what was pushed is checked again when the browser comes"},
	{ID: "PA-25", Source: "RFC 9126 section 7.3", Title: "of several users who answer at once, one gets a code"},
}
