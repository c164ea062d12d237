package directory_test

import (
	"errors"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	realm       = testkit.Realm
	clientID    = testkit.ClientID
	subject     = testkit.Subject
	redirectURI = testkit.RedirectURI
	allScopes   = testkit.AllScopes
	day         = testkit.Day
)

// A service is the shared fixture with additions for these tests.
type service struct {
	*testkit.Service
}

func newService(t *testing.T) *service {
	t.Helper()
	return &service{testkit.NewService(t)}
}

func newNodes(t *testing.T, sched keys.Schedule, n int) (list []*service) {
	t.Helper()
	for _, s := range testkit.NewNodes(t, sched, n) {
		list = append(list, &service{s})
	}
	return list
}

// proven requires that a secret authenticates a client, or does not.
func (s *service) proven(id string, secret oauth.Secret, want bool) {
	s.T.Helper()
	if _, err := s.Authenticate(id, secret); (err == nil) != want || !want && !errors.Is(err, client.ErrClient) {
		s.T.Errorf("a secret of client %s: %v, want success: %t", id, err, want)
	}
}
