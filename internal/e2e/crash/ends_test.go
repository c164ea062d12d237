//go:build e2e

package crash

import (
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestANodeThatDiesLeavesNoGrantOfAnEndedSession kills a node at random moments while a
// user signs out there, or an operator ends a session. The client's grants end with the
// session: another node revokes them, or the same node after its restart.
func TestANodeThatDiesLeavesNoGrantOfAnEndedSession(t *testing.T) {
	onEachEngine(t, func(t *testing.T, s *binary.Server, store ...string) {
		other := s // the node that is queried and not killed; with SQLite, the same one
		if store != nil {
			other = s.Peer(t)
		}
		visit, o := relying(t, s, "https://app.example/logout"), operator{t, other}
		s.Run(t, "client", "update", "app", "--backchannel-logout-uri=", "--logout-ends-grants")
		sessions := func() map[string]adminapi.Session {
			t.Helper()
			var list struct{ Sessions []adminapi.Session }
			o.call("GET", "sessions?"+url.Values{"subject": {"demo"}}.Encode(), "", &list)
			byID := map[string]adminapi.Session{}
			for _, v := range list.Sessions {
				byID[v.Session] = v
			}
			return byID
		}
		left, going := map[string]bool{}, map[string]bool{}
		for round := range binary.Scaled(4, 60) {
			before := sessions()
			v := visit()
			visit()
			var both []string
			for id := range sessions() {
				if _, known := before[id]; !known {
					both = append(both, id)
				}
			}
			if len(both) != 2 {
				t.Fatalf("%d sessions began", len(both))
			}
			killed := make(chan struct{})
			kill := func() { s.Kill(); close(killed) }
			if round > 0 {
				time.AfterFunc(rand.N(25*time.Millisecond), kill)
			}
			var acknowledged bool
			if round%2 == 0 {
				acknowledged = v.leave(s)
			} else { // an operator ends the first session
				args := append([]string{"session", "end", "--subject", "demo", both[0], "--data", s.Dir}, store...)
				acknowledged = binary.Command(t, args...).Run() == nil
			}
			if round == 0 { // the first kill always follows the answer
				kill()
			}
			<-killed
			if other == s {
				restart(t, s)
			}
			ended := 0
			for _, id := range both {
				if sessions()[id].State == "active" {
					going[id] = true
				} else {
					left[id] = true
					ended++
				}
			}
			if ended > 1 || acknowledged && ended == 0 {
				t.Errorf("%d sessions have ended; acknowledged: %t", ended, acknowledged)
			}
			if other != s {
				restart(t, s)
			}
		}
		if len(left) == 0 {
			t.Fatal("no session has ended: nothing was tested")
		}
		revoked := func() bool {
			for id, v := range sessions() {
				for _, g := range v.Grants {
					if left[id] && g.State != "revoked" {
						return false
					}
				}
			}
			return true
		}
		for until := time.Now().Add(60 * time.Second); !revoked(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("a session has ended, and its grant is not revoked: %+v\n%s", sessions(), other.Log())
			}
		}
		for id, v := range sessions() {
			if going[id] && (v.State != "active" || len(v.Grants) != 1 || v.Grants[0].State != "active") {
				t.Errorf("the session %s did not end, and is now %+v", id, v)
			}
		}
		t.Logf("%d sessions ended, %d went on", len(left), len(going))
	})
}
