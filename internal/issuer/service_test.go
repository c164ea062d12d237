package issuer_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	realm       = testkit.Realm
	issuerID    = testkit.IssuerID
	clientID    = testkit.ClientID
	subject     = testkit.Subject
	redirectURI = testkit.RedirectURI
	allScopes   = testkit.AllScopes
	orders      = testkit.Orders
	invoices    = testkit.Invoices
	agentID     = testkit.AgentID
	day         = testkit.Day
)

// A service is testkit.Service with the helpers of these tests.
type service struct{ *testkit.Service }

func newService(t *testing.T, change ...func(*issuer.Issuer)) *service {
	t.Helper()
	return &service{testkit.NewService(t, change...)}
}

func newNodes(t *testing.T, sched keys.Schedule, n int) (list []*service) {
	t.Helper()
	for _, s := range testkit.NewNodes(t, sched, n) {
		list = append(list, &service{s})
	}
	return list
}

func withAPIs(t *testing.T, change ...func(*issuer.Issuer)) *service {
	t.Helper()
	return &service{testkit.WithAPIs(t, change...)}
}

// revoked checks that a grant was revoked for a reason, and that one event records it.
func (s *service) revoked(id grant.ID, why grant.Reason, name store.EventName) {
	s.T.Helper()
	if g := s.Row(id); g.State != grant.Revoked || g.Reason != why {
		s.T.Errorf("the grant is %s (%s), want revoked (%s)", g.State, g.Reason, why)
	}
	events, err := s.Engine.Events(s.T.Context(), id.String(), 10)
	if err != nil {
		s.T.Fatal(err)
	}
	if len(events) != 1 || events[0].Name != name || events[0].Actor != clientID {
		s.T.Errorf("events %+v, want one %s of %s", events, name, clientID)
	} else if d := events[0].Detail; !strings.Contains(d, "192.0.2.7") || !strings.Contains(d, "c0ffee") || strings.Contains(d, "mintage_") {
		s.T.Errorf("the event's detail is %q, want the origin of the request and no token", d)
	}
}
