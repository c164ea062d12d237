package conformance_test

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const challengeBasic = `Www-Authenticate: Basic realm="/api", charset="UTF-8"`

// A badCaller is a request by the client whose authentication must fail.
type badCaller struct {
	name      string
	spoil     func(r *request)
	status    int
	body      string
	challenge string // the complete header line; "" if it must be absent
}

// badCallers returns the defects of client authentication, for a client with a secret.
// The last ones are specific to introspection and revocation.
func badCallers(c, other oauthClient) []badCaller {
	failed := errorBody("invalid_client", "client authentication failed")
	header := func(value string) func(*request) {
		return func(r *request) {
			r.form = with(r.form, "client_id", "", "client_secret", "")
			r.set("Authorization", value)
		}
	}
	set := func(pairs ...string) func(*request) { return func(r *request) { r.form = with(r.form, pairs...) } }
	return []badCaller{
		{"nobody", set("client_id", "", "client_secret", ""), 400, errorBody("invalid_request", "client_id missing"), ""},
		{"an id alone", set("client_secret", ""), 400, failed, ""},
		{"a wrong secret", set("client_secret", "wrong"), 400, failed, ""},
		{"another's secret", set("client_secret", other.secret), 400, failed, ""},
		{"an unknown client", set("client_id", "nobody"), 400, failed, ""},
		{"a wrong secret in the header", header(basicHeader(c.ID, "wrong")), 401, failed, challengeBasic},
		{"an unknown client in the header", header(basicHeader("nobody", "wrong")), 401, failed, challengeBasic},
		{"a malformed header", header("Basic !"), 401, failed, challengeBasic},
		{"another scheme", header("Digest x"), 401, failed, challengeBasic},
		{"two methods", func(r *request) { r.set("Authorization", basicHeader(c.ID, c.secret)) }, 400, errorBody("invalid_request", "more than one client authentication method"), ""},
		{"two clients", func(r *request) {
			header(basicHeader(c.ID, c.secret))(r)
			r.form.Set("client_id", other.ID)
		}, 400, errorBody("invalid_request", "client_id mismatch"), ""},
		{"an assertion", set("client_secret", "", "client_assertion", "x", "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"), 400, failed, ""},
		{"two headers", func(r *request) {
			header(basicHeader(c.ID, c.secret))(r)
			r.header = append(r.header, "Authorization: "+basicHeader(c.ID, c.secret))
		}, 401, failed, challengeBasic},
		// RFC 7662 section 2.3: the challenge names the scheme that the request used.
		{"a made-up bearer token", header("Bearer made-up"), 401, failed, challengeInvalid},
	}
}

func TestIN01_OnlyAnAuthenticatedClientIsAnswered(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	pair, _ := d.tokens(d.a)
	callers := append(badCallers(rs, d.a), badCaller{"the token itself as a bearer token", func(r *request) {
		r.form = with(r.form, "client_id", "", "client_secret", "")
		r.set("Authorization", "Bearer "+pair.AccessToken)
	}, 401, errorBody("invalid_client", "client authentication failed"), challengeInvalid})
	for _, c := range callers {
		for _, token := range []string{pair.AccessToken, "made-up"} {
			r := rs.about(introspectPath, token)
			c.spoil(r)
			a := d.send(r)
			if a.status != c.status || a.body != c.body {
				t.Errorf("%s: %v, want %d %s", c.name, a, c.status, c.body)
			}
			if c.challenge == "" {
				compareHeader(t, a)
			} else {
				compareHeader(t, a, c.challenge)
			}
		}
	}
	basic := rs.about(introspectPath, pair.AccessToken)
	basic.basic(rs.ID, rs.secret)
	if a := d.send(basic); !strings.HasPrefix(a.body, `{"active":true,`) {
		t.Errorf("with Basic: %v", a)
	}
}

func TestCA27_ClientsAuthenticateAtEveryEndpointByTheSameRules(t *testing.T) {
	d := start(t)
	disabled := d.client(client.Registration{})
	disabled = d.change(disabled, func(c *store.Client) { c.State = store.ClientDisabled })
	onlyBasic := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthBasic}})
	callers := badCallers(d.a, d.b)
	callers = append(callers[:len(callers)-1],
		badCaller{name: "a disabled client", spoil: func(r *request) { r.form = disabled.identify(r.form) }},
		badCaller{name: "another method than the registered one", spoil: func(r *request) { r.form = onlyBasic.identify(r.form) }},
	)
	for _, c := range callers {
		at := func(r *request) string {
			r.form = maps.Clone(r.form)
			c.spoil(r)
			return exactly(d.send(r))
		}
		wanted := at(newRequest(d.a.refresh("made-up")))
		for _, path := range []string{introspectPath, revokePath, "/oauth2/token/revoke", "/oauth2/api/introspect"} {
			if got := at(d.a.about(path, "made-up")); got != wanted {
				t.Errorf("%s at %s:\n%s\nwant, as at the token endpoint:\n%s", c.name, path, got, wanted)
			}
		}
	}
}

func TestIN02_APublicClientMayNotAsk(t *testing.T) {
	d := start(t)
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	code := d.code(public, pkce)
	pair := d.mustIssue(d.post(with(public.redeem(code.Code), "code_verifier", verifier)))
	for _, token := range []string{pair.AccessToken, pair.RefreshToken, "made-up"} {
		a := d.introspect(public, token)
		if a.status != http.StatusBadRequest || a.body != errorBody("invalid_client", "client authentication failed") {
			t.Errorf("its own token: %v", a)
		}
		compareHeader(t, a)
	}
	d.wantActive(d.resourceServer(), true, pair.AccessToken)
	// A public client cannot be registered for introspection either.
	_, _, err := client.Registration{Settings: store.Settings{Name: "x", Auth: store.AuthNone, Introspect: true}}.Client(realm, d.ring(), d.issuer.Policy, 1)
	if invalid, ok := err.(*oauth.Invalid); !ok || invalid.Field != "introspect" {
		t.Errorf("a public resource server: %v", err)
	}
}

func TestIN07_RV10_RV16_OnlyAPostedFormIsRead(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	form := d.a.about("", pair.AccessToken).form
	const misplaced = "parameters belong in the request body"
	for _, path := range []string{introspectPath, revokePath, "/oauth2/token/revoke"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			r := newRequest(form)
			r.method, r.target = method, path+"?"+form.Encode()
			a := d.send(r)
			if a.status != http.StatusMethodNotAllowed || method != "HEAD" && a.body != errorBody("invalid_request", "method must be POST") {
				t.Errorf("%s %s: %v", method, path, a)
			}
			a.header["Content-Length"] = []string{"0"} // RFC 9110 section 8.6: optional for HEAD
			compareHeader(t, a, "Allow: POST")
		}
		for name, c := range map[string]struct {
			target string
			form   url.Values
		}{
			"the token":             {path + "?token=" + pair.AccessToken, with(form, "token", "")},
			"the token twice":       {path + "?token=" + pair.AccessToken, form},
			"the secret":            {path + "?client_secret=" + d.a.secret, with(form, "client_secret", "")},
			"JSONP, in the address": {path + "?callback=f&token=x", with(form, "token", "")},
		} {
			r := newRequest(c.form)
			r.target = c.target
			a := d.send(r)
			if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", misplaced) && a.body != errorBody("invalid_request", "parameter repeated") {
				t.Errorf("%s in the query of %s: %v", name, path, a)
			}
			compareHeader(t, a)
		}
	}
	d.wantActive(d.a, true, pair.AccessToken, pair.RefreshToken)
	for _, secret := range []string{pair.AccessToken, d.a.secret} {
		if strings.Contains(d.log.String(), secret) {
			t.Errorf("the log holds a secret of %d characters", len(secret))
		}
	}
}

func TestIN08_RV10_OtherBodiesAreRefused(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	const description = "content type must be application/x-www-form-urlencoded"
	for _, path := range []string{introspectPath, revokePath} {
		for media, body := range map[string]string{
			"application/json":                `{"token":"` + pair.AccessToken + `"}`,
			"multipart/form-data; boundary=b": "--b\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\n" + pair.AccessToken + "\r\n--b--\r\n",
			"text/plain":                      "token=" + pair.AccessToken, "": "token=" + pair.AccessToken,
		} {
			r := d.a.about(path, pair.AccessToken)
			r.set("Content-Type", media)
			r.set("Authorization", basicHeader(d.a.ID, d.a.secret))
			r.body = &body
			a := d.send(r)
			if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", description) {
				t.Errorf("%s at %s: %v", media, path, a)
			}
			compareHeader(t, a)
		}
	}
	d.wantActive(d.a, true, pair.AccessToken)
}

// Checks are in the token endpoint's order: cheap before expensive, public before secret.
// Each request has the defect of its step and those of all later steps.
func TestIN05_RV07_ChecksHaveTheOrderOfTheTokenEndpoint(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.b)
	steps := []struct {
		name   string
		spoil  func(*request)
		status int
		body   string
	}{
		{"method", func(r *request) { r.method = "PUT" }, 405, errorBody("invalid_request", "method must be POST")},
		{"length", func(r *request) { r.form.Set("x", strings.Repeat("x", 65<<10)) }, 413, errorBody("invalid_request", "request too large")},
		{"media type", func(r *request) { r.set("Content-Type", "application/json") }, 400, errorBody("invalid_request", "content type must be application/x-www-form-urlencoded")},
		{"encoding", func(r *request) { r.set("Content-Encoding", "gzip") }, 400, errorBody("invalid_request", "content encoding not supported")},
		{"repetition", func(r *request) { r.form["y"] = []string{"1", "2"} }, 400, errorBody("invalid_request", "parameter repeated")},
		{"realm", func(r *request) { r.target += "?realm=/other" }, 400, errorBody("invalid_request", "unknown realm")},
		{"parameter's length", func(r *request) { r.form.Set("scope", strings.Repeat("s", 1025)) }, 400, errorBody("invalid_request", "parameter too long")},
		{"token", func(r *request) { r.form.Del("token") }, 400, errorBody("invalid_request", "token missing")},
		{"client", func(r *request) { r.form.Set("client_secret", "wrong") }, 400, errorBody("invalid_client", "client authentication failed")},
	}
	for _, path := range []string{introspectPath, revokePath} {
		for i, step := range steps {
			r := d.a.about(path, pair.AccessToken) // another client's token
			r.form = maps.Clone(r.form)
			for j, later := range steps[i:] {
				if later.name == "length" && j > 0 {
					continue // only a declared length is known this early
				}
				later.spoil(r)
			}
			if a := d.send(r); a.status != step.status || a.body != step.body {
				t.Errorf("%s at %s: %v, want %d %s", step.name, path, a, step.status, step.body)
			}
		}
	}
	d.wantActive(d.b, true, pair.AccessToken)
}

// The endpoints exist at each address that clients of OpenAM know; a realm in the query
// must be the configured one.
func TestIN03_RV01_EveryFormOfTheAddress(t *testing.T) {
	d := start(t, func(o *options) { o.BasePath = "/openam" })
	for _, prefix := range []string{"/openam/oauth2/", "/openam/oauth2/api/", "/openam/oauth2/realms/root/realms/api/"} {
		for _, query := range []string{"", "?realm=/api", "?realm=%2Fapi", "?realm=api"} {
			for _, path := range []string{"revoke", "token/revoke"} {
				code := d.code(d.a)
				form := d.a.redeem(code.Code)
				token := newRequest(form)
				token.target = "/openam" + endpoint
				pair := d.mustIssue(d.send(token))
				active := func() string {
					r := d.a.about(prefix+"introspect"+query, pair.RefreshToken)
					return d.send(r).body
				}
				if got := active(); !strings.HasPrefix(got, `{"active":true,`) {
					t.Errorf("%sintrospect%s: %s", prefix, query, got)
				}
				if a := d.send(d.a.about(prefix+path+query, pair.RefreshToken)); a.status != http.StatusOK || a.body != `{}` {
					t.Errorf("%s%s%s: %v", prefix, path, query, a)
				}
				if got := active(); got != inactive {
					t.Errorf("%sintrospect%s after the revocation: %s", prefix, query, got)
				}
			}
		}
		for _, query := range []string{"?realm=/other", "?realm=/api&realm=/api", "?realm=/API"} {
			for _, path := range []string{"introspect", "revoke"} {
				a := d.send(d.a.about(prefix+path+query, "x"))
				if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", "unknown realm") {
					t.Errorf("%s%s%s: %v", prefix, path, query, a)
				}
			}
		}
	}
	for _, path := range []string{"/oauth2/introspect", "/openam/oauth2/introspect/", "/openam/oauth2//introspect", "/openam/oauth2/other/introspect", "/openam/oauth2/Introspect"} {
		if a := d.send(d.a.about(path, "x")); a.status != http.StatusNotFound || a.header["Location"] != nil {
			t.Errorf("%s: %v", path, a)
		}
	}
}

// Failed authentications at introspection and revocation count together with those at the
// token endpoint.
func TestIN01_RV05_GuessingIsThrottledTogether(t *testing.T) {
	d := start(t, func(o *options) { o.ClientFailures = 3 })
	from := local()
	try := func(r *request, status int) {
		t.Helper()
		if a := d.sendFrom(from, r); a.status != status {
			t.Errorf("got %v, want %d", a, status)
		}
	}
	for _, path := range []string{introspectPath, revokePath, endpoint} {
		r := d.a.about(path, "x")
		if path == endpoint {
			r = newRequest(d.a.refresh("x"))
		}
		r.form.Set("client_secret", base64.StdEncoding.EncodeToString([]byte(path)))
		try(r, 400)
	}
	for _, path := range []string{introspectPath, revokePath} {
		try(d.a.about(path, "x"), http.StatusTooManyRequests)
	}
	if a := d.introspect(d.a, "x"); a.body != inactive {
		t.Errorf("from elsewhere: %v", a)
	}
}
