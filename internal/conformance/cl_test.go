package conformance_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

const userInfoPath = "/oauth2/userinfo"

const aliceClaims = `{"email":"alice@example.com","email_verified":true,"phone_number":"+81 3 1234","birthdate":"1970-01-02","address":{"country":"JP"}}`

// claimed starts a deployment whose user alice has claims.
func claimed(t *testing.T) *deployment {
	t.Helper()
	d := start(t, func(o *options) { o.front = true })
	d.user("alice", func(u *account.User) {
		var err error
		if u.Claims, err = claims.Parse([]byte(aliceClaims)); err != nil {
			t.Fatal(err)
		}
		u.ProfileAt = 1_700_000_000_999
	})
	return d
}

// openIDToken returns an access token of alice for a new client with a scope.
func (d *deployment) openIDToken(scope oauth.Scope, format store.TokenFormat) string {
	d.t.Helper()
	c := d.client(client.Registration{Settings: store.Settings{Scope: scope, TokenFormat: format}})
	pair, _ := d.tokens(c)
	return pair.AccessToken
}

func (d *deployment) userInfo(token string) answer {
	d.t.Helper()
	return d.send(ask("GET", userInfoPath, bearer(token)))
}

func TestCL01_UserInfoHasTheClaimsOfTheScope(t *testing.T) {
	d := claimed(t)
	for _, format := range []store.TokenFormat{"", store.TokenJWT} {
		for scope, want := range map[oauth.Scope]string{
			"openid":         `{"sub":"alice"}`,
			"openid a":       `{"sub":"alice"}`,
			"openid profile": `{"birthdate":"1970-01-02","name":"User alice","preferred_username":"alice","sub":"alice","updated_at":1700000000}`,
			"openid email":   `{"email":"alice@example.com","email_verified":true,"sub":"alice"}`,
			"openid address": `{"address":{"country":"JP"},"sub":"alice"}`,
			"openid phone":   `{"phone_number":"+81 3 1234","sub":"alice"}`,
		} {
			a := d.userInfo(d.openIDToken(scope, format))
			if a.status != http.StatusOK || a.body != want {
				t.Errorf("%s, format %q: %d %s\nwant %s", scope, format, a.status, a.body, want)
			}
		}
	}
	// A narrowed token has only its own claims, not all claims of the grant.
	c := d.client(client.Registration{Settings: store.Settings{Scope: "openid email phone"}})
	pair, _ := d.tokens(c)
	narrow := d.mustIssue(d.post(with(c.refresh(pair.RefreshToken), "scope", "openid phone")))
	if a := d.userInfo(narrow.AccessToken); strings.Contains(a.body, "email") || !strings.Contains(a.body, "phone_number") {
		t.Errorf("narrowed: %s", a.body)
	}
}

// A change of the user's record applies to existing tokens.
func TestCL01_UserInfoReadsThePresentRecord(t *testing.T) {
	d := claimed(t)
	token := d.openIDToken("openid email", "")
	u, err := account.Find(t.Context(), d.sqlite, realm, "alice")
	if err != nil {
		t.Fatal(err)
	}
	if u, err = u.SetProfile(nil, claims.Claims{"email": json.RawMessage(`"new@example.com"`)}, 1_800_000_000_000); err != nil {
		t.Fatal(err)
	}
	if err := account.Put(context.Background(), d.sqlite, u, store.Change{}); err != nil {
		t.Fatal(err)
	}
	if a := d.userInfo(token); a.body != `{"email":"new@example.com","sub":"alice"}` {
		t.Errorf("%s", a.body)
	}
}

func TestCL01_UserInfoOfAnUnknownSubjectIsTheSubject(t *testing.T) {
	d := start(t, func(o *options) { o.front = true })
	if a := d.userInfo(d.openIDToken("openid profile email", "")); a.status != http.StatusOK || a.body != `{"sub":"alice"}` {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestCL02_UserInfoIsReadByGetAndPost(t *testing.T) {
	d := claimed(t)
	token := d.openIDToken("openid email", "")
	want := d.userInfo(token)
	compareHeader(t, want, "Access-Control-Allow-Origin: *", "Access-Control-Expose-Headers: WWW-Authenticate, Retry-After, X-Request-Id")
	post := func(target, contentType string, form url.Values, lines ...string) *request {
		r := newRequest(form)
		r.target = target
		r.set("Content-Type", contentType)
		r.header = append(r.header, lines...)
		return r
	}
	const form = "application/x-www-form-urlencoded"
	for about, r := range map[string]*request{
		"GET, the path names the realm":  ask("GET", "/oauth2/api/userinfo", bearer(token)),
		"GET, OpenAM's form":             ask("GET", "/oauth2/realms/root/realms/api/userinfo", bearer(token)),
		"GET, the query names the realm": ask("GET", userInfoPath+"?realm=/api", bearer(token)),
		"POST, header, no body":          ask("POST", userInfoPath, bearer(token)),
		"POST, header, empty form":       post(userInfoPath, form, nil, bearer(token)),
		"POST, header, another form":     post(userInfoPath, form, url.Values{"schema": {"openid"}}, bearer(token)),
		"POST, header, JSON":             post(userInfoPath, "application/json", nil, bearer(token)),
		"POST, form":                     post(userInfoPath, form, url.Values{"access_token": {token}}),
		"POST, form, the query names it": post(userInfoPath+"?realm=/api", form+"; charset=UTF-8", url.Values{"access_token": {token}}),
	} {
		if a := d.send(r); a.status != http.StatusOK || a.body != want.body {
			t.Errorf("%s: %d %s", about, a.status, a.body)
		}
	}
	if a := d.send(ask("HEAD", userInfoPath, bearer(token))); a.status != http.StatusOK || a.body != "" {
		t.Errorf("HEAD: %v", a)
	}
	if a := d.send(ask("PUT", userInfoPath, bearer(token))); a.status != http.StatusMethodNotAllowed || a.body != errorBody("invalid_request", "method must be GET or POST") || !slices.Equal(a.header["Allow"], []string{"GET, HEAD, POST"}) {
		t.Errorf("PUT: %v", a)
	}
}

func TestCL03_UserInfoRefusesTokensWithChallenges(t *testing.T) {
	d := claimed(t)
	scripts := []string{"Access-Control-Allow-Origin: *", "Access-Control-Expose-Headers: WWW-Authenticate, Retry-After, X-Request-Id"}
	refused := func(about string, a answer, status int, body, challenge string) {
		t.Helper()
		if a.status != status || a.body != body {
			t.Errorf("%s: %d %s", about, a.status, a.body)
		}
		if body == "" {
			a.header["Content-Type"] = []string{"application/json"} // an empty body
		}
		compareHeader(t, a, append(scripts, challenge)...)
	}
	missing := challengeNone + `, error="insufficient_scope", error_description="token lacks a scope", scope="openid"`
	for _, format := range []store.TokenFormat{"", store.TokenJWT} {
		refused("no openid", d.userInfo(d.openIDToken("profile email", format)), http.StatusForbidden, errorBody("insufficient_scope", "token lacks a scope"), missing)
		c := d.client(client.Registration{Settings: store.Settings{Scope: "openid email", TokenFormat: format}})
		dead, _ := d.tokens(c)
		old, _ := d.tokens(c)
		d.revoke(c, dead.AccessToken)
		refused("revoked", d.userInfo(dead.AccessToken), http.StatusUnauthorized, errorBody("invalid_token", "token is invalid"), challengeInvalid)
		refused("a refresh token", d.userInfo(old.RefreshToken), http.StatusUnauthorized, errorBody("invalid_token", "token is invalid"), challengeInvalid)
		d.step(5*time.Minute + time.Second)
		refused("expired", d.userInfo(old.AccessToken), http.StatusUnauthorized, errorBody("invalid_token", "token is invalid"), challengeInvalid)
	}
	token := d.openIDToken("openid email", "")
	refused("none", d.send(ask("GET", userInfoPath)), http.StatusUnauthorized, "", challengeNone)
	refused("none, by POST", d.send(ask("POST", userInfoPath)), http.StatusUnauthorized, "", challengeNone)
	refused("Basic", d.send(ask("GET", userInfoPath, "Authorization: "+basicHeader("a", "b"))), http.StatusUnauthorized, "", challengeNone)
	d.cutOff(store.Cutoff{Subject: "alice"})
	refused("of a subject that was cut off", d.userInfo(token), http.StatusUnauthorized, errorBody("invalid_token", "token is invalid"), challengeInvalid)
}

func TestCL04_UserInfoTakesOneTokenAndNoneInTheQuery(t *testing.T) {
	d := claimed(t)
	token := d.openIDToken("openid email", "")
	form := func(target string, values url.Values, lines ...string) *request {
		r := newRequest(values)
		r.target = target
		r.header = append(r.header, lines...)
		return r
	}
	for about, c := range map[string]struct {
		r           *request
		description string
	}{
		"header and form":   {form(userInfoPath, url.Values{"access_token": {token}}, bearer(token)), "access token in header and form"},
		"two in the form":   {form(userInfoPath, url.Values{"access_token": {token, token}}), "parameter repeated"},
		"in the query":      {ask("GET", userInfoPath+"?access_token="+token), "access token belongs in the Authorization header"},
		"there by POST":     {form(userInfoPath+"?access_token="+token, url.Values{"access_token": {token}}), "access token belongs in the Authorization header"},
		"another realm":     {ask("GET", userInfoPath+"?realm=/other", bearer(token)), "unknown realm"},
		"that of a form":    {form(userInfoPath+"?realm=/other", url.Values{"access_token": {token}}), "unknown realm"},
		"two in the header": {ask("GET", userInfoPath, bearer(token), bearer(token)), "malformed bearer token"},
	} {
		a := d.send(c.r)
		if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", c.description) {
			t.Errorf("%s: %d %s", about, a.status, a.body)
		}
		// Errors also come with a challenge (RFC 6750 section 3).
		if want := []string{`Bearer realm="/api", error="invalid_request", error_description="` + c.description + `"`}; !slices.Equal(a.header["Www-Authenticate"], want) {
			t.Errorf("%s: %q", about, a.header["Www-Authenticate"])
		}
		if strings.Contains(a.body, token) || strings.Contains(d.log.String(), token) {
			t.Errorf("%s: the token was answered or logged", about)
		}
	}
}

func TestCL05_ScriptsOfEveryOriginReadUserInfo(t *testing.T) {
	d := claimed(t)
	token := d.openIDToken("openid email", "")
	for _, origin := range []string{"https://app.example", "null"} {
		preflight := ask("OPTIONS", userInfoPath, "Origin: "+origin, "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: authorization")
		for about, a := range map[string]answer{"preflight": d.send(preflight), "request": d.send(ask("GET", userInfoPath, bearer(token), "Origin: "+origin)), "refusal": d.send(ask("GET", userInfoPath, "Origin: "+origin))} {
			if !slices.Equal(a.header["Access-Control-Allow-Origin"], []string{"*"}) || a.header["Access-Control-Allow-Credentials"] != nil {
				t.Errorf("%s: %v", about, a.header)
			}
			if about == "preflight" && (a.status != http.StatusNoContent || !slices.Equal(a.header["Access-Control-Allow-Headers"], []string{"*, Authorization"}) ||
				!slices.Equal(a.header["Access-Control-Allow-Methods"], []string{"GET, HEAD, POST"})) {
				t.Errorf("preflight: %d %v", a.status, a.header)
			}
		}
	}
}

// A valid token does not exempt the address from its limit.
func TestCL03_UserInfoIsThrottledWithTheTokenEndpoint(t *testing.T) {
	d := start(t, func(o *options) { o.AddressFailures = 1 })
	from := local()
	r := d.a.about(introspectPath, "x")
	r.form.Set("client_secret", "wrong")
	d.sendFrom(from, r)
	if a := d.sendFrom(from, ask("GET", userInfoPath, bearer("x"))); a.status != http.StatusTooManyRequests {
		t.Errorf("got %v", a)
	}
}

// With a registered algorithm, the client gets userinfo as a JWT whose audience is the
// client. This JWT is neither an id_token nor an access token.
func TestCL01_UserInfoIsSignedByRegistration(t *testing.T) {
	d := claimed(t)
	for _, alg := range []keys.Purpose{keys.ES256, keys.EdDSA} {
		c := d.client(client.Registration{Settings: store.Settings{Scope: "openid email", UserInfoAlg: alg}})
		pair, _ := d.tokens(c)
		a := d.userInfo(pair.AccessToken)
		if a.status != http.StatusOK || http.Header(a.header).Get("Content-Type") != "application/jwt" {
			t.Fatalf("%s: status %d, %s: %s", alg, a.status, http.Header(a.header).Get("Content-Type"), a.body)
		}
		view, err := d.directory.View()
		if err != nil {
			t.Fatal(err)
		}
		head, _ := base64.RawURLEncoding.DecodeString(strings.SplitN(string(a.body), ".", 2)[0])
		typ, payload, _, err := view.Ring.Verify(string(a.body))
		want := `{"aud":"` + c.ID + `","email":"alice@example.com","email_verified":true,"iss":"` + issuerID + `","sub":"alice"}`
		if err != nil || typ != "JWT" || string(payload) != want || !strings.Contains(string(head), `"alg":"`+string(alg)+`"`) {
			t.Errorf("%s: %s with the header %s, %v, want %s", alg, payload, head, err, want)
		}
		if _, err := d.issuer.Hint(string(a.body)); !errors.Is(err, openid.ErrHint) {
			t.Errorf("%s: as a hint: %v", alg, err)
		}
		if a := d.userInfo(string(a.body)); a.status != http.StatusUnauthorized {
			t.Errorf("%s: as an access token: status %d", alg, a.status)
		}
	}
	if a := d.userInfo(d.openIDToken("openid", "")); http.Header(a.header).Get("Content-Type") != "application/json" {
		t.Errorf("without the registration: %s", http.Header(a.header).Get("Content-Type"))
	}
}
