package oauth_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

const whole = "response_type=code&client_id=shop&redirect_uri=https://shop.example/cb&state=st&scope=b+a&code_challenge=" + challenge +
	"&code_challenge_method=S256&prompt=login+consent&max_age=60&login_hint=alice&ui_locales=ja+en&resource=https://api.example/"

func TestParseAuthorization(t *testing.T) {
	age := 60
	want := oauth.AuthorizationRequest{
		ClientID: "shop", RedirectURI: "https://shop.example/cb", State: []byte("st"), Scope: "b a", Challenge: challenge,
		Prompt: oauth.Prompt{Login: true, Consent: true}, MaxAge: &age, LoginHint: "alice", UILocales: "ja en", Resources: []string{"https://api.example/"},
	}
	half := strings.Index(whole, "&state")
	for _, sent := range [][2]string{{"", whole}, {whole, ""}, {whole[:half], whole[half+1:]}, {"", whole + "&realm=api"}, {whole, "x=y&realm=api"}} {
		got, realm, err := oauth.ParseAuthorization(sent[0], sent[1])
		if err != nil || !reflect.DeepEqual(got, want) || (realm == "api") != strings.Contains(sent[1], "realm") {
			t.Errorf("%q: %+v, realm %q, %v", sent, got, realm, err)
		}
	}
}

// If a request has several defects, the order of these checks decides which one is
// reported: first how it was sent, then each parameter.
func TestParseAuthorizationDefects(t *testing.T) {
	without := func(name string) string {
		var left []string
		for pair := range strings.SplitSeq(whole, "&") {
			if !strings.HasPrefix(pair, name+"=") {
				left = append(left, pair)
			}
		}
		return strings.Join(left, "&")
	}
	with := func(name, value string) string { return without(name) + "&" + name + "=" + value }
	long := func(n int) string { return strings.Repeat("a", n) }
	for _, tt := range []struct {
		query  string
		defect *oauth.Error
	}{
		{whole, nil},
		{whole + "&x=y", nil},
		{whole + "&x=y&x=y", oauth.ErrRepeated},
		{whole + "&state=st", oauth.ErrRepeated},
		{whole + "&state=", oauth.ErrRepeated},
		{whole + "&x=%00", oauth.ErrMalformedValue},
		{whole + "&x%0a=y", oauth.ErrMalformedValue},
		{with("state", "%ff"), oauth.ErrMalformedValue},
		{with("state", long(8192)), nil},
		{with("state", long(8193)), oauth.ErrTooLong},
		{with("login_hint", long(256)), oauth.ErrTooLong},
		{with("resource", "https://"+long(2041)), oauth.ErrTooLong},
		{whole + "&request=x&request_uri=y", oauth.ErrRequestObject},
		{whole + "&request_uri=y", oauth.ErrRequestURI},
		{without("response_type"), oauth.ErrNoResponseType},
		{with("response_type", "CODE"), oauth.ErrResponseType},
		{with("response_type", "code+token"), oauth.ErrResponseType},
		{whole + "&response_mode=query", nil},
		{whole + "&response_mode=fragment", oauth.ErrResponseMode},
		{without("code_challenge"), oauth.ErrNoChallenge},
		{without("code_challenge_method"), oauth.ErrChallengeMethod},
		{with("code_challenge_method", "plain"), oauth.ErrChallengeMethod},
		{with("code_challenge", challenge+"="), oauth.ErrChallenge},
		{with("prompt", "none"), nil},
		{with("prompt", "none+login"), oauth.ErrPrompt},
		{with("prompt", "create"), oauth.ErrPrompt},
		{with("max_age", "0"), nil},
		{with("max_age", "9999999999999999999"), oauth.ErrMaxAge},
		{with("max_age", "-1"), oauth.ErrMaxAge},
		{with("max_age", "%2B1"), oauth.ErrMaxAge},
		{with("max_age", "1.0"), oauth.ErrMaxAge},
		{with("scope", `a"b`), oauth.ErrScope},
		{with("resource", "/api"), oauth.ErrTarget},
		{with("resource", "https://api.example/%23"), oauth.ErrTarget},
		{whole + "&resource=urn:x:y&resource=", nil},
		// The first defect counts.
		{with("scope", `a"b`) + "&request=x&x=y&x=z", oauth.ErrRepeated},
		{with("scope", `a"b`) + "&request=x", oauth.ErrRequestObject},
		{with("scope", `a"b`) + "&response_mode=jwt", oauth.ErrResponseMode},
	} {
		r, _, err := oauth.ParseAuthorization("", tt.query)
		if err != nil || r.Defect != tt.defect {
			t.Errorf("%.200s: %v, %v; want %v", tt.query, r.Defect, err, tt.defect)
		}
		if r.ClientID != "shop" || r.RedirectURI != "https://shop.example/cb" {
			t.Errorf("%.200s: client %q at %q", tt.query, r.ClientID, r.RedirectURI)
		}
	}
}

// Without client and redirect URI, no error can be redirected.
func TestParseAuthorizationErrors(t *testing.T) {
	const uri = "&redirect_uri=https://shop.example/cb"
	for query, want := range map[string]error{
		"":                                              oauth.ErrAuthorizationClient,
		"response_type=code":                            oauth.ErrAuthorizationClient,
		"client_id=" + uri:                              oauth.ErrAuthorizationClient,
		"client_id=a&client_id=a" + uri:                 oauth.ErrAuthorizationClient,
		"client_id=a&client_id=" + uri:                  oauth.ErrAuthorizationClient,
		"client_id=a%00" + uri:                          oauth.ErrAuthorizationClient,
		"client_id=a%00&client_id=a" + uri:              oauth.ErrAuthorizationClient,
		"client_id=a&client_id=b%00" + uri:              oauth.ErrAuthorizationClient,
		"client_id=" + strings.Repeat("a", 256) + uri:   oauth.ErrAuthorizationClient,
		"client_id=a":                                   oauth.ErrAuthorizationRedirect,
		"client_id=a" + uri + uri:                       oauth.ErrAuthorizationRedirect,
		"client_id=a" + uri + "&redirect_uri=":          oauth.ErrAuthorizationRedirect,
		"client_id=a" + uri + "%0a":                     oauth.ErrAuthorizationRedirect,
		"client_id=a" + uri + strings.Repeat("a", 2048): oauth.ErrAuthorizationRedirect,
		"client_id=a&x=%zz" + uri:                       oauth.ErrMalformedBody,
		"client_id=a;x=y" + uri:                         oauth.ErrMalformedBody,
		strings.Repeat("a&", 64) + "client_id=a" + uri:  oauth.ErrMalformedBody,
		"client_id=a&realm=x&realm=x" + uri:             oauth.ErrRealm,
		"client_id=a&realm=x%00" + uri:                  oauth.ErrRealm,
	} {
		if r, _, err := oauth.ParseAuthorization("", query); err != want {
			t.Errorf("%.80s: %v, %+v; want %v", query, err, r, want)
		}
	}
	if _, _, err := oauth.ParseAuthorization("realm=x", "realm=x&client_id=a"+uri); err != oauth.ErrRealm {
		t.Errorf("a realm in body and query: %v", err)
	}
}

// sent returns every value of each parameter, parsed independently.
func sent(parts ...string) (url.Values, error) {
	all := url.Values{}
	for _, part := range parts {
		v, err := url.ParseQuery(part)
		if err != nil {
			return nil, err
		}
		for name, values := range v {
			all[name] = append(all[name], values...)
		}
	}
	return all, nil
}

func FuzzParseAuthorization(f *testing.F) {
	f.Add("", whole)
	f.Add(whole, "realm=/api")
	for _, s := range []string{
		"client_id=a&client_id=b", "&state=%00", "&state=x&state=x", "&resource=a&resource=b", "&prompt=none", "&prompt=none login", "&max_age=1",
		"&request_uri=x", "&scope=%22", "&code_challenge=x", "&realm=x&realm=x", "&response_type=token", "&a=%zz", ";", "&redirect_uri=https://evil.example/",
	} {
		f.Add("", whole+s)
		f.Add(s, whole)
	}
	registered := []string{"https://shop.example/cb", "http://127.0.0.1/cb"}
	f.Fuzz(func(t *testing.T, body, query string) {
		r, realm, err := oauth.ParseAuthorization(body, query)
		all, parseErr := sent(body, query)
		if err != nil {
			var told *oauth.Error
			if !errors.As(err, &told) || told.Code != oauth.InvalidRequest || told.Description == "" {
				t.Fatalf("error %v is for nobody", err)
			}
			if parseErr == nil && len(all["realm"]) == 0 && strings.Count(body, "&")+strings.Count(query, "&") < 60 && !strings.Contains(body+query, ";") &&
				good(all["client_id"], 255) && good(all["redirect_uri"], 2048) {
				t.Fatalf("%q and %q are refused for all: %v", body, query, err)
			}
			return
		}
		if parseErr != nil {
			t.Fatalf("accepted what the standard library refuses: %v", parseErr)
		}
		// The response goes only to an address that was sent once and is registered.
		if !slices.Equal(all["client_id"], []string{r.ClientID}) || !slices.Equal(all["redirect_uri"], []string{r.RedirectURI}) ||
			!good([]string{r.ClientID}, 255) || !good([]string{r.RedirectURI}, 2048) {
			t.Fatalf("client %q at %q of %q", r.ClientID, r.RedirectURI, all)
		}
		if oauth.MatchRedirectURI(registered, r.RedirectURI) && !slices.Contains(registered, r.RedirectURI) && !differsInPort(registered[1], r.RedirectURI) {
			t.Fatalf("%q is matched", r.RedirectURI)
		}
		if r.State != nil && (!slices.Equal(all["state"], []string{string(r.State)}) || !good(all["state"], 8192)) {
			t.Fatalf("state %q of %q", r.State, all["state"])
		}
		if realm != "" && all.Get("realm") != realm && !slices.Contains(all["realm"], realm) {
			t.Fatalf("realm %q of %q", realm, all["realm"])
		}
		if r.Defect != nil {
			if r.Defect.Code == "" || r.Defect.Description == "" || strings.ContainsFunc(r.Defect.Description, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
				t.Fatalf("defect %v", r.Defect)
			}
		} else {
			checkSound(t, r, all)
		}
		// The place of a parameter makes no difference (RFC 6749 section 3.1).
		if strings.Count(body, "&")+strings.Count(query, "&") < 60 {
			moved, movedRealm, err := oauth.ParseAuthorization("", query+"&"+body)
			if err != nil || movedRealm != realm || !reflect.DeepEqual(moved, r) {
				t.Fatalf("in the query alone: %+v, realm %q, %v; in two places: %+v, realm %q", moved, movedRealm, err, r, realm)
			}
		}
	})
}

// good reports whether values is a single usable value.
func good(values []string, most int) bool {
	return len(values) == 1 && values[0] != "" && len(values[0]) <= most && printable(values[0])
}

// checkSound compares a request without a defect with what was sent.
func checkSound(t *testing.T, r oauth.AuthorizationRequest, all url.Values) {
	t.Helper()
	for name, values := range all {
		for _, value := range values {
			if !printable(name) || name != "" && !printable(value) {
				t.Fatalf("%q=%q is no defect", name, value)
			}
		}
		if name != "" && name != "resource" && name != "realm" && len(values) != 1 {
			t.Fatalf("%q is sent %d times", name, len(values))
		}
	}
	if all.Get("response_type") != "code" || all.Get("request") != "" || all.Get("request_uri") != "" || all.Get("response_mode") != "" && all.Get("response_mode") != "query" {
		t.Fatalf("no defect in %q", all)
	}
	_, ok := oauth.ParseChallenge(r.Challenge)
	if r.Challenge != all.Get("code_challenge") || r.Challenge != "" && (!ok || all.Get("code_challenge_method") != "S256") || r.Challenge == "" && all.Get("code_challenge_method") != "" {
		t.Fatalf("challenge %q by %q", r.Challenge, all.Get("code_challenge_method"))
	}
	if scope, err := oauth.ParseScope(all.Get("scope")); err != nil || scope != r.Scope {
		t.Fatalf("scope %q of %q", r.Scope, all.Get("scope"))
	}
	if r.Prompt.None && (r.Prompt.Login || r.Prompt.Consent || r.Prompt.SelectAccount) || string(r.State) != all.Get("state") {
		t.Fatalf("prompt %+v, state %q", r.Prompt, r.State)
	}
	if (r.MaxAge != nil) != (all.Get("max_age") != "") || r.MaxAge != nil && *r.MaxAge < 0 {
		t.Fatalf("max_age of %q", all.Get("max_age"))
	}
	for _, resource := range r.Resources {
		if u, err := url.Parse(resource); err != nil || u.Scheme == "" || strings.Contains(resource, "#") || !slices.Contains(all["resource"], resource) {
			t.Fatalf("resource %q", resource)
		}
	}
}

// Unknown parameters of another server's response are ignored.
func TestParseCallback(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		want  oauth.Params
		err   error
	}{
		"a code":                       {"code=c&state=s&iss=https%3A%2F%2Fid.example", oauth.Params{"code": "c", "state": "s", "iss": "https://id.example"}, nil},
		"an error of several lines":    {"error=access_denied&error_description=no%0d%0aTrace:+1&state=s", oauth.Params{"error": "access_denied", "state": "s"}, nil},
		"something repeated":           {"code=c&state=s&x=1&x=2&session_state=%00", oauth.Params{"code": "c", "state": "s"}, nil},
		"two codes":                    {"code=c&code=d&state=s", nil, oauth.ErrRepeated},
		"two states, one of them foul": {"code=c&state=s&state=%00", nil, oauth.ErrMalformedValue},
		"a foul code":                  {"code=%00&state=s", nil, oauth.ErrMalformedValue},
		"a broken escape":              {"code=%zz", nil, oauth.ErrMalformedBody},
		"a code longer than ours":      {"code=" + strings.Repeat("c", 6000), oauth.Params{"code": strings.Repeat("c", 6000)}, nil},
	} {
		p, err := oauth.ParseCallback(c.query)
		if err != c.err || !maps.Equal(p, c.want) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func TestCanonicalTargets(t *testing.T) {
	for uri, want := range map[string]string{
		"HTTPS://Api.EXAMPLE/Orders/": "https://api.example/Orders", "https://API.example": "https://api.example", "https://API.example?Q": "https://api.example?Q",
		"https://User@API.example/x": "https://User@api.example/x", "https://a//": "https://a/", "URN:Example:A": "urn:Example:A", "Orders": "Orders",
	} {
		if got := oauth.CanonicalTarget(uri); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

// Interactions of earlier versions contain requests in the same form.
func TestTheStoredFormOfAKey(t *testing.T) {
	const text = `{"client_id":"c","redirect_uri":"","prompt":{},"dpop_jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}`
	var r, again oauth.AuthorizationRequest
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.JKT.String() != "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" {
		t.Fatalf("%s, %v", r.JKT, err)
	}
	if got, err := json.Marshal(r); err != nil || string(got) != text {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := json.Marshal(oauth.AuthorizationRequest{}); err != nil || strings.Contains(string(got), "dpop_jkt") {
		t.Errorf("%s, %v", got, err)
	}
	// A base64 decoder ignores line breaks.
	for _, jkt := range []string{"short", "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4J", `0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguAA\n`, strings.Repeat("A", 43)} {
		if err := json.Unmarshal([]byte(`{"dpop_jkt":"`+jkt+`"}`), &again); err == nil {
			t.Errorf("read %s, which is no thumbprint", jkt)
		}
	}
}
