package resource_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/resource"
)

func TestAServerWithAnUnknownCertificateIsNotTrusted(t *testing.T) {
	a := newAPI(t, func(_ *authServer, c *resource.Config) { c.HTTPClient = nil })
	for _, token := range []string{a.server.token(), a.server.issue("opaque")} {
		if resp, _ := a.ask(t, "GET", "/any", "Bearer "+token); resp.StatusCode != 503 {
			t.Errorf("%d", resp.StatusCode)
		}
	}
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	if len(a.server.asked) != 0 {
		t.Errorf("the server was called: %v", a.server.asked)
	}
}

// Plain HTTP is allowed for a server on loopback.
func TestServerOnLoopbackMayDoWithoutTLS(t *testing.T) {
	s := newAuthServer()
	plain := httptest.NewServer(s)
	t.Cleanup(plain.Close)
	s.origin, s.issuer = plain.URL, plain.URL+"/oauth2/api"
	cfg := s.config()
	cfg.Issuer, cfg.HTTPClient = s.issuer, nil
	v := verifier(t, cfg)
	wants(t, "JWT", v, s.token(), nil)
	wants(t, "opaque", v, s.issue("opaque"), nil)
}

// A server may close an idle connection at any time, even while a request is being sent.
func TestLookUpSurvivesConnectionsThatClose(t *testing.T) {
	s := newAuthServer()
	plain := httptest.NewServer(s)
	t.Cleanup(plain.Close)
	s.origin, s.issuer = plain.URL, plain.URL+"/oauth2/api"
	cfg := s.config()
	cfg.Issuer, cfg.HTTPClient = s.issuer, nil
	v := verifier(t, cfg)
	token := s.issue("opaque")
	for range 200 {
		wants(t, "opaque", v, token, nil)
		plain.CloseClientConnections()
	}
}

func TestAPIUnderLoad(t *testing.T) {
	a := newAPI(t, func(_ *authServer, c *resource.Config) { c.IntrospectionCache = time.Millisecond })
	dead := a.server.token(map[string]any{"jti": jti(2, time.Now(), time.Now())})
	a.server.change(func() { a.server.list.revoke(2, never) })
	want := map[string]int{
		a.server.token(): 200, a.server.issue("opaque-1"): 200, a.server.issue("opaque-2"): 200, "unknown": 401, dead: 401,
	}
	// The first list may have been fetched before the grant was revoked.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if resp, _ := a.ask(t, "GET", "/read", "Bearer "+dead); resp.StatusCode == 401 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the revocation was not seen")
		}
	}
	var wg sync.WaitGroup
	for token, status := range want {
		for range 4 {
			wg.Go(func() {
				for range 25 {
					if resp, _ := a.ask(t, "GET", "/read", "Bearer "+token); resp.StatusCode != status {
						t.Errorf("status %d, want %d", resp.StatusCode, status)
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestCookiesAreNotKept(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		jar := &countingJar{}
		cfg := s.config()
		cfg.HTTPClient.Jar = jar
		wants(t, "JWT", verifier(t, cfg), s.token(), nil)
		if jar.used != 0 || cfg.HTTPClient.CheckRedirect != nil {
			t.Error("the given HTTP client is used directly, or was changed")
		}
	})
}

func TestTheLogHasAnOutageOnceAndNoToken(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		var log logBuffer
		cfg := s.config()
		cfg.FollowRevocations = true
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		v := verifier(t, cfg)
		jwt, opaque := s.token(map[string]any{"exp": time.Now().Unix() + 86400}), s.issue("opaque-token")
		wants(t, "JWT", v, jwt, nil)
		wants(t, "opaque", v, opaque, nil)
		wants(t, "unknown", v, "unknown-token", resource.ErrInvalidToken)
		wants(t, "forged", v, stray(jwt), resource.ErrInvalidToken)
		if log.String() != "" {
			t.Errorf("without a fault, the log has %q", log.String())
		}
		paths := []string{metadataPath, jwksPath, lookupPath, listPath}
		for _, path := range paths {
			s.answerWith(path, status(401))
		}
		for range 3 * 60 {
			time.Sleep(time.Minute)
			for _, token := range []string{jwt, opaque} {
				if _, err := v.Verify(t.Context(), token); kinds(err) > 1 {
					t.Fatal(err)
				}
			}
		}
		for _, path := range paths {
			s.answerWith(path, nil)
		}
		time.Sleep(10 * time.Second)
		for range 2 {
			v.Verify(t.Context(), jwt)
			v.Verify(t.Context(), opaque)
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		text := log.String()
		for _, what := range []string{"metadata", "keys", "introspection", "the list of revocations"} {
			for _, end := range []string{" failed", " works again"} {
				if n := strings.Count(text, what+end); n != 1 {
					t.Errorf("%q is in the log %d times", what+end, n)
				}
			}
		}
		for _, never := range []string{jwt, jwt[:20], opaque, secret, "s3cret", "alice"} {
			if strings.Contains(text, never) {
				t.Errorf("the log holds %.6q...", never)
			}
		}
		if t.Failed() {
			t.Log(text)
		}
	})
}

// A countingJar counts its calls.
type countingJar struct{ used int }

func (j *countingJar) SetCookies(*url.URL, []*http.Cookie)    { j.used++ }
func (j *countingJar) Cookies(*url.URL) (none []*http.Cookie) { j.used++; return none }
