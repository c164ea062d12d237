package admin_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

func document(t *testing.T, text string) (d adminapi.Client) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

const invoices = `{"name": "Invoices", "redirect_uris": ["https://invoices.example/cb?a=1&b=2"], "scope": "read write", "require_pkce": false,
	"retry_window": "30s", "access_token_format": "jwt", "audience": ["https://api.example"], "client_secret": "an imported secret"}`

// A tool applies the contents of a file repeatedly.
func TestTheSameClientAppliedTwiceIsWrittenOnce(t *testing.T) {
	a, changes := newAdmin(t)
	c, secret, created, err := a.Clients().Apply(t.Context(), "invoices", "", document(t, invoices))
	if err != nil || !created || secret != "" || c.RequiresPKCE() || c.TokenFormat != store.TokenJWT || c.RetryWindow.Duration().Seconds() != 30 {
		t.Fatalf("%+v, %q, %t, %v", c, secret, created, err)
	}
	again := func(what string) {
		t.Helper()
		*changes = 0
		next, secret, created, err := a.Clients().Apply(t.Context(), "invoices", admin.ClientETag(c), document(t, invoices))
		if err != nil || created || secret != "" || *changes != 0 || admin.ClientETag(next) != admin.ClientETag(c) {
			t.Errorf("%s: %d changes, created: %t, %v", what, *changes, created, err)
		}
	}
	again("before the first use of its secret")
	ring, _ := a.Ring(t.Context())
	used := c.Clone()
	used.Secrets[0].Slow, used.Secrets[0].Digest = "", ring.Digest("an imported secret")
	used.Version++
	if err := a.Store.Commit(t.Context(), store.Change{Entries: []store.Entry{used.Entry()}}); err != nil {
		t.Fatal(err)
	}
	again("after it")

	// A client that was read can be sent back unchanged.
	text, err := json.Marshal(admin.ViewClient(used, 0))
	if err != nil {
		t.Fatal(err)
	}
	*changes = 0
	if _, _, _, err := a.Clients().Apply(t.Context(), "invoices", "", document(t, string(text))); err != nil || *changes != 0 {
		t.Errorf("the client as it was read: %d changes, %v", *changes, err)
	}
	next, _, _, err := a.Clients().Apply(t.Context(), "invoices", admin.ClientETag(c), document(t, strings.Replace(invoices, "{", `{"state": "disabled", `, 1)))
	if err != nil || next.State != store.ClientDisabled || *changes != 1 {
		t.Errorf("disabled: %s, %d changes, %v", next.State, *changes, err)
	}
	if _, _, _, err := a.Clients().Apply(t.Context(), "invoices", admin.ClientETag(c), document(t, invoices)); codeOf(err) != admin.Changed {
		t.Errorf("with the ETag of before: %v", err)
	}
	if _, _, _, err := a.Clients().Apply(t.Context(), "other", admin.ClientETag(c), document(t, invoices)); codeOf(err) != admin.NotFound {
		t.Errorf("a client that must be there: %v", err)
	}
	// The state comes first, because the audit log cuts long texts.
	if _, _, _, err := a.Clients().Apply(t.Context(), "invoices", "", document(t, strings.Replace(invoices, "Invoices", "Bills", 1))); err != nil {
		t.Fatal(err)
	}
	events, err := a.Store.Events(t.Context(), "invoices", 9)
	if last := events[len(events)-1]; err != nil || last.Detail != `enabled; name "Bills", was "Invoices"` {
		t.Errorf("recorded %+v, %v", last, err)
	}
}

// The order of a list is part of what a caller has asked for: the answer must not claim an
// order, and an ETag, that the store does not have.
func TestAnotherOrderOfAListIsStored(t *testing.T) {
	a, changes := newAdmin(t)
	const one, two = `"https://invoices.example/1"`, `"https://invoices.example/2"`
	for n, uris := range []string{one + "," + two, two + "," + one, two + "," + one} {
		*changes = 0
		answer, _, _, err := a.Clients().Apply(t.Context(), "invoices", "", document(t, `{"name": "Invoices", "scope": "read", "redirect_uris": [`+uris+`]}`))
		if err != nil || n < 2 && *changes != 1 || n == 2 && *changes != 0 {
			t.Fatalf("step %d: %d changes, %v", n, *changes, err)
		}
		if stored, err := a.Clients().Read(t.Context(), "invoices"); err != nil || admin.ClientETag(stored) != admin.ClientETag(answer) {
			t.Errorf("step %d: it is %v, and the answer has %v, %v", n, stored.RedirectURIs, answer.RedirectURIs, err)
		}
	}
	// The consent page has the scopes of an API in their order.
	read, write := adminapi.APIScope{Name: "orders:read"}, adminapi.APIScope{Name: "orders:write"}
	api := adminapi.API{ID: "https://orders.example", Name: "Orders", Scopes: []adminapi.APIScope{read, write}}
	made, err := a.APIs().Create(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	api.Scopes = []adminapi.APIScope{write, read}
	next, _, err := a.APIs().Apply(t.Context(), api.ID, "", api)
	if err != nil || next.Scopes[0].Name != write.Name || next.Scopes[0].Number != made.Scopes[1].Number {
		t.Errorf("the scopes are %+v, %v", next.Scopes, err)
	}
	*changes = 0
	if _, _, err := a.APIs().Apply(t.Context(), api.ID, "", api); err != nil || *changes != 0 {
		t.Errorf("the same order again: %d changes, %v", *changes, err)
	}
}

func TestWhatCannotBeAppliedIsNamed(t *testing.T) {
	a, _ := newAdmin(t)
	if _, _, _, err := a.Clients().Apply(t.Context(), "invoices", "", document(t, invoices)); err != nil {
		t.Fatal(err)
	}
	for text, field := range map[string]string{
		`{"name": "x", "colour": "red"}`: "colour",
		`{"name": 7}`:                    "name",
		`{"name": null}`:                 "name",
		`{"require_pkce": null}`:         "require_pkce",
		strings.Replace(invoices, "{", `{"state": "deleted", `, 1):    "state",
		`{"retry_window": "soon"}`:                                    "retry_window",
		strings.Replace(invoices, "an imported", "another", 1):        "client_secret",
		strings.Replace(invoices, "{", `{"id": "billing", `, 1):       "id",
		strings.Replace(invoices, `"name": "Invoices",`, "", 1):       "name",
		strings.Replace(invoices, "https://inv", "http://inv", 1):     "redirect-uri",
		strings.Replace(invoices, "{", `{"auth_method": "none", `, 1): "auth-method",
	} {
		var d adminapi.Client
		err := json.Unmarshal([]byte(text), &d)
		if err == nil {
			_, _, _, err = a.Clients().Apply(t.Context(), "invoices", "", d)
		}
		var invalid *oauth.Invalid
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// New keys with the same names as the old ones are stored: whoever has lost the private
// keys must be able to replace them.
func TestOtherKeysWithTheSameNamesAreStored(t *testing.T) {
	a, changes := newAdmin(t)
	with := func(x string) adminapi.Client {
		return document(t, `{"name": "Signer", "grant_types": ["client_credentials"], "scope": "read", "auth_method": "private_key_jwt",
			"token_endpoint_auth_signing_alg": "EdDSA", "jwks": {"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": "`+x+`"}]}}`)
	}
	const lost, next = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08"
	for _, x := range []string{lost, next, next} {
		*changes = 0
		if _, _, _, err := a.Clients().Apply(t.Context(), "signer", "", with(x)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := a.Clients().Read(t.Context(), "signer")
	if err != nil || !strings.Contains(string(c.Assertion.Keys), next) || *changes != 0 {
		t.Errorf("%s, %d changes for the same keys again, %v", c.Assertion.Keys, *changes, err)
	}
}

// During an upgrade, a node of the previous version must keep members that a newer node
// has stored.
func TestChangesKeepMembersOfLaterVersions(t *testing.T) {
	a, _ := newAdmin(t)
	ctx := t.Context()
	api := adminapi.API{ID: "https://open.example", Name: "Open", SelfRegistered: true, Scopes: []adminapi.APIScope{{Name: "open"}}}
	trust := adminapi.Trust{Issuer: "https://idp.example", Kind: "id-jag", ClientID: "https://agent.example/client.json", APIs: []string{api.ID}}
	madeAPI, err1 := a.APIs().Create(ctx, api)
	madeTrust, err2 := a.Trusts().Create(ctx, trust)
	made, _, _, err3 := a.Clients().Apply(ctx, "invoices", "", document(t, invoices))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	madeAPI.Version, madeTrust.Version, made.Version = 2, 2, 2
	for _, e := range []store.Entry{madeAPI.Entry(), madeTrust.Entry(), made.Entry()} {
		e.Body = append(e.Body[:len(e.Body)-1], `,"later":true}`...)
		if err := a.Store.Commit(ctx, store.Change{Entries: []store.Entry{e}}); err != nil {
			t.Fatal(err)
		}
	}
	api.Name, trust.Tenant = "Opened", "acme"
	_, _, err1 = a.APIs().Apply(ctx, api.ID, "", api)
	_, err2 = a.Trusts().Change(ctx, madeTrust.ID, "", trust)
	_, _, _, err3 = a.Clients().Apply(ctx, "invoices", "", document(t, strings.Replace(invoices, "{", `{"state": "disabled", `, 1)))
	changes, err := a.Store.Changes(ctx, 0)
	if err := errors.Join(err, err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for _, e := range []store.Entry{changes.APIs[0].Entry(), changes.Trusts[0].Entry(), changes.Clients[0].Entry()} {
		if e.Version != 3 || !strings.Contains(string(e.Body), `"later":true`) {
			t.Errorf("version %d is %s", e.Version, e.Body)
		}
	}
	if _, err := a.APIs().Delete(ctx, api.ID, ""); err != nil {
		t.Fatal(err)
	}
	if next, _, err := a.APIs().Apply(ctx, api.ID, "", api); err != nil || strings.Contains(string(next.Entry().Body), "later") {
		t.Errorf("an API that was made again: %s, %v", next.Entry().Body, err)
	}
}
