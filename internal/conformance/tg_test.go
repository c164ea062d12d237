package conformance_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

func TestTG01_SuccessHasAllMembers(t *testing.T) {
	d := start(t)
	check := func(a answer, scope string) tokens {
		t.Helper()
		if a.status != http.StatusOK {
			t.Fatalf("got %v", a)
		}
		compareHeader(t, a)
		// The members are in OpenAM's order.
		shape := regexp.MustCompile(`^\{"scope":"` + scope + `","expires_in":300,"token_type":"Bearer",` +
			`"refresh_token":"mintage_rt_[A-Za-z0-9_-]+","access_token":"mintage_at_[A-Za-z0-9_-]+"\}$`)
		if !shape.MatchString(a.body) {
			t.Errorf("the body of a success has another shape (%d bytes)", len(a.body))
		}
		return a.tokens
	}
	first := check(d.post(d.a.redeem(d.code(d.a).Code)), "a b c")
	check(d.post(d.a.refresh(first.RefreshToken)), "a b c")
}

func TestTG02_ErrorAnswersForbidCaching(t *testing.T) {
	d := start(t, func(o *options) { o.ClientFailures = 2 })
	code := d.code(d.a).Code
	bad := with(d.a.redeem(code), "client_secret", "wrong")
	bare := newRequest(nil)
	bare.method, bare.target = http.MethodGet, "/oauth2/access_token"
	large := newRequest(url.Values{"x": {strings.Repeat("x", 70_000)}})
	lost := newRequest(nil)
	lost.target = "/oauth2/nothing"
	basic := newRequest(d.a.redeem(code))
	basic.basic(d.a.ID, "wrong")
	check := func(a answer, status int) {
		t.Helper()
		if a.status != status {
			t.Errorf("status %d, want %d", a.status, status)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "Pragma": "no-cache"} {
			if got := a.header[name]; !slices.Equal(got, []string{value}) {
				t.Errorf("%d: %s is %q", status, name, got)
			}
		}
		if a.Error == "" || a.Description == "" {
			t.Errorf("%d: the body names no error: %s", status, a.body)
		}
	}
	check(d.send(bare), 405)
	check(d.send(large), 413)
	check(d.send(lost), 404)
	check(d.send(basic), 401)
	from := local()
	for range 2 {
		check(d.sendFrom(from, newRequest(bad)), 400)
	}
	check(d.sendFrom(from, newRequest(bad)), 429)
}

func TestTG03_TG04_OnlyPOSTIsServed(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	for _, m := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		r := newRequest(good)
		r.method = m
		r.target += "&" + good.Encode()
		r.set("X-HTTP-Method-Override", "POST")
		r.form.Set("_method", "POST")
		a := d.send(r)
		if a.status != http.StatusMethodNotAllowed || !slices.Equal(a.header["Allow"], []string{"POST"}) {
			t.Errorf("%s: %d, Allow %q", m, a.status, a.header["Allow"])
		}
	}
	d.mustIssue(d.post(good))
}

func TestTG05_ParametersInTheQueryAreRefused(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	r := newRequest(nil)
	r.target += "&" + good.Encode()
	want(t, d.send(r), 400, "invalid_request")
	d.mustIssue(d.post(good))
}

// compat.query_parameters accepts parameters in the query, for clients that need that. A
// parameter must still be sent only once.
func TestTG05_TheCompatibilitySwitchAcceptsParametersInTheQuery(t *testing.T) {
	d := start(t, func(o *options) { o.QueryParameters = true })
	good := d.a.redeem(d.code(d.a).Code)
	r := newRequest(good)
	r.target += "&client_id=" + d.a.ID
	want(t, d.send(r), 400, "invalid_request") // a parameter in both places
	r = newRequest(nil)
	r.target += "&" + good.Encode()
	r.target = endpoint + "&" + d.a.redeem(d.code(d.a).Code).Encode()
	r.set("Content-Type", "")
	d.mustIssue(d.send(r)) // without a body, no Content-Type is needed
	r = newRequest(good)
	r.set("Content-Type", "")
	want(t, d.send(r), 400, "invalid_request")
	if strings.Contains(d.log.String(), d.a.secret) {
		t.Error("the log holds the secret of the query")
	}
}

func TestTG06_OnlyTheRealmMayBeInTheQuery(t *testing.T) {
	d := start(t)
	good := with(d.a.redeem(d.code(d.a).Code), "scope", "a", "state", "s")
	for name := range good {
		for _, moved := range []bool{true, false} {
			r := newRequest(good)
			r.target += "&" + url.Values{name: good[name]}.Encode()
			if moved {
				r.form.Del(name)
			}
			a := d.send(r)
			want(t, a, 400, "invalid_request")
			if moved && a.Description != misplaced {
				t.Errorf("%s: %q", name, a.Description)
			}
		}
	}
	d.mustIssue(d.post(good))
}

func TestTG07_TheRealmHasThreeSpellingsAndThreePaths(t *testing.T) {
	d := start(t)
	for target, good := range map[string]bool{
		"/oauth2/access_token?realm=/api":                          true,
		"/oauth2/access_token?realm=%2Fapi":                        true,
		"/oauth2/access_token?realm=api":                           true,
		"/oauth2/access_token?foo=bar&realm=/api":                  true,
		"/oauth2/api/access_token":                                 true,
		"/oauth2/api/access_token?realm=/api":                      true,
		"/oauth2/realms/root/realms/api/access_token":              true,
		"/oauth2/access_token":                                     false,
		"/oauth2/access_token?realm=":                              false,
		"/oauth2/access_token?realm=//api":                         false,
		"/oauth2/access_token?realm=/API":                          false,
		"/oauth2/access_token?realm=/api/":                         false,
		"/oauth2/access_token?realm=/api&realm=/api":               false,
		"/oauth2/access_token?Realm=/api":                          false,
		"/oauth2/realms/root/realms/api/access_token?realm=/other": false,
	} {
		r := newRequest(d.a.redeem(d.code(d.a).Code))
		r.target = target
		if a := d.send(r); good && a.status != 200 || !good && (a.status != 400 || a.Description != noRealm) {
			t.Errorf("%s: %v", target, a)
		}
	}
	// A realm in the body is ignored, unless the query has one, too: then it is a
	// repeated parameter.
	r := newRequest(with(d.a.redeem(d.code(d.a).Code), "realm", "/api"))
	want(t, d.send(r), 400, "invalid_request")
	r.target = "/oauth2/access_token"
	want(t, d.send(r), 400, "invalid_request")
}

func TestTG08_TG09_NoParameterIsAcceptedTwice(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	redeem := with(d.a.redeem(d.code(d.a, pkce).Code), "code_verifier", verifier, "foo", "bar")
	refresh := with(d.a.refresh(pair.RefreshToken), "scope", "a")
	for _, good := range []url.Values{redeem, refresh} {
		for name := range good {
			for _, second := range []string{good.Get(name), "other", ""} {
				for _, body := range []string{
					good.Encode() + "&" + name + "=" + url.QueryEscape(second),
					name + "=" + url.QueryEscape(second) + "&" + good.Encode(),
				} {
					r := newRequest(nil)
					r.body = &body
					a := d.send(r)
					if a.status != 400 || a.body != errorBody("invalid_request", "parameter repeated") {
						t.Errorf("%s twice: %v", name, a)
					}
				}
			}
		}
		d.mustIssue(d.post(good))
	}
}

func pkce(a *issuer.Authorization) { a.Challenge = challenge }

func TestTG10_NamesAreComparedDecodedAndExactly(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code).Encode()
	send := func(body string) answer {
		r := newRequest(nil)
		r.body = &body
		return d.send(r)
	}
	want(t, send(good+"&%67rant_type=authorization_code"), 400, "invalid_request")
	for _, name := range []string{"Grant_Type", "grant_type[]", "code[0]", "client_secret[x]", "grant_type%20"} {
		body := strings.Replace(good, "grant_type=", name+"=", 1)
		a := send(body)
		if a.Description != "grant_type missing" {
			t.Errorf("%s counted as grant_type: %v", name, a)
		}
	}
	d.mustIssue(send("Grant_Type=x&code[0]=y&client_secret[]=z&" + strings.Replace(good, "grant_type", "gr%61nt_type", 1)))
}

func TestTG11_TG12_EmptyIsOmitted(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	redeem, refresh := d.a.redeem(d.code(d.a).Code), d.a.refresh(pair.RefreshToken)
	for _, c := range []struct {
		form        url.Values
		name        string
		description string
	}{
		{redeem, "grant_type", "grant_type missing"},
		{redeem, "code", "code missing"},
		{redeem, "redirect_uri", "redirect_uri missing"},
		{redeem, "client_id", "client_id missing"},
		{redeem, "client_secret", "client authentication failed"},
		{refresh, "refresh_token", "refresh_token missing"},
	} {
		for _, spelling := range []string{c.name + "=", c.name} { // also without "="
			r := newRequest(nil)
			body := with(c.form, c.name, "").Encode() + "&" + spelling
			r.body = &body
			if a := d.send(r); a.status != 400 || a.Description != c.description {
				t.Errorf("%s: %v", spelling, a)
			}
		}
	}
	r := newRequest(nil)
	body := "&&" + redeem.Encode() + "&&=x&=y&code_verifier=&scope=&state&"
	r.body = &body
	if pair := d.mustIssue(d.send(r)); pair.Scope != "a b c" {
		t.Errorf("an empty scope gave %q", pair.Scope)
	}
	body = refresh.Encode() + "&scope="
	r.body = &body
	if pair := d.mustIssue(d.send(r)); pair.Scope != "a b c" {
		t.Errorf("an empty scope gave %q", pair.Scope)
	}
}

func TestTG13_UnknownParametersAreIgnored(t *testing.T) {
	d := start(t)
	pair := d.mustIssue(d.post(with(d.a.redeem(d.code(d.a).Code), "foo", "bar", "audience", "x", "a[b]", "c")))
	d.mustIssue(d.post(with(d.a.refresh(pair.RefreshToken), "foo", "bar")))
}

func TestTG14_TG15_OtherMediaTypesAreRefused(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	values := map[string]string{}
	for name := range good {
		values[name] = good.Get(name)
	}
	asJSON, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	var parts strings.Builder
	for name, value := range values {
		parts.WriteString("--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n")
	}
	parts.WriteString("--b--\r\n")
	for media, body := range map[string]string{
		"application/json":                 string(asJSON),
		"application/json; charset=utf-8":  string(asJSON),
		"multipart/form-data; boundary=b":  parts.String(),
		"text/plain":                       good.Encode(),
		"application/xml":                  "<grant_type/>",
		"application/x-www-form-urlencode": good.Encode(),
		"":                                 good.Encode(),
		"application/x-www-form-urlencoded, application/json": good.Encode(),
	} {
		r := newRequest(nil)
		r.set("Content-Type", media)
		r.body = &body
		a := d.send(r)
		if a.body != errorBody("invalid_request", contentType) {
			t.Errorf("%q: %v", media, a)
		}
	}
	r := newRequest(good)
	r.header = append(r.header, "Content-Type: application/json")
	want(t, d.send(r), 400, "invalid_request")
	d.mustIssue(d.post(good))
}

func TestTG16_TG17_TheMediaTypeMayCarryParametersButNoOtherCharset(t *testing.T) {
	d := start(t)
	for media, good := range map[string]bool{
		"application/x-www-form-urlencoded;charset=UTF-8":         true,
		`application/x-www-form-urlencoded; charset="utf-8"`:      true,
		"Application/X-WWW-Form-URLEncoded":                       true,
		"application/x-www-form-urlencoded; boundary=x":           true,
		"application/x-www-form-urlencoded; charset=ISO-8859-1":   false,
		"application/x-www-form-urlencoded; charset=utf-16":       false,
		"application/x-www-form-urlencoded; charset=":             false,
		"application/x-www-form-urlencoded; charset=x; charset=y": false,
	} {
		r := newRequest(d.a.redeem(d.code(d.a).Code))
		r.set("Content-Type", media)
		if a := d.send(r); good != (a.status == 200) || !good && a.Description != contentType {
			t.Errorf("%s: %v", media, a)
		}
	}
}

func TestTG18_CompressedBodiesAreNeverInflated(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte(good.Encode()))
	z.Close()
	r := newRequest(nil)
	r.set("Content-Encoding", "gzip")
	body := zipped.String()
	r.body = &body
	want(t, d.send(r), 400, "invalid_request")
	d.mustIssue(d.post(good))
}

func TestTG31_TR36_AGrantTypeThatTheClientLacksIsUnauthorized(t *testing.T) {
	d := start(t)
	c := d.client(client.Registration{Settings: store.Settings{GrantTypes: []string{store.GrantAuthorizationCode}}})
	pair, _ := d.tokens(c)
	want(t, d.post(c.refresh(pair.RefreshToken)), 400, "unauthorized_client")
	r := newRequest(c.refresh(pair.RefreshToken))
	r.basic(c.ID, c.secret)
	want(t, d.send(r), 400, "unauthorized_client")
	c = d.change(c, func(c *store.Client) { c.GrantTypes = store.GrantTypes })
	d.alive(c, pair.RefreshToken)
}

func TestTG28_TG29_TG30_OnlyTheThreeGrantTypesAreServed(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	want(t, d.post(with(good, "grant_type", "")), 400, "invalid_request")
	for _, kind := range []string{
		"foo", "Authorization_Code", " authorization_code", "authorization_code ", "authorization_code,refresh_token",
		"password", "implicit", "urn:ietf:params:oauth:grant-type:saml2-bearer",
	} {
		form := with(good, "grant_type", kind, "username", "alice", "password", "secret")
		want(t, d.post(form), 400, "unsupported_grant_type")
		// The error does not depend on the client, so it precedes client authentication.
		want(t, d.post(with(form, "client_secret", "wrong")), 400, "unsupported_grant_type")
	}
	d.mustIssue(d.post(good))
}
