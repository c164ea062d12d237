package node

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

// Clients with one id in two realms share nothing: the limits of one do not affect the
// other.
func TestOP20_LimitsOfClientsDoNotCrossRealms(t *testing.T) {
	for from := range ofRealms {
		s := newRealms(t, func(c *config.Config) { c.Throttle.ClientRequests, c.Throttle.ClientFailures = 10, 5 })
		all := map[string]inhabitant{}
		for name := range ofRealms {
			all[name] = s.register(name)
		}
		request := func(at, secret string) int {
			status, _, _ := s.send(ofRealms[at].endpoints+"/access_token", url.Values{"grant_type": {"client_credentials"}, "client_id": {sharedID}, "client_secret": {secret}}, "")
			return status
		}
		for what, secret := range map[string]string{"requests": all[from].secret, "failures": "wrong"} {
			for n := 0; request(from, secret) != http.StatusTooManyRequests; n++ {
				if n > 20 {
					t.Fatalf("the %s of a client have no limit", what)
				}
			}
			for at, i := range all {
				if status := request(at, i.secret); at != from && status != http.StatusOK {
					t.Errorf("after the %s of a client of %s, at %s: %d", what, from, at, status)
				}
			}
		}
	}
}
