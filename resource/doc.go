// Package resource protects APIs whose access tokens come from a Mintage server. It
// verifies the bearer token of a request, and puts the subject and the client of
// the token into the request's context.
//
//	verifier, err := resource.New(resource.Config{
//		Issuer:       "https://auth.example.com/oauth2/api",
//		Audience:     "https://api.example.com",
//		ClientID:     "invoices-api",
//		ClientSecret: os.Getenv("INVOICES_API_SECRET"),
//	})
//	if err != nil {
//		log.Fatal(err) // the Config is wrong
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
// A token with three parts is a JWT access token (RFC 9068). The package verifies
// it without a request to the server: its signature (ES256, EdDSA or RS256) by the
// server's published keys, its type at+jwt, its issuer, its audience, its times,
// and that it has sub, client_id and jti. It fetches the keys when it first needs
// them, and caches them as long as the server allows: an hour by default. If it
// cannot reach the server then, it uses them for one more hour. If a token names an
// unknown key, it fetches the keys again, at most every 5 seconds.
//
// Any other token is opaque. The package sends it to the server's introspection
// endpoint (RFC 7662) for each request, unless Config.IntrospectionCache is set. It
// caches at most 10,000 responses and introspects at most 1,000 tokens at a time;
// further ones are ErrUnavailable.
//
// In both cases the token must be for Config.Audience and have at most 8 KiB. A token that
// is bound to a client's key must come by the scheme DPoP, with a proof of that key (RFC
// 9449): [Verifier.Require] verifies it, and so does [Verifier.VerifyBound].
// [Verifier.Verify] refuses such a token.
//
// # How soon a revocation takes effect
//
// For opaque tokens: at once, or after Config.IntrospectionCache. For JWTs: when
// the token expires, 5 minutes after its issue by default; or with
// Config.FollowRevocations, about 7 seconds after the revocation.
//
// # When the server is down
//
// If a token cannot be verified because the server does not respond, the response
// is 503 with Retry-After, and Verify returns [ErrUnavailable]. It is never 401,
// which would send users to log in again. JWTs are accepted as long as the keys are
// cached. Each request to the server ends after 5 seconds. After a failure, the
// keys are requested again 5 seconds later.
package resource
