//go:build e2e

// Package monitor observes the program as Prometheus and a trace collector do, and checks
// that unauthenticated callers cannot.
package monitor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/metrics"
)

// A collector receives traces by OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	spans  []*otlp.Span
	about  map[string]string // attributes of the resource
	faults []string
}

func newCollector(t *testing.T) *collector {
	c := &collector{about: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request v1.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("X-Tenant") != "a b" {
		c.faults = append(c.faults, r.Method+" "+r.URL.Path)
	}
	c.bodies = append(c.bodies, string(body))
	for _, rs := range request.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			c.about[a.Key] = a.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// of returns the spans of a trace.
func (c *collector) of(trace string) (list []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hexadecimal(s.TraceId) == trace {
			list = append(list, s)
		}
	}
	return list
}

func hexadecimal(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, x := range b {
		s.WriteByte(digits[x>>4])
		s.WriteByte(digits[x&15])
	}
	return s.String()
}

func attribute(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if n := a.Value.GetIntValue(); n != 0 {
				return strconv.FormatInt(n, 10)
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// watched is a server, its trace collector and its scraper.
type watched struct {
	*testing.T
	*binary.Server
	client *http.Client
	traces *collector
}

func watch(t *testing.T) *watched {
	w := &watched{T: t, traces: newCollector(t)}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", w.traces.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	w.Server = binary.Start(t, t.TempDir(), "--management-metrics-clients", "5", "--management-pprof")
	w.client = &http.Client{Transport: w.Transport(t, "")}
	return w
}

func (w *watched) get(client *http.Client, address string) (status int, body string) {
	w.Helper()
	resp, err := client.Get(address)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (w *watched) scrape() string {
	w.Helper()
	status, text := w.get(http.DefaultClient, w.Management+"/metrics")
	if status != http.StatusOK {
		w.Fatalf("status %d: %s", status, text)
	}
	return text
}

// value returns the value of a series, which must exist.
func (w *watched) value(scrape, series string) float64 {
	w.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(scrape)
	if m == nil {
		w.Errorf("no series %s", series)
		return -1
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		w.Error(err)
	}
	return v
}

func (w *watched) token(form url.Values, status int) binary.Answer {
	w.Helper()
	a, err := w.Post(w.Context(), w.client, form)
	if err != nil {
		w.Fatal(err)
	}
	if a.Status != status {
		w.Fatalf("status %d %s %s, want %d", a.Status, a.Error, a.Description, status)
	}
	return a
}

func TestMetricsAndTracesShowWhatAServerDoes(t *testing.T) {
	w := watch(t)
	code := w.Code(t, "alice")
	first := w.token(w.ExchangeForm(code), 200)

	// Refresh within a trace that the client has begun.
	const trace, above = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.TokenEndpoint+"&x=in-the-query", strings.NewReader(w.RefreshForm(first.RefreshToken).Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Traceparent", "00-"+trace+"-"+above+"-01")
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("status %d: %s %v", resp.StatusCode, answer, err)
	}
	repeated := w.token(w.RefreshForm(first.RefreshToken), 200)
	next := w.token(w.RefreshForm(repeated.RefreshToken), 200)
	w.checkTrace(trace, above, resp.Header.Get("X-Request-Id"))

	w.token(w.RefreshForm(first.RefreshToken), 400) // a replay
	w.token(w.RefreshForm(next.RefreshToken), 400)  // the grant has ended
	wrong := w.RefreshForm(next.RefreshToken)
	wrong.Set("client_secret", "guessed")
	w.token(wrong, 400)
	w.token(url.Values{"grant_type": {"a secret in the wrong place"}}, 400)

	text := w.scrape()
	for series, want := range map[string]float64{
		`mintage_token_requests_total{grant_type="authorization_code",result="ok"}`:              1,
		`mintage_token_requests_total{grant_type="refresh_token",result="ok"}`:                   3,
		`mintage_token_requests_total{grant_type="refresh_token",result="invalid_grant"}`:        2,
		`mintage_token_requests_total{grant_type="refresh_token",result="invalid_client"}`:       1,
		`mintage_token_requests_total{grant_type="unsupported",result="unsupported_grant_type"}`: 1,
		`mintage_refreshes_total`:                                                                    2,
		`mintage_refresh_repeats_total`:                                                              1,
		`mintage_replays_total{kind="refresh"}`:                                                      1,
		`mintage_replays_total{kind="code"}`:                                                         0,
		`mintage_revocations_total{by="replay"}`:                                                     1,
		`mintage_tokens_issued_total{format="opaque",type="access"}`:                                 3,
		`mintage_client_auth_failures_total{reason="wrong_secret"}`:                                  1,
		`mintage_client_token_requests_total{client_id="` + w.ClientID + `",result="invalid_grant"}`: 2,
		`http_server_request_duration_seconds_count{http_request_method="POST",http_response_status_code="200",http_route="token request"}`: 4,
		`mintage_ready`: 1, `mintage_clock_fault`: 0, `mintage_keys_due`: 0, `mintage_audit_lost_total`: 0,
		`mintage_store_faults_total{kind="other"}`: 0,
	} {
		if got := w.value(text, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	if w.value(text, "mintage_store_batch_size_count") < 4 || w.value(text, "mintage_audit_written_total") < 4 {
		t.Error("batches or audit records are not counted")
	}
	for _, f := range metrics.Families() {
		// No secret of the demo client expires, and no store was restored.
		if f.Name != "mintage_client_secret_expiry_timestamp_seconds" && f.Name != "mintage_restore_until_timestamp_seconds" && !strings.Contains(text, "\n# TYPE "+f.Name+" "+string(f.Kind)) {
			t.Errorf("no %s in the scrape", f.Name)
		}
	}
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}

	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	everything := text + w.Log()
	w.traces.mu.Lock()
	defer w.traces.mu.Unlock()
	everything += strings.Join(w.traces.bodies, "\n")
	for _, secret := range []string{code, first.AccessToken, first.RefreshToken, next.AccessToken, next.RefreshToken, w.ClientSecret, "guessed", "wrong place", "in-the-query"} {
		if strings.Contains(everything, secret) {
			t.Errorf("%.12s... occurs in the metrics, the traces or the log", secret)
		}
	}
	if len(w.traces.faults) > 0 || w.traces.about["service.name"] != "mintage" || w.traces.about["deployment.environment"] != "test" {
		t.Errorf("the collector received invalid traces: %q, from %v", w.traces.faults, w.traces.about)
	}
	if !strings.Contains(w.Log(), `"trace_id"`) {
		t.Error("no line of the log names its trace")
	}
}

// checkTrace waits for the spans of one refresh and checks them.
func (w *watched) checkTrace(trace, above, requestID string) {
	w.Helper()
	var spans []*otlp.Span
	for deadline := time.Now().Add(time.Minute); len(spans) < 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%d spans within a minute", len(spans))
		}
		spans = w.traces.of(trace)
	}
	var request, write *otlp.Span
	for _, s := range spans {
		switch s.Name {
		case "POST token request":
			request = s
		case "store update_grant":
			write = s
		}
	}
	if len(spans) != 2 || request == nil || write == nil {
		w.Fatalf("spans %v", spans)
	}
	if hexadecimal(request.ParentSpanId) != above || request.Kind != otlp.Span_SPAN_KIND_SERVER ||
		attribute(request, "http.response.status_code") != "200" || attribute(request, "mintage.grant_type") != "refresh_token" ||
		attribute(request, "http.route") != "token request" || attribute(request, "mintage.request_id") != requestID {
		w.Errorf("the span of the request: %v", request)
	}
	if string(write.ParentSpanId) != string(request.SpanId) || attribute(write, "db.system.name") != "sqlite" ||
		write.StartTimeUnixNano < request.StartTimeUnixNano || write.EndTimeUnixNano > request.EndTimeUnixNano || write.EndTimeUnixNano <= write.StartTimeUnixNano {
		w.Errorf("the span of the write: %v, in %v", write, request)
	}
}

func TestOP10_ManagementAndAdminAreNotOnThePublicListener(t *testing.T) {
	w := &watched{T: t}
	w.Server = binary.Start(t, t.TempDir(), "--management-pprof")
	w.client = &http.Client{Transport: w.Transport(t, ""), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	u, err := url.Parse(w.TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	public := "https://" + u.Host
	management := []string{"/metrics", "/livez", "/readyz", "/debug/pprof/", "/debug/pprof/heap"}
	for _, path := range management {
		if status, _ := w.get(http.DefaultClient, w.Management+path); status != http.StatusOK {
			t.Errorf("%s on the management listener: status %d", path, status)
		}
	}
	for _, path := range append(management, "/admin/v1/codes", "/admin/v1/logins/x", "/admin/", "/debug/vars", "/debug/pprof/profile",
		"/oauth2/metrics", "/oauth2/../metrics", "//metrics", "/metrics/", "/%6detrics") {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, public, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Opaque = "//" + u.Host + path // sent exactly as spelt
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "no such endpoint") {
			t.Errorf("%s on the public listener: status %d, %.100s", path, resp.StatusCode, body)
		}
	}
	for _, path := range []string{u.Path, "/oauth2/jwks", "/admin/v1/codes"} {
		if status, _ := w.get(http.DefaultClient, w.Management+path); status != http.StatusNotFound {
			t.Errorf("%s on the management listener: status %d", path, status)
		}
	}
}

func TestAMissingCollectorDelaysNoRequest(t *testing.T) {
	gone := httptest.NewServer(nil)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", gone.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
	gone.Close()
	w := &watched{T: t}
	w.Server = binary.Start(t, t.TempDir())
	w.client = &http.Client{Transport: w.Transport(t, "")}
	pair := w.token(w.ExchangeForm(w.Code(t, "alice")), 200)
	began := time.Now()
	for range 50 {
		pair = w.token(w.RefreshForm(pair.RefreshToken), 200)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("50 refreshes took %s", took)
	}
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(w.Log(), "cannot send traces"); n > 1 {
		t.Errorf("the log reports the missing collector %d times", n)
	}
}
