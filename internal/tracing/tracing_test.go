package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

const (
	endpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

func TestTracingIsOffUnlessTheEnvironmentNamesACollector(t *testing.T) {
	for _, off := range [][]string{
		nil,
		{"OTEL_SERVICE_NAME", "x"},
		{endpoint, "http://c:4318", "OTEL_SDK_DISABLED", "true"},
		{endpoint, "http://c:4318", "OTEL_TRACES_EXPORTER", "none"},
	} {
		tracer, err := Open(t.Context(), "v1", env(off...), slog.New(slog.DiscardHandler))
		if tracer != nil || err != nil {
			t.Errorf("%v: %v, %v", off, tracer, err)
		}
	}
	var none *Tracer
	ctx, span := none.Request(t.Context(), http.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}, "POST", "x")
	if ctx != t.Context() || span.ID() != "" {
		t.Error("a span without a tracer")
	}
	span.End(200, "", "")
	none.Close(t.Context())
	if n := testing.AllocsPerRun(100, func() {
		_, span := none.Request(ctx, nil, "POST", "x")
		span.End(200, "", "")
	}); n != 0 {
		t.Errorf("what is off costs %v allocations", n)
	}
}

func TestTheCollectorIsFoundByTheStandardVariables(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{endpoint, "http://c:4318"}, "http://c:4318/v1/traces"},
		{[]string{endpoint, "https://c/otlp/"}, "https://c/otlp/v1/traces"},
		{[]string{tracesEndpoint, "http://c:4318/mine"}, "http://c:4318/mine"},
		{[]string{endpoint, "http://general", tracesEndpoint, "http://c/t"}, "http://c/t"},
		{[]string{endpoint, "http://c", "OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}, "http://c/v1/traces"},
	} {
		s, err := readSettings(env(c.env...))
		if err != nil || s.endpoint != c.want {
			t.Errorf("%v: %v, %v, want %s", c.env, s, err, c.want)
		}
	}
	s, err := readSettings(env(endpoint, "http://c", "OTEL_EXPORTER_OTLP_HEADERS", "a=1, api-key=x%3Dy", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"))
	if err != nil || s.header.Get("A") != "1" || s.header.Get("Api-Key") != "x=y" || s.timeout != 2500*time.Millisecond || !s.gzip {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAFaultOfTheEnvironmentNamesItsVariableAndNoSecret(t *testing.T) {
	for _, c := range [][]string{
		{endpoint, "collector:4318"},
		{endpoint, "http://user:hunter2@c"},
		{tracesEndpoint, "ftp://c"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", endpoint, "http://c:4317"},
		{"OTEL_TRACES_EXPORTER", "zipkin", endpoint, "http://c"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "hunter2", endpoint, "http://c"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2%0d%0ab", endpoint, "http://c"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=%zzhunter2", endpoint, "http://c"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", endpoint, "http://c"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", endpoint, "http://c"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/does/not/exist", endpoint, "https://c"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/does/not/exist", endpoint, "https://c"},
	} {
		tracer, err := Open(t.Context(), "v1", env(c...), slog.New(slog.DiscardHandler))
		if tracer != nil || err == nil || !strings.Contains(err.Error(), c[0]) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// A receiver is a collector that responds as the test says.
type receiver struct {
	answers []func(http.ResponseWriter)
	bodies  [][]byte
	headers []http.Header
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.bodies, r.headers = append(r.bodies, body), append(r.headers, req.Header)
	if len(r.answers) == 0 {
		return nil, errors.New("nobody is there")
	}
	w := httptest.NewRecorder()
	r.answers[0](w)
	r.answers = r.answers[1:]
	return w.Result(), nil
}

func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

func TestABatchIsSentAgainWhileThatCanHelp(t *testing.T) {
	rejected, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 2, ErrorMessage: "too old"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		answers []func(http.ResponseWriter)
		sent    int
		fails   string
		least   time.Duration // the least duration
	}{
		{"taken", []func(http.ResponseWriter){status(200)}, 1, "", 0},
		{"taken later", []func(http.ResponseWriter){status(503), status(429, "Retry-After", "7"), status(200)}, 3, "", 8 * time.Second},
		{"refused", []func(http.ResponseWriter){status(400)}, 1, "400", 0},
		{"sent elsewhere", []func(http.ResponseWriter){status(307, "Location", "http://elsewhere/")}, 1, "307", 0},
		{"never taken", []func(http.ResponseWriter){status(502), status(504), status(503), status(200)}, 3, "503", 3 * time.Second},
		{"nobody there", nil, 3, "nobody is there", 3 * time.Second},
		{"taken in part", []func(http.ResponseWriter){func(w http.ResponseWriter) { w.Write(rejected) }}, 1, "too old", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newExporter(settings{endpoint: "http://c/v1/traces", timeout: time.Minute, header: http.Header{"Api-Key": {"k"}}}, slog.New(slog.DiscardHandler))
			to := &receiver{answers: c.answers}
			e.client.Transport = to
			began := time.Now()
			err := e.deliver(t.Context(), []byte("spans"))
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.what, err)
			}
			if len(to.bodies) != c.sent || time.Since(began) < c.least {
				t.Errorf("%s: sent %d times in %s", c.what, len(to.bodies), time.Since(began))
			}
			for i, h := range to.headers {
				if h.Get("Api-Key") != "k" || string(to.bodies[i]) != "spans" {
					t.Errorf("%s: %v %q", c.what, h, to.bodies[i])
				}
			}
		})
	}
}

func TestABodyIsCompressedIfAskedFor(t *testing.T) {
	e := newExporter(settings{endpoint: "http://c/v1/traces", gzip: true, header: http.Header{}}, slog.New(slog.DiscardHandler))
	to := &receiver{answers: []func(http.ResponseWriter){status(200)}}
	e.client.Transport = to
	if err := e.ExportSpans(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(to.bodies[0]))
	if err != nil || to.headers[0].Get("Content-Encoding") != "gzip" {
		t.Fatal(err, to.headers[0])
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Error(err)
	}
}

func TestAMissingCollectorIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e := newExporter(settings{endpoint: "http://c/v1/traces", header: http.Header{}}, slog.New(slog.NewTextHandler(&log, nil)))
		to := &receiver{}
		e.client.Transport = to
		for range 20 {
			if err := e.ExportSpans(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		if n := strings.Count(log.String(), "cannot send"); n != 1 {
			t.Errorf("%d lines within minutes:\n%s", n, &log)
		}
		time.Sleep(sayAgain)
		e.ExportSpans(t.Context(), nil)
		to.answers = []func(http.ResponseWriter){status(200), status(200)}
		e.ExportSpans(t.Context(), nil)
		e.ExportSpans(t.Context(), nil)
		if n, again := strings.Count(log.String(), "cannot send"), strings.Count(log.String(), "accepts traces again"); n != 2 || again != 1 {
			t.Errorf("%d and %d lines:\n%s", n, again, &log)
		}
	})
}

// A brokenStore returns the errors that the test sets.
type brokenStore struct {
	store.Store
	err error
}

func (s brokenStore) Grant(context.Context, grant.ID) (grant.Grant, error) {
	return grant.Grant{}, s.err
}

func TestOperationsAreSpansOfTheRequestThatIsTraced(t *testing.T) {
	var got atomic.Pointer[[]*otlp.Span]
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var request collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil {
			t.Error(err)
			return
		}
		spans := request.ResourceSpans[0].ScopeSpans[0].Spans
		got.Store(&spans)
	}))
	defer c.Close()
	tracer, err := Open(t.Context(), "v1", env(endpoint, c.URL), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	secret := fmt.Errorf("%w: with a secret in its text", store.ErrBusy)
	for _, failing := range []error{nil, store.ErrNotFound, secret, errors.New("with a secret in its text")} {
		st := tracer.Store(brokenStore{err: failing}, "sqlite")
		if _, err := st.Grant(t.Context(), grant.ID{}); err != failing {
			t.Errorf("%v became %v", failing, err)
		}
		ctx, span := tracer.Request(t.Context(), nil, "BREW", "introspection")
		if _, err := st.Grant(ctx, grant.ID{}); err != failing {
			t.Errorf("%v became %v", failing, err)
		}
		code := 200
		if failing != nil {
			code = 503
		}
		span.End(code, "", "0123")
	}
	tracer.Close(t.Context())
	if got.Load() == nil {
		t.Fatal("nothing was sent at the close")
	}
	var said []string
	for _, s := range *got.Load() {
		line := s.Name + " " + s.GetStatus().GetCode().String() + " " + s.GetStatus().GetMessage()
		for _, a := range s.Attributes {
			if a.Key == "mintage.outcome" {
				line += a.Value.GetStringValue()
			}
		}
		said = append(said, strings.TrimSpace(line))
	}
	const good, bad = " STATUS_CODE_UNSET", " STATUS_CODE_ERROR"
	want := []string{
		"store grant" + good, "_OTHER introspection" + good,
		"store grant" + good + " not_found", "_OTHER introspection" + bad,
		"store grant" + bad + " busy", "_OTHER introspection" + bad,
		"store grant" + bad + " failed", "_OTHER introspection" + bad,
	}
	if !slices.Equal(said, want) {
		t.Errorf("spans:\n%s\nwant:\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
}
