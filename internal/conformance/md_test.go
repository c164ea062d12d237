package conformance_test

import (
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	metadataPath = "/.well-known/oauth-authorization-server/oauth2/api"
	keysPath     = "/oauth2/jwks"
)

// fetch sends a request without a body. Each header is a complete line.
func (d *deployment) fetch(method, path string, header ...string) (resp *http.Response, body string) {
	d.t.Helper()
	if d.kept == nil {
		d.kept = d.httpClient()
	}
	r, err := http.NewRequest(method, "https://"+d.address+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Add(name, value); name == "Host" {
			r.Host = value
		}
	}
	if resp, err = d.kept.Do(r); err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp, string(text)
}

func (d *deployment) metadata() map[string]any {
	d.t.Helper()
	resp, body := d.fetch("GET", metadataPath)
	if resp.StatusCode != 200 {
		d.t.Fatalf("metadata: %d", resp.StatusCode)
	}
	return members(d.t, body)
}

// list returns a metadata member that must be a list of strings.
func list(t *testing.T, m map[string]any, name string) (texts []string) {
	t.Helper()
	values, ok := m[name].([]any)
	if !ok {
		t.Errorf("%s is %v, want a list", name, m[name])
	}
	for _, v := range values {
		text, ok := v.(string)
		if !ok {
			t.Errorf("%s has the item %v", name, v)
		}
		texts = append(texts, text)
	}
	return texts
}

// at returns the path of a metadata endpoint on this deployment.
func (d *deployment) at(name string) string {
	d.t.Helper()
	address, ok := d.metadata()[name].(string)
	path, ours := strings.CutPrefix(address, publicURL)
	if !ok || !ours {
		d.t.Fatalf("%s is %q", name, address)
	}
	return path
}

func TestMD01_MetadataIsJSONAndNamesTheIssuer(t *testing.T) {
	d := start(t)
	resp, body := d.fetch("GET", metadataPath)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	if !strings.Contains(body, `"issuer":"`+issuerID+`"`) {
		t.Errorf("the issuer is not %s, byte for byte: %s", issuerID, body)
	}
}

func TestMD02_MetadataIsBeforeTheIssuersPathOrAfterIt(t *testing.T) {
	d := start(t)
	_, want := d.fetch("GET", metadataPath)
	for _, path := range []string{
		"/.well-known/openid-configuration/oauth2/api", "/oauth2/api/.well-known/openid-configuration",
		"/oauth2/.well-known/openid-configuration", "/oauth2/.well-known/openid-configuration?realm=/api",
		// Some clients append RFC 8414's suffix to the issuer, others use only the host.
		"/oauth2/api/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration",
	} {
		if resp, body := d.fetch("GET", path); resp.StatusCode != 200 || body != want {
			t.Errorf("%s: %d, and not the same document", path, resp.StatusCode)
		}
	}
}

func TestMD03_AnIssuerIsAnHTTPSAddressWithoutQueryAndFragment(t *testing.T) {
	d := start(t)
	u, err := url.Parse(d.metadata()["issuer"].(string))
	if err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		t.Errorf("issuer %v: %v", u, err)
	}
	c := config.Default()
	c.PublicURL, c.TLS = publicURL, config.TLS{Cert: "cert.pem", Key: "key.pem"}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"http://auth.example/oauth2/api", publicURL + "/oauth2?realm=/api", publicURL + "/oauth2?", publicURL + "/x#api", publicURL + "/x/", "auth.example"} {
		bad := c
		bad.Issuer = id
		if err := bad.Check(); err == nil || !strings.HasPrefix(err.Error(), "issuer: ") {
			t.Errorf("issuer %s: %v", id, err)
		}
	}
}

func TestMD04_NothingInADocumentComesFromTheRequest(t *testing.T) {
	for name, choose := range map[string]func(*options){
		"from anybody":          func(*options) {},
		"from a declared proxy": func(o *options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} },
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, choose)
			for _, path := range []string{metadataPath, "/oauth2/.well-known/openid-configuration", keysPath, "/oauth2/revocations"} {
				_, want := d.fetch("GET", path)
				for _, header := range [][]string{
					{"Host: evil.example"}, {"X-Forwarded-Host: evil.example"}, {"X-Forwarded-Proto: http"}, {"Forwarded: host=evil.example;proto=http"},
					{"X-Forwarded-Prefix: /evil"}, {"X-Forwarded-Port: 1"}, {"X-Original-URL: /evil"}, {"Accept: text/html"}, {"Accept-Language: de"},
					{"Host: evil.example", "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: http"},
				} {
					if resp, body := d.fetch("GET", path, header...); resp.StatusCode != 200 || body != want {
						t.Errorf("%s with %v: %d, another document", path, header, resp.StatusCode)
					}
				}
			}
		})
	}
}

// Some clients fail without scopes_supported. It lists a scope as long as an enabled
// client may request it.
func TestMD14_TheScopesAreThoseThatClientsMayAskFor(t *testing.T) {
	d := start(t)
	named := func(want ...string) {
		t.Helper()
		if got := list(t, d.metadata(), "scopes_supported"); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	named("a", "b", "c")
	more := d.client(client.Registration{Settings: store.Settings{Scope: "b payments.read"}})
	named("a", "b", "c", "payments.read")
	d.client(client.Registration{Settings: store.Settings{Scope: "internal", GrantTypes: []string{"refresh_token"}}})
	named("a", "b", "c", "payments.read")
	more = d.change(more, func(c *store.Client) { c.Scope = "payments.write" })
	named("a", "b", "c", "payments.write")
	d.change(more, func(c *store.Client) { c.State = store.ClientDisabled })
	named("a", "b", "c")

	chosen := start(t, alone, func(o *options) { o.ScopesSupported = []string{"b"} })
	if got := list(t, chosen.metadata(), "scopes_supported"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("%q, want what was configured", got)
	}
}

func TestMD05_MD10_MD15_EveryWayToAuthenticateIsNamedAndWorks(t *testing.T) {
	d := start(t)
	m := d.metadata()
	type way struct {
		oauthClient
		prove func(*request) // adds the client's credentials
	}
	inForm := func(c oauthClient) way { return way{c, func(r *request) { c.identify(r.form) }} }
	basic, signing := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthBasic}}), d.assertingClient(nil)
	ways := map[string]way{
		"client_secret_basic": {basic, func(r *request) { r.basic(basic.ID, basic.secret) }},
		"client_secret_post":  inForm(d.client(client.Registration{Settings: store.Settings{Auth: store.AuthPost}})),
		"private_key_jwt":     {signing.oauthClient, func(r *request) { r.form = signing.with(signing.assert(nil), r.form) }},
		"none":                inForm(d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone, NoPKCE: true}})),
	}
	all := slices.Sorted(maps.Keys(ways))
	confidential := slices.DeleteFunc(slices.Clone(all), func(method string) bool { return method == "none" })
	for endpoint, methods := range map[string][]string{"token": all, "introspection": confidential, "revocation": all} {
		if got := slices.Sorted(slices.Values(list(t, m, endpoint+"_endpoint_auth_methods_supported"))); !slices.Equal(got, methods) {
			t.Errorf("%s: %q, want %q", endpoint, got, methods)
		}
		// RFC 8414 section 2 requires this member with private_key_jwt.
		if got := list(t, m, endpoint+"_endpoint_auth_signing_alg_values_supported"); !slices.Equal(got, assertionAlgorithms) {
			t.Errorf("%s: algorithms %q, want %q", endpoint, got, assertionAlgorithms)
		}
	}
	token, introspection, revocation := d.at("token_endpoint"), d.at("introspection_endpoint"), d.at("revocation_endpoint")
	for method, w := range ways {
		send := func(path string, form url.Values) answer {
			r := newRequest(form)
			r.target = path
			w.prove(r)
			return d.send(r)
		}
		pair := d.mustIssue(send(token, url.Values{"grant_type": {"authorization_code"}, "code": {d.challengedCode(w.oauthClient)}, "redirect_uri": {redirect}, "code_verifier": {verifier}}))
		about := url.Values{"token": {pair.RefreshToken}}
		asked := send(introspection, about)
		if method == "none" {
			want(t, asked, 400, "invalid_client")
		} else if asked.status != 200 || !strings.HasPrefix(asked.body, `{"active":true,`) {
			t.Errorf("introspection by %s: %v", method, asked)
		}
		if a := send(revocation, about); a.status != 200 {
			t.Errorf("revocation by %s: %v", method, a)
		}
		want(t, send(token, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {pair.RefreshToken}}), 400, "invalid_grant")
	}
}

// challengedCode issues a code whose redemption needs the verifier.
func (d *deployment) challengedCode(c oauthClient) string {
	d.t.Helper()
	return d.code(c, func(a *issuer.Authorization) { a.Challenge = challenge }).Code
}

func TestMD06_TR34_TheGrantTypesAreThoseOfTheTokenEndpoint(t *testing.T) {
	d := start(t)
	if got := list(t, d.metadata(), "grant_types_supported"); !slices.Equal(got, []string{"authorization_code", "refresh_token", "client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:grant-type:jwt-bearer"}) {
		t.Errorf("%q", got)
	}
	pair, _ := d.tokens(d.a)
	d.alive(d.a, pair.RefreshToken)
	for _, other := range []string{"implicit", "password", "urn:ietf:params:oauth:grant-type:device_code"} {
		want(t, d.post(d.a.identify(url.Values{"grant_type": {other}})), 400, "unsupported_grant_type")
	}
}

func TestMD07_TheResponseTypeIsCode(t *testing.T) {
	d := start(t)
	m := d.metadata()
	if got := list(t, m, "response_types_supported"); !slices.Equal(got, []string{"code"}) {
		t.Errorf("response types %q", got)
	}
	if got := list(t, m, "response_modes_supported"); !slices.Equal(got, []string{"query"}) {
		t.Errorf("response modes %q", got)
	}
}

func TestMD08_TheChallengeMethodIsS256(t *testing.T) {
	d := start(t)
	if got := list(t, d.metadata(), "code_challenge_methods_supported"); !slices.Equal(got, []string{"S256"}) {
		t.Errorf("%q", got)
	}
	form := d.a.redeem(d.challengedCode(d.a))
	want(t, d.post(with(form, "code_verifier", challenge)), 400, "invalid_grant") // would be right for method "plain"
	d.mustIssue(d.post(with(form, "code_verifier", verifier)))
}

func TestMD09_TheCallbackNamesTheIssuerAsTheDocumentSays(t *testing.T) {
	d := start(t)
	if flag := d.metadata()["authorization_response_iss_parameter_supported"]; flag != true {
		t.Errorf("the flag is %v", flag)
	}
	for _, to := range []string{redirect, otherRedirect} {
		code := d.code(d.a, func(a *issuer.Authorization) { a.RedirectURI = to })
		sep := "?"
		if strings.Contains(to, "?") {
			sep = "&"
		}
		if want := to + sep + "code=" + code.Code + "&iss=https%3A%2F%2Fauth.example%2Foauth2%2Fapi"; code.CallbackURL() != want {
			t.Errorf("the callback to %s is not followed by code and iss alone", to)
		}
		u, err := url.Parse(code.CallbackURL())
		if err != nil || len(u.Query()["iss"]) != 1 || u.Query().Get("iss") != issuerID {
			t.Errorf("iss %q: %v", u.Query()["iss"], err)
		}
	}
}

func TestMD11_NoMemberIsEmptyOrNull(t *testing.T) {
	d := start(t)
	for name, value := range d.metadata() {
		switch v := value.(type) {
		case nil:
			t.Errorf("%s is null", name)
		case string:
			if v == "" {
				t.Errorf("%s is empty", name)
			}
		case []any:
			if len(v) == 0 {
				t.Errorf("%s has no items", name)
			}
		}
	}
}

func TestMD12_EveryEndpointOfTheDocumentIsThere(t *testing.T) {
	d := start(t)
	endpoints := 0
	for name, value := range d.metadata() {
		if !strings.HasSuffix(name, "_endpoint") && !strings.HasSuffix(name, "_uri") {
			continue
		}
		endpoints++
		if address := value.(string); !strings.HasPrefix(address, "https://") || strings.Contains(address, "#") {
			t.Errorf("%s is %s", name, address)
		}
		resp, _ := d.fetch("GET", d.at(name))
		if status := map[bool]int{true: 405, false: 200}[strings.HasSuffix(name, "_endpoint")]; resp.StatusCode != status {
			t.Errorf("GET of %s: %d, want %d", name, resp.StatusCode, status)
		}
	}
	if endpoints < 5 {
		t.Errorf("%d endpoints", endpoints)
	}
	if at := d.at("token_endpoint"); at != "/oauth2/api/access_token" {
		t.Errorf("token endpoint at %s", at)
	}
}

// types are the members' types by RFC 8414 section 2, RFC 9207 section 3 and RFC 9701
// section 7. One member is an extension of Mintage.
var types = map[string]string{
	"issuer": "url", "token_endpoint": "url", "jwks_uri": "url", "introspection_endpoint": "url", "revocation_endpoint": "url", "revocations_uri": "url",
	"scopes_supported": "list", "grant_types_supported": "list", "response_types_supported": "list", "response_modes_supported": "list", "code_challenge_methods_supported": "list",
	"token_endpoint_auth_methods_supported": "list", "introspection_endpoint_auth_methods_supported": "list", "revocation_endpoint_auth_methods_supported": "list",
	"token_endpoint_auth_signing_alg_values_supported": "list", "introspection_endpoint_auth_signing_alg_values_supported": "list", "revocation_endpoint_auth_signing_alg_values_supported": "list",
	"dpop_signing_alg_values_supported": "list", "introspection_signing_alg_values_supported": "list", "authorization_response_iss_parameter_supported": "bool",
	"identity_chaining_requested_token_types_supported": "list",
	"authorization_grant_profiles_supported":            "list",
}

func TestMD13_MD14_EveryMemberIsKnownAndOfItsType(t *testing.T) {
	d := start(t)
	m := d.metadata()
	for name, value := range m {
		switch types[name] {
		case "url":
			text, _ := value.(string)
			if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Host == "" {
				t.Errorf("%s is %v", name, value)
			}
		case "list":
			items := list(t, m, name)
			if !slices.Equal(slices.Compact(slices.Sorted(slices.Values(items))), slices.Sorted(slices.Values(items))) {
				t.Errorf("%s names something twice: %q", name, items)
			}
		case "bool":
			if _, ok := value.(bool); !ok {
				t.Errorf("%s is %v", name, value)
			}
		default:
			t.Errorf("%s is not a member that is known", name)
		}
	}
	if len(m) != len(types) {
		t.Errorf("%d members, want %d", len(m), len(types))
	}
}

func TestMD20_NoTokenNamesAnAddressForItsKey(t *testing.T) {
	d := start(t)
	c, rs := d.jwtClient(), d.resourceServer()
	pair, _ := d.tokens(c)
	_, list := d.fetch("GET", "/oauth2/revocations")
	signed := map[string]string{
		"an access token":        pair.AccessToken,
		"a list of revocations":  list,
		"an introspection":       d.introspect(rs, pair.AccessToken, "Accept: application/token-introspection+jwt").body,
		"a phantom access token": d.introspect(rs, pair.AccessToken, "Accept: application/jwt").body,
	}
	for name, text := range signed {
		first, _, _ := strings.Cut(text, ".")
		header, err := base64.RawURLEncoding.DecodeString(first)
		if err != nil {
			t.Fatal(err)
		}
		if names := slices.Sorted(maps.Keys(members(t, string(header)))); !slices.Equal(names, []string{"alg", "kid", "typ"}) {
			t.Errorf("%s has the header %q", name, names)
		}
	}
}

func TestMD21_DocumentsAreKeptForAWhileAndReadByAnyOrigin(t *testing.T) {
	d := start(t)
	for path, seconds := range map[string]string{metadataPath: "300", keysPath: "3600", "/oauth2/revocations": "5"} {
		resp, _ := d.fetch("GET", path, "Origin: https://elsewhere.example")
		h := resp.Header
		if h.Get("Cache-Control") != "public, max-age="+seconds || !regexp.MustCompile(`^"[\w-]+"$`).MatchString(h.Get("ETag")) || h["Pragma"] != nil {
			t.Errorf("%s: %v", path, h)
		}
		if h.Get("Access-Control-Allow-Origin") != "*" || h["Access-Control-Allow-Credentials"] != nil {
			t.Errorf("%s: %v", path, h)
		}
		again, body := d.fetch("GET", path, "If-None-Match: "+h.Get("ETag"))
		if again.StatusCode != 304 || body != "" || again.Header.Get("ETag") != h.Get("ETag") || again.Header.Get("Cache-Control") != h.Get("Cache-Control") {
			t.Errorf("%s again: %d %v", path, again.StatusCode, again.Header)
		}
		head, body := d.fetch("HEAD", path)
		if head.StatusCode != 200 || body != "" || head.Header.Get("ETag") != h.Get("ETag") || head.ContentLength != resp.ContentLength {
			t.Errorf("HEAD %s: %d %v", path, head.StatusCode, head.Header)
		}
	}
}

func TestMD22_DocumentsAreOnlyRead(t *testing.T) {
	d := start(t)
	for _, path := range []string{metadataPath, keysPath, "/oauth2/connect/jwk_uri", keysPath + "/x.pem", "/oauth2/revocations"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			resp, body := d.fetch(method, path)
			if resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" || members(t, body)["error"] != "invalid_request" || resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %s: %d %v %s", method, path, resp.StatusCode, resp.Header, body)
			}
		}
	}
}

func TestMD23_AnotherIssuersDocumentIsNotThere(t *testing.T) {
	d := start(t)
	for _, path := range []string{
		"/.well-known/oauth-authorization-server/", "/.well-known/oauth-authorization-server/oauth2/evil-realm",
		"/.well-known/oauth-authorization-server/oauth2/api/", "/.well-known/openid-configuration/", "/oauth2/evil-realm/.well-known/openid-configuration",
		"/oauth2/realms/root/realms/evil-realm/jwks",
	} {
		resp, body := d.fetch("GET", path)
		if resp.StatusCode != 404 || strings.Contains(body, "evil") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
		if body != "" && members(t, body)["error"] != string(oauth.InvalidRequest) {
			t.Errorf("%s: %s", path, body)
		}
	}
}
