package oauth_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

// An id_token with all claims about its user is longer than 4,096 characters, and is
// still a valid hint for a logout.
func TestALogoutTakesTheLongestIDTokenAsAHint(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]error{oauth.MaxHint: nil, oauth.MaxHint + 1: oauth.ErrTooLong} {
		hint := strings.Repeat("x", n)
		for name, parse := range map[string]func() (oauth.LogoutRequest, string, error){
			"query": func() (oauth.LogoutRequest, string, error) { return oauth.ParseLogout("", "id_token_hint="+hint) },
			"form":  func() (oauth.LogoutRequest, string, error) { return oauth.ParseLogout("id_token_hint="+hint, "") },
		} {
			r, _, err := parse()
			if !errors.Is(err, want) || want == nil && r.IDTokenHint != hint {
				t.Errorf("%d bytes in the %s: %d are read, %v", n, name, len(r.IDTokenHint), err)
			}
		}
	}
}
