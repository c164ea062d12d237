package resource_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/resource"
)

func TestInvalidConfigIsRefused(t *testing.T) {
	good := newAuthServer().config()
	for _, tt := range []struct {
		names  string
		change func(*resource.Config)
	}{
		{"Issuer", func(c *resource.Config) { c.Issuer = "" }},
		{"Issuer", func(c *resource.Config) { c.Issuer = "auth.example.com/oauth2/api" }},
		{"Issuer", func(c *resource.Config) { c.Issuer = "https:///oauth2/api" }},
		{"Issuer", func(c *resource.Config) { c.Issuer = "https://a b/" }},
		{"Issuer", func(c *resource.Config) { c.Issuer = "https://user:pass@auth.example.com" }},
		{"Issuer", func(c *resource.Config) { c.Issuer = "http://auth.example.com/oauth2/api" }},
		{"Issuer", func(c *resource.Config) { c.Issuer = "http://127.0.0.1.example.com/oauth2/api" }},
		{"Issuer", func(c *resource.Config) { c.Issuer = "http://10.0.0.1/oauth2/api" }},
		{"Issuer", func(c *resource.Config) { c.Issuer = "file:///etc/passwd" }},
		{"Issuer", func(c *resource.Config) { c.Issuer += "/" }},
		{"Issuer", func(c *resource.Config) { c.Issuer += "?realm=/api" }},
		{"Issuer", func(c *resource.Config) { c.Issuer += "#" }},
		{"Origin", func(c *resource.Config) { c.Origin = "api.example.com" }},
		{"Origin", func(c *resource.Config) { c.Origin = "http://api.example.com" }},
		{"Origin", func(c *resource.Config) { c.Origin = "https://user:pass@api.example.com" }},
		{"Origin", func(c *resource.Config) { c.Origin = "https://api.example.com/" }},
		{"Origin", func(c *resource.Config) { c.Origin = "https://api.example.com/v1" }},
		{"Origin", func(c *resource.Config) { c.Origin = "https://api.example.com?" }},
		{"Origin", func(c *resource.Config) { c.Origin = "https://api.example.com#" }},
		{"Audience", func(c *resource.Config) { c.Audience = "" }},
		{"Audience", func(c *resource.Config) { c.Audience = `https://api"` }},
		{"Audience", func(c *resource.Config) { c.Audience = `https://api\` }},
		{"Audience", func(c *resource.Config) { c.Audience = "https://api\r\nX: y" }},
		{"Audience", func(c *resource.Config) { c.Audience = "https://äpi" }},
		{"ClientSecret", func(c *resource.Config) { c.ClientSecret = "" }},
		{"ClientSecret", func(c *resource.Config) { c.ClientID = "" }},
		{"IntrospectionCache", func(c *resource.Config) { c.IntrospectionCache = -1 }},
		{"IntrospectionCache", func(c *resource.Config) { c.ClientID, c.ClientSecret, c.IntrospectionCache = "", "", 1 }},
		{"StaleRevocations", func(c *resource.Config) { c.FollowRevocations, c.StaleRevocations = true, -1 }},
		{"StaleRevocations", func(c *resource.Config) { c.StaleRevocations = 1 }},
		{"Leeway", func(c *resource.Config) { c.Leeway = time.Minute + 1 }},
		{"NonceKey", func(c *resource.Config) { c.NonceKey = make([]byte, 31) }},
		{"NonceKey", func(c *resource.Config) { c.NonceKey = []byte("") }}, // like the value of an unset environment variable
	} {
		cfg := good
		tt.change(&cfg)
		v, err := resource.New(cfg)
		if v != nil || err == nil || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("Issuer %q, Audience %q: %v, want an error that names %s", cfg.Issuer, cfg.Audience, err, tt.names)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error %q holds the secret", err)
		}
	}
	for _, issuer := range []string{"https://auth.example.com", "https://auth.example.com:8443/openam/oauth2/api", "http://localhost:8080/x", "http://[::1]:1", "http://127.0.0.2"} {
		cfg := good
		cfg.Issuer = issuer
		v, err := resource.New(cfg)
		if err != nil {
			t.Errorf("Issuer %s: %v", issuer, err)
			continue
		}
		v.Close()
	}
	// Every field that is not required has its zero value.
	v, err := resource.New(resource.Config{Issuer: issuer, Audience: audience})
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
}

// RFC 8414 section 3.1: the well-known part precedes the path of the issuer.
func TestMetadataIsAtTheAddressOfRFC8414(t *testing.T) {
	for issuer, want := range map[string]string{
		"https://auth.example.com":                       "/.well-known/oauth-authorization-server",
		"https://auth.example.com/oauth2/api":            "/.well-known/oauth-authorization-server/oauth2/api",
		"https://auth.example.com:8443/a%2Fb/oauth2/api": "/.well-known/oauth-authorization-server/a%2Fb/oauth2/api",
	} {
		asked := ""
		cfg := newAuthServer().config()
		cfg.Issuer = issuer
		cfg.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.EscapedPath()
			return nil, context.DeadlineExceeded
		})}
		wants(t, issuer, verifier(t, cfg), newAuthServer().token(), resource.ErrUnavailable)
		if asked != want {
			t.Errorf("%s: asked %s, want %s", issuer, asked, want)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestPrincipalAndContext(t *testing.T) {
	p := resource.Principal{Subject: "alice", Scope: []string{"read", "write"}}
	for _, tt := range []struct {
		scopes []string
		want   bool
	}{
		{nil, true}, {[]string{"read"}, true}, {[]string{"write", "read"}, true}, {[]string{"read", "admin"}, false},
		{[]string{"Read"}, false}, {[]string{""}, false}, {[]string{"read write"}, false}, {[]string{"rea"}, false},
	} {
		if got := p.HasScope(tt.scopes...); got != tt.want {
			t.Errorf("HasScope(%q) = %t", tt.scopes, got)
		}
	}
	if p, ok := resource.FromContext(t.Context()); ok || p.Subject != "" {
		t.Error("a principal was found in a context without one")
	}
	if got, ok := resource.FromContext(resource.NewContext(t.Context(), p)); !ok || got.Subject != "alice" {
		t.Errorf("%+v, %t", got, ok)
	}
}
