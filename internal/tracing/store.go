package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// A Store is a store.Store whose operations are spans, if the request is traced.
type Store struct {
	store.Store
	tracer trace.Tracer
	engine string
}

// Store has the tracer follow st, an engine by its name. The tracer is not nil.
func (t *Tracer) Store(st store.Store, engine string) *Store { return &Store{st, t.tracer, engine} }

// begin begins a span below that of the request. There are none of their own:
// a server polls and sweeps all day.
func (s *Store) begin(ctx context.Context, operation string) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, nil
	}
	return s.tracer.Start(ctx, "store "+operation, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", s.engine), attribute.String("db.operation.name", operation)))
}

// end ends a span with the result of its operation. It is deferred.
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

// outcome is a word for an error. Its text stays in the log.
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

// Commit is a span if the change stores documents: any other is an
// administrator's.
func (s *Store) Commit(ctx context.Context, c store.Change) (err error) {
	if len(c.Documents) == 0 {
		return s.Store.Commit(ctx, c)
	}
	ctx, span := s.begin(ctx, "put_document")
	defer end(span, &err)
	return s.Store.Commit(ctx, c)
}
