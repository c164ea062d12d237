package resource_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/resource"
)

// An api is an API behind the middleware, with its authorization server, on real
// connections.
type api struct {
	server *authServer
	tls    *httptest.Server
	api    *httptest.Server
	log    logBuffer
}

func newAPI(t *testing.T, change func(*authServer, *resource.Config)) *api {
	t.Helper()
	a := &api{server: newAuthServer()}
	a.tls = httptest.NewUnstartedServer(a.server)
	a.tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // hides failed TLS handshakes that a test expects
	a.tls.StartTLS()
	t.Cleanup(a.tls.Close)
	a.server.origin = a.tls.URL
	a.server.issuer = a.tls.URL + "/oauth2/api"
	cfg := a.server.config()
	cfg.Issuer = a.server.issuer
	cfg.HTTPClient = a.tls.Client()
	cfg.FollowRevocations = true
	cfg.Logger = slog.New(slog.NewTextHandler(&a.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if change != nil {
		change(a.server, &cfg)
	}
	v := verifier(t, cfg)
	mux := http.NewServeMux()
	mux.Handle("/any", v.Require()(http.HandlerFunc(tellCaller)))
	mux.Handle("/read", v.Require("read")(http.HandlerFunc(tellCaller)))
	mux.Handle("/admin", v.Require("read", "admin")(http.HandlerFunc(tellCaller)))
	a.api = httptest.NewServer(mux)
	t.Cleanup(a.api.Close)
	return a
}

func tellCaller(w http.ResponseWriter, r *http.Request) {
	p, ok := resource.FromContext(r.Context())
	fmt.Fprintf(w, "%t %s %s %v", ok, p.Subject, p.ClientID, p.Scope)
}

func (a *api) ask(t *testing.T, method, path string, authorization ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.api.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header["Authorization"] = authorization
	resp, err := a.api.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

const (
	bare    = `Bearer realm="https://api.example.com"`
	invalid = bare + `, error="invalid_token"`
	garbled = bare + `, error="invalid_request"`
)

func TestTL21_AnswersAreThoseOfRFC6750(t *testing.T) {
	a := newAPI(t, nil)
	jwt, opaque := a.server.token(), a.server.issue("opaque.token-1")
	expired := a.server.token(map[string]any{"exp": time.Now().Unix() - 60})
	for _, tt := range []struct {
		what, path    string
		authorization []string
		status        int
		challenge     string
	}{
		{"JWT", "/any", []string{"Bearer " + jwt}, 200, ""},
		{"opaque", "/read", []string{"Bearer " + opaque}, 200, ""},
		{"small letters", "/read", []string{"bearer " + jwt}, 200, ""},
		{"capitals", "/read", []string{"BEARER " + jwt}, 200, ""},
		{"several spaces", "/read", []string{"Bearer   " + jwt}, 200, ""},
		{"no header", "/any", nil, 401, bare},
		{"no header, scope", "/read", nil, 401, bare},
		{"empty header", "/any", []string{""}, 401, bare},
		{"another scheme", "/any", []string{"Basic YTpi"}, 401, bare},
		{"a scheme that begins alike", "/any", []string{"BearerToken " + jwt}, 401, bare},
		{"token without scheme", "/any", []string{jwt}, 401, bare},
		{"expired", "/any", []string{"Bearer " + expired}, 401, invalid},
		{"unknown", "/any", []string{"Bearer unknown"}, 401, invalid},
		{"cut off", "/any", []string{"Bearer " + jwt[:len(jwt)-1]}, 401, invalid},
		{"too long", "/any", []string{"Bearer " + strings.Repeat("x", 8193)}, 401, invalid},
		{"expired and without scope", "/admin", []string{"Bearer " + expired}, 401, invalid},
		{"JWT without scope", "/admin", []string{"Bearer " + jwt}, 403, bare + `, error="insufficient_scope", scope="read admin"`},
		{"opaque without scope", "/admin", []string{"Bearer " + opaque}, 403, bare + `, error="insufficient_scope", scope="read admin"`},
		{"scheme alone", "/any", []string{"Bearer"}, 400, garbled},
		{"scheme and space", "/any", []string{"Bearer "}, 400, garbled},
		{"two tokens", "/any", []string{"Bearer " + jwt + " " + jwt}, 400, garbled},
		{"a list", "/any", []string{"Bearer " + jwt + ", Bearer " + jwt}, 400, garbled},
		{"quoted", "/any", []string{`Bearer "` + jwt + `"`}, 400, garbled},
		{"a parameter", "/any", []string{"Bearer " + jwt + ";x=1"}, 400, garbled},
		{"TL-22: the header twice", "/any", []string{"Bearer " + jwt, "Bearer " + jwt}, 400, garbled},
		{"TL-22: two schemes", "/any", []string{"Basic YTpi", "Bearer " + jwt}, 400, garbled},
		{"in the query", "/any?access_token=" + jwt, nil, 401, bare},
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			resp, body := a.ask(t, method, tt.path, tt.authorization...)
			if resp.StatusCode != tt.status || resp.Header.Get("WWW-Authenticate") != tt.challenge {
				t.Errorf("%s, %s: %d, %q", tt.what, method, resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
			}
			if tt.status == 200 {
				if body != "true alice shop [read write]" || resp.Header.Get("Cache-Control") != "" {
					t.Errorf("%s: the handler answered %q", tt.what, body)
				}
				continue
			}
			if resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Retry-After") != "" {
				t.Errorf("%s: headers %v", tt.what, resp.Header)
			}
			if strings.Contains(body+fmt.Sprint(resp.Header), "alice") || strings.Contains(body+fmt.Sprint(resp.Header), "xxx") || strings.Contains(body, jwt[:20]) {
				t.Errorf("%s: the response contains a part of the token", tt.what)
			}
		}
	}
	r, err := a.api.Client().Post(a.api.URL+"/any", "application/x-www-form-urlencoded", strings.NewReader("access_token="+jwt))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") != bare {
		t.Errorf("token in the body: %d, %q", r.StatusCode, r.Header.Get("WWW-Authenticate"))
	}
}

func TestServerThatIsDownIs503AndNever401(t *testing.T) {
	a := newAPI(t, func(s *authServer, _ *resource.Config) {
		for _, path := range []string{metadataPath, jwksPath, lookupPath, listPath} {
			s.answerWith(path, status(500))
		}
	})
	for what, token := range map[string]string{"JWT": a.server.token(), "opaque": a.server.issue("opaque")} {
		resp, body := a.ask(t, "GET", "/read", "Bearer "+token)
		after := resp.Header.Get("Retry-After")
		if resp.StatusCode != 503 || resp.Header.Get("WWW-Authenticate") != "" || resp.Header.Get("Cache-Control") != "no-store" || after < "1" || after > "3" {
			t.Errorf("%s: %d, %v", what, resp.StatusCode, resp.Header)
		}
		if strings.Contains(body, "alice") || strings.Contains(body, "500") {
			t.Errorf("%s: %q reveals too much", what, body)
		}
	}
	if resp, _ := a.ask(t, "GET", "/read"); resp.StatusCode != 401 {
		t.Errorf("no token, while the server is down: %d", resp.StatusCode)
	}
}

func TestErrorsMayHaveTheAPIsForm(t *testing.T) {
	var got []error
	a := newAPI(t, func(_ *authServer, c *resource.Config) {
		c.ErrorHandler = func(w http.ResponseWriter, r *http.Request, status int, err error) {
			got = append(got, err)
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"status":%d,"instance":%q}`, status, r.URL.Path)
		}
	})
	token := a.server.token()
	for _, tt := range []struct {
		path          string
		authorization []string
		status        int
		want          error
	}{
		{"/read", nil, 401, resource.ErrNoToken},
		{"/read", []string{"Bearer x"}, 401, resource.ErrInvalidToken},
		{"/read", []string{"Bearer x y"}, 400, resource.ErrInvalidRequest},
		{"/admin", []string{"Bearer " + token}, 403, resource.ErrInsufficientScope},
	} {
		got = nil
		resp, body := a.ask(t, "GET", tt.path, tt.authorization...)
		if resp.StatusCode != tt.status || body != fmt.Sprintf(`{"status":%d,"instance":%q}`, tt.status, tt.path) || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %d, %q", tt.want, resp.StatusCode, body)
		}
		if !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), bare) || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v: headers %v", tt.want, resp.Header)
		}
		if len(got) != 1 || !errors.Is(got[0], tt.want) || kinds(got[0]) != 1 {
			t.Errorf("the error handler got %v, want %v", got, tt.want)
		}
	}
}

func TestRequireRefusesInvalidScopes(t *testing.T) {
	v := verifier(t, newAuthServer().config())
	for _, scope := range []string{"", "a b", `a"b`, `a\b`, "a\nb", "ü"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is accepted as a scope", scope)
				}
			}()
			v.Require("read", scope)
		}()
	}
	v.Require("!#[]~/:.")
}
