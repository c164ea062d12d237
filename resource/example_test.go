package resource_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/mintage/mintage/resource"
)

// newInvoices is an API for which a client needs an access token. The HTTP
// client is nil, unless the authorization server's certificate is from a
// private authority.
func newInvoices(issuer, secret string, client *http.Client) (http.Handler, *resource.Verifier, error) {
	verifier, err := resource.New(resource.Config{
		Issuer:            issuer, // such as https://auth.example.com/oauth2/api
		Audience:          "https://api.example.com",
		ClientID:          "invoices-api",
		ClientSecret:      secret,
		FollowRevocations: true,
		PublishMetadata:   true,
		HTTPClient:        client,
	})
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(verifier.MetadataPath(), verifier.Metadata())
	mux.Handle("GET /invoices", verifier.Require("invoices.read")(http.HandlerFunc(listInvoices)))
	mux.Handle("POST /invoices", verifier.Require("invoices.read", "invoices.write")(http.HandlerFunc(addInvoice)))
	return mux, verifier, nil
}

func listInvoices(w http.ResponseWriter, r *http.Request) {
	caller, _ := resource.FromContext(r.Context())
	fmt.Fprintf(w, "invoices of %s, for client %s\n", caller.Subject, caller.ClientID)
}

func addInvoice(w http.ResponseWriter, r *http.Request) {
	caller, _ := resource.FromContext(r.Context())
	log.Printf("%s adds an invoice through %s with token %s", caller.Subject, caller.ClientID, caller.TokenID)
	w.WriteHeader(http.StatusCreated)
}

// An API with two routes, and what its clients see.
func Example() {
	// In place of a Mintage server; see docs/how-to/go-api.md for a real one.
	issuer, client, tokenFor := exampleServer()

	invoices, verifier, err := newInvoices(issuer, "secret", client)
	if err != nil {
		log.Fatal(err)
	}
	defer verifier.Close()

	for _, authorization := range []string{"", "Bearer made-up", "Bearer " + tokenFor("alice", "invoices.read")} {
		for _, method := range []string{"GET", "POST"} {
			r := httptest.NewRequest(method, "/invoices", nil)
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
			w := httptest.NewRecorder()
			invoices.ServeHTTP(w, r)
			if w.Code == http.StatusOK {
				fmt.Print(method, " 200 ", w.Body)
			} else {
				fmt.Println(method, w.Code, w.Header().Get("WWW-Authenticate"))
			}
		}
	}
	// Output:
	// GET 401 Bearer realm="https://api.example.com", scope="invoices.read", resource_metadata="https://api.example.com/.well-known/oauth-protected-resource"
	// POST 401 Bearer realm="https://api.example.com", scope="invoices.read invoices.write", resource_metadata="https://api.example.com/.well-known/oauth-protected-resource"
	// GET 401 Bearer realm="https://api.example.com", error="invalid_token", scope="invoices.read", resource_metadata="https://api.example.com/.well-known/oauth-protected-resource"
	// POST 401 Bearer realm="https://api.example.com", error="invalid_token", scope="invoices.read invoices.write", resource_metadata="https://api.example.com/.well-known/oauth-protected-resource"
	// GET 200 invoices of alice, for client shop
	// POST 403 Bearer realm="https://api.example.com", error="insufficient_scope", scope="invoices.read invoices.write", resource_metadata="https://api.example.com/.well-known/oauth-protected-resource"
}

// Middleware of your own, and protocols other than HTTP, call Verify.
func ExampleVerifier_Verify() {
	issuer, client, tokenFor := exampleServer()
	verifier, err := resource.New(resource.Config{Issuer: issuer, Audience: "https://api.example.com", HTTPClient: client})
	if err != nil {
		log.Fatal(err)
	}
	defer verifier.Close()

	token := tokenFor("alice", "invoices.read") // what stood after "Bearer "
	ctx := httptest.NewRequest("GET", "/", nil).Context()
	caller, err := verifier.Verify(ctx, token, "invoices.read")
	fmt.Println(caller.Subject, caller.Scope, err)
	_, err = verifier.Verify(ctx, token, "invoices.write")
	fmt.Println(err)
	// Output:
	// alice [invoices.read] <nil>
	// insufficient scope
}

// A handler is tested without tokens.
func ExampleNewContext() {
	r := httptest.NewRequest("GET", "/invoices", nil)
	r = r.WithContext(resource.NewContext(r.Context(), resource.Principal{Subject: "alice", ClientID: "shop"}))
	w := httptest.NewRecorder()
	listInvoices(w, r)
	fmt.Print(w.Body)
	// Output: invoices of alice, for client shop
}
