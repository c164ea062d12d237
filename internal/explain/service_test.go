package explain_test

import (
	"testing"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	realm       = testkit.Realm
	clientID    = testkit.ClientID
	subject     = testkit.Subject
	redirectURI = testkit.RedirectURI
	allScopes   = testkit.AllScopes
	orders      = testkit.Orders
	invoices    = testkit.Invoices
	day         = testkit.Day
)

// A service is the shared fixture with additions for these tests.
type service struct {
	*testkit.Service
}

func newService(t *testing.T, change ...func(*issuer.Issuer)) *service {
	t.Helper()
	return &service{testkit.NewService(t, change...)}
}

func withAPIs(t *testing.T) *service {
	t.Helper()
	return &service{testkit.WithAPIs(t)}
}
