package bench

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// records counts the TLS records that a client sends (RFC 8446 section 5.1).
type records struct {
	net.Conn
	sent   *atomic.Int64
	header []byte // of the current record
	rest   int    // remaining bytes of its content
}

func (r *records) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	for _, c := range b[:max(n, 0)] {
		if r.rest > 0 {
			r.rest--
		} else if r.header = append(r.header, c); len(r.header) == 5 {
			r.rest = int(r.header[3])<<8 | int(r.header[4])
			r.header = nil
			r.sent.Add(1)
		}
	}
	return n, err
}

type counted struct {
	net.Listener
	sent *atomic.Int64
}

func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return &records{Conn: conn, sent: c.sent}, err
}

// A request has the header lines of its shape, and its body in a separate record if Apart
// is set.
func TestRequestsHaveTheShapeOfAClient(t *testing.T) {
	const requests = 20
	sent := map[bool]int64{}
	for _, apart := range []bool{false, true} {
		var records, wrong atomic.Int64
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.UserAgent() != "shape/1" || r.Header.Get("Accept") != "*/*" || !bytes.HasSuffix(body, []byte("refresh_token=token")) {
				wrong.Add(1)
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}")
		}))
		server.Listener = counted{server.Listener, &records}
		server.StartTLS()
		target := Target{Endpoint: server.URL, ClientID: "c", FixedBody: 2, Shape: Shape{Header: []string{"User-Agent: shape/1", "Accept: */*"}, Apart: apart},
			TLS: &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
		res, err := Load{Target: target, Operation: Refresh, Connections: 1, Requests: requests, Duration: time.Minute, Chains: Split([]string{"token"}, 1)}.Run(t.Context())
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		if wrong.Load() != 0 {
			t.Errorf("apart %t: %d of %d requests are wrong; %v", apart, wrong.Load(), requests, res.Errors)
		}
		sent[apart] = records.Load()
	}
	// The record that closes a connection counts only if the server still reads it.
	if more := sent[true] - sent[false]; more < requests-1 || more > requests+1 {
		t.Errorf("%d records with the body apart, %d without, of %d requests", sent[true], sent[false], requests)
	}
}
