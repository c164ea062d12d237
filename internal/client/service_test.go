package client_test

import (
	"testing"

	"github.com/mintage/mintage/internal/testkit"
)

const (
	clientID    = testkit.ClientID
	redirectURI = testkit.RedirectURI
	allScopes   = testkit.AllScopes
)

// A service is testkit.Service with the helpers of these tests.
type service struct {
	*testkit.Service
}

func newService(t *testing.T) *service {
	t.Helper()
	return &service{testkit.NewService(t)}
}
