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
	s := newRealms(t, func(c *config.Config) { c.Throttle.ClientRequests, c.Throttle.ClientFailures = 10, 5 })
	near, far := s.register("near"), s.register("far")
	request := func(i inhabitant, secret string) int {
		status, _, _ := s.send(ofRealms[i.realm].endpoints+"/access_token", url.Values{"grant_type": {"client_credentials"}, "client_id": {sharedID}, "client_secret": {secret}}, "")
		return status
	}
	for what, secret := range map[string]string{"requests": near.secret, "failures": "wrong"} {
		for n := 0; request(near, secret) != http.StatusTooManyRequests; n++ {
			if n > 20 {
				t.Fatalf("the %s of a client have no limit", what)
			}
		}
		if status := request(far, far.secret); status != http.StatusOK {
			t.Errorf("after the %s of a client in another realm: %d", what, status)
		}
	}
}
