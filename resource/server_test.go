package resource_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/resource"
)

const (
	issuer   = "https://auth.example.com/oauth2/api"
	audience = "https://api.example.com"
	clientID = "invoices api:1" // the space and the colon need encoding
	secret   = "s3cret+/ü"
)

// These are the paths of the authorization server.
const (
	metadataPath = "/.well-known/oauth-authorization-server/oauth2/api"
	jwksPath     = "/oauth2/jwks"
	lookupPath   = "/oauth2/introspect"
	listPath     = "/oauth2/api/revocations"
)

// An authServer is an authorization server with the test's clock. A test can replace any
// of its responses.
type authServer struct {
	mu        sync.Mutex
	issuer    string
	origin    string // of its endpoints
	keys      []signer
	maxAge    int // of the JWKS, seconds
	instead   map[string]http.HandlerFunc
	asked     map[string]int
	opaque    map[string]map[string]any // introspection response by token
	list      feed
	lastQuery *http.Request // of an introspection, its form parsed
}

func newAuthServer() *authServer {
	return &authServer{
		issuer: issuer, origin: "https://auth.example.com", keys: []signer{newES256("key1")}, maxAge: 3600,
		instead: map[string]http.HandlerFunc{}, asked: map[string]int{}, opaque: map[string]map[string]any{}, list: newFeed(),
	}
}

func (s *authServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path]++
	instead := s.instead[r.URL.Path]
	s.mu.Unlock()
	if instead != nil {
		instead(w, r)
		return
	}
	s.answer(w, r)
}

// answer responds like a server without faults.
func (s *authServer) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case metadataPath:
		w.Header().Set("Cache-Control", "public, max-age=300")
		json.NewEncoder(w).Encode(s.metadata())
	case jwksPath:
		var set jose.JSONWebKeySet
		for _, k := range s.keys {
			set.Keys = append(set.Keys, k.jwk())
		}
		w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", s.maxAge))
		json.NewEncoder(w).Encode(set)
	case lookupPath:
		if err := r.ParseForm(); err != nil {
			panic(err)
		}
		s.lastQuery = r
		known := s.opaque[r.PostForm.Get("token")]
		if known == nil {
			known = map[string]any{"active": false}
		}
		json.NewEncoder(w).Encode(known)
	case listPath:
		s.list.serve(w, r, s.keys[len(s.keys)-1], s.issuer)
	default:
		http.NotFound(w, r)
	}
}

func (s *authServer) metadata() map[string]any {
	return map[string]any{"issuer": s.issuer, "jwks_uri": s.origin + jwksPath, "introspection_endpoint": s.origin + lookupPath}
}

// change calls f while no request is being answered.
func (s *authServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// answerWith replaces the handler of an endpoint, or restores it if h is nil.
func (s *authServer) answerWith(path string, h http.HandlerFunc) {
	s.change(func() { s.instead[path] = h })
}

func (s *authServer) times(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// jti returns the jti of a token of a grant, in the server's format.
func jti(grant byte, issued, authorized time.Time) string {
	b := append(make([]byte, 15), grant, 0, 0, 0, 1)
	for _, at := range []time.Time{issued, authorized} {
		var ms [8]byte
		binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
		b = append(b, ms[2:]...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// claims returns the claims of a token of grant 1 that is issued now.
func (s *authServer) claims() map[string]any {
	now := time.Now()
	return map[string]any{
		"iss": s.issuer, "sub": "alice", "aud": audience, "client_id": "shop", "scope": "read write",
		"iat": now.Unix(), "exp": now.Unix() + 300, "jti": jti(1, now, now.Add(-time.Hour)),
	}
}

// token returns a JWT access token by the latest key, with changes to valid claims. A nil
// value removes a claim.
func (s *authServer) token(changes ...map[string]any) string {
	s.mu.Lock()
	k := s.keys[len(s.keys)-1]
	s.mu.Unlock()
	return k.compact(k.header(), altered(s.claims(), changes...))
}

func altered(m map[string]any, changes ...map[string]any) map[string]any {
	m = maps.Clone(m)
	for _, c := range changes {
		for name, value := range c {
			if m[name] = value; value == nil {
				delete(m, name)
			}
		}
	}
	return m
}

// issue makes the server accept an opaque token.
func (s *authServer) issue(text string, changes ...map[string]any) string {
	known := altered(s.claims(), append([]map[string]any{{"active": true, "token_type": "Bearer"}}, changes...)...)
	s.change(func() { s.opaque[text] = known })
	return text
}

// RoundTrip calls the server without a network, so that the fake clock of synctest can
// advance while a request waits.
func (s *authServer) RoundTrip(r *http.Request) (*http.Response, error) {
	done := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		done <- w.Result()
	}()
	select {
	case resp := <-done:
		return resp, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func (s *authServer) config() resource.Config {
	return resource.Config{
		Issuer: issuer, Audience: audience, ClientID: clientID, ClientSecret: secret,
		HTTPClient: &http.Client{Transport: s}, Logger: slog.New(slog.DiscardHandler),
	}
}

// timed runs a test with a fake clock: it begins in the year 2000, and advances when all
// goroutines wait. The test fails if a goroutine is still running at its end.
func timed(t *testing.T, f func(t *testing.T, s *authServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newAuthServer()) })
}

func verifier(t *testing.T, cfg resource.Config) *resource.Verifier {
	t.Helper()
	v, err := resource.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// wants checks the error of Verify, and that the error contains no part of the token.
func wants(t *testing.T, what string, v *resource.Verifier, token string, want error) {
	t.Helper()
	wantsIn(t.Context(), t, what, v, token, want)
}

func wantsIn(ctx context.Context, t *testing.T, what string, v *resource.Verifier, token string, want error) {
	t.Helper()
	p, err := v.Verify(ctx, token)
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
	if err == nil {
		return
	}
	if p.Subject != "" || p.ClientID != "" || p.Scope != nil {
		t.Errorf("%s: a principal comes with the error: %v", what, p)
	}
	if token != "" && strings.Contains(err.Error(), token) {
		t.Errorf("%s: the error holds the token", what)
	}
}

// kinds counts how many of the package's errors err matches.
func kinds(err error) (n int) {
	for _, k := range []error{resource.ErrNoToken, resource.ErrInvalidRequest, resource.ErrInvalidToken, resource.ErrInsufficientScope, resource.ErrInvalidProof, resource.ErrUseNonce, resource.ErrUnavailable} {
		if errors.Is(err, k) {
			n++
		}
	}
	return n
}

// A logBuffer is a log that a test may read while others write to it.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
