package resource_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/mintage/mintage/resource"
)

// newTools protects tools, the handler of an MCP server. The HTTP client is nil,
// unless the authorization server's certificate is from a private authority.
func newTools(issuer string, tools http.Handler, client *http.Client) (http.Handler, *resource.Verifier, error) {
	verifier, err := resource.New(resource.Config{
		Issuer:          issuer, // such as https://auth.example.com/oauth2/api
		Audience:        "https://mcp.example.com/mcp",
		PublishMetadata: true,
		ScopesSupported: []string{"tickets:read", "tickets:write"},
		HTTPClient:      client,
	})
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(verifier.MetadataPath(), verifier.Metadata())
	mux.Handle("/mcp", verifier.Require("tickets:read")(tools))
	return mux, verifier, nil
}

// An MCP server, and what an agent that knows only its address sees.
func ExampleVerifier_Metadata() {
	// In place of a Mintage server; see docs/how-to/mcp.md for a real one.
	issuer, client, _ := exampleServer()
	tools, verifier, err := newTools(issuer, http.NotFoundHandler(), client)
	if err != nil {
		log.Fatal(err)
	}
	defer verifier.Close()

	w := httptest.NewRecorder()
	tools.ServeHTTP(w, httptest.NewRequest("POST", "/mcp", nil))
	fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	w = httptest.NewRecorder()
	tools.ServeHTTP(w, httptest.NewRequest("GET", "/.well-known/oauth-protected-resource/mcp", nil))
	fmt.Println(w.Code, w.Body)
	// Output:
	// 401 Bearer realm="https://mcp.example.com/mcp", scope="tickets:read", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
	// 200 {"resource":"https://mcp.example.com/mcp","authorization_servers":["https://auth.example.com/oauth2/api"],"scopes_supported":["tickets:read","tickets:write"],"bearer_methods_supported":["header"],"dpop_signing_alg_values_supported":["ES256","EdDSA","PS256"]}
}
