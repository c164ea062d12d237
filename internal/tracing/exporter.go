package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	about "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// An exporter sends spans to a collector by OTLP over HTTP. OpenTelemetry's own
// exporter would link gRPC and all its transports.
type exporter struct {
	settings
	client *http.Client
	log    *slog.Logger

	// No lock is needed: the batcher calls one method at a time.
	failed time.Time // when a failure was last logged; zero if the last batch was accepted
}

const (
	// tries is how often one batch is sent at most. Meanwhile, other batches wait.
	tries = 3
	// sayAgain is the least time between two log lines about an unreachable collector.
	sayAgain = 10 * time.Minute
	// maxAnswer is how much of a collector's answer is read.
	maxAnswer = 64 << 10
)

func newExporter(s settings, log *slog.Logger) *exporter {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = s.tls
	return &exporter{settings: s, log: log, client: &http.Client{
		Transport: t, Timeout: s.timeout,
		// The headers may contain a secret: they are not sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ExportSpans sends one batch, or drops it. It logs its errors, and always returns nil,
// because the batcher would log them again.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := proto.Marshal(request(spans))
	if err == nil && e.gzip {
		body, err = compressed(body)
	}
	if err == nil {
		err = e.deliver(ctx, body)
	}
	e.say(err, len(spans))
	return nil
}

func (e *exporter) say(err error, spans int) {
	switch {
	case err == nil && !e.failed.IsZero():
		e.log.Info("the collector accepts traces again")
		e.failed = time.Time{}
	case err != nil && time.Since(e.failed) > sayAgain:
		e.log.Warn("cannot send traces to the collector; dropping them", "error", err, "spans", spans)
		e.failed = time.Now()
	}
}

// Shutdown closes idle connections. The batcher has already sent all spans.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// deliver sends a body until the collector accepts it, rejects it for good, or has
// failed tries times.
func (e *exporter) deliver(ctx context.Context, body []byte) error {
	for try := 1; ; try++ {
		wait, err := e.post(ctx, body)
		if err == nil || wait < 0 || try == tries {
			return err
		}
		if wait == 0 {
			wait = time.Second<<(try-1) + rand.N(time.Second)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// post sends a body once. With an error it returns how long to wait before the
// next try: 0 if the collector has named no time, negative if the error is permanent.
func (e *exporter) post(ctx context.Context, body []byte) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	r.Header = e.header.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	if e.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := e.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch resp.StatusCode {
	case http.StatusOK:
		var taken collector.ExportTraceServiceResponse
		if p := taken.GetPartialSuccess; proto.Unmarshal(answer, &taken) == nil && p().GetRejectedSpans() > 0 {
			return -1, fmt.Errorf("the collector has rejected %d spans: %q", p().GetRejectedSpans(), p().GetErrorMessage())
		}
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(max(0, seconds)) * time.Second, fmt.Errorf("the collector answers %s", resp.Status)
	}
	return -1, fmt.Errorf("the collector answers %s", resp.Status)
}

func compressed(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// quiet sends OpenTelemetry's errors to the log, and discards its other messages: by
// default, both go to standard error.
func quiet(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("tracing", "error", err) }))
	otel.SetLogger(logr.Discard())
}

// request returns spans of one Tracer, which have the same resource and scope, as an
// OTLP request.
func request(spans []sdk.ReadOnlySpan) *collector.ExportTraceServiceRequest {
	if len(spans) == 0 {
		return &collector.ExportTraceServiceRequest{}
	}
	from := spans[0].InstrumentationScope()
	list := make([]*otlp.Span, len(spans))
	for i, s := range spans {
		list[i] = span(s)
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*otlp.ResourceSpans{{
		Resource:  &about.Resource{Attributes: attributes(spans[0].Resource().Attributes())},
		SchemaUrl: spans[0].Resource().SchemaURL(),
		ScopeSpans: []*otlp.ScopeSpans{{
			Scope: &common.InstrumentationScope{Name: from.Name, Version: from.Version}, Spans: list,
		}},
	}}}
}

// Bits of otlp.Span.Flags above those of W3C Trace Context.
const (
	flagsTellOfParent = 0x100
	parentIsRemote    = 0x200
)

func span(s sdk.ReadOnlySpan) *otlp.Span {
	own, parent := s.SpanContext(), s.Parent()
	traceID, spanID := own.TraceID(), own.SpanID()
	out := &otlp.Span{
		TraceId: traceID[:], SpanId: spanID[:], TraceState: own.TraceState().String(),
		Flags: uint32(own.TraceFlags()) | flagsTellOfParent,
		Name:  s.Name(), Kind: kind(s.SpanKind()),
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: attributes(s.Attributes()), DroppedAttributesCount: uint32(s.DroppedAttributes()),
	}
	if id := parent.SpanID(); id.IsValid() {
		out.ParentSpanId = id[:]
	}
	if parent.IsRemote() {
		out.Flags |= parentIsRemote
	}
	if s.Status().Code == codes.Error {
		out.Status = &otlp.Status{Code: otlp.Status_STATUS_CODE_ERROR, Message: s.Status().Description}
	}
	return out
}

func kind(k trace.SpanKind) otlp.Span_SpanKind {
	switch k {
	case trace.SpanKindServer:
		return otlp.Span_SPAN_KIND_SERVER
	case trace.SpanKindClient:
		return otlp.Span_SPAN_KIND_CLIENT
	}
	return otlp.Span_SPAN_KIND_INTERNAL
}

func attributes(list []attribute.KeyValue) []*common.KeyValue {
	out := make([]*common.KeyValue, len(list))
	for i, a := range list {
		v := &common.AnyValue{}
		switch a.Value.Type() {
		case attribute.BOOL:
			v.Value = &common.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
		case attribute.INT64:
			v.Value = &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		case attribute.FLOAT64:
			v.Value = &common.AnyValue_DoubleValue{DoubleValue: a.Value.AsFloat64()}
		default:
			v.Value = &common.AnyValue_StringValue{StringValue: a.Value.Emit()}
		}
		out[i] = &common.KeyValue{Key: string(a.Key), Value: v}
	}
	return out
}
