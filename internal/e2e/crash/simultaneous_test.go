//go:build e2e

package crash

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const simultaneous = 64

// lines are open TLS connections to the token endpoint.
type lines []line

type line struct {
	*tls.Conn
	answers *bufio.Reader
}

func connect(t *testing.T, s *binary.Server) (list lines) {
	t.Helper()
	u, err := url.Parse(s.TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	config := s.Transport(t, "").TLSClientConfig
	for range simultaneous {
		conn, err := tls.Dial("tcp", u.Host, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		list = append(list, line{conn, bufio.NewReader(conn)})
	}
	return list
}

// together sends the form on every line. Each request lacks its last byte
// until all have been read so far, and then all get it at once.
func (list lines) together(t *testing.T, s *binary.Server, form url.Values) (all []binary.Answer) {
	t.Helper()
	u, err := url.Parse(s.TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	body := form.Encode()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", u.RequestURI(), u.Host, len(body))
	for _, l := range list {
		l.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := l.Write([]byte(head)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range list {
		// The handler is running: it has asked for the body.
		if first, err := l.answers.ReadString('\n'); err != nil || !strings.Contains(first, " 100 ") {
			t.Fatalf("%q, %v instead of 100 Continue", first, err)
		}
		if _, err := l.answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Write([]byte(body[:len(body)-1])); err != nil {
			t.Fatal(err)
		}
	}
	all = make([]binary.Answer, len(list))
	release := make(chan struct{})
	var waiting sync.WaitGroup
	for i, l := range list {
		waiting.Go(func() {
			<-release
			if _, err := l.Write([]byte(body[len(body)-1:])); err != nil {
				t.Error(err)
				return
			}
			resp, err := http.ReadResponse(l.answers, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if err := json.NewDecoder(resp.Body).Decode(&all[i]); err != nil {
				t.Error(err)
			}
			all[i].Status = resp.StatusCode
		})
	}
	close(release)
	waiting.Wait()
	return all
}

// oneWinner finds the only 200 among answers that are otherwise invalid_grant.
func oneWinner(t *testing.T, all []binary.Answer) binary.Answer {
	t.Helper()
	var winners []binary.Answer
	for _, a := range all {
		switch {
		case a.Status == http.StatusOK:
			winners = append(winners, a)
		case a.Status != http.StatusBadRequest || a.Error != "invalid_grant":
			t.Errorf("answer %d %s to one of the others, want 400 invalid_grant", a.Status, a.Error)
		}
	}
	if len(winners) != 1 {
		t.Fatalf("%d of %d simultaneous requests were answered 200, want exactly one", len(winners), len(all))
	}
	return winners[0]
}

// A session is a server with lines to it and a client for single requests.
type session struct {
	*binary.Server
	lines  lines
	client *http.Client
}

func open(t *testing.T, args ...string) session {
	s := binary.Start(t, t.TempDir(), args...)
	return session{s, connect(t, s), &http.Client{Transport: s.Transport(t, "")}}
}

func (s session) code(t *testing.T) string {
	t.Helper()
	code, err := s.FastCode(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// post sends one request and demands its status, and invalid_grant with 400.
func (s session) post(t *testing.T, form url.Values, status int) binary.Answer {
	t.Helper()
	a, err := s.Post(t.Context(), s.client, form)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != status || status == http.StatusBadRequest && a.Error != "invalid_grant" {
		t.Fatalf("answer %d %s %q, want %d", a.Status, a.Error, a.Description, status)
	}
	return a
}

// TestTC19_SimultaneousRedemptionsHaveOneWinner redeems one code many times at
// the same moment. The others are replays, so the winner's pair is dead when
// all is over (RFC 6749 section 4.1.2).
func TestTC19_SimultaneousRedemptionsHaveOneWinner(t *testing.T) {
	s := open(t)
	for range binary.Scaled(20, 200) {
		winner := oneWinner(t, s.lines.together(t, s.Server, s.ExchangeForm(s.code(t))))
		s.post(t, s.RefreshForm(winner.RefreshToken), http.StatusBadRequest)
	}
}

// TestTR13_SimultaneousRefreshesGetOnePair presents one refresh token many
// times at the same moment, inside the retry window: everybody gets the same
// successor.
func TestTR13_SimultaneousRefreshesGetOnePair(t *testing.T) {
	s := open(t)
	for range binary.Scaled(10, 100) {
		first := s.post(t, s.ExchangeForm(s.code(t)), http.StatusOK)
		all := s.lines.together(t, s.Server, s.RefreshForm(first.RefreshToken))
		for _, a := range all {
			if a.Status != http.StatusOK {
				t.Fatalf("answer %d %s to one of them, want 200", a.Status, a.Error)
			}
			if a.ExpiresIn < 290 || a.ExpiresIn > 300 {
				t.Errorf("expires_in %v", a.ExpiresIn)
			}
			// Seconds may have passed between two answers.
			a.ExpiresIn = all[0].ExpiresIn
			if a != all[0] {
				t.Fatal("two answers hold different pairs")
			}
		}
		// One successor is alive; once it is used, the old token is a replay.
		second := s.post(t, s.RefreshForm(all[0].RefreshToken), http.StatusOK)
		s.post(t, s.RefreshForm(first.RefreshToken), http.StatusBadRequest)
		s.post(t, s.RefreshForm(second.RefreshToken), http.StatusBadRequest)
	}
}

// TestTR11_SimultaneousRefreshesWithoutWindowHaveOneWinner is the same with
// retry_window 0: one rotates, the others are replays and revoke the family.
func TestTR11_SimultaneousRefreshesWithoutWindowHaveOneWinner(t *testing.T) {
	s := open(t, "--retry-window", "0s")
	for range binary.Scaled(10, 100) {
		first := s.post(t, s.ExchangeForm(s.code(t)), http.StatusOK)
		winner := oneWinner(t, s.lines.together(t, s.Server, s.RefreshForm(first.RefreshToken)))
		s.post(t, s.RefreshForm(winner.RefreshToken), http.StatusBadRequest)
		s.post(t, s.RefreshForm(first.RefreshToken), http.StatusBadRequest)
	}
}
