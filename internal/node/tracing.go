package node

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/tracing"
)

// flushTime limits sending the last spans at a stop.
const flushTime = time.Second

// openTracer returns a Tracer if the environment names a collector. A fault in its
// settings does not keep the server from starting.
func openTracer(ctx context.Context, version string, log *slog.Logger) *tracing.Tracer {
	t, err := tracing.Open(ctx, version, os.Getenv, log)
	if err != nil {
		log.Error("the environment asks for traces, and there are none", "error", err)
	}
	return t
}

// closeTracer sends the last spans.
func closeTracer(t *tracing.Tracer) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	t.Close(ctx)
}

// traced returns st with spans, or st itself without a Tracer.
func traced(st store.Store, t *tracing.Tracer, cfg config.Config) store.Store {
	if t == nil {
		return st
	}
	engine := "sqlite"
	if cfg.Store != config.StoreSQLite {
		engine = "postgresql"
	}
	return t.Store(st, engine)
}
