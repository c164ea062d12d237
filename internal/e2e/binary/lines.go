package binary

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
)

// Lines are open TLS connections to the token endpoints of one server, or round-robin of
// several nodes.
type Lines []line

type line struct {
	*tls.Conn
	answers      *bufio.Reader
	host, target string
}

// Connect opens n connections.
func Connect(t *testing.T, n int, servers ...*Server) (list Lines) {
	t.Helper()
	for i := range n {
		s := servers[i%len(servers)]
		u, err := url.Parse(s.TokenEndpoint)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", u.Host, s.Transport(t, "").TLSClientConfig)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		list = append(list, line{conn, bufio.NewReader(conn), u.Host, u.RequestURI()})
	}
	return list
}

// Together sends the form on every line simultaneously. It sends each request without its
// last byte, waits until the server has read all of them so far, and then sends the last
// bytes.
func (list Lines) Together(t *testing.T, form url.Values) (all []Answer) {
	t.Helper()
	body := form.Encode()
	for _, l := range list {
		l.SetDeadline(time.Now().Add(time.Minute))
		if _, err := fmt.Fprintf(l, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
			"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", l.target, l.host, len(body)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range list {
		// The 100 response shows that the handler has begun to read the body.
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
	all = make([]Answer, len(list))
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

// OneWinner returns the only 200 response; all others must be invalid_grant.
func OneWinner(t *testing.T, all []Answer) Answer {
	t.Helper()
	var winners []Answer
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

// OnePair requires that all responses are 200 with the same pair.
func OnePair(t *testing.T, all []Answer) Answer {
	t.Helper()
	for _, a := range all {
		if a.Status != http.StatusOK {
			t.Fatalf("answer %d %s to one of them, want 200", a.Status, a.Error)
		}
		if a.ExpiresIn < 290 || a.ExpiresIn > 300 {
			t.Errorf("expires_in %v", a.ExpiresIn)
		}
		// Ignore the difference: seconds may pass between two responses.
		a.ExpiresIn = all[0].ExpiresIn
		if a != all[0] {
			t.Fatal("two answers hold different pairs")
		}
	}
	return all[0]
}
