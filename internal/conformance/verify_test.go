package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

const (
	verifyPath = "/oauth2/verify"

	challengeNone    = `Www-Authenticate: Bearer realm="/api"`
	challengeInvalid = challengeNone + `, error="invalid_token", error_description="token is invalid"`
	challengeBad     = challengeNone + `, error="invalid_request", error_description="malformed bearer token"`
)

// ask returns a request with an access token and without a body.
func ask(method, target string, lines ...string) *request {
	empty := ""
	r := newRequest(nil)
	r.method, r.target, r.body = method, target, &empty
	r.header = append([]string{"Host: 127.0.0.1"}, lines...)
	return r
}

func bearer(token string) string { return "Authorization: Bearer " + token }

func (d *deployment) verify(token string, lines ...string) answer {
	d.t.Helper()
	return d.send(ask("GET", verifyPath, append([]string{bearer(token)}, lines...)...))
}

// forwarded requires a success with exactly its headers.
func forwarded(t *testing.T, a answer, subject, clientID, scope string, expires int64) {
	t.Helper()
	if a.status != http.StatusOK || a.body != "" {
		t.Errorf("got %d %q", a.status, a.body)
		return
	}
	// A response without a body has no Content-Type.
	if a.header["Content-Type"] != nil {
		t.Errorf("Content-Type %q", a.header["Content-Type"])
	}
	a.header["Content-Type"] = []string{"application/json"}
	a.header["Content-Length"] = []string{"0"} // RFC 9110 section 8.6: optional for HEAD
	compareHeader(t, a, "X-Auth-Subject: "+subject, "X-Auth-Client: "+clientID, "X-Auth-Scope: "+scope, "X-Auth-Expires: "+strconv.FormatInt(expires, 10))
}

// expiry returns the expiry of the current pair's access token in seconds. It is rounded
// up, so that 300 whole seconds were left when the token was issued.
func (d *deployment) expiry(id grant.ID) int64 {
	d.t.Helper()
	return (int64(d.row(id).RotatedAt)+999)/1000 + 300
}

func TestTL21_AGoodTokenPassesWithWhatItSays(t *testing.T) {
	d := start(t)
	for _, c := range []oauthClient{d.a, d.jwtClient()} {
		pair, id := d.tokens(c)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
			for _, target := range []string{
				verifyPath, verifyPath + "/any/path", verifyPath + "/x", verifyPath + "?scope=a", verifyPath + "?scope=a+b&aud=" + url.QueryEscape(issuerID),
				"/oauth2/api/verify", "/oauth2/realms/root/realms/api/verify/any/path", verifyPath + "?realm=/api", verifyPath + "/any/path?realm=api&unknown=1",
			} {
				a := d.send(ask(method, target, bearer(pair.AccessToken)))
				forwarded(t, a, "alice", c.ID, "a b c", d.expiry(id))
				if t.Failed() {
					t.Fatalf("%s %s", method, target)
				}
			}
		}
		// The scheme is case-insensitive (RFC 9110 section 11.1), and the body is
		// ignored.
		r := ask("POST", verifyPath, "Authorization: bEARER "+pair.AccessToken, "Content-Type: application/json", "Transfer-Encoding: chunked")
		body := "3\r\n{\"a\r\n0\r\n\r\n"
		r.body = &body
		a := d.send(r)
		if a.status != http.StatusOK {
			t.Errorf("with a body: %v", a)
		}
	}
}

func TestTL21_AMissingOrDeadTokenHasItsChallenge(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	revoked, _ := d.tokens(d.a)
	d.revoke(d.a, revoked.AccessToken)
	expired, _ := d.tokens(d.jwtClient())
	d.step(301 * time.Second)
	pair = d.alive(d.a, pair.RefreshToken)
	invalid := errorBody("invalid_token", "token is invalid")
	for name, c := range map[string]struct {
		lines     []string
		status    int
		challenge string
		body      string
	}{
		"no token":               {nil, 401, challengeNone, ""},
		"another scheme":         {[]string{basicHeader("a", "b")}, 401, challengeNone, ""},
		"another scheme, a line": {[]string{"Authorization: Digest x"}, 401, challengeNone, ""},
		"revoked":                {[]string{bearer(revoked.AccessToken)}, 401, challengeInvalid, invalid},
		"expired":                {[]string{bearer(expired.AccessToken)}, 401, challengeInvalid, invalid},
		"made up":                {[]string{bearer("made-up")}, 401, challengeInvalid, invalid},
		"a refresh token":        {[]string{bearer(pair.RefreshToken)}, 401, challengeInvalid, invalid},
		"a code":                 {[]string{bearer(d.code(d.a).Code)}, 401, challengeInvalid, invalid},
		"a secret":               {[]string{bearer(d.a.secret)}, 401, challengeInvalid, invalid},
		"8 KiB":                  {[]string{bearer(strings.Repeat("a", 8192))}, 401, challengeInvalid, invalid},
		"one more":               {[]string{bearer(strings.Repeat("a", 8193))}, 400, challengeBad, errorBody("invalid_request", "malformed bearer token")},
		"the scheme alone":       {[]string{"Authorization: Bearer"}, 400, challengeBad, errorBody("invalid_request", "malformed bearer token")},
		"two words":              {[]string{bearer("a b")}, 400, challengeBad, errorBody("invalid_request", "malformed bearer token")},
		"a list":                 {[]string{bearer(pair.AccessToken + "," + pair.AccessToken)}, 400, challengeBad, errorBody("invalid_request", "malformed bearer token")},
	} {
		for i := range c.lines {
			if !strings.HasPrefix(c.lines[i], "Authorization: ") {
				c.lines[i] = "Authorization: " + c.lines[i]
			}
		}
		a := d.send(ask("GET", verifyPath, c.lines...))
		if a.status != c.status || a.body != c.body {
			t.Errorf("%s: %v, want %d %s", name, a, c.status, c.body)
		}
		if c.body == "" {
			a.header["Content-Type"] = []string{"application/json"} // an empty body
		}
		compareHeader(t, a, c.challenge)
		head := d.send(ask("HEAD", verifyPath, c.lines...))
		if head.status != c.status || fmt.Sprint(head.header["Www-Authenticate"]) != fmt.Sprint(a.header["Www-Authenticate"]) {
			t.Errorf("%s, HEAD: %d %q", name, head.status, head.header["Www-Authenticate"])
		}
	}
	if a := d.verify(pair.AccessToken); a.status != 200 {
		t.Errorf("the good token: %v", a)
	}
}

func TestTL21_TheScopeAndAudienceThatAreDemanded(t *testing.T) {
	d := start(t)
	const one, two = "https://one.example", "https://two.example"
	c := d.client(client.Registration{Settings: store.Settings{Audience: []string{one, two}}})
	all, id := d.tokens(c)
	narrow := d.mustIssue(d.post(with(c.refresh(all.RefreshToken), "scope", "b")))
	lacks := func(scope string) []string {
		return []string{"403", challengeNone + `, error="insufficient_scope", error_description="token lacks a scope", scope="` + scope + `"`, errorBody("insufficient_scope", "token lacks a scope")}
	}
	invalid := []string{"401", challengeInvalid, errorBody("invalid_token", "token is invalid")}
	refused := func(description string) []string {
		return []string{"400", "", errorBody("invalid_request", description)}
	}
	for _, c := range []struct {
		query string
		lines []string
		want  []string // nil if the token is accepted
	}{
		{"", nil, nil},
		{"?scope=b", nil, nil},
		{"", []string{"X-Required-Scope: b"}, nil},
		{"?scope=b", []string{"X-Required-Scope: b"}, nil},
		{"?aud=" + url.QueryEscape(one), nil, nil},
		{"?realm=/api", nil, nil},
		{"/reports?month=5", nil, nil}, // the query of the client's own request
		{"", []string{"X-Required-Audience: " + two}, nil},
		{"?aud=" + url.QueryEscape(two), []string{"X-Required-Audience: " + two}, nil},

		{"?scope=a", nil, lacks("a")},
		{"?scope=b+a", nil, lacks("b a")},
		{"?scope=b", []string{"X-Required-Scope: c"}, lacks("b c")},
		{"", []string{"X-Required-Scope: b", "X-Required-Scope: c"}, lacks("b c")},
		{"?scope=B", nil, lacks("B")},
		{"?scope=b,", nil, lacks("b,")},
		{"?aud=https://three.example", nil, invalid},
		{"?aud=" + url.QueryEscape(one+"/"), nil, invalid},
		{"", []string{"X-Required-Audience: https://three.example"}, invalid},
		{"?aud=https://three.example&scope=a", nil, invalid},

		// Ambiguous requirements refuse every token.
		{"?scope=b&scope=b", nil, refused("parameter repeated")},
		{"?aud=" + one + "&aud=" + two, nil, refused("parameter repeated")},
		{"?aud=" + one, []string{"X-Required-Audience: " + two}, refused("parameter repeated")},
		{"", []string{"X-Required-Audience: " + one, "X-Required-Audience: " + two}, refused("parameter repeated")},
		{"?scope=" + url.QueryEscape(`"`), nil, refused("malformed parameter value")},
		{"", []string{`X-Required-Scope: b"`}, refused("malformed parameter value")},
		{"?scope=", nil, refused("malformed parameter value")},
		{"?scope", nil, refused("malformed parameter value")},
		{"?scope=b&aud=", nil, refused("malformed parameter value")},
		{"?scope=b", []string{"X-Required-Scope: "}, refused("malformed parameter value")},
		{"?scope=b", []string{"X-Required-Audience: "}, refused("malformed parameter value")},
		{"?scope=b&resource_metadata=", nil, refused("malformed parameter value")},
		{"?scopes=b", nil, refused("malformed parameter value")},
		{"?audience=" + one, nil, refused("malformed parameter value")},
		{"?Scope=b", nil, refused("malformed parameter value")},
		{"/?month=5", nil, refused("malformed parameter value")},
		{"?scope=%zz", nil, refused("malformed request body")},
		{"?scope=b;aud=x", nil, refused("malformed request body")},
		{"?realm=/other", nil, refused("unknown realm")},
	} {
		a := d.send(ask("GET", verifyPath+c.query, append([]string{bearer(narrow.AccessToken)}, c.lines...)...))
		if c.want == nil {
			forwarded(t, a, "alice", d.row(id).ClientID, "b", d.expiry(id))
			continue
		}
		if fmt.Sprint(a.status) != c.want[0] || a.body != c.want[2] {
			t.Errorf("%s %q: %v, want %s %s", c.query, c.lines, a, c.want[0], c.want[2])
		}
		if c.want[1] != "" {
			compareHeader(t, a, c.want[1])
		} else {
			compareHeader(t, a)
		}
	}
	// Without a token, the challenge does not reveal the requirement.
	a := d.send(ask("GET", verifyPath+"?scope=a"))
	if a.status != 401 || a.header["Www-Authenticate"][0] != strings.TrimPrefix(challengeNone, "Www-Authenticate: ") {
		t.Errorf("without a token: %d %q", a.status, a.header["Www-Authenticate"])
	}
}

// RFC 9728 section 5.1: a challenge names the API's metadata if the proxy says where they
// are. Nothing else in the response changes.
func TestTL21_AChallengeNamesTheMetadataOfTheAPI(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	const address = "https://api.example.com/.well-known/oauth-protected-resource/orders"
	named := "resource_metadata=" + url.QueryEscape(address)
	for name, c := range map[string]struct {
		query, token, challenge string
		status                  int
	}{
		"no token":               {"?" + named, "", challengeNone, 401},
		"a made-up token":        {"?" + named, "made-up", challengeInvalid, 401},
		"another audience":       {"?aud=https://three.example&" + named, pair.AccessToken, challengeInvalid, 401},
		"a scope that it lacks":  {"?scope=z&" + named, pair.AccessToken, challengeNone + `, error="insufficient_scope", error_description="token lacks a scope", scope="z"`, 403},
		"a malformed token":      {"?" + named, "a b", challengeBad, 400},
		"as it is, not escaped":  {"?resource_metadata=" + address, "", challengeNone, 401},
		"an address of a client": {"/x?" + named, "", challengeNone, 401}, // the path of the client's own request is not read
	} {
		var lines []string
		if c.token != "" {
			lines = []string{bearer(c.token)}
		}
		if !strings.HasPrefix(c.query, "/") {
			c.challenge += `, resource_metadata="` + address + `"`
		}
		a := d.send(ask("GET", verifyPath+c.query, lines...))
		if got := a.header["Www-Authenticate"]; a.status != c.status || len(got) != 1 || "Www-Authenticate: "+got[0] != c.challenge {
			t.Errorf("%s: %d %q, want %d %s", name, a.status, got, c.status, c.challenge)
		}
	}
	forwarded(t, d.send(ask("GET", verifyPath+"?"+named, bearer(pair.AccessToken))), "alice", d.row(id).ClientID, string(d.row(id).Scope), d.expiry(id))
	for _, bad := range []string{`"`, `a", error="x`, `\`, "a\r\nX: y", "\u00fc", "\x00", "zz", "api.example.com/metadata", "//api.example.com", "https:///metadata", "file:///metadata"} {
		a := d.send(ask("GET", verifyPath+"?resource_metadata="+url.QueryEscape(bad), bearer(pair.AccessToken)))
		if a.status != 400 || a.body != errorBody("invalid_request", "malformed parameter value") {
			t.Errorf("%q: %v", bad, a)
		}
	}
}

// RFC 3875 section 4.1.18: a program that receives headers as CGI variables takes these
// for the verification's headers. A proxy that passes them here from its client would
// also pass them to the program: the request is refused.
func TestTL21_AHeaderThatAProgramTakesForOursIsRefused(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	for _, name := range []string{
		"X_Auth_Subject", "X-Auth_Subject", "x_auth-client", "X.Auth.Scope", "X-AUTH.Expires", "X~Auth~Subject", "X-Auth_Anything",
		"X_Required_Scope", "X-Required_Audience", "x.required-scope", "X_Required-Scope",
	} {
		for _, target := range []string{verifyPath, verifyPath + "/any/path"} {
			a := d.send(ask("GET", target, bearer(pair.AccessToken), name+": a"))
			if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", "ambiguous header name") {
				t.Errorf("%s: %v", name, a)
			}
		}
	}
	for _, name := range []string{"X-Auth-Subject", "X_Request_Id", "X-Authentication_Id", "Auth_Subject", "X-Authrequired_Scope"} {
		if a := d.send(ask("GET", verifyPath, bearer(pair.AccessToken), name+": a")); a.status != http.StatusOK {
			t.Errorf("%s: %v", name, a)
		}
	}
}

// A proxy that appends the original path (Envoy) also appends the client's query. The
// requirements are then read only from headers.
func TestTL21_BelowVerifyThePathAndTheQueryAreTheClients(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	for _, prefix := range []string{verifyPath, "/oauth2/api/verify", "/oauth2/realms/root/realms/api/verify"} {
		for _, target := range []string{
			"/any/path", "/any/path/", "/a//b", "/a/./b", "/a/../b", "/../access_token", "/%2e%2e/access_token", "/a%2Fb", "/%C3%BC", "/x?scope=z&aud=z",
			"/x?id=1&id=2", "/x?a;b", "/x?%zz", "/x?realm=/other", "/x?access_token=y",
			"/a/?id=1&id=2", "/a/?scope=z", "//a?scope=z", "/a%2Fb?scope=z", "/a/../b?a;b",
		} {
			r := ask("GET", prefix+target, bearer(pair.AccessToken), "X-Required-Scope: a")
			if a := d.send(r); a.status != http.StatusOK || a.header["X-Auth-Client"] == nil {
				t.Errorf("%s: %v", target, a)
			}
			r.set("X-Required-Scope", "z")
			want(t, d.send(r), http.StatusForbidden, "insufficient_scope")
			r.set("X-Required-Scope", "")
			r.set("X-Required-Audience", "https://other.example")
			want(t, d.send(r), http.StatusUnauthorized, "invalid_token")
			want(t, d.send(ask("GET", prefix+target)), http.StatusUnauthorized, "")
		}
	}
	// If only a slash is appended, the query is still read, so that no requirement is
	// lost.
	for query, status := range map[string]int{"?scope=a": 200, "?scope=z": 403, "?aud=https://other.example": 401, "?scope=": 400} {
		if a := d.send(ask("GET", verifyPath+"/"+query, bearer(pair.AccessToken))); a.status != status {
			t.Errorf("/%s: %v, want %d", query, a, status)
		}
	}
	// Elsewhere, a path has only one spelling.
	for _, target := range []string{"/oauth2/verify2", "/oauth2//verify", "/oauth2/x/../verify", "/oauth2/Verify", "/oauth2/%76erify", "/oauth2/other/verify"} {
		want(t, d.send(ask("GET", target, bearer(pair.AccessToken))), http.StatusNotFound, "invalid_request")
	}
}

func TestTL22_TwoTokensAreRefused(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	basic := "Authorization: " + basicHeader(d.a.ID, d.a.secret)
	for _, lines := range [][]string{
		{bearer(pair.AccessToken), bearer(pair.AccessToken)}, {bearer(pair.AccessToken), basic}, {basic, bearer(pair.AccessToken)}, {bearer("x"), "Authorization: "},
	} {
		for _, target := range []string{verifyPath, "/oauth2/tokeninfo"} {
			a := d.send(ask("GET", target, lines...))
			if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", "malformed bearer token") {
				t.Errorf("%s with two headers: %v", target, a)
			}
			compareHeader(t, a, challengeBad)
		}
	}
}

// RFC 9700 section 4.3.2: servers log URLs, but not this header, so a token in the query
// is ignored.
func TestTL20_ATokenInTheQueryIsNotLookedAt(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	a := d.send(ask("GET", verifyPath+"?access_token="+pair.AccessToken))
	if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", "malformed parameter value") {
		t.Errorf("in the query: %v", a)
	}
	r := ask("POST", verifyPath, "Content-Type: application/x-www-form-urlencoded")
	body := "access_token=" + pair.AccessToken
	r.body = &body
	if a := d.send(r); a.status != http.StatusUnauthorized || a.body != "" {
		t.Errorf("in the body: %v", a)
	}
	if strings.Contains(d.log.String(), pair.AccessToken) {
		t.Error("the token was logged")
	}
}

// Any subject is passed on unchanged, and splits no header.
func TestTL21_TheSubjectIsMadeFitForAHeader(t *testing.T) {
	d := start(t)
	for subject, want := range map[string]string{
		"alice": "alice", "a b": "a%20b", "a%b": "a%25b", "J\u00fcrgen \u65e5": "J%C3%BCrgen%20%E6%97%A5", `a"b\c,d;e`: `a"b\c,d;e`, "alice@example.com": "alice@example.com",
	} {
		code := d.code(d.a, func(a *issuer.Authorization) { a.Subject = subject })
		pair := d.mustIssue(d.post(d.a.redeem(code.Code)))
		a := d.verify(pair.AccessToken)
		forwarded(t, a, want, d.a.ID, "a b c", d.expiry(code.GrantID))
		if back, err := url.PathUnescape(a.header["X-Auth-Subject"][0]); err != nil || back != subject {
			t.Errorf("%q comes back as %q (%v)", subject, back, err)
		}
	}
}

func TestIN12_EveryEndingClosesTheDoorAtOnce(t *testing.T) {
	d := start(t)
	for name, end := range d.endings() {
		for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
			c := d.client(client.Registration{Settings: store.Settings{TokenFormat: format}})
			code := d.code(c, func(a *issuer.Authorization) { a.Subject = c.ID + "'s user" })
			pair := d.mustIssue(d.post(c.redeem(code.Code)))
			before := d.verify(pair.AccessToken)
			end(c, code, pair)
			a := d.verify(pair.AccessToken)
			if before.status != http.StatusOK || a.status != http.StatusUnauthorized || a.body != errorBody("invalid_token", "token is invalid") {
				t.Errorf("%s, %s: %d before, then %v", name, format, before.status, a)
			}
			compareHeader(t, a, challengeInvalid)
		}
	}
}

func TestIN17_AStoreThatIsDownOpensNoDoor(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	d.faulty.Before(failing(storetest.Grant))
	for _, a := range []answer{d.verify(pair.AccessToken), d.tokenInfo(pair.AccessToken)} {
		if a.status != http.StatusServiceUnavailable || a.body != errorBody("temporarily_unavailable", "try again later") {
			t.Errorf("got %v", a)
		}
		compareHeader(t, a, "Retry-After: N")
	}
	d.faulty.Before(func(op storetest.Method, _ grant.Grant) error {
		if op == storetest.Grant {
			return store.ErrNotFound
		}
		return nil
	})
	want(t, d.verify(pair.AccessToken), 503, "temporarily_unavailable")
	d.faulty.Before(panicking("bug"))
	want(t, d.verify(pair.AccessToken), 500, "server_error")
	d.faulty.Heal()
	if a := d.verify(pair.AccessToken); a.status != http.StatusOK {
		t.Errorf("afterwards: %v", a)
	}
}

// tokenInfo returns the response to the bearer of a token.
func (d *deployment) tokenInfo(token string, lines ...string) answer {
	d.t.Helper()
	return d.sendInfo(ask("GET", "/oauth2/tokeninfo", append([]string{bearer(token)}, lines...)...))
}

// sendInfo is send for responses whose scope is a list.
func (d *deployment) sendInfo(r *request) answer {
	d.t.Helper()
	conn := d.dial(local())
	defer conn.Close()
	a, err := converse(conn, r.text(), r.method)
	var list *json.UnmarshalTypeError
	if err != nil && !(errors.As(err, &list) && list.Field == "tokens.scope") {
		d.t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	return a
}
