package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const address = "https://agent.example/client.json"

// oneKeySet is the key of RFC 7517 appendix A.1.
const oneKeySet = `{"keys":[{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","kid":"1"}]}`

func TestDocumentsOfAgents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want client.Document
	}{
		"Claude Code": {`{"client_id":"https://agent.example/client.json","client_name":"Claude Code","client_uri":"https://claude.ai","redirect_uris":["http://localhost/callback","http://127.0.0.1/callback"],
			"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`,
			client.Document{Name: "Claude Code", RedirectURIs: []string{"http://localhost/callback", "http://127.0.0.1/callback"}, Auth: store.AuthNone}},
		"ChatGPT: two methods": {`{"client_id":"https://agent.example/client.json","client_name":"ChatGPT","redirect_uris":["https://chatgpt.com/connector_platform_oauth_redirect"],
			"token_endpoint_auth_method":"private_key_jwt","token_endpoint_auth_methods_supported":["none","private_key_jwt"],"jwks_uri":"https://chatgpt.com/jwks.json","x":{"y":null}}`,
			client.Document{Name: "ChatGPT", RedirectURIs: []string{"https://chatgpt.com/connector_platform_oauth_redirect"}, Auth: store.AuthNoneOrJWT, KeysURI: "https://chatgpt.com/jwks.json"}},
		"private_key_jwt alone": {`{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_method":"private_key_jwt","token_endpoint_auth_signing_alg":"PS256","jwks_uri":"https://a.example/jwks"}`,
			client.Document{Name: "agent.example", RedirectURIs: []string{"https://a.example/cb"}, Auth: store.AuthPrivateKeyJWT, KeysURI: "https://a.example/jwks", Alg: "PS256"}},
		"none, and keys that cannot be fetched": {`{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_methods_supported":["none","private_key_jwt"],"jwks_uri":"http://a.example/jwks"}`,
			client.Document{Name: "agent.example", RedirectURIs: []string{"https://a.example/cb"}, Auth: store.AuthNone}},
		"none, and an unknown algorithm": {`{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_methods_supported":["none","private_key_jwt"],"token_endpoint_auth_signing_alg":"HS256","jwks_uri":"https://a.example/jwks"}`,
			client.Document{Name: "agent.example", RedirectURIs: []string{"https://a.example/cb"}, Auth: store.AuthNone}},
		"Cursor: redirect URIs of which some are accepted": {`{"client_id":"https://agent.example/client.json","client_name":"Cursor","redirect_uris":["http://192.168.1.2/cb","cursor://anysphere.cursor-mcp/oauth/callback","javascript:alert(1)",7,"https://www.cursor.com/agents/mcp/oauth/callback"]}`,
			client.Document{Name: "Cursor", RedirectURIs: []string{"cursor://anysphere.cursor-mcp/oauth/callback", "https://www.cursor.com/agents/mcp/oauth/callback"}, Auth: store.AuthNone}},
		"keys in the document": {`{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_method":"private_key_jwt","jwks":` + oneKeySet + `}`,
			client.Document{Name: "agent.example", RedirectURIs: []string{"https://a.example/cb"}, Auth: store.AuthPrivateKeyJWT, KeysURI: address}},
		"jwks of null": {`{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_method":"private_key_jwt","jwks":null,"jwks_uri":"https://a.example/jwks"}`,
			client.Document{Name: "agent.example", RedirectURIs: []string{"https://a.example/cb"}, Auth: store.AuthPrivateKeyJWT, KeysURI: "https://a.example/jwks"}},
		"none, and keys in two places": {`{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_methods_supported":["none","private_key_jwt"],"jwks_uri":"https://a.example/jwks","jwks":` + oneKeySet + `}`,
			client.Document{Name: "agent.example", RedirectURIs: []string{"https://a.example/cb"}, Auth: store.AuthNone}},
		"none, and jwks without a key": {`{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_methods_supported":["none","private_key_jwt"],"jwks":{"keys":[]}}`,
			client.Document{Name: "agent.example", RedirectURIs: []string{"https://a.example/cb"}, Auth: store.AuthNone}},
		"no name":        {`{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"]}`, client.Document{Name: "agent.example", RedirectURIs: []string{"https://a.example/cb"}, Auth: store.AuthNone}},
		"a name of null": {`{"client_id":"https://agent.example/client.json","client_name":null,"redirect_uris":["https://a.example/cb"]}`, client.Document{Name: "agent.example", RedirectURIs: []string{"https://a.example/cb"}, Auth: store.AuthNone}},
	} {
		got, err := client.ReadDocument(address, []byte(c.body))
		if err != nil || got.Name != c.want.Name || got.Auth != c.want.Auth || got.KeysURI != c.want.KeysURI || got.Alg != c.want.Alg || !slices.Equal(got.RedirectURIs, c.want.RedirectURIs) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	many := fmt.Sprintf(`{"client_id":%q,"redirect_uris":["https://a.example/cb"%s]}`, address, strings.Repeat(`,"https://a.example/cb"`, 500))
	if got, err := client.ReadDocument(address, []byte(many)); err != nil || len(got.RedirectURIs) != 20 {
		t.Errorf("%d redirect URIs, %v", len(got.RedirectURIs), err)
	}
}

func TestInvalidClientDocumentsAreRejected(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"another's":                 `{"client_id":"https://agent.example/other.json","redirect_uris":["https://a.example/cb"]}`,
		"its address in other case": `{"client_id":"https://AGENT.example/client.json","redirect_uris":["https://a.example/cb"]}`,
		"nobody's":                  `{"redirect_uris":["https://a.example/cb"]}`,
		"no redirect URI":           `{"client_id":"https://agent.example/client.json"}`,
		"none that is accepted":     `{"client_id":"https://agent.example/client.json","redirect_uris":["http://a.example/cb","data:x","https://a.example/#"]}`,
		"a secret":                  `{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_method":"client_secret_basic"}`,
		"keys without an address":   `{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_method":"private_key_jwt"}`,
		"keys that are too many":    `{"client_id":"https://agent.example/client.json","redirect_uris":["https://a.example/cb"],"token_endpoint_auth_method":"private_key_jwt","jwks":{"keys":[` + strings.Repeat(oneKeySet[9:len(oneKeySet)-2]+",", 10) + oneKeySet[9:len(oneKeySet)-2] + `]}}`,
		"another type":              `{"client_id":"https://agent.example/client.json","redirect_uris":"https://a.example/cb"}`,
		"a list":                    `[]`,
	} {
		if got, err := client.ReadDocument(address, []byte(body)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNamesThatClientsGiveThemselves(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Agent": "Agent", " Agent ": "Agent", "エージェント": "エージェント", "": "agent.example", "   ": "agent.example", "a\nb": "agent.example",
		"evil\u202egnp": "agent.example", "zero\u200bwidth": "agent.example", "\u2066x": "agent.example", "x❞ is checked. ❝y": "agent.example", "x🙷 y": "agent.example", "x˶ y": "agent.example",
		"\u3164": "agent.example", "\u2800\u2800": "agent.example", strings.Repeat("x", 101): "agent.example", "a\x00": "agent.example",
		"A" + strings.Repeat("\u0489", 59): "agent.example", "A\u0301\u0301": "agent.example", "A\u0300\u0301\u0302\u0303\u0304": "agent.example", strings.Repeat("\u0301\u0336", 28): "agent.example",
		"Tie\u0302\u0301ng Vie\u0323\u0302t": "Tie\u0302\u0301ng Vie\u0323\u0302t", "ที่นี่": "ที่นี่", "שִׁ֣מְעָה": "שִׁ֣מְעָה", "हिन्दी": "हिन्दी", "မြန်မာ": "မြန်မာ",
	} {
		if got := client.OwnName(name, address); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestWhichAddressesAreAdmitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		admitted []string
		id       string
		want     bool
	}{
		{nil, address, false},
		{[]string{"any"}, address, true},
		{[]string{"any"}, "agent", false},
		{[]string{"any"}, "https://agent.example/a/../client.json", false},
		{[]string{"agent.example"}, address, true},
		{[]string{"agent.example"}, "https://agent.example:8443/client.json", false},
		{[]string{"agent.example:8443"}, "https://agent.example:8443/client.json", true},
		{[]string{"agent.example"}, "https://sub.agent.example/client.json", false},
		{[]string{"agent.example"}, "https://agent.example.evil.example/client.json", false},
		{[]string{"other.example", address}, address, true},
		{[]string{address}, address + "x", false},
		{[]string{address}, "https://agent.example/other.json", false},
	} {
		d := client.Documents{Admitted: c.admitted, Any: "any"}
		if got := d.Admits(c.id); got != c.want {
			t.Errorf("%q admits %s: %t", c.admitted, c.id, got)
		}
	}
}

func TestTheClientOfADocument(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	var err error
	d := client.Documents{Realm: "/api", Now: time.Now, Fetch: func(context.Context, string, netip.Prefix) (client.Document, error) {
		return client.Document{Name: "Agent", Auth: store.AuthNone, RedirectURIs: []string{"https://agent.example/cb", "http://localhost/callback"}}, err
	}}
	for sent, want := range map[string]string{
		"https://agent.example/cb": "https://agent.example/cb", "http://localhost:3118/callback": "http://localhost/callback", "http://localhost/callback": "http://localhost/callback",
		"https://agent.example/cb/": "", "http://127.0.0.1/callback": "", "https://agent.example:8443/cb": "",
	} {
		c, err := d.Client(t.Context(), address, sent, netip.Prefix{})
		if want == "" && !errors.Is(err, oauth.ErrRedirectMismatch) || want != "" && (err != nil || !slices.Equal(c.RedirectURIs, []string{want}) || !c.SelfRegistered() || !c.RequiresPKCE() || c.FirstParty || !c.Public() || c.MayUse(store.GrantClientCredentials) || slices.Contains(c.GrantTypes, store.GrantClientCredentials)) {
			t.Errorf("%s: %+v, %v", sent, c, err)
		}
	}
	if err = gone; true {
		if _, err := d.Client(t.Context(), address, "https://agent.example/cb", netip.Prefix{}); !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
	}
}

func TestDocumentsThatBindTokens(t *testing.T) {
	for member, want := range map[string]bool{``: false, `,"dpop_bound_access_tokens":true`: true, `,"dpop_bound_access_tokens":false`: false} {
		d, err := client.ReadDocument(address, []byte(`{"client_id":"`+address+`","redirect_uris":["https://agent.example/cb"]`+member+`}`))
		if err != nil || d.Bound != want {
			t.Errorf("%s: %t, %v", member, d.Bound, err)
		}
		docs := &client.Documents{Realm: "/api", Now: time.Now, Fetch: func(context.Context, string, netip.Prefix) (client.Document, error) { return d, nil }}
		c, err := docs.Client(t.Context(), address, "https://agent.example/cb", netip.Prefix{})
		if err != nil || (c.DPoP == store.DPoPRequired) != want {
			t.Errorf("%s: %+v, %v", member, c, err)
		}
	}
}

// TestGrantTypesOfADocument: RFC 7591 section 2. Unlike with registration, there is no
// response that could tell the client of more grant types than it listed.
func TestGrantTypesOfADocument(t *testing.T) {
	t.Parallel()
	const code, refresh, device = store.GrantAuthorizationCode, store.GrantRefreshToken, store.GrantDeviceCode
	for members, want := range map[string][]string{
		``:                       {code, refresh},
		`"grant_types":null,`:    {code, refresh},
		`"grant_types":[],`:      {code, refresh},
		`"response_types":null,`: {code, refresh},
		`"grant_types":["refresh_token","authorization_code"],"response_types":["token","code"],`: {code, refresh},
		`"grant_types":["authorization_code"],`:                                                   {code},
		`"grant_types":["` + device + `","refresh_token"],`:                                       {refresh, device},
		`"grant_types":["refresh_token"],`:                                                        {refresh},
		`"grant_types":["client_credentials"],`:                                                   {},
		`"grant_types":["implicit",7],`:                                                           {},
		`"response_types":["token"],`:                                                             {refresh},
		`"grant_types":["authorization_code"],"response_types":["code id_token"],`:                {},
	} {
		d, err := client.ReadDocument(address, []byte(`{`+members+`"client_id":"`+address+`","redirect_uris":["https://agent.example/cb"]}`))
		if err != nil || d.GrantTypes == nil || !slices.Equal(d.GrantTypes, want) {
			t.Errorf("%s: %q, %v", members, d.GrantTypes, err)
			continue
		}
		docs := &client.Documents{Realm: "/api", Now: time.Now, Fetch: func(context.Context, string, netip.Prefix) (client.Document, error) { return d, nil }}
		c, err := docs.Client(t.Context(), address, "https://agent.example/cb", netip.Prefix{})
		if err != nil || c.GrantTypes == nil || !slices.Equal(c.GrantTypes, want) {
			t.Errorf("%s: %+v, %v", members, c, err)
		}
	}
}
