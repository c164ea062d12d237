//go:build e2e

package crash

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// told are the subjects whose logout a client has accepted. Half of the calls find the
// client killed: before it has read them, or before its answer.
type told struct {
	t  *testing.T
	mu sync.Mutex
	of map[string]int
	up bool // it is no longer killed
}

func (r *told) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fate := rand.N(4)
	if fate == 0 && !r.up {
		panic(http.ErrAbortHandler)
	}
	parts := strings.Split(req.PostFormValue("logout_token"), ".")
	var claims struct {
		Subject string         `json:"sub"`
		Events  map[string]any `json:"events"`
	}
	if len(parts) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		json.Unmarshal(payload, &claims)
	}
	if claims.Events["http://schemas.openid.net/event/backchannel-logout"] == nil {
		r.t.Errorf("%s %s is no logout", req.Method, req.URL)
	}
	r.of[claims.Subject]++
	if fate == 1 && !r.up {
		panic(http.ErrAbortHandler)
	}
}

func (r *told) times(subject string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[subject]
}

// TestKillsLoseNoLogout kills the server, and the client that it calls, at random
// moments: the client is told of every end of sessions that was acknowledged, and of
// none for a subject whose sessions go on.
func TestKillsLoseNoLogout(t *testing.T) {
	client := &told{t: t, of: map[string]int{}}
	receiver := httptest.NewUnstartedServer(client)
	receiver.Config.ErrorLog = nil
	receiver.Start()
	defer receiver.Close()
	s := binary.Start(t, t.TempDir())
	s.Run(t, "client", "update", s.ClientID, "--native", "--backchannel-logout-uri", receiver.URL+"/logout")
	var ended, going []string
	kills := 0
	for round := range binary.Scaled(4, 150) {
		browser := &http.Client{Transport: s.Transport(t, "")}
		var names []string
		for i := range 6 {
			name := fmt.Sprintf("user-%d-%d", round, i)
			code, err := s.FastCode(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if a, err := s.Post(t.Context(), browser, s.ExchangeForm(code)); err != nil || a.Status != http.StatusOK {
				t.Fatalf("%d %s, %v", a.Status, a.Error, err)
			}
			names = append(names, name)
		}
		going = append(going, names[:2]...)
		killed := make(chan struct{})
		time.AfterFunc(rand.N(1500*time.Millisecond), func() { s.Kill(); close(killed) })
		for _, name := range names[2:] {
			if cutOff(t.Context(), s, name) == nil {
				ended = append(ended, name)
			}
			time.Sleep(rand.N(100 * time.Millisecond))
		}
		<-killed
		kills++
		restart(t, s)
	}
	if len(ended) < kills {
		t.Fatalf("only %d ends were acknowledged", len(ended))
	}
	client.mu.Lock()
	client.up = true
	client.mu.Unlock()
	until := time.Now().Add(time.Duration(binary.Scaled(90, 600)) * time.Second)
	for _, name := range ended {
		for client.times(name) == 0 {
			if time.Now().After(until) {
				t.Fatalf("the client was never told of %s\n%s", name, s.Log())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for _, name := range going {
		if n := client.times(name); n > 0 {
			t.Errorf("the client was told %d times of %s, whose sessions go on", n, name)
		}
	}
	t.Logf("%d kills, %d ends acknowledged", kills, len(ended))
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// cutOff ends all sessions of a subject through the admin socket.
func cutOff(ctx context.Context, s *binary.Server, subject string) error {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.AdminSocket)
	}, DisableKeepAlives: true}}
	body := strings.NewReader(fmt.Sprintf(`{"subject":%q}`, subject))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/admin/v1/cutoffs", body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s", resp.Status)
	}
	return nil
}
