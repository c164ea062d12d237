//go:build e2e

package resource

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// An api is a small API behind a proxy. It trusts every request, and returns what it
// received to the client.
type api struct {
	address string
	reached atomic.Int64
}

// seen is a request as the API received it.
type seen struct {
	Method string      `json:"method"`
	URI    string      `json:"uri"`
	Body   string      `json:"body"`
	Header http.Header `json:"header"`
}

func startAPI(t *testing.T) *api {
	t.Helper()
	a := &api{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.reached.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch r.URL.Path {
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		}
		json.NewEncoder(w).Encode(seen{r.Method, r.RequestURI, string(body), r.Header})
	}))
	t.Cleanup(s.Close)
	a.address = s.Listener.Addr().String()
	return a
}

// A front is a protected API as a client sees it.
type front struct {
	name    string
	address string // of api.example.com on this machine
	api     *api   // behind the proxy; nil if the front itself is the API
	client  *http.Client
	// offline: JWTs are verified without Mintage, and opaque tokens are always refused.
	offline bool
}

func newFront(w *world, name, address string, behind *api) *front {
	var d net.Dialer
	return &front{name: name, address: address, api: behind, client: &http.Client{Timeout: 10 * time.Second, CheckRedirect: asIs, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: w.ca.pool()}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", address)
		},
	}}}
}

func asIs(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// An outcome is the response to a client, and the request that the API received, if any.
type outcome struct {
	status    int
	challenge string
	header    http.Header
	body      string
	seen      *seen
}

// ask sends a request to the API. header contains names and values in turn.
func (f *front) ask(t *testing.T, method, path, body string, header ...string) outcome {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, audience+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		// Do not canonicalize the spelling.
		req.Header[header[i]] = append(req.Header[header[i]], header[i+1])
	}
	var before int64
	if f.api != nil {
		before = f.api.reached.Load()
	}
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{status: resp.StatusCode, challenge: resp.Header.Get("WWW-Authenticate"), header: resp.Header, body: string(text)}
	if f.api != nil && f.api.reached.Load() > before {
		o.seen = &seen{}
		if method == "HEAD" {
			return o // the API has not sent this body
		}
		if err := json.Unmarshal(text, o.seen); err != nil {
			t.Fatalf("the API was reached, but its response was changed to %q", text)
		}
	}
	return o
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// wantRefused checks a refusal, and that the API has not received the request.
func (o outcome) wantRefused(t *testing.T, status int, challenge string) {
	t.Helper()
	if o.seen != nil {
		t.Error("the API was reached")
	}
	if o.status != status || o.challenge != challenge {
		t.Errorf("status %d, challenge %q; want %d, %q", o.status, o.challenge, status, challenge)
	}
}
