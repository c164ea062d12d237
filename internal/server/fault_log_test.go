package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestFaultsOfNetHTTPAreLoggedByWhoseTheyAre(t *testing.T) {
	for line, level := range map[string]string{
		"http: TLS handshake error from 127.0.0.1:5: EOF\n":                   "DEBUG",
		"http: Accept error: accept4: too many open files; retrying in 5ms\n": "WARN",
		"http: panic serving 127.0.0.1:5: oops\ngoroutine 7\n":                "ERROR",
	} {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
		HTTPServer(nil, log).ErrorLog.Print(line)
		if !strings.Contains(text.String(), "level="+level) {
			t.Errorf("%q is logged as %s, want %s", line, text.String(), level)
		}
	}
}
