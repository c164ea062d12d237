package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An endpoint is a token endpoint with one row per chain, whose responses are wrong where
// misbehave says so.
type endpoint struct {
	t *testing.T
	// misbehave is called with the number of a request, counted from 1. It returns true if
	// it has sent the response.
	misbehave func(n int64, w http.ResponseWriter) bool
	requests  atomic.Int64

	mu     sync.Mutex
	chains map[string]string // the current token by the name of the chain
	codes  map[string]bool
	conns  map[string]bool // remote addresses
}

// A token is "NAME.NUMBER". Some refresh tokens contain characters that must be escaped.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := e.requests.Add(1)
	if err := r.ParseForm(); err != nil {
		e.t.Errorf("body: %v", err)
	}
	for name, want := range map[string]string{"client_id": "id", "client_secret": "s/+ &"} {
		if got := r.PostForm.Get(name); got != want {
			e.t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.Host == "" || r.RequestURI != "/oauth2/access_token?realm=/api" || r.Method != http.MethodPost {
		e.t.Errorf("request line: %s %s, host %q", r.Method, r.RequestURI, r.Host)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns[r.RemoteAddr] = true
	if e.misbehave != nil && e.misbehave(n, w) {
		return
	}
	var name, next string
	switch r.PostForm.Get("grant_type") {
	case "refresh_token":
		sent := r.PostForm.Get("refresh_token")
		name, _, _ = strings.Cut(sent, ".")
		if e.chains[name] != sent {
			e.refuse(w)
			return
		}
		next = fmt.Sprintf("%s.%d", name, n)
	case "authorization_code":
		name = r.PostForm.Get("code")
		if !e.codes[name] || r.PostForm.Get("redirect_uri") != "https://client.example/cb?a=b" {
			e.refuse(w)
			return
		}
		delete(e.codes, name)
		next = name + ".1"
	}
	e.chains[name] = next
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"scope":"a b","expires_in":300,"token_type":"Bearer","refresh_token":%q,"access_token":"t"}`, next)
}

func (e *endpoint) refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	io.WriteString(w, `{"error":"invalid_grant"}`)
}

func (e *endpoint) start(t *testing.T, chains int) (Target, []string) {
	t.Helper()
	e.t, e.chains, e.conns = t, map[string]string{}, map[string]bool{}
	var tokens []string
	for i := range chains {
		name := fmt.Sprintf("c+%d/é", i)
		e.chains[name] = name + ".0"
		tokens = append(tokens, name+".0")
	}
	s := httptest.NewUnstartedServer(e)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return Target{
		Endpoint: s.URL + "/oauth2/access_token?realm=/api", ClientID: "id", ClientSecret: "s/+ &",
		RedirectURI: "https://client.example/cb?a=b", TLS: &tls.Config{RootCAs: pool},
	}, tokens
}

func TestEachChainGoesOnWithTheTokenItGot(t *testing.T) {
	var e endpoint
	target, tokens := e.start(t, 10)
	load := Load{Target: target, Operation: Refresh, Connections: 4, Requests: 500, Chains: Split(tokens, 4)}
	for run := range 2 { // the second run continues with the first one's tokens
		r, err := load.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests != 500 || r.Failed() != 0 || r.Latency.Count() != 500 {
			t.Errorf("run %d: %d right, errors %v, %d latencies", run, r.Requests, r.Errors, r.Latency.Count())
		}
		if r.Throughput() <= 0 || r.Latency.Max() > r.Elapsed {
			t.Errorf("run %d: %v/s, longest %s of %s", run, r.Throughput(), r.Latency.Max(), r.Elapsed)
		}
	}
	if n := e.requests.Load(); n != 1000 {
		t.Errorf("the server saw %d requests", n)
	}
	if len(e.conns) != 2*4 {
		t.Errorf("two runs of 4 connections opened %d", len(e.conns))
	}
	var kept, present []string
	for _, c := range load.Chains {
		kept = append(kept, c.Tokens()...)
	}
	for _, token := range e.chains {
		present = append(present, token)
	}
	slices.Sort(kept)
	slices.Sort(present)
	if !slices.Equal(kept, present) {
		t.Errorf("after the runs, the chains hold %d tokens, and not the %d that the server would accept", len(kept), len(present))
	}
	for name, token := range e.chains {
		if strings.HasSuffix(token, ".0") {
			t.Errorf("chain %s was never used", name)
		}
	}
}

func TestEveryWrongAnswerIsCountedByItsKind(t *testing.T) {
	body := func(w http.ResponseWriter, text string) bool {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, text)
		return true
	}
	hangUp := func(w http.ResponseWriter) bool {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			t.Error(err)
		}
		return true
	}
	e := endpoint{misbehave: func(n int64, w http.ResponseWriter) bool {
		switch n {
		case 10:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		case 20:
			return body(w, `{"scope":"a","expires_in":3000,"token_type":"Bearer","refresh_token":"","access_token":"t"}`)
		case 30:
			return body(w, `{"scope":"a","expires_in":300,"token_type":"mac","refresh_token":"","access_token":"t"}`)
		case 40:
			return body(w, `{"scope":"a","expires_in":300,"token_type":"Bearer","access_token":"t"}`)
		case 50:
			return body(w, `<html>`)
		case 60:
			return hangUp(w)
		}
		return false
	}}
	target, tokens := e.start(t, 4)
	r, err := Load{Target: target, Operation: Refresh, Connections: 2, Requests: 200, Chains: Split(tokens, 2)}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"status 503": 1, errExpiresIn.kind: 1, errTokenType.kind: 1, errNoRefresh.kind: 1, errNotJSON.kind: 1}
	for kind, n := range r.Errors {
		if strings.HasPrefix(kind, "exchange: ") {
			want[kind] = 1
		} else if want[kind] != n {
			t.Errorf("%d × %s", n, kind)
		}
	}
	if r.Failed() != 6 || len(want) != 6 || r.Requests != 194 || r.Latency.Count() != 194 {
		t.Errorf("%d right, %d latencies, errors %v, want 194 and 6 kinds once each", r.Requests, r.Latency.Count(), r.Errors)
	}
	// A wrong response loses nothing: the chains continue.
	if e.requests.Load() != 200 {
		t.Errorf("the server saw %d requests", e.requests.Load())
	}
}

func TestARepeatedTokenIsAnError(t *testing.T) {
	e := endpoint{}
	target, tokens := e.start(t, 1)
	e.misbehave = func(n int64, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"scope":"a","expires_in":300,"token_type":"Bearer","refresh_token":%q,"access_token":"t"}`, tokens[0])
		return true
	}
	r, err := Load{Target: target, Operation: Refresh, Connections: 1, Requests: 3, Chains: Split(tokens, 1)}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(r.Errors, map[string]int64{errUnchanged.kind: 3}) || r.Requests != 0 || r.CPUPerRequest() != 0 {
		t.Errorf("%d right, errors %v", r.Requests, r.Errors)
	}
}

func TestARefusedTokenEndsItsChainAndTheRunWithTheLast(t *testing.T) {
	var e endpoint
	target, tokens := e.start(t, 2)
	tokens[0] = "never issued"
	r, err := Load{Target: target, Operation: Refresh, Connections: 1, Requests: 50, Chains: Split(tokens, 1)}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 49 || r.Errors["status 400 invalid_grant"] != 1 || r.Failed() != 1 {
		t.Errorf("%d right, errors %v", r.Requests, r.Errors)
	}
	r, err = Load{Target: target, Operation: Refresh, Connections: 2, Requests: 50, Chains: Split([]string{"gone", "lost"}, 2)}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 0 || r.Errors["status 400 invalid_grant"] != 2 {
		t.Errorf("without a live token: %d right, errors %v", r.Requests, r.Errors)
	}
}

func TestEachConnectMakesANewConnection(t *testing.T) {
	var e endpoint
	target, tokens := e.start(t, 2)
	r, err := Load{Target: target, Operation: Connect, Connections: 2, Requests: 20, Chains: Split(tokens, 2)}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 20 || r.Failed() != 0 || len(e.conns) != 20 {
		t.Errorf("%d right on %d connections, errors %v", r.Requests, len(e.conns), r.Errors)
	}
}

func TestCodesAreRedeemedOnceEachAndTheirTokensKept(t *testing.T) {
	e := endpoint{codes: map[string]bool{}}
	target, _ := e.start(t, 0)
	var codes, want []string
	for i := range 100 {
		name := fmt.Sprintf("code %d", i)
		e.codes[name] = true
		codes = append(codes, name)
		want = append(want, name+".1")
	}
	r, err := Load{Target: target, Operation: Code, Connections: 3, Codes: codes, Collect: true}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.Tokens)
	slices.Sort(want)
	if r.Requests != 100 || r.Failed() != 0 || !slices.Equal(r.Tokens, want) {
		t.Errorf("%d right, errors %v, %d tokens", r.Requests, r.Errors, len(r.Tokens))
	}
}

func TestTheYardstickMayRepeatItsBodyButNotChangeItsSize(t *testing.T) {
	body := `{"scope":"a","expires_in":300,"token_type":"Bearer","refresh_token":"r","access_token":"t"}`
	e := endpoint{misbehave: func(n int64, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, body)
		if n == 5 {
			io.WriteString(w, " ")
		}
		return true
	}}
	target, tokens := e.start(t, 1)
	target.FixedBody = len(body)
	r, err := Load{Target: target, Operation: Refresh, Connections: 1, Requests: 10, Chains: Split(tokens, 1)}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 9 || !maps.Equal(r.Errors, map[string]int64{errSize.kind: 1}) || string(r.Sample) != body {
		t.Errorf("%d right, errors %v, sample %q", r.Requests, r.Errors, r.Sample)
	}
}

func TestARunEndsWithItsDurationOrItsContext(t *testing.T) {
	var e endpoint
	target, tokens := e.start(t, 2)
	load := Load{Target: target, Operation: Refresh, Connections: 2, Duration: 50 * time.Millisecond, Chains: Split(tokens, 2)}
	r, err := load.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Elapsed < load.Duration || r.Requests == 0 || r.Failed() != 0 {
		t.Errorf("%d right in %s, errors %v", r.Requests, r.Elapsed, r.Errors)
	}

	// A server that never responds does not delay an interruption.
	held := make(chan struct{})
	var once sync.Once
	silent := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		once.Do(func() { close(held) })
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	pool := x509.NewCertPool()
	pool.AddCert(silent.Certificate())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-held; cancel() }()
	load = Load{Target: Target{Endpoint: silent.URL, TLS: &tls.Config{RootCAs: pool}}, Operation: Refresh, Connections: 2,
		Duration: time.Hour, Chains: Split(tokens, 2)}
	if r, err = load.Run(ctx); err == nil || r.Failed() != 0 {
		t.Errorf("interrupted: %v, %+v", err, r)
	}
}

func TestALoadThatCannotRunSaysWhy(t *testing.T) {
	var e endpoint
	target, tokens := e.start(t, 2)
	distrusted, misnamed, plain, nowhere := target, target, target, target
	misnamed.Endpoint = strings.Replace(target.Endpoint, "127.0.0.1", "localhost", 1)
	distrusted.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	plain.Endpoint = "http://127.0.0.1/"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere.Endpoint = "https://" + l.Addr().String()
	l.Close()
	for want, l := range map[string]Load{
		"at least one connection":     {Target: target, Operation: Refresh, Requests: 1},
		"needs an end":                {Target: target, Operation: Refresh, Connections: 2, Chains: Split(tokens, 2)},
		"fewer refresh tokens":        {Target: target, Operation: Refresh, Connections: 3, Requests: 1, Chains: Split(tokens, 3)},
		"as many chains":              {Target: target, Operation: Refresh, Connections: 3, Requests: 1, Chains: Split(tokens, 2)},
		"no codes":                    {Target: target, Operation: Code, Connections: 1},
		"cannot be negative":          {Target: target, Operation: Refresh, Connections: 2, Requests: 1, Rate: -1, Chains: Split(tokens, 2)},
		"not an https URL":            {Target: plain, Operation: Refresh, Connections: 2, Requests: 1, Chains: Split(tokens, 2)},
		"unknown authority":           {Target: distrusted, Operation: Refresh, Connections: 2, Requests: 1, Chains: Split(tokens, 2)},
		"not localhost":               {Target: misnamed, Operation: Refresh, Connections: 2, Requests: 1, Chains: Split(tokens, 2)},
		"connect: connection refused": {Target: nowhere, Operation: Refresh, Connections: 2, Requests: 1, Chains: Split(tokens, 2)},
	} {
		if _, err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if e.requests.Load() != 0 {
		t.Errorf("%d requests were made", e.requests.Load())
	}
}

func TestProgressIsReportedUntilTheRunEnds(t *testing.T) {
	e := endpoint{misbehave: func(n int64, w http.ResponseWriter) bool {
		if n == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		return false
	}}
	target, tokens := e.start(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var seen []Progress
	load := Load{Target: target, Operation: Refresh, Connections: 1, Duration: time.Minute, Chains: Split(tokens, 1), PID: os.Getpid()}
	load.Progress = func(p Progress) { seen = append(seen, p); cancel() }
	r, err := load.Run(ctx)
	if err == nil || len(seen) == 0 || seen[0].Rate <= 0 || seen[0].Errors != 1 || seen[0].Done <= 0 || seen[0].Done > r.Requests || seen[0].Elapsed <= 0 {
		t.Errorf("%v, %+v of %d right", err, seen, r.Requests)
	}
}
