package audit

import (
	"context"
	"net/netip"
)

// An Origin is the request that causes an event.
type Origin struct {
	RequestID string
	RemoteIP  netip.Addr
	Actor     string // who sends it, if that is known from the start
}

type originKey struct{}

// withOrigin is a context.WithValue that allocates one thing for a request, not
// three.
type withOrigin struct {
	context.Context
	origin Origin
}

func (c *withOrigin) Value(key any) any {
	if key == (originKey{}) {
		return &c.origin
	}
	return c.Context.Value(key)
}

// With keeps an origin for what happens under ctx.
func With(ctx context.Context, o Origin) context.Context { return &withOrigin{ctx, o} }

// From returns the origin of ctx, or zero.
func From(ctx context.Context) Origin {
	if o, ok := ctx.Value(originKey{}).(*Origin); ok {
		return *o
	}
	return Origin{}
}

// Event returns e with the origin in the members that e leaves empty.
func (o Origin) Event(e Event) Event {
	if e.RequestID == "" {
		e.RequestID = o.RequestID
	}
	if !e.RemoteIP.IsValid() {
		e.RemoteIP = o.RemoteIP
	}
	if e.Actor == "" {
		e.Actor = o.Actor
	}
	return e
}
