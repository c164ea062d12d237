package conformance_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

func TestAZ19_AZ20_NoParameterIsSentTwice(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours(func(r *client.Registration) { r.Audience = []string{"https://one.example/", "https://two.example/"} })
	good := asking(c, "scope=a", "nonce=n", "extra=e")
	at, _ := url.Parse(good)
	for name, values := range at.Query() {
		if name == "client_id" || name == "redirect_uri" || name == "realm" {
			continue // these are errors on a page: AZ-02, AZ-18, AZ-72
		}
		for _, second := range []string{values[0], "other", ""} {
			q := b.get(good+"&"+name+"="+second).told(t, redirect, "invalid_request")
			if name == "state" && q.Has("state") {
				t.Errorf("one of two states is echoed: %q", q["state"])
			} else if name != "state" && q.Get("state") != "st" {
				t.Errorf("%s repeated: state %q", name, q["state"])
			}
		}
	}
	for _, more := range []string{
		"&resource=https://one.example/", "&resource=https://one.example/&resource=https://two.example/",
		"&resource=https://two.example/&resource=https://two.example/", "&resource=https://one.example/&resource=",
	} {
		b.get(good+more).granted(t, redirect)
	}
}

func TestAZ21_AZ57_WhatIsUnknownIsIgnored(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for _, more := range []string{
		"extra=foobar", "nonce=" + strings.Repeat("n", 64), "nonce=" + strings.Repeat("n", 384), "display=popup", "acr_values=x", "id_token_hint=x",
		"claims=%7B%7D", "access_type=offline", "Scope=z", "STATE=z", "redirect_URI=https://evil.example/",
	} {
		if q := b.get(asking(c)+"&"+more).granted(t, redirect); len(q) != 3 || q.Get("state") != "st" {
			t.Errorf("%s: %d members, state %q", more, len(q), q.Get("state"))
		}
	}
}

func TestAZ22_AZ29_AZ31_AZ51_AnEmptyValueCountsAsOmitted(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for _, pairs := range [][]string{{"scope", "state"}, {"scope=", "state="}, {"scope=+", "state="}} {
		address := strings.ReplaceAll(asking(c, pairs...), "%2B", "+")
		q := b.get(address).granted(t, redirect)
		if q.Has("state") {
			t.Errorf("%q: state %q", pairs, q["state"])
		}
		if got := d.mustRedeem(c, q.Get("code")); got.Scope != "a b c" {
			t.Errorf("%q: tokens for %q", pairs, got.Scope)
		}
	}
	for _, name := range []string{"response_type", "code_challenge"} {
		b.get(asking(c, name+"=")).told(t, redirect, "invalid_request")
		b.get(asking(c, name)).told(t, redirect, "invalid_request")
	}
	b.get(asking(c, "code_challenge=", "code_challenge_method=")).told(t, redirect, "invalid_request")
	b.get(asking(c)+"&prompt=&max_age=&resource=&response_mode=&login_hint=&request=&request_uri=&nonce=").granted(t, redirect)
}

func TestAZ23_AZ24_AZ25_OnlyCodesAreGivenAndNotToEveryClient(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for text, code := range map[string]oauth.ErrorCode{
		"": "invalid_request", "token": "unsupported_response_type", "code token": "unsupported_response_type", "code id_token": "unsupported_response_type",
		"id_token": "unsupported_response_type", "code id_token token": "unsupported_response_type", "foo": "unsupported_response_type",
		"CODE": "unsupported_response_type", "code ": "unsupported_response_type", "code code": "unsupported_response_type", "none": "unsupported_response_type",
	} {
		s := b.get(asking(c, "response_type="+text))
		q := s.told(t, redirect, code)
		if q.Get("state") != "st" || q.Has("access_token") || q.Has("id_token") || strings.Contains(s.Header.Get("Location"), "mintage_") {
			t.Errorf("%q: members %d, state %q", text, len(q), q.Get("state"))
		}
	}
	other := d.ours(func(r *client.Registration) { r.GrantTypes = []string{store.GrantRefreshToken} })
	b.get(asking(other)).told(t, redirect, "unauthorized_client")
}

func TestAZ26_AZ27_AZ28_AZ29_Scopes(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for _, scope := range []string{"d", "a d", "A", "a,b", `a"`, `"`, `\`, "a\u00e9", "openid", strings.Repeat("a ", 200) + "d", strings.Repeat("x", 257)} {
		b.get(asking(c, "scope="+scope)).told(t, redirect, "invalid_scope")
	}
	b.get(asking(c, "scope=a\tb")).told(t, redirect, "invalid_request") // a character that no parameter may contain
	b.get(asking(c, "scope="+strings.Repeat("a ", 600))).told(t, redirect, "invalid_request")
	for sent, granted := range map[string]string{
		"a": "a", "c b a": "c b a", "b a c": "b a c", " a  b ": "a b", "a a b a": "a b", "c": "c",
	} {
		q := b.get(asking(c, "scope="+sent)).granted(t, redirect)
		tokens := d.mustRedeem(c, q.Get("code"))
		if tokens.Scope != granted {
			t.Errorf("%q: %q with the tokens", sent, tokens.Scope)
		}
	}
	// A consent to all scopes covers them in any order.
	b.agree(asking(d.a))
	b.get(asking(d.a, "scope=c b a", "prompt=none")).granted(t, redirect)
	b.get(asking(d.a, "scope=b", "prompt=none")).granted(t, redirect)
	// A consent to some scopes does not cover more, also if the request names none.
	b.agree(asking(d.b, "scope=a b"))
	b.get(asking(d.b, "scope=b", "prompt=none")).granted(t, redirect)
	for _, more := range []string{"scope=a b c", "scope=c", "scope"} {
		b.get(asking(d.b, more, "prompt=none")).told(t, redirect, "consent_required")
		if s := b.follow(b.get(asking(d.b, more))); s.field("step") != "consent" {
			t.Errorf("%s: not asked", more)
		}
	}
}

// states returns values of state that a client may send.
func states() []string {
	every := strings.Builder{}
	for c := byte(' '); c < 0x7f; c++ {
		every.WriteByte(c)
	}
	return []string{
		"x", "+", "%", "%2B", "%252B", "&", "#", "=", " ", "a b", "a+b", "\u00fc", "\u65e5\u672c", "\U0001f511", "<>", `"'`, "&error=x", "?code=y", ";", "a;b",
		every.String(), strings.Repeat("s", 1024), strings.Repeat("0123456789abcdef", 512), strings.Repeat("%", 2730),
	}
}

func TestAZ30_AZ32_AZ50_StateComesBackAsItWas(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for _, state := range states() {
		for _, address := range []string{
			asking(c, "state="+state), asking(c, "state="+state, "scope=nonsense"), asking(d.a, "state="+state, "prompt=none"),
		} {
			s := b.get(address)
			if got := s.location().Query()["state"]; s.StatusCode != 303 || !slices.Equal(got, []string{state}) {
				t.Errorf("status %d, state of %d bytes %.20q comes back as %.20q", s.StatusCode, len(state), state, got)
			}
		}
	}
	// Also through an interaction, which stores the state.
	for _, state := range states() {
		to := b.agree(asking(d.a, "state="+state, "prompt=consent", "login_hint="+strings.Repeat("<", 255), "ui_locales="+strings.Repeat("<", 255)))
		if q := to.Query(); q.Get("state") != state || q.Get("code") == "" {
			t.Errorf("a state of %d bytes, %.20q, comes back from an interaction as %.20q", len(state), state, q.Get("state"))
		}
	}
	b.get(asking(c, "state="+strings.Repeat("s", 8193))).told(t, redirect, "invalid_request")
}

func TestAZ50_LongAddresses(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	a := d.sendRaw(b, "GET", target(asking(c))+"&extra="+strings.Repeat("x", 8<<10))
	granted(t, a.status, a.to(), redirect)
	for _, size := range []int{64 << 10, 1 << 20} {
		conn := d.dial(local())
		go conn.Write([]byte("GET " + target(asking(c)) + "&extra=" + strings.Repeat("x", size) + " HTTP/1.1\r\nHost: auth.example\r\n\r\n"))
		a, err := converse(conn, "", "GET")
		conn.Close()
		if err != nil || a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("an address of %d bytes: %d, %v", size, a.status, err)
		}
	}
	d.sendRaw(b, "GET", target(asking(c))+strings.Repeat("&a", 100)).isRefusedPage(t, "a hundred parameters", 400)
}

func TestAZ33_NoLineBreakReachesAHeader(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for _, name := range []string{"state", "scope", "nonce", "client_id", "redirect_uri", "response_type", "prompt", "login_hint", "ui_locales", "code_challenge", "realm", "x"} {
		for _, breaks := range []string{"%0d%0a", "%0a", "%0d", "%E2%80%A8", "%C2%85", "%0d%0a%0d%0a"} {
			at := target(asking(c, name))
			if name == "realm" {
				at = strings.Replace(at, "realm=/api&", "", 1)
			}
			a := d.sendRaw(b, "GET", at+"&"+name+"=x"+breaks+"Set-Cookie:%20a=b")
			for header, values := range a.header {
				text := strings.Join(values, "\n")
				if header != "Location" && strings.Contains(text, "a=b") || strings.ContainsAny(strings.Join(values, ""), "\r\n") || header == "X" {
					t.Errorf("%s: %s: %q", name, header, text)
				}
			}
			if a.status != 303 && a.status != 400 || strings.Contains(a.body, "a=b") {
				t.Errorf("%s: status %d", name, a.status)
			}
			if a.status == 303 && name == "state" && breaks != "%E2%80%A8" && strings.Contains(a.to(), "state=") {
				t.Errorf("a foul state is echoed: %s", a.to())
			}
		}
	}
}

func TestAZ34_AZ35_FoulAndMalformedRequests(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for _, foul := range []string{"%00", "a%00b", "%ff", "%c3%28", "%ed%a0%80", "%f4%90%80%80", "%07", "%7f", "%ef%bb%bf"} {
		for _, name := range []string{"scope", "response_type", "extra", "nonce", "prompt"} {
			a := d.sendRaw(b, "GET", target(asking(c, name))+"&"+name+"="+foul)
			u, _ := url.Parse(a.to())
			if q := u.Query(); a.status != 303 || !strings.HasPrefix(a.to(), redirect+"?") || q.Get("error") != "invalid_request" || q.Get("state") != "st" {
				t.Errorf("%s=%s: %d, %.80s", name, foul, a.status, a.to())
			}
		}
		a := d.sendRaw(b, "GET", target(asking(c, "state"))+"&state="+foul)
		u, _ := url.Parse(a.to())
		if q := u.Query(); a.status != 303 || q.Get("error") != "invalid_request" || q.Has("state") {
			t.Errorf("state=%s: %d, %.80s", foul, a.status, a.to())
		}
		for _, name := range []string{"client_id", "redirect_uri"} {
			d.sendRaw(b, "GET", target(asking(c, name))+"&"+name+"="+foul).isRefusedPage(t, name+"="+foul, 400)
		}
	}
	for _, bad := range []string{"&extra=%zz", "&extra=%", "&extra=%2", "&%zz=x", ";extra=x", "&extra=a;b", "&state2=%u0041"} {
		d.sendRaw(b, "GET", target(asking(c))+bad).isRefusedPage(t, bad, 400)
	}
}

func TestAZ48_APostIsTheSameAsAGet(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	at, _ := url.Parse(asking(c, "state=\u00fc +%", "scope=b a"))
	form := at.Query()
	form.Del("realm")
	// A form that the client's site posts carries no SameSite=Lax cookies.
	stranger := d.browser()
	stranger.header = map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://client.example"}
	s := stranger.do("POST", authorizeURL, form)
	if s.StatusCode != 303 || !strings.HasPrefix(s.Header.Get("Location"), authorizeURL+"&") || s.Header["Set-Cookie"] != nil {
		t.Fatalf("status %d, Location %.60q, cookies %d", s.StatusCode, s.Header.Get("Location"), len(s.Header["Set-Cookie"]))
	}
	q := b.get(s.Header.Get("Location")).granted(t, redirect)
	if got := d.mustRedeem(c, q.Get("code")); q.Get("state") != "\u00fc +%" || got.Scope != "b a" {
		t.Errorf("state %q, scope %q", q.Get("state"), got.Scope)
	}
	// Some parameters in the query and some in the body are both read.
	s = b.post(publicURL+"/oauth2/api/authorize?response_type=code&client_id="+c.ID, "redirect_uri="+redirect, "code_challenge="+challenge, "code_challenge_method=S256")
	b.follow(s).granted(t, redirect)
	// A parameter in both counts as repeated.
	b.follow(b.do("POST", authorizeURL+"&scope=a", form)).told(t, redirect, "invalid_request")
	b.do("POST", authorizeURL+"&client_id="+c.ID, form).refusedPage(t, 400)
	b.do("POST", authorizeURL+"&realm=/api", form).refusedPage(t, 400)
	b.follow(b.do("POST", authorizeURL, with(form, "redirect_uri", "https://evil.example/"))).refusedPage(t, 400)
	for _, media := range []string{"application/json", "multipart/form-data; boundary=x", "text/plain", ""} {
		r := newRequest(form)
		r.target = target(authorizeURL)
		r.set("Content-Type", media)
		d.send(r).isRefusedPage(t, media, 400)
	}
	r := newRequest(with(form, "state", strings.Repeat("\u00fc", 4000)))
	r.target = target(authorizeURL)
	d.send(r).isRefusedPage(t, "too long for an address", 413)
}

func TestAZ49_OtherMethodsMakeNoCode(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for _, method := range []string{"HEAD", "PUT", "DELETE", "TRACE", "PATCH", "OPTIONS"} {
		for _, address := range []string{asking(c), interactionURL} {
			a := d.sendRaw(b, method, target(address))
			if a.status != 405 || !slices.Equal(a.header["Allow"], []string{"GET, POST"}) || a.header["Location"] != nil || a.header["Set-Cookie"] != nil {
				t.Errorf("%s: %d, Allow %q, Location %d", method, a.status, a.header["Allow"], len(a.header["Location"]))
			}
		}
	}
}

func TestAZ72_Realms(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	query := strings.TrimPrefix(asking(c), authorizeURL)
	for _, at := range []string{
		"/oauth2/authorize?realm=/api", "/oauth2/authorize?realm=%2Fapi", "/oauth2/authorize?realm=api", "/oauth2/authorize?", "/oauth2/api/authorize?",
		"/oauth2/realms/root/realms/api/authorize?", "/oauth2/api/authorize?realm=/api",
	} {
		b.get(publicURL+at+query).granted(t, redirect)
	}
	for _, at := range []string{
		"/oauth2/authorize?realm=/other", "/oauth2/authorize?realm=/", "/oauth2/authorize?realm=/api&realm=/api", "/oauth2/authorize?realm=/api&realm=/other",
		"/oauth2/authorize?realm=/API", "/oauth2/authorize?realm=//api", "/oauth2/authorize?realm=/api%00", "/oauth2/api/authorize?realm=/other",
		"/oauth2/authorize?realm=&realm=/other",
	} {
		b.get(publicURL+at+query).refusedPage(t, 400)
	}
	for _, path := range []string{"/oauth2/other/authorize?", "/oauth2/authorize/?", "/oauth2//authorize?", "/oauth2/Authorize?"} {
		if s := b.get(publicURL + path + query); s.StatusCode != 404 || s.Header.Get("Location") != "" {
			t.Errorf("%s: status %d", path, s.StatusCode)
		}
	}
}

func TestAZ73_ResponseModes(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for _, mode := range []string{"fragment", "FORM_POST", "jwt", "query.jwt", "web_message", "foo", "QUERY", "query fragment"} {
		b.get(asking(c, "response_mode="+mode)).told(t, redirect, "invalid_request")
	}
	b.get(asking(c, "response_mode=query")).granted(t, redirect)
}
