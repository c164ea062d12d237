//go:build e2e

package faults

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// drain limits the whole duration of a stop.
const drain = 10 * time.Second

// A pending request is one whose handler has begun, and whose body has not arrived
// completely.
type pending struct {
	conn    *tls.Conn
	answers *bufio.Reader
	rest    string
}

// begin sends a request without the last bytes of its body.
func (c *client) begin(form url.Values) *pending {
	c.t.Helper()
	u, err := url.Parse(c.TokenEndpoint)
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", u.Host, c.Transport(c.t, "").TLSClientConfig)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	body := form.Encode()
	half := len(body) / 2
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", u.RequestURI(), u.Host, len(body))
	p := &pending{conn, bufio.NewReader(conn), body[half:]}
	// The 100 response shows that the handler has begun to read the body.
	if line, err := p.answers.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
		c.t.Fatalf("%q, %v instead of 100 Continue", line, err)
	}
	p.answers.ReadString('\n')
	fmt.Fprint(conn, body[:half])
	return p
}

// finish sends the remaining bytes and reads the response.
func (p *pending) finish(t *testing.T) *http.Response {
	t.Helper()
	fmt.Fprint(p.conn, p.rest)
	resp, err := http.ReadResponse(p.answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// refusesConnections waits until the public listener is closed.
func (c *client) refusesConnections() {
	c.t.Helper()
	u, err := url.Parse(c.TokenEndpoint)
	if err != nil {
		c.t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < drain; time.Sleep(5 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", u.Host, time.Second)
		if err != nil {
			return
		}
		conn.Close()
	}
	c.t.Fatalf("new connections are accepted %s after the signal", drain)
}

// TestOP03_StopFinishesWhatRuns sends SIGTERM while many requests are pending. Each one
// completes, and its response is still valid after the next start.
func TestOP03_StopFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	c := start(t, t.TempDir())
	var running []*pending
	var tokens []string
	for range 40 {
		tokens = append(tokens, c.session())
	}
	code := c.code()
	for _, token := range tokens { // all within the ten seconds that a request may take
		running = append(running, c.begin(c.RefreshForm(token)))
	}
	running = append(running, c.begin(c.ExchangeForm(code)))
	began := time.Now()
	if err := c.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.refusesConnections()
	for _, p := range running {
		if resp := p.finish(t); resp.StatusCode != http.StatusOK {
			t.Errorf("a running request was answered %d", resp.StatusCode)
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if took := time.Since(began); took > drain/2 {
		t.Errorf("the stop took %s, though nothing stalled", took)
	}
	c.again()
	for _, token := range tokens {
		c.must(c.refresh(token), http.StatusOK) // a repeat returns the same pair
	}
	c.must(c.redeem(code), http.StatusBadRequest) // the pending redemption spent the code
}

// TestOP03_StalledClientDoesNotHoldTheStop sends SIGTERM while a client has
// stopped in the middle of its request.
func TestOP03_StalledClientDoesNotHoldTheStop(t *testing.T) {
	t.Parallel()
	c := start(t, t.TempDir())
	token := c.session()
	stalled := c.begin(c.RefreshForm(token))
	began := time.Now()
	if err := c.Stop(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if took := time.Since(began); took > drain {
		t.Errorf("the stop took %s, want at most %s", took, drain)
	}
	stalled.conn.Close()
	c.again()
	c.must(c.refresh(token), http.StatusOK)
}

// TestOP03_IdleConnectionsDoNotHoldTheStop stops a server that has keep-alive
// connections.
func TestOP03_IdleConnectionsDoNotHoldTheStop(t *testing.T) {
	t.Parallel()
	c := start(t, t.TempDir())
	for range 8 {
		c.must(connect(t, c.Server).redeem(c.code()), http.StatusOK)
	}
	began := time.Now()
	if err := c.Stop(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if took := time.Since(began); took > drain/2 {
		t.Errorf("the stop took %s", took)
	}
}

// TestAServerOutlivesTheReaderOfItsLog ends the program to which a server's log is piped.
// The server continues, and stops cleanly later.
func TestAServerOutlivesTheReaderOfItsLog(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cmd := binary.Command(t, "serve", "--dev", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0")
	cmd.Stderr = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	for lines := bufio.NewScanner(reader); ; {
		if !lines.Scan() {
			t.Fatal("the server has ended before it serves")
		}
		if strings.Contains(lines.Text(), `"msg":"serving"`) {
			break
		}
	}
	reader.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil { // even with the log lines it writes while it stops
		t.Error(err)
	}
}
