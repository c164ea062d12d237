package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	about "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

// request is the OTLP form of spans of one Tracer: they have one resource and
// one scope.
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
