package web

import (
	"net/netip"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
)

// CountLogin counts a login that ended with err.
func CountLogin(m *metrics.Metrics, err error) {
	s := &endpoints{Server: &server.Server{Options: server.Options{Metrics: m}}}
	events{s}.countLogin(err)
}

// EnterUpstream begins a provider's callback from an address.
func EnterUpstream(t *overload.Throttle, q *overload.Queue, from netip.Addr) (done func(), err error) {
	return provider{(&endpoints{Server: &server.Server{Options: server.Options{Throttle: t, Queue: q}}})}.enter(from)
}

// Metadata returns the members of the authorization endpoint.
func (f *Front) Metadata() map[string]any { return f.metadata() }

// Charged returns a visitor at an address, with the limits on beginning interactions.
func Charged(from netip.Addr) login.Visitor {
	return new(endpoints).charged(&exchange{Request: &server.Request{Counted: from}}, login.Visitor{})
}
