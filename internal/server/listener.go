package server

import (
	"context"
	"crypto/tls"
	stdlog "log"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/overload"
)

// HTTPServer returns a server for h with the limits of a listener: how long headers and
// bodies may take, how long a connection may idle, how large headers may be.
func HTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second,
		IdleTimeout:       75 * time.Second,
		MaxHeaderBytes:    16 << 10,
		// Otherwise, net/http itself would answer "OPTIONS *" with 200.
		DisableGeneralOptionsHandler: true,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100, // the least that RFC 9113 section 6.5.2 recommends
			// Forms are small: limit what one connection may have in flight.
			MaxReadFrameSize: 16 << 10, MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 256 << 10,
		},
		ErrorLog: stdlog.New(faultLog{log}, "", 0),
	}
}

// A faultLog logs the messages of net/http, one at a time: a panic as an error, because
// it is a bug; what callers cause at level debug, because it must not fill the log; and
// the rest, such as too many open files, as a warning for the operator.
type faultLog struct{ log *slog.Logger }

// causedByClients are the prefixes of messages about what a client sends, or fails to send.
var causedByClients = []string{
	"http: TLS handshake error from", "http: URL query contains semicolon",
	"http2: server: error reading preface from client", "http2: server connection error from",
	"http2: server closing client connection", "http2: received GOAWAY",
	"timeout waiting for SETTINGS frames from", "timeout waiting for PING response",
}

func (f faultLog) Write(line []byte) (int, error) {
	level, text := slog.LevelWarn, strings.TrimSpace(string(line))
	switch {
	case slices.ContainsFunc(causedByClients, func(begin string) bool { return strings.HasPrefix(text, begin) }):
		level = slog.LevelDebug
	case strings.HasPrefix(text, "http: panic serving"), strings.HasPrefix(text, "http2: panic serving"):
		level = slog.LevelError
	}
	f.log.Log(context.Background(), level, "net/http: "+text)
	return len(line), nil
}

// TLSConfig offers TLS 1.2 and 1.3 with the cipher suites that BCP 195 (RFC
// 9325) recommends. The standard library's default also holds CBC suites.
func TLSConfig(c *Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Current(), nil },
		NextProtos:     []string{"h2", "http/1.1"},
	}
}

// NewQueue returns a queue that calls onShed, unless nil, with the reason for each
// request that it sheds, and logs at most every ten seconds that it sheds.
func NewQueue(c overload.Capacity, onShed func(why string), log *slog.Logger) *overload.Queue {
	var busy alarm
	return overload.NewQueue(c, func(why string) {
		if onShed != nil {
			onShed(why)
		}
		if n := busy.ring(time.Now()); n > 0 {
			log.Warn("overloaded: shedding requests with 503", "times", n)
		}
	})
}
