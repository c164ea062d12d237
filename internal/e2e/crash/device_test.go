//go:build e2e

package crash

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestDV07_KilledBetweenApprovalAndPoll kills the server while devices poll for tokens
// that their user has approved. After the restart each device gets its tokens: the same
// pair, if its first poll was answered. There are as many grants as devices.
func TestDV07_KilledBetweenApprovalAndPoll(t *testing.T) {
	const devices = 4
	s := binary.Start(t, t.TempDir())
	s.Run(t, "client", "create", "--data", s.Dir, "--name", "Terminal", "--id", "terminal", "--public", "--grant-types", "device_code,refresh_token", "--scope", "read")
	user := s.DeviceUser(t, "alice")
	client := &http.Client{Transport: s.Transport(t, "")}
	lost, round := 0, 0
	for ; round < binary.Scaled(3, 25) || lost == 0 && round < 30; round++ { // more rounds until a kill has cost a device its answer
		var list [devices]binary.Device
		var first [devices]binary.Answer
		for i := range list {
			var err error
			if list[i], err = s.Device(client, "terminal"); err != nil {
				t.Fatal(err)
			}
			if err := user.Allow(list[i].Page, list[i].UserCode); err != nil {
				t.Fatal(err)
			}
		}
		var polling sync.WaitGroup
		for i, d := range list {
			polling.Go(func() {
				// Some polls precede the kill, some coincide with it: an error is a lost
				// answer.
				time.Sleep(time.Duration(rand.IntN(25)) * time.Millisecond)
				first[i], _ = s.Post(t.Context(), client, d.PollForm())
			})
		}
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		s.Kill()
		polling.Wait()
		checkIntegrity(t, s.Dir)
		restart(t, s)
		client.CloseIdleConnections()
		for i, d := range list {
			again, err := s.Post(t.Context(), client, d.PollForm())
			switch {
			case err != nil || again.Status != http.StatusOK:
				t.Fatalf("round %d: after the restart: %d %s, %v", round, again.Status, again.Error, err)
			case first[i].Status == http.StatusOK && (first[i].AccessToken != again.AccessToken || first[i].RefreshToken != again.RefreshToken):
				t.Error("a device has two pairs")
			case first[i].Status != http.StatusOK:
				lost++
			}
			form := s.RefreshForm(again.RefreshToken)
			form.Set("client_id", "terminal")
			form.Del("client_secret")
			if a, err := s.Post(t.Context(), client, form); err != nil || a.Status != http.StatusOK {
				t.Errorf("refresh of a device's token: %d %s, %v", a.Status, a.Error, err)
			}
		}
	}
	if lost == 0 {
		t.Error("no poll lost its answer: nothing was tested")
	}
	if rows := strings.Count(s.Run(t, "grant", "list", "--data", s.Dir, "--subject", "alice", "--limit", "1000"), "active"); rows != round*devices {
		t.Errorf("%d devices made %d grants", round*devices, rows)
	}
}
