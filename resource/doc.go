// Package resource protects APIs whose access tokens come from a Mintage
// server: it finds out what the bearer token of a request is worth, and puts
// into the request's context on whose behalf it is made.
//
//	verifier, err := resource.New(resource.Config{
//		Issuer:       "https://auth.example.com/oauth2/api",
//		Audience:     "https://api.example.com",
//		ClientID:     "invoices-api",
//		ClientSecret: os.Getenv("INVOICES_API_SECRET"),
//	})
//	if err != nil {
//		log.Fatal(err) // something in the Config is not right
//	}
//	defer verifier.Close()
//
//	mux := http.NewServeMux()
//	mux.Handle("GET /invoices", verifier.Require("invoices.read")(http.HandlerFunc(listInvoices)))
//
// and in a handler:
//
//	caller, _ := resource.FromContext(r.Context())
//	invoices := invoicesOf(caller.Subject)
//
// # What is checked
//
// A token with three parts is a JWT access token (RFC 9068). It is checked
// here: its signature (ES256, EdDSA or RS256) by the server's published keys, its
// type at+jwt, its issuer, its audience, its instants, and that it has sub,
// client_id and jti. That costs no request; the keys are fetched when they are
// first needed and kept as long as the server allows, which is an hour by
// default. If the server cannot be reached then, they serve for one hour
// more. A key that is not known makes the set be fetched again, at most
// every 5 seconds.
//
// Any other token is opaque, and looked up at the server's introspection
// endpoint (RFC 7662), for each request unless Config.IntrospectionCache says
// otherwise. At most 10,000 answers are kept, and at most 1,000 tokens are
// looked up at one time; beyond that the answer is ErrUnavailable.
//
// In both cases the token must be for Config.Audience, have at most 8 KiB, and
// be a plain bearer token: one that is bound to a client's key is refused.
//
// # How soon a revocation counts
//
// For opaque tokens, at once, or after Config.IntrospectionCache. For JWTs, when
// the token expires, which is 5 minutes after its issue by default; or with
// Config.FollowRevocations, about 7 seconds after the revocation.
//
// # When the server is down
//
// A token about which nothing can be found out is neither good nor bad: the
// answer is 503 with Retry-After, [ErrUnavailable] from Verify, and never 401,
// which would send users to log in again. JWTs go on being accepted by the
// keys at hand. Each request to the server ends after 5 seconds, and
// after one that has failed the keys are asked for again 5 seconds later.
package resource
