package conformance_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const pushURL = "/oauth2/api/par"

// pushing returns a client's pushed authorization request. The pairs are as in asking.
func pushing(c oauthClient, pairs ...string) *request {
	u, _ := url.Parse(asking(c, pairs...))
	form := u.Query()
	form.Del("realm")
	r := newRequest(c.identify(form))
	r.target = pushURL
	return r
}

// pushed pushes a request of c, and returns the authorization request that refers to it.
func (d *deployment) pushed(c oauthClient, pairs ...string) (address string) {
	d.t.Helper()
	a := d.send(pushing(c, pairs...))
	uri, _ := members(d.t, a.body)["request_uri"].(string)
	if a.status != http.StatusCreated || !strings.HasPrefix(uri, oauth.PushedPrefix) {
		d.t.Fatalf("pushed: %d %s", a.status, a.body)
	}
	return brings(c.ID, uri)
}

func brings(clientID, uri string) string {
	return authorizeURL + "&" + url.Values{"client_id": {clientID}, "request_uri": {uri}}.Encode()
}

func TestPA01_PA14_PA18_APushedRequestIsAnsweredWithAReference(t *testing.T) {
	d, b := signedIn(t)
	a := d.send(pushing(d.a, "state=kept"))
	got := members(t, a.body)
	uri, _ := got["request_uri"].(string)
	if a.status != 201 || fmt.Sprint(got["expires_in"]) != "60" || len(got) != 2 || len(uri) != len(oauth.PushedPrefix)+43 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if h := http.Header(a.header); h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("header %v", a.header)
	}
	if again := members(t, d.send(pushing(d.a)).body)["request_uri"]; again == uri {
		t.Error("the same reference again")
	}
	to := b.agree(brings(d.a.ID, uri))
	if to.Query().Get("state") != "kept" {
		t.Fatalf("the client hears %s", to)
	}
	form := d.a.redeem(to.Query().Get("code"))
	form.Set("code_verifier", verifier)
	if got := d.post(form); got.status != 200 {
		t.Errorf("its code: %s", got)
	}
}

func TestPA02_PA03_PA04_PA08_PA09_PA19_PA20_PA21_WhatIsNotPushed(t *testing.T) {
	d := start(t, withFront)
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	none := func(*request) {}
	for name, c := range map[string]struct {
		by     oauthClient
		pairs  []string
		edit   func(*request)
		status int
		code   oauth.ErrorCode
	}{
		"no authentication":     {d.a, nil, func(r *request) { r.form.Del("client_secret") }, 400, oauth.InvalidClient},
		"wrong secret":          {d.a, nil, func(r *request) { r.form.Set("client_secret", "x") }, 400, oauth.InvalidClient},
		"another client's name": {d.a, nil, func(r *request) { r.basic(d.a.ID, d.a.secret); r.form.Set("client_id", d.b.ID) }, 400, oauth.InvalidRequest},
		"request_uri":           {d.a, []string{"request_uri=" + oauth.PushedPrefix + "x"}, none, 400, oauth.InvalidRequest},
		"another request_uri":   {d.a, []string{"request_uri=https://client.example/request"}, none, 400, oauth.InvalidRequest}, // RFC 9126 section 2.1
		"request":               {d.a, []string{"request=x.y.z"}, none, 400, oauth.RequestNotSupported},
		"GET":                   {d.a, nil, func(r *request) { r.method = "GET" }, 405, oauth.InvalidRequest},
		"redirect URI":          {d.a, []string{"redirect_uri=https://other.example/"}, none, 400, oauth.InvalidRequest},
		"no redirect URI":       {d.a, []string{"redirect_uri"}, none, 400, oauth.InvalidRequest},
		"no PKCE":               {d.a, []string{"code_challenge", "code_challenge_method"}, none, 400, oauth.InvalidRequest},
		"plain":                 {public, []string{"code_challenge_method=plain"}, none, 400, oauth.InvalidRequest},
		"response type":         {d.a, []string{"response_type=token"}, none, 400, oauth.UnsupportedResponseType},
		"scope":                 {d.a, []string{"scope=nobody"}, none, 400, oauth.InvalidScope},
		"resource":              {d.a, []string{"resource=https://api.example/none"}, none, 400, oauth.InvalidTarget},
		"repeated":              {d.a, nil, func(r *request) { body := r.form.Encode() + "&state=again"; r.body = &body }, 400, oauth.InvalidRequest},
		"in the address":        {d.a, nil, func(r *request) { r.target += "?scope=a" }, 400, oauth.InvalidRequest},
		"JSON":                  {d.a, nil, func(r *request) { r.set("Content-Type", "application/json") }, 400, oauth.InvalidRequest},
	} {
		r := pushing(c.by, c.pairs...)
		c.edit(r)
		if a := d.send(r); a.status != c.status || a.Error != string(c.code) || strings.Contains(a.body, oauth.PushedPrefix) {
			t.Errorf("%s: %d %s, want %d %s", name, a.status, a.body, c.status, c.code)
		}
	}
	// A push involves no user, so prompt=none is accepted.
	if a := d.send(pushing(d.a, "prompt=none")); a.status != 201 {
		t.Errorf("prompt=none: %d %s", a.status, a.body)
	}
}

// Invalid use of a reference leads to an error page without a redirect.
func TestPA10_PA11_PA12_PA16_PA17_AReferenceIsOneClientsForAMinuteAndOnce(t *testing.T) {
	d, b := signedIn(t)
	address := d.pushed(d.a)
	for name, other := range map[string]string{
		"another client":  strings.Replace(address, d.a.ID, d.b.ID, 1),
		"unknown client":  strings.Replace(address, d.a.ID, "nobody", 1),
		"no client":       strings.Replace(address, "client_id=", "x=", 1),
		"guessed":         address[:len(address)-1] + "-",
		"another urn":     brings(d.a.ID, "urn:example:x"),
		"another host":    brings(d.a.ID, "https://client.example/request"),
		"an empty handle": brings(d.a.ID, oauth.PushedPrefix),
	} {
		b.get(other).refusedPage(t, 400)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	if b.agree(address).Query().Get("code") == "" {
		t.Fatal("the requests of others have used it")
	}
	// A used reference is rejected as used; that its content was also deleted is a second
	// line of defence.
	refused := strings.Count(d.log.String(), oauth.ErrPushed.Description)
	b.get(address).refusedPage(t, 400)
	if strings.Count(d.log.String(), oauth.ErrPushed.Description) != refused+1 {
		t.Error("the second use is refused for another reason")
	}
	late := d.pushed(d.a)
	d.step(login.PushedLifetime)
	b.get(late).refusedPage(t, 400)
}

// The page may be reloaded, in any browser, until one user has decided.
func TestPA13_PA25_AReloadGoesOnAndOneAnswerCounts(t *testing.T) {
	d := start(t, withFront)
	d.user(username)
	address := d.pushed(d.a)
	type visit struct {
		*browser
		shownPage
	}
	var pages []visit
	for range 3 {
		b := d.browser()
		d.signIn(b, username)
		for range 2 {
			pages = append(pages, visit{b, b.follow(b.get(address))})
		}
	}
	d.step(5 * time.Minute) // the interaction outlives the reference
	answers := make([]shownPage, len(pages))
	var all sync.WaitGroup
	for i, s := range pages {
		if s.field("id") == "" {
			t.Fatalf("visit %d: %d %s", i, s.StatusCode, s.title())
		}
		all.Go(func() {
			answers[i] = s.post(interactionURL, "id="+s.field("id"), "step=consent", "decision=allow", "remember=yes")
		})
	}
	all.Wait()
	codes := 0
	for _, a := range answers {
		if a.location().Query().Get("code") != "" {
			codes++
		} else {
			a.refusedPage(t, 409)
		}
	}
	if codes != 1 {
		t.Errorf("%d codes for one request", codes)
	}
}

func TestPA15_OnlyWhatWasPushedCounts(t *testing.T) {
	d, b := signedIn(t)
	address := d.pushed(d.a, "state=pushed", "scope=a") + "&" + url.Values{
		"state": {"address"}, "scope": {"b"}, "redirect_uri": {"https://evil.example/"}, "response_type": {"token"}, "code_challenge": {"x"},
	}.Encode()
	to := b.agree(address)
	if to.Query().Get("state") != "pushed" || !strings.HasPrefix(to.String(), redirect) {
		t.Fatalf("the client hears %s", to)
	}
	form := d.a.redeem(to.Query().Get("code"))
	form.Set("code_verifier", verifier)
	if a := d.post(form); a.status != 200 || a.Scope != "a" {
		t.Errorf("%s, scope %s", a, a.Scope)
	}
}

// The client's registration is checked again when the browser arrives.
func TestPA22_ARequestIsCheckedAgain(t *testing.T) {
	d, b := signedIn(t)
	address := d.pushed(d.a)
	d.change(d.a, func(c *store.Client) { c.RedirectURIs = []string{otherRedirect} })
	b.get(address).refusedPage(t, 400)
}

func TestPA05_TooMuchIsNotStored(t *testing.T) {
	d := start(t, withFront)
	for _, length := range []int{oauth.MaxForm, store.MaxDocument} {
		r := pushing(d.a)
		body := r.form.Encode() + "&x=" + strings.Repeat("x", length)
		r.body = &body
		if a := d.send(r); a.status != 413 {
			t.Errorf("%d bytes: %d %s", length, a.status, a.body)
		}
	}
}

func TestAZ65_MD16_RequestsMustBePushedWhereThatIsRequired(t *testing.T) {
	d, b := signedIn(t)
	one := d.change(d.a, func(c *store.Client) { c.RequirePAR = true })
	b.get(asking(one)).told(t, redirect, oauth.InvalidRequest)
	if b.agree(d.pushed(one)).Query().Get("code") == "" {
		t.Error("a pushed request is refused")
	}
	d.authorizer.RequirePAR = true
	b.get(asking(d.b)).told(t, redirect, oauth.InvalidRequest)
	metadata := d.metadata()
	if metadata["pushed_authorization_request_endpoint"] != publicURL+pushURL || metadata["require_pushed_authorization_requests"] != false || metadata["request_uri_parameter_supported"] != false {
		t.Errorf("metadata %v", metadata)
	}
}

// A self-registered client may push a request before any user has consented to it.
func TestSelfRegisteredClientsPush(t *testing.T) {
	d := start(t, registering)
	d.withAPIs()
	d.user(username)
	b := d.browser()
	d.signIn(b, username)
	c := d.selfRegistered("Agent")
	d.mustIssue(d.post(c.challenged(b.decide(b.open(d.pushed(c, "scope=orders")).at(t, "consent"), "allow").code(t, redirect))))

	// Its sealed registration says what it may ask for, also before a user has agreed.
	for _, fresh := range []oauthClient{c, d.selfRegistered("Agent")} {
		for wrong, code := range map[string]oauth.ErrorCode{
			"redirect_uri=x": oauth.InvalidRequest, "redirect_uri=https://evil.example/cb": oauth.InvalidRequest,
			"scope=payments": oauth.InvalidScope, "resource=https://unknown.example": oauth.InvalidTarget, "code_challenge": oauth.InvalidRequest,
		} {
			if a := d.send(pushing(fresh, wrong)); a.status != 400 || a.Error != string(code) {
				t.Errorf("%s: %d %s", wrong, a.status, a.body)
			}
		}
	}
}
