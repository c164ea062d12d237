package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/upstream"
)

func TestTheBrowserIsSentWithEverythingTheProviderHasToKnow(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	cfg := p.config()
	cfg.Scopes = []string{"email", "openid", "profile"}
	u := upstream.New(cfg)
	age := 60
	for name, c := range map[string]struct {
		request upstream.Request
		want    url.Values // in addition to the constant ones
	}{
		"the least":       {upstream.Request{State: "s1"}, url.Values{}},
		"hints":           {upstream.Request{State: "s&2", LoginHint: "alice@example.com", UILocales: "ja en"}, url.Values{"login_hint": {"alice@example.com"}, "ui_locales": {"ja en"}}},
		"an age":          {upstream.Request{State: "s1", MaxAge: &age}, url.Values{"max_age": {"60"}}},
		"a login":         {upstream.Request{State: "s1", MaxAge: &age, ForceLogin: true}, url.Values{"prompt": {"login"}, "max_age": {"0"}}},
		"an account":      {upstream.Request{State: "s1", SelectAccount: true}, url.Values{"prompt": {"select_account"}}},
		"both of the two": {upstream.Request{State: "s1", SelectAccount: true, ForceLogin: true}, url.Values{"prompt": {"login select_account"}, "max_age": {"0"}}},
	} {
		pending := p.begin(u, c.request)
		address, query, _ := strings.Cut(pending.URL, "?")
		got, err := url.ParseQuery(query)
		if err != nil || address != p.url+"/auth" {
			t.Fatalf("%s: %s, %v", name, address, err)
		}
		// The endpoint's own query is kept (RFC 6749 section 3.1).
		for member, want := range map[string]string{
			"tenant": "t1", "response_type": "code", "client_id": clientID, "redirect_uri": redirectURL, "scope": "openid email profile",
			"state": c.request.State, "nonce": pending.Nonce, "code_challenge_method": "S256",
		} {
			if !slices.Equal(got[member], []string{want}) {
				t.Errorf("%s: %s is %q, want %q", name, member, got[member], want)
			}
			got.Del(member)
		}
		if challenge := got.Get("code_challenge"); len(challenge) != 43 || challenge == pending.Verifier {
			t.Errorf("%s: a challenge of %d characters", name, len(challenge))
		}
		got.Del("code_challenge")
		if got.Encode() != c.want.Encode() {
			t.Errorf("%s: the rest is %q, want %q", name, got.Encode(), c.want.Encode())
		}
		if age != 60 {
			t.Errorf("%s: the caller's max_age was changed", name)
		}
	}
}

func TestEachLoginHasANonceAndAVerifierOfItsOwn(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	u := upstream.New(p.config())
	seen := map[string]bool{}
	for range 20 {
		pending := p.begin(u, upstream.Request{State: "s"})
		for _, secret := range []string{pending.Nonce, pending.Verifier} {
			if len(secret) < 22 || seen[secret] {
				t.Errorf("a secret of %d characters, seen before: %t", len(secret), seen[secret])
			}
			seen[secret] = true
		}
	}
}

func TestMetadataThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	send := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		change object
		answer http.HandlerFunc
		want   error
		says   string
	}{
		"another issuer":               {object{"issuer": "https://evil.example"}, nil, upstream.ErrInvalid, "did not match"},
		"an issuer with a slash more":  {object{"issuer": "SLASH"}, nil, upstream.ErrInvalid, "did not match"},
		"no authorization endpoint":    {object{"authorization_endpoint": nil}, nil, upstream.ErrInvalid, "authorization_endpoint: missing"},
		"no token endpoint":            {object{"token_endpoint": nil}, nil, upstream.ErrInvalid, "token_endpoint: missing"},
		"no keys":                      {object{"jwks_uri": nil}, nil, upstream.ErrInvalid, "jwks_uri: missing"},
		"an endpoint that is a script": {object{"authorization_endpoint": "javascript://x/alert(1)"}, nil, upstream.ErrInvalid, "not https"},
		"an authorization by FTP":      {object{"authorization_endpoint": "ftp://login.example/auth"}, nil, upstream.ErrInvalid, "authorization_endpoint: not https"},
		"tokens by FTP":                {object{"token_endpoint": "ftp://login.example/token"}, nil, upstream.ErrInvalid, "token_endpoint: not https"},
		"keys by FTP":                  {object{"jwks_uri": "ftp://login.example/keys"}, nil, upstream.ErrInvalid, "jwks_uri: not https"},
		"an endpoint without a host":   {object{"token_endpoint": "/token"}, nil, upstream.ErrInvalid, "not an absolute URL"},
		"algorithms for secrets only":  {object{"id_token_signing_alg_values_supported": []string{"HS256", "none"}}, nil, upstream.ErrInvalid, "algorithms"},
		"no method that we have":       {object{"token_endpoint_auth_methods_supported": []string{"private_key_jwt"}}, nil, upstream.ErrInvalid, "client_secret_basic"},
		"members of another type":      {object{"token_endpoint_auth_methods_supported": "all"}, nil, upstream.ErrInvalid, "discovery"},
		"no JSON":                      {nil, send(200, "<html>"), upstream.ErrInvalid, "discovery"},
		"far too much":                 {nil, send(200, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`), upstream.ErrInvalid, "larger than"},
		"absent":                       {nil, send(404, "no"), upstream.ErrUnavailable, "404"},
		"moved":                        {nil, send(302, ""), upstream.ErrUnavailable, "302"},
		"a fault":                      {nil, send(503, "no"), upstream.ErrUnavailable, "503"},
		"cut off": {nil, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			w.Write([]byte("{"))
		}, upstream.ErrUnavailable, "EOF"},
	} {
		p := newProvider(t)
		for member, v := range c.change {
			if v == "SLASH" {
				v = p.url + "/"
			}
			p.metadata = p.metadata.with(object{member: v})
		}
		p.answers[discoveryPath] = c.answer
		_, err := upstream.New(p.config()).Begin(t.Context(), upstream.Request{State: "s"})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 600 {
			t.Errorf("%s: %.600v, want %v with %q", name, err, c.want, c.says)
		}
	}
}

// A logout endpoint at an unsafe address is ignored: no browser is sent there.
func TestALogoutEndpointAtAnUnsafeAddressIsIgnored(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"ftp://login.example/end", "javascript://x/alert(1)", "/end", "https://user@login.example/end"} {
		p := newProvider(t)
		p.metadata["end_session_endpoint"] = address
		if at, err := upstream.New(p.config()).EndSession(t.Context(), "alice", "s"); err != nil || at != "" {
			t.Errorf("%s: %q, %v", address, at, err)
		}
	}
	p := newProvider(t)
	p.metadata["end_session_endpoint"] = p.url + "/end"
	if at, err := upstream.New(p.config()).EndSession(t.Context(), "alice", "s"); err != nil || !strings.HasPrefix(at, p.url+"/end?") {
		t.Errorf("a safe one: %q, %v", at, err)
	}
}

// The code must not be sent over a less safe connection than the provider's own.
func TestAProviderOverHTTPSHasAllItsEndpointsThere(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	cfg := p.config()
	cfg.Issuer = "https://login.example"
	p.metadata["issuer"] = cfg.Issuer
	cfg.HTTP = &http.Client{Transport: rerouted(p.url)}
	if _, err := upstream.New(cfg).Begin(t.Context(), upstream.Request{}); !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "not https") {
		t.Errorf("Begin: %v, want ErrInvalid", err)
	}
	for _, member := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
		p.metadata[member] = strings.Replace(p.metadata[member].(string), p.url, cfg.Issuer, 1)
	}
	p.claims["iss"] = cfg.Issuer
	if _, err := p.login(upstream.New(cfg), upstream.Request{}); err != nil {
		t.Errorf("over https: %v", err)
	}
}

// rerouted sends every request to one server, whatever the address.
func rerouted(to string) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(to, "http://")
		return http.DefaultTransport.RoundTrip(r)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheClientAuthenticatesAsTheProviderLikesIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		methods any
		public  bool
		basic   bool
	}{
		"nothing said":    {nil, false, true},
		"basic":           {[]string{"private_key_jwt", "client_secret_basic", "client_secret_post"}, false, true},
		"in the body":     {[]string{"client_secret_post"}, false, false},
		"a public client": {[]string{"client_secret_basic", "none"}, true, false},
	} {
		p := newProvider(t)
		p.metadata = p.metadata.with(object{"token_endpoint_auth_methods_supported": c.methods})
		cfg := p.config()
		if c.public {
			cfg.ClientSecret = ""
		}
		header, body := false, false
		p.answers["/token"] = func(w http.ResponseWriter, r *http.Request) {
			_, _, header = r.BasicAuth()
			body = r.PostFormValue("client_secret") != ""
			w.Header().Set("Content-Type", "application/json")
			if c.public {
				r.SetBasicAuth(clientID, url.QueryEscape(clientSecret))
			}
			p.token(w, r)
		}
		if _, err := p.login(upstream.New(cfg), upstream.Request{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if header != c.basic || body != (!c.basic && !c.public) {
			t.Errorf("%s: by header %t, by body %t", name, header, body)
		}
	}
}

func TestAProviderThatIsDownIsAskedAgainAndOnceForAll(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	p.answers[discoveryPath] = down
	u := upstream.New(p.config())
	if p.asked[discoveryPath].Load() != 0 {
		t.Error("the provider is asked before anybody logs in")
	}
	if _, err := u.Begin(t.Context(), upstream.Request{}); !errors.Is(err, upstream.ErrUnavailable) {
		t.Errorf("Begin: %v, want ErrUnavailable", err)
	}
	if _, err := u.Finish(t.Context(), upstream.Answer{Code: code}, upstream.Pending{}); !errors.Is(err, upstream.ErrUnavailable) {
		t.Errorf("Finish: %v, want ErrUnavailable", err)
	}
	delete(p.answers, discoveryPath)
	p.asked[discoveryPath].Store(0)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := u.Begin(t.Context(), upstream.Request{}); err != nil {
				t.Errorf("Begin: %v", err)
			}
		})
	}
	all.Wait()
	if n := p.asked[discoveryPath].Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}

	// Expired metadata are fetched again, and stay in use while that fails.
	p.answers[discoveryPath] = down
	p.now = p.now.Add(2 * time.Hour)
	p.claims = p.claims.with(object{"iat": p.now.Unix(), "exp": p.now.Add(time.Minute).Unix()})
	if _, err := p.login(u, upstream.Request{}); err != nil {
		t.Errorf("with old metadata: %v", err)
	}
	settled(func() bool { return p.asked[discoveryPath].Load() > 1 })
	if n := p.asked[discoveryPath].Load(); n < 2 {
		t.Errorf("old metadata were not read again: asked %d times", n)
	}
}

// settled waits until a condition holds, at most a minute.
func settled(so func() bool) {
	for deadline := time.Now().Add(time.Minute); !so() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

func TestAKeyThatIsUnknownIsLookedForAndAFaultIsNoForgery(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	u := upstream.New(p.config())
	if _, err := p.login(u, upstream.Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.login(u, upstream.Request{}); err != nil {
		t.Fatal(err)
	}
	if n := p.asked["/keys"].Load(); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
	p.signing.Key = stranger(t) // with the known kid
	later := func() {
		p.now = p.now.Add(time.Minute)
		p.claims = p.claims.with(object{"iat": p.now.Unix(), "exp": p.now.Add(time.Minute).Unix()})
	}
	if _, err := p.login(u, upstream.Request{}); !errors.Is(err, upstream.ErrInvalid) || p.asked["/keys"].Load() != 1 {
		t.Errorf("a moment after the keys were read: %v, and they were read %d times", err, p.asked["/keys"].Load())
	}
	later()
	p.answers["/keys"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	_, err := p.login(u, upstream.Request{})
	if !errors.Is(err, upstream.ErrUnavailable) || errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "503") {
		t.Errorf("keys that cannot be read: %v, want ErrUnavailable", err)
	}
	if _, err := p.login(u, upstream.Request{}); !errors.Is(err, upstream.ErrUnavailable) || p.asked["/keys"].Load() != 2 {
		t.Errorf("a moment after that: %v, want ErrUnavailable; the keys were read %d times", err, p.asked["/keys"].Load())
	}
	later()
	p.answers["/keys"] = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(strings.Repeat("x", 1<<20))) }
	if _, err = p.login(u, upstream.Request{}); !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "larger than") && !strings.Contains(err.Error(), "signature") {
		t.Errorf("keys that are too many: %v, want ErrInvalid", err)
	}
}

// Anybody can send a logout token with an unknown kid.
func TestUnknownKidsCauseOneFetchAMinute(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	u := upstream.New(p.config())
	if _, err := p.login(u, upstream.Request{}); err != nil {
		t.Fatal(err)
	}
	known := p.signing
	for minute := range 3 {
		for i := range 40 {
			p.signing = jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: stranger(t), KeyID: strconv.Itoa(i)}}
			payload, err := json.Marshal(p.claims.with(object{"jti": "1", "sid": "s", "events": object{"http://schemas.openid.net/event/backchannel-logout": object{}}}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.Logout(t.Context(), p.signed(payload)); !errors.Is(err, upstream.ErrInvalid) {
				t.Fatalf("an unknown kid: %v, want ErrInvalid", err)
			}
		}
		if n := p.asked["/keys"].Load(); int(n) != 1+minute {
			t.Errorf("after %d minutes and %d tokens with unknown kids, the keys were read %d times", minute, 40*(minute+1), n)
		}
		p.now = p.now.Add(time.Minute)
		p.claims = p.claims.with(object{"iat": p.now.Unix(), "exp": p.now.Add(time.Minute).Unix()})
	}
	// A new key is still found.
	p.signing = known
	if _, err := p.login(u, upstream.Request{}); err != nil {
		t.Error(err)
	}
}

// A caller that has read expired metadata before another caller's fetch ended uses that
// fetch's result.
func TestALateCallerDoesNotReadTheMetadataAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		answers := roundTripper(func(r *http.Request) (*http.Response, error) {
			asked++
			w := httptest.NewRecorder()
			json.NewEncoder(w).Encode(object{"issuer": "https://login.example", "authorization_endpoint": "https://login.example/auth", "token_endpoint": "https://login.example/token", "jwks_uri": "https://login.example/keys"})
			return w.Result(), nil
		})
		late := func() {} // runs between a caller's read of the metadata and its fetch
		u := upstream.New(upstream.Config{Issuer: "https://login.example", ClientID: clientID, HTTP: &http.Client{Transport: answers}, Now: func() time.Time {
			f := late
			late = func() {}
			f()
			return time.Now()
		}})
		begin := func() {
			if _, err := u.Begin(t.Context(), upstream.Request{}); err != nil {
				t.Errorf("Begin: %v", err)
			}
			synctest.Wait()
		}
		begin()
		time.Sleep(2 * time.Hour) // the bubble's time
		late = begin
		begin()
		if asked != 2 {
			t.Errorf("the metadata were read %d times, want 2: first, and after their time", asked)
		}
	})
}

func TestAProviderThatDoesNotAnswerIsGivenFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		u := upstream.New(upstream.Config{Issuer: "https://login.example", ClientID: clientID, HTTP: &http.Client{Transport: hangs}, Now: time.Now})
		began := time.Now()
		if _, err := u.Begin(t.Context(), upstream.Request{}); !errors.Is(err, upstream.ErrUnavailable) {
			t.Errorf("Begin: %v, want ErrUnavailable", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("after %s", took)
		}
		// A caller with a shorter timeout does not end the request for a later caller
		// with a longer one.
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		var both sync.WaitGroup
		wait := func(ctx context.Context, want time.Duration) {
			both.Go(func() {
				_, err := u.Begin(ctx, upstream.Request{})
				if took := time.Since(began); !errors.Is(err, upstream.ErrUnavailable) || took != want {
					t.Errorf("%v after %s, want ErrUnavailable after %s", err, took, want)
				}
			})
			synctest.Wait()
		}
		wait(hurried, time.Second)
		wait(t.Context(), 5*time.Second)
		both.Wait()
	})
}
