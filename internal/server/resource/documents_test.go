package resource_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/resource"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	publicURL = "https://auth.example.com"
	issuerID  = publicURL + "/oauth2/api"
	callback  = "https://client.example/cb"
)

// A publicSide is the public endpoints of an issuer whose clock stands still until
// advance.
type publicSide struct {
	*server.Server
	t      testing.TB
	kit    *testkit.Kit
	client *store.Client
	secret oauth.Secret
}

func newPublicSide(t testing.TB, change ...func(*testkit.Setup, *server.Options)) *publicSide {
	t.Helper()
	p := &publicSide{t: t}
	log := slog.New(slog.DiscardHandler)
	options := server.Options{
		Site: server.Site{PublicURL: publicURL, Realm: testkit.Realm}, BasicAuthStatus: 401, Queue: server.NewQueue(overload.Capacity{}, nil, log),
		Throttle: overload.NewThrottle(overload.RateLimits{AddressFailures: 3}, func(string) {}),
	}
	p.kit = testkit.New(t, func(s *testkit.Setup) {
		s.ID, s.RevocationsMaxAge, s.Log, s.Uptime = issuerID, 5*time.Second, log, s.Clock
		s.Schedule.MaxAge, s.Schedule.Retention = 10*time.Minute, 16*time.Minute
		for _, f := range change {
			f(s, &options)
		}
	})
	options.Clients = &client.Authenticator{Realm: testkit.Realm, Store: p.kit.Faulty, Directory: p.kit.Directory, Now: p.kit.Now, Log: log, Slow: client.NewSlowPool()}
	c, secret := p.kit.Register(client.Registration{
		ID: "billing", Settings: store.Settings{Name: "Billing", RedirectURIs: []string{callback}, Scope: "read", Auth: store.AuthEither, TokenFormat: store.TokenJWT, NoPKCE: true, Introspect: true},
	})
	p.client, p.secret = &c, secret
	p.Server = server.New(p.kit.Directory, options, log)
	tokens, resources := token.Endpoints{Issuer: p.kit.Issuer}, resource.Endpoints{Server: p.Server, Issuer: p.kit.Issuer, Directory: p.kit.Directory}
	p.Mount(slices.Concat(tokens.Routes(), resources.Routes())...)
	return p
}

// allAlgorithms adds RSA keys, which take long to generate.
func allAlgorithms(s *testkit.Setup, _ *server.Options) {
	s.Schedule.Algorithms = keys.SigningAlgorithms
}

func (p *publicSide) now() time.Time { return p.kit.Clock.Now() }

// advance moves the clock, and lets the node poll.
func (p *publicSide) advance(d time.Duration) {
	p.t.Helper()
	p.kit.Clock.Advance(d)
	p.kit.Poll()
}

// do sends a request over TLS. Each header is a complete line.
func (p *publicSide) do(method, target string, header ...string) *http.Response {
	p.t.Helper()
	return p.send(httptest.NewRequest(method, target, nil), header...)
}

func (p *publicSide) send(r *http.Request, header ...string) *http.Response {
	r.TLS = &tls.ConnectionState{}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	return w.Result()
}

// get fetches a document that must exist.
func (p *publicSide) get(target string) (body string, header http.Header) {
	p.t.Helper()
	resp := p.do("GET", target)
	if resp.StatusCode != 200 {
		p.t.Fatalf("GET %s: %d %s", target, resp.StatusCode, text(p.t, resp))
	}
	return text(p.t, resp), resp.Header
}

func text(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func read[T any](t testing.TB, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// documents returns the paths of all published documents, each with its media type and its
// max-age in seconds.
func (p *publicSide) documents() map[string][2]string {
	p.t.Helper()
	list, err := p.kit.Signer().PublicKeys()
	if err != nil {
		p.t.Fatal(err)
	}
	all := map[string][2]string{}
	for path, rt := range p.Patterns() {
		if !rt.Public {
			if slices.Contains([]string{"keys", "metadata", "list of revocations", "description"}, rt.Name) {
				p.t.Errorf("%s is not public", path)
			}
			continue
		}
		path = strings.Replace(path, "{file}", list[0].KeyID+".pem", 1)
		switch {
		case strings.HasSuffix(path, ".pem"):
			all[path] = [2]string{"application/x-pem-file", "600"}
		case rt.Name == "keys":
			all[path] = [2]string{"application/json", "600"}
		case rt.Name == "list of revocations":
			all[path] = [2]string{"application/jwt", "5"}
		default:
			all[path] = [2]string{"application/json", "300"}
		}
	}
	return all
}

func TestDocumentsMayBeKeptAndAreReadByAnyScript(t *testing.T) {
	p := newPublicSide(t, func(_ *testkit.Setup, o *server.Options) { o.CORSOrigins = []string{"https://app.example"} })
	for path, want := range p.documents() {
		for _, method := range []string{"GET", "HEAD"} {
			resp := p.do(method, path, "Origin: https://elsewhere.example")
			body := text(t, resp)
			h := resp.Header
			if resp.StatusCode != 200 || h.Get("Content-Type") != want[0] || h.Get("Cache-Control") != "public, max-age="+want[1] {
				t.Errorf("%s %s: %d, %q, %q", method, path, resp.StatusCode, h.Get("Content-Type"), h.Get("Cache-Control"))
			}
			if !regexp.MustCompile(`^"[A-Za-z0-9_-]{22}"$`).MatchString(h.Get("Etag")) {
				t.Errorf("%s %s: ETag %s", method, path, h.Get("Etag"))
			}
			if h["Pragma"] != nil || h["Vary"] != nil || h["Set-Cookie"] != nil || h["Access-Control-Allow-Credentials"] != nil {
				t.Errorf("%s %s: header %v", method, path, h)
			}
			if h.Get("Access-Control-Allow-Origin") != "*" || h.Get("X-Content-Type-Options") != "nosniff" || len(h.Get("X-Request-Id")) != 16 {
				t.Errorf("%s %s: header %v", method, path, h)
			}
			whole, _ := p.get(path)
			if h.Get("Content-Length") != strconv.Itoa(len(whole)) || method == "GET" && body != whole || method == "HEAD" && body != "" {
				t.Errorf("%s %s: length %s, %d bytes; want %d", method, path, h.Get("Content-Length"), len(body), len(whole))
			}
		}
	}
}

func TestDocumentsAreNotSentAgainToWhoHasThem(t *testing.T) {
	p := newPublicSide(t)
	for path := range p.documents() {
		_, full := p.get(path)
		etag := full.Get("Etag")
		for header, status := range map[string]int{
			etag: 304, "W/" + etag: 304, `"x", ` + etag: 304, `"x",W/` + etag + `,"y"`: 304, "*": 304,
			`"x"`: 200, `"` + etag + `"`: 200, strings.Trim(etag, `"`): 200, strings.ToLower(etag) + "x": 200,
		} {
			for _, method := range []string{"GET", "HEAD"} {
				resp := p.do(method, path, "If-None-Match: "+header)
				if resp.StatusCode != status {
					t.Errorf("%s %s, If-None-Match %s: %d, want %d", method, path, header, resp.StatusCode, status)
				}
				h := resp.Header
				if h.Get("Etag") != etag || h.Get("Cache-Control") != full.Get("Cache-Control") || h.Get("Access-Control-Allow-Origin") != "*" || h["Pragma"] != nil {
					t.Errorf("%s %s: %d has other validators: %v", method, path, resp.StatusCode, h)
				}
				if body := text(t, resp); status == 304 && (body != "" || h["Content-Type"] != nil || h["Content-Length"] != nil) {
					t.Errorf("%s %s: 304 with a body of %d bytes: %v", method, path, len(body), h)
				}
			}
		}
		if resp := p.do("GET", path, `If-None-Match: "x"`, "If-None-Match: "+etag); resp.StatusCode != 304 {
			t.Errorf("%s: the second of two headers is not read", path)
		}
	}
}

func TestDocumentsAnswerThePreflightOfAnyOrigin(t *testing.T) {
	p := newPublicSide(t)
	for path := range p.documents() {
		resp := p.do("OPTIONS", path, "Origin: https://elsewhere.example", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: authorization, if-none-match, mcp-protocol-version")
		h := resp.Header
		if resp.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Methods") != "GET, HEAD" || h.Get("Access-Control-Allow-Headers") != "*, Authorization" {
			t.Errorf("%s: %d %v", path, resp.StatusCode, h)
		}
		if resp := p.do("OPTIONS", path, "Origin: https://elsewhere.example"); resp.StatusCode != 405 {
			t.Errorf("%s: OPTIONS that is no preflight: %d", path, resp.StatusCode)
		}
	}
}

func TestDocumentsKnowOneRealm(t *testing.T) {
	p := newPublicSide(t)
	for path := range p.documents() {
		whole, _ := p.get(path)
		for _, query := range []string{"?realm=/api", "?realm=%2Fapi", "?realm=api", "?realm=", "?v=3"} {
			if body, _ := p.get(path + query); body != whole {
				t.Errorf("%s%s: another document", path, query)
			}
		}
		for _, query := range []string{"?realm=/other", "?realm=/", "?realm=/api&realm=/api"} {
			resp := p.do("GET", path+query)
			if body := text(t, resp); resp.StatusCode != 400 || resp.Header.Get("Cache-Control") != "no-store" || strings.Contains(body, "other") {
				t.Errorf("%s%s: %d %s", path, query, resp.StatusCode, body)
			}
		}
	}
}

// An address that guesses secrets gets 429, but may be shared with many clients that only
// verify tokens.
func TestDocumentsAreNotKeptFromAnAddressThatGuessesSecrets(t *testing.T) {
	p := newPublicSide(t)
	guess := func() int {
		r := httptest.NewRequest("POST", "/oauth2/introspect", strings.NewReader("token=x&client_id=billing&client_secret=guess"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return p.send(r).StatusCode
	}
	for range 10 {
		guess()
	}
	if status := guess(); status != 429 {
		t.Fatalf("the address is not throttled: %d", status)
	}
	for path := range p.documents() {
		p.get(path)
	}
}

func TestDocumentsAreUnavailableRatherThanOld(t *testing.T) {
	p := newPublicSide(t)
	paths := p.documents()
	p.kit.Clock.Advance(6 * time.Second) // without news from the store
	for path := range paths {
		resp := p.do("GET", path)
		want := 503
		if strings.Contains(path, "well-known") || path == "/openapi.json" {
			want = 200 // this document cannot change
		}
		if h := resp.Header; resp.StatusCode != want || want == 503 && (h.Get("Retry-After") == "" || h.Get("Cache-Control") != "no-store" || h["Etag"] != nil) {
			t.Errorf("%s: %d %v, want %d", path, resp.StatusCode, h, want)
		}
	}
	p.advance(0)
	p.kit.Faulty.Inject(storetest.Revocations, 1, func(context.Context, func() error) error { return store.ErrBusy })
	if resp := p.do("GET", "/oauth2/revocations"); resp.StatusCode != 503 {
		t.Errorf("the list of a store that is busy: %d", resp.StatusCode)
	}
}

func TestDocumentsAreAtEveryFormOfTheirPath(t *testing.T) {
	p := newPublicSide(t, func(_ *testkit.Setup, o *server.Options) { o.BasePath = "/openam" })
	for _, name := range []string{"jwks", "connect/jwk_uri", "revocations", ".well-known/openid-configuration"} {
		whole, _ := p.get("/openam/oauth2/" + name)
		for _, form := range []string{"api/", "realms/root/realms/api/"} {
			if body, _ := p.get("/openam/oauth2/" + form + name); body != whole {
				t.Errorf("%s%s: another document", form, name)
			}
		}
		for _, path := range []string{"/oauth2/" + name, "/openam/oauth2/other/" + name, "/openam/oauth2/" + name + "/", "/openam/oauth2/realms/root/realms/other/" + name} {
			if resp := p.do("GET", path); resp.StatusCode != 404 {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
	}
}

func TestDocumentsAreForTLS(t *testing.T) {
	p := newPublicSide(t, func(_ *testkit.Setup, o *server.Options) { o.PlainHTTP = true })
	for path := range p.documents() {
		r := httptest.NewRequest("GET", path, nil)
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r) // from 192.0.2.1, over plain HTTP
		if body := w.Body.String(); w.Code != 400 || !strings.Contains(body, "https required") {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestEveryPathIsServedByItsMethods(t *testing.T) {
	p := newPublicSide(t)
	paths := paths(p.Server)
	if len(paths) < 30 {
		t.Fatalf("%d paths", len(paths))
	}
	for path, methods := range paths {
		path = strings.NewReplacer("{file}", "x.pem", "{rest...}", "x/y").Replace(path)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"} {
			resp := p.do(method, path)
			refused := methods != nil && !slices.Contains(methods, method)
			if refused != (resp.StatusCode == 405) || refused && resp.Header.Get("Allow") != strings.Join(methods, ", ") {
				t.Errorf("%s %s: %d, Allow %q; its methods are %v", method, path, resp.StatusCode, resp.Header.Get("Allow"), methods)
			}
		}
	}
}

// paths returns every path with an endpoint and its methods; none means any.
func paths(s *server.Server) map[string][]string {
	all := map[string][]string{}
	for path, rt := range s.Patterns() {
		all[path] = rt.Methods
	}
	return all
}
