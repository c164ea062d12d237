//go:build e2e

package nodes

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestDV07_AHundredDevicesAtTwoNodes: each of a hundred waiting devices polls both nodes
// simultaneously. It gets one pair, and its user one grant.
func TestDV07_AHundredDevicesAtTwoNodes(t *testing.T) {
	t.Parallel()
	const devices = 100
	c := open(t, 2)
	first := c.nodes[0]
	first.Run(t, "client", "create", "--data", first.Dir, "--name", "Terminal", "--id", "terminal", "--public", "--grant-types", "device_code,refresh_token", "--scope", "read")
	user := first.DeviceUser(t, "alice")
	// A node knows a client that a command has created after its next poll of the store.
	var list [devices]binary.Device
	var err error
	for i := range list {
		for tries := 0; ; tries++ {
			if list[i], err = c.node(i).Device(c.client, "terminal"); err == nil || tries == 50 || !strings.Contains(err.Error(), "invalid_client") {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var waiting sync.WaitGroup
	pairs := map[string]bool{}
	var mu sync.Mutex
	polling := &http.Client{Transport: first.Transport(t, "")}
	polling.Transport.(*http.Transport).MaxConnsPerHost = 16 // handshakes cost more than polls
	for _, d := range list {
		waiting.Go(func() {
			pause := 5 * time.Second
			for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(pause) {
				var got [4]binary.Answer
				var together sync.WaitGroup
				for i := range got {
					together.Go(func() { got[i], _ = c.node(i).Post(t.Context(), polling, d.PollForm()) }) // after an error, the device polls again
				}
				together.Wait()
				var one string
				for _, a := range got {
					switch a.Error {
					case "slow_down": // the polls of a busy machine may come too close together
						pause += 5 * time.Second
					case "authorization_pending", "temporarily_unavailable":
					case "":
						if pair := a.AccessToken + a.RefreshToken; pair != "" {
							if one != "" && one != pair {
								t.Error("a device has two pairs")
							}
							one = pair
						}
					default:
						t.Errorf("a poll is answered %d %s", a.Status, a.Error)
						return
					}
				}
				if one != "" {
					mu.Lock()
					pairs[one] = true
					mu.Unlock()
					return
				}
			}
			t.Error("a device got no pair in time")
		})
	}
	for _, d := range list {
		if err := user.Allow(d.Page, d.UserCode); err != nil {
			t.Error(err)
		}
	}
	waiting.Wait()
	if len(pairs) != devices {
		t.Errorf("%d devices got %d pairs", devices, len(pairs))
	}
	if rows := strings.Count(first.Run(t, "grant", "list", "--subject", "alice", "--limit", "1000"), "active"); rows != devices {
		t.Errorf("%d devices made %d grants", devices, rows)
	}
}
