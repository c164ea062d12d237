package resource_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mintage/mintage/resource"
)

// publishing returns a verifier that publishes metadata, and its authorization server.
func publishing(t *testing.T, api string) (*resource.Verifier, *authServer) {
	t.Helper()
	s := newAuthServer()
	v, err := resource.New(resource.Config{Issuer: s.issuer, Audience: api, PublishMetadata: true, ScopesSupported: []string{"read", "write"}, HTTPClient: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v, s
}

func TestMetadataOfAProtectedResource(t *testing.T) {
	for api, path := range map[string]string{
		"https://api.example.com":         "/.well-known/oauth-protected-resource",
		"https://api.example.com/":        "/.well-known/oauth-protected-resource",
		"https://api.example.com/mcp":     "/.well-known/oauth-protected-resource/mcp",
		"https://api.example.com/mcp/":    "/.well-known/oauth-protected-resource/mcp/",
		"http://127.0.0.1:3000/a%2Fb/mcp": "/.well-known/oauth-protected-resource/a%2Fb/mcp",
	} {
		v, s := publishing(t, api)
		if v.MetadataPath() != path {
			t.Errorf("%s: %s", api, v.MetadataPath())
		}
		w := httptest.NewRecorder()
		v.Metadata().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		var got struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
			Methods  []string `json:"bearer_methods_supported"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Resource != api || len(got.Servers) != 1 || got.Servers[0] != s.issuer || len(got.Scopes) != 2 || got.Methods[0] != "header" {
			t.Errorf("%s: %s", api, w.Body)
		}
		if h := w.Header(); h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%v", h)
		}
		for method, status := range map[string]int{"OPTIONS": 204, "POST": 405, "HEAD": 200} {
			w := httptest.NewRecorder()
			if v.Metadata().ServeHTTP(w, httptest.NewRequest(method, path, nil)); w.Code != status {
				t.Errorf("%s: %d", method, w.Code)
			}
		}
	}
}

func TestChallengesNameTheMetadata(t *testing.T) {
	const api = "https://api.example.com/mcp"
	v, s := publishing(t, api)
	ask := func(token string) string {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		v.Require("admin")(http.NotFoundHandler()).ServeHTTP(w, r)
		return w.Header().Get("WWW-Authenticate")
	}
	const metadata = `, resource_metadata="https://api.example.com/.well-known/oauth-protected-resource/mcp"`
	if got := ask(""); got != `Bearer realm="`+api+`", scope="admin"`+metadata {
		t.Error(got)
	}
	token := func(aud string) string {
		return s.token(map[string]any{"aud": aud, "scope": "read", "exp": time.Now().Unix() + 300})
	}
	if got := ask(token("https://other.example")); got != `Bearer realm="`+api+`", error="invalid_token", scope="admin"`+metadata {
		t.Error(got)
	}
	// A trailing slash of the audience does not matter.
	for _, aud := range []string{api, api + "/"} {
		if got := ask(token(aud)); got != `Bearer realm="`+api+`", error="insufficient_scope", scope="admin"`+metadata {
			t.Errorf("%s: %s", aud, got)
		}
	}
}

func TestPublishedMetadataRequiresAURLAsAudience(t *testing.T) {
	for _, c := range []resource.Config{
		{Audience: "urn:api", PublishMetadata: true}, {Audience: "http://api.example.com", PublishMetadata: true},
		{Audience: "https://api.example.com/?x", PublishMetadata: true}, {Audience: "https://api.example.com", ScopesSupported: []string{"read"}},
	} {
		c.Issuer = "https://auth.example.com/oauth2/api"
		if _, err := resource.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
