package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A store that has lost commits is logged once a minute, with the number of requests
// since the last line.
func TestAStoreThatIsBehindIsLoggedOnceAMinute(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var b behind
	for _, want := range []struct {
		after   time.Duration
		level   slog.Level
		counted int
	}{
		{0, slog.LevelError, 0},
		{time.Second, slog.LevelDebug, 0},
		{time.Minute - 1, slog.LevelDebug, 0},
		{time.Minute, slog.LevelError, 2},
		{time.Minute + time.Second, slog.LevelDebug, 0},
		{time.Hour, slog.LevelError, 1},
		{2 * time.Hour, slog.LevelError, 0},
	} {
		if level, counted := b.level(at.Add(want.after)); level != want.level || counted != want.counted {
			t.Errorf("after %s: level %s and %d requests, want %s and %d", want.after, level, counted, want.level, want.counted)
		}
	}
}

func TestFaultsOfNetHTTPAreLoggedByWhoseTheyAre(t *testing.T) {
	for line, level := range map[string]string{
		"http: TLS handshake error from 127.0.0.1:5: EOF\n":                                               "DEBUG",
		"http: TLS handshake error from 127.0.0.1:5: http: panic serving you\n":                           "DEBUG",
		"http: URL query contains semicolon, which is no longer a supported separator\n":                  "DEBUG",
		"http2: server: error reading preface from client 127.0.0.1:5: bogus greeting\n":                  "DEBUG",
		"http2: server connection error from 127.0.0.1:5: PROTOCOL_ERROR\n":                               "DEBUG",
		"http2: server closing client connection: error reading frame\n":                                  "DEBUG",
		"http2: received GOAWAY [FrameHeader GOAWAY len=8], starting graceful shutdown\n":                 "DEBUG",
		"timeout waiting for SETTINGS frames from 127.0.0.1:5\n":                                          "DEBUG",
		"http: Accept error: accept4: too many open files; retrying in 5ms\n":                             "WARN",
		"http: superfluous response.WriteHeader call from TLS handshake error from (x.go:1)\n":            "WARN",
		"http: panic serving 127.0.0.1:5: oops\ngoroutine 7\n":                                            "ERROR",
		"http2: panic serving 127.0.0.1:5: http: TLS handshake error from 127.0.0.1:5\ngoroutine 7 []:\n": "ERROR",
	} {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
		HTTPServer(nil, log).ErrorLog.Print(line)
		if !strings.Contains(text.String(), "level="+level) {
			t.Errorf("%q is logged as %s, want %s", line, text.String(), level)
		}
	}
}
