package conformance_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
)

const infoPath = "/oauth2/tokeninfo"

// infoBody returns the response about a token, with its members in OpenAM's order.
func infoBody(c oauthClient, token, grantType, scope string, left int) string {
	return fmt.Sprintf(`{"access_token":%q,"grant_type":%q,"scope":["%s"],"realm":"/api","token_type":"Bearer","expires_in":%d,"client_id":%q,"sub":"alice","subname":"alice"}`,
		token, grantType, strings.ReplaceAll(scope, " ", `","`), left, c.ID)
}

func TestTL21_TokenInfoTellsTheBearerWhatTheTokenIsWorth(t *testing.T) {
	d := start(t)
	d.step(time.Second - time.Duration(d.now().UnixMilli()%1000)*time.Millisecond) // to a whole second
	for _, c := range []oauthClient{d.a, d.jwtClient()} {
		pair, _ := d.tokens(c)
		a := d.tokenInfo(pair.AccessToken)
		compareHeader(t, a)
		if want := infoBody(c, pair.AccessToken, "authorization_code", "a b c", 300); a.status != http.StatusOK || a.body != want {
			t.Errorf("%d %s\nwant %s", a.status, a.body, want)
		}
		next := d.mustIssue(d.post(with(c.refresh(pair.RefreshToken), "scope", "c")))
		d.step(100 * time.Second)
		a = d.tokenInfo(next.AccessToken)
		if want := infoBody(c, next.AccessToken, "refresh_token", "c", 200); a.body != want {
			t.Errorf("%s\nwant %s", a.body, want)
		}
		for _, target := range []string{"/oauth2/api/tokeninfo", "/oauth2/realms/root/realms/api/tokeninfo", infoPath + "?realm=/api", infoPath + "?realm=api"} {
			if other := d.sendInfo(ask("GET", target, bearer(next.AccessToken))); other.body != a.body {
				t.Errorf("%s: %v", target, other)
			}
		}
		head := d.send(ask("HEAD", infoPath, bearer(next.AccessToken)))
		if head.status != http.StatusOK || head.body != "" {
			t.Errorf("HEAD: %v", head)
		}
		d.step(199_999 * time.Millisecond)
		if a := d.tokenInfo(next.AccessToken); a.body != infoBody(c, next.AccessToken, "refresh_token", "c", 0) {
			t.Errorf("in the last millisecond: %s", a.body)
		}
		d.step(time.Millisecond)
		want(t, d.tokenInfo(next.AccessToken), http.StatusUnauthorized, "invalid_token")
	}
}

func TestTL21_TokenInfoRefusesADeadOrMissingToken(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	dead, _ := d.tokens(d.a)
	d.revoke(d.a, dead.AccessToken)
	for _, token := range []string{dead.AccessToken, pair.RefreshToken, "made-up", d.a.secret} {
		a := d.tokenInfo(token)
		if a.status != http.StatusUnauthorized || a.body != errorBody("invalid_token", "token is invalid") {
			t.Errorf("got %v", a)
		}
		compareHeader(t, a, challengeInvalid)
	}
	a := d.send(ask("GET", infoPath))
	if a.status != http.StatusUnauthorized || a.body != "" {
		t.Errorf("without a token: %v", a)
	}
	a.header["Content-Type"] = []string{"application/json"} // an empty body
	compareHeader(t, a, challengeNone)
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		a := d.send(ask(method, infoPath, bearer(pair.AccessToken)))
		if a.status != http.StatusMethodNotAllowed || a.body != errorBody("invalid_request", "method must be GET") {
			t.Errorf("%s: %v", method, a)
		}
		compareHeader(t, a, "Allow: GET, HEAD")
	}
	for query, description := range map[string]string{
		"?realm=/other": "unknown realm", "?realm=/api&realm=/api": "parameter repeated", "?x=1&x=2": "parameter repeated", "?x=%zz": "malformed request body",
	} {
		a := d.send(ask("GET", infoPath+query, bearer(pair.AccessToken)))
		if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", description) {
			t.Errorf("%s: %v", query, a)
		}
	}
}

func TestTL20_TokenInfoReadsTheQueryOnlyIfToldTo(t *testing.T) {
	off := start(t)
	pair, _ := off.tokens(off.a)
	inQuery := func(token string) string { return infoPath + "?access_token=" + url.QueryEscape(token) }
	misplaced := errorBody("invalid_request", "access token belongs in the Authorization header")
	for _, r := range []*request{ask("GET", inQuery(pair.AccessToken)), ask("GET", inQuery(pair.AccessToken), bearer(pair.AccessToken)), ask("GET", inQuery("made-up"))} {
		a := off.send(r)
		if a.status != http.StatusBadRequest || a.body != misplaced {
			t.Errorf("off: %v", a)
		}
		compareHeader(t, a, `Www-Authenticate: Bearer realm="/api", error="invalid_request", error_description="access token belongs in the Authorization header"`)
	}

	on := start(t, alone, func(o *options) { o.TokenInfoQuery = true })
	for _, c := range []oauthClient{on.a, on.jwtClient()} {
		pair, _ := on.tokens(c)
		inHeader := on.tokenInfo(pair.AccessToken)
		a := on.sendInfo(ask("GET", inQuery(pair.AccessToken)+"&realm=/api"))
		if a.status != http.StatusOK || exactly(a) != exactly(inHeader) {
			t.Errorf("in the query: %v", a)
		}
		// RFC 9700 section 4.3.2: a response to a token in the URL must not be cached.
		compareHeader(t, a)
		// A token in both places counts as two (TL-22).
		for _, line := range []string{bearer(pair.AccessToken), "Authorization: " + basicHeader("a", "b")} {
			if a := on.send(ask("GET", inQuery(pair.AccessToken), line)); a.status != http.StatusBadRequest || a.body != misplaced {
				t.Errorf("twice: %v", a)
			}
		}
		on.revoke(c, pair.AccessToken)
		dead := on.send(ask("GET", inQuery(pair.AccessToken)))
		if dead.status != http.StatusUnauthorized || dead.body != errorBody("invalid_token", "token is invalid") {
			t.Errorf("dead: %v", dead)
		}
		compareHeader(t, dead, challengeInvalid)
		if strings.Contains(on.log.String(), pair.AccessToken) {
			t.Error("the token was logged")
		}
	}
	if a := on.send(ask("GET", infoPath+"?access_token=x&access_token=x")); a.status != http.StatusBadRequest {
		t.Errorf("twice in the query: %v", a)
	}
	if a := on.send(ask("GET", infoPath+"?access_token=")); a.status != http.StatusUnauthorized || a.body != "" {
		t.Errorf("empty in the query: %v", a)
	}
}

// Failures elsewhere throttle the address here, too.
func TestTL21_TokenInfoIsThrottledWithTheTokenEndpoint(t *testing.T) {
	d := start(t, func(o *options) { o.AddressFailures = 2 })
	pair, _ := d.tokens(d.client(client.Registration{}))
	from := local()
	for range 2 {
		r := d.a.about(introspectPath, "x")
		r.form.Set("client_secret", "wrong")
		d.sendFrom(from, r)
	}
	a := d.sendFrom(from, ask("GET", infoPath, bearer(pair.AccessToken)))
	if a.status != http.StatusTooManyRequests {
		t.Errorf("got %v", a)
	}
	compareHeader(t, a, "Retry-After: 60")
	if a := d.tokenInfo(pair.AccessToken); a.status != http.StatusOK {
		t.Errorf("from elsewhere: %v", a)
	}
}
