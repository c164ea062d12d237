// Package tracing sends traces of requests to an OpenTelemetry collector. It is off,
// and costs nothing, unless the environment names a collector. Traces contain names,
// statuses and times: no token, no secret and no query.
//
// A slow or unreachable collector delays no request: spans wait in a queue of
// limited length, and are dropped when it is full.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const scope = "github.com/mintage/mintage"

// A Tracer makes spans. Its methods are safe for concurrent use, and on a nil
// Tracer they do nothing.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdk.TracerProvider
}

// Open returns a Tracer that is configured by the environment (OTEL_...), or nil if
// it names no collector. It does not connect yet. The caller must close it.
func Open(ctx context.Context, version string, getenv func(string) string, log *slog.Logger) (*Tracer, error) {
	s, err := readSettings(getenv)
	if err != nil || s == nil {
		return nil, err
	}
	// The environment takes precedence over these attributes.
	about, err := resource.New(ctx, resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "mintage"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	quiet(log)
	// The SDK reads the sampler, the limits and the queue from the environment:
	// OTEL_TRACES_SAMPLER, OTEL_SPAN_... and OTEL_BSP_...
	p := sdk.NewTracerProvider(sdk.WithBatcher(newExporter(*s, log)), sdk.WithResource(about))
	return &Tracer{tracer: p.Tracer(scope, trace.WithInstrumentationVersion(version)), provider: p}, nil
}

// Close sends the queued spans, until ctx ends, and stops the Tracer.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	// The exporter has logged its errors.
	_ = t.provider.Shutdown(ctx)
}

// A Span is the work on one request. The methods of a nil Span do nothing.
type Span struct{ span trace.Span }

// Request starts the span of a request to a route, in the trace of its traceparent
// (W3C Trace Context), if there is one. Store operations under the returned context
// are child spans.
func (t *Tracer) Request(ctx context.Context, h http.Header, method, route string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions:
	default:
		method = "_OTHER"
	}
	ctx, span := t.tracer.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.route", route), attribute.String("http.request.method", method)))
	return ctx, &Span{span}
}

// ID returns the id of the trace, in hexadecimal digits; empty without one.
func (s *Span) ID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// End ends the span of a request that was answered with a status. GrantType is
// empty or one of a closed set.
func (s *Span) End(status int, grantType, requestID string) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.String("mintage.request_id", requestID))
	if grantType != "" {
		s.span.SetAttributes(attribute.String("mintage.grant_type", grantType))
	}
	if status >= http.StatusInternalServerError {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}

// A Store is a store.Store whose operations are spans, if the request is traced.
type Store struct {
	store.Store
	tracer trace.Tracer
	engine string
}

// Store returns st, whose operations t traces under the name of an engine. T must not
// be nil.
func (t *Tracer) Store(st store.Store, engine string) *Store { return &Store{st, t.tracer, engine} }

// begin begins a child span of the request's span. Outside of a traced request, it begins
// none, because a server polls and sweeps all day.
func (s *Store) begin(ctx context.Context, operation string) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, nil
	}
	return s.tracer.Start(ctx, "store "+operation, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", s.engine), attribute.String("db.operation.name", operation)))
}

// end ends a span with the result of its operation. Call it with defer.
func end(span trace.Span, result *error) {
	if span == nil {
		return
	}
	err := *result
	switch {
	case err == nil:
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
		// These are outcomes, not errors.
		span.SetAttributes(attribute.String("mintage.outcome", outcome(err)))
	default:
		span.SetStatus(codes.Error, outcome(err))
	}
	span.End()
}

// outcome returns a word for an error, whose text is only for the log.
func outcome(err error) string {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "not_found"
	case errors.Is(err, store.ErrConflict):
		return "conflict"
	case errors.Is(err, store.ErrBusy):
		return "busy"
	}
	return "failed"
}

func (s *Store) Grant(ctx context.Context, id grant.ID) (g grant.Grant, err error) {
	ctx, span := s.begin(ctx, "grant")
	defer end(span, &err)
	return s.Store.Grant(ctx, id)
}

func (s *Store) CreateGrant(ctx context.Context, g grant.Grant) (err error) {
	ctx, span := s.begin(ctx, "create_grant")
	defer end(span, &err)
	return s.Store.CreateGrant(ctx, g)
}

func (s *Store) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) (err error) {
	ctx, span := s.begin(ctx, "update_grant")
	defer end(span, &err)
	return s.Store.UpdateGrant(ctx, id, decide)
}

func (s *Store) Document(ctx context.Context, key store.DocumentKey) (d store.Document, err error) {
	ctx, span := s.begin(ctx, "document")
	defer end(span, &err)
	return s.Store.Document(ctx, key)
}

// Commit has a span if the change stores documents. It has none for any other change,
// because only administrators make those.
func (s *Store) Commit(ctx context.Context, c store.Change) (err error) {
	if len(c.Documents) == 0 {
		return s.Store.Commit(ctx, c)
	}
	ctx, span := s.begin(ctx, "put_document")
	defer end(span, &err)
	return s.Store.Commit(ctx, c)
}
