package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/testkit"
)

// TestCM24 tests how pages show these redirect URIs, and
// TestRedirectURIsAreWhatABrowserMakesOfThem how a browser parses them.
func TestRedirectURIsByKindOfClient(t *testing.T) {
	t.Parallel()
	if len(testkit.Addresses) < 60 {
		t.Fatalf("only %d redirect URIs", len(testkit.Addresses))
	}
	for _, r := range testkit.Addresses {
		if err := oauth.CheckRedirectURI(r.URI, true); (err == nil) != r.Operator {
			t.Errorf("an operator registers %q: %v", r.URI, err)
		}
		if err := oauth.CheckRedirectURI(r.URI, false); (err == nil) != (r.Operator && strings.HasPrefix(r.URI, "https:")) {
			t.Errorf("an operator registers %q for a web client: %v", r.URI, err)
		}
		body, err := json.Marshal(map[string]any{"client_id": address, "redirect_uris": []string{r.URI, "https://agent.example/other"}})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := client.ReadDocument(address, body)
		if err != nil {
			t.Fatal(err)
		}
		d := client.Documents{Realm: "/api", Now: time.Now, Fetch: func(context.Context, string, netip.Prefix) (client.Document, error) { return doc, nil }}
		c, err := d.Client(t.Context(), address, r.URI, netip.Prefix{})
		if r.Own && (err != nil || !oauth.MatchRedirectURI(c.RedirectURIs, r.URI)) || !r.Own && !errors.Is(err, oauth.ErrRedirectMismatch) {
			t.Errorf("a document has %q: %v", r.URI, err)
		}
	}
}

// An operator may admit further schemes.
func TestSchemesThatAnOperatorAdmits(t *testing.T) {
	t.Parallel()
	const body = `{"client_id":"https://agent.example/client.json","redirect_uris":["example-agent://cb"]}`
	if _, err := client.ReadDocument(address, []byte(body)); err == nil {
		t.Error("a scheme that no operator has admitted was accepted")
	}
	if doc, err := client.ReadDocument(address, []byte(body), "other", "example-agent"); err != nil || len(doc.RedirectURIs) != 1 {
		t.Errorf("%+v, %v", doc, err)
	}
	for _, uri := range []string{"example-agent://CB", "Example-agent://cb", "example-agent://c%C3%BC", "other-agent:x"} {
		if oauth.CheckOwnRedirectURI(uri, "example-agent") == nil {
			t.Errorf("%s is accepted", uri)
		}
	}
}

// A native program listens on any free port, also on localhost: the port in a document is
// an example.
func TestAnyPortOfLocalhostInADocument(t *testing.T) {
	t.Parallel()
	doc, err := client.ReadDocument(address, []byte(`{"client_id":"https://agent.example/client.json","redirect_uris":["http://localhost:8787/cb"]}`))
	if err != nil {
		t.Fatal(err)
	}
	d := client.Documents{Realm: "/api", Now: time.Now, Fetch: func(context.Context, string, netip.Prefix) (client.Document, error) { return doc, nil }}
	for uri, want := range map[string]bool{
		"http://localhost:8787/cb": true, "http://localhost:1/cb": true, "http://localhost/cb": true,
		"http://localhost:8787/other": false, "http://127.0.0.1:8787/cb": false, "https://localhost:8787/cb": false, "http://localhost:0/cb": false,
	} {
		c, err := d.Client(t.Context(), address, uri, netip.Prefix{})
		if (err == nil) != want || want && !oauth.MatchRedirectURI(c.RedirectURIs, uri) {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// An address that was valid when it was registered stays: changing another setting must
// not break the client.
func TestRegisteredAddressesStayValid(t *testing.T) {
	s := newService(t)
	const old, logout = "HTTPS://Client.example/cb", "https://b%C3%BCcher.example/logout"
	before := s.Client(clientID)
	before.RedirectURIs, before.PostLogoutRedirectURIs, before.LogoutURI = []string{old}, []string{logout}, logout
	r := client.Registered(before)
	r.Name = "Renamed"
	if after, err := r.Change(before, s.Policy); err != nil || after.RedirectURIs[0] != old || after.Name != "Renamed" {
		t.Errorf("%+v, %v", after, err)
	}
	for _, uri := range []string{"HTTPS://Client.example/other", "https://%D0%B0pple.com/cb"} {
		r.RedirectURIs = []string{old, uri}
		if _, err := r.Change(before, s.Policy); err == nil {
			t.Errorf("%s is added", uri)
		}
	}
	// An existing address may not be moved to another setting.
	before.Native, before.RedirectURIs = true, []string{"com.example.app:/cb"}
	for flag, change := range map[string]func(*client.Registration){
		"backchannel-logout-uri":   func(r *client.Registration) { r.LogoutURI = "com.example.app:/cb" },
		"redirect-uri":             func(r *client.Registration) { r.RedirectURIs = []string{logout} },
		"post-logout-redirect-uri": func(r *client.Registration) { r.PostLogoutRedirectURIs = []string{"HTTPS://Client.example/other"} },
	} {
		before := before.Clone()
		if flag == "post-logout-redirect-uri" {
			before.RedirectURIs = []string{"HTTPS://Client.example/other"}
		}
		r := client.Registered(before)
		change(&r)
		var invalid *oauth.Invalid
		if _, err := r.Change(before, s.Policy); !asInvalid(err, &invalid) || invalid.Field != flag {
			t.Errorf("an address of another setting as --%s: %v", flag, err)
		}
	}
	before.Native, before.RedirectURIs = true, []string{"http://localhost:3000/cb"}
	r = client.Registered(before)
	r.Native = false
	if _, err := r.Change(before, s.Policy); err == nil {
		t.Error("a client that is no longer native keeps its loopback address")
	}
}
