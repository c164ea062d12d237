package config_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

// TestAPublicURLWhosePortNobodyListensOnIsNoticed compares the ports that clients
// and the server use.
func TestAPublicURLWhosePortNobodyListensOnIsNoticed(t *testing.T) {
	for _, c := range []struct {
		public, listen string
		proxy          bool
		unheard        string
	}{
		{"https://auth.example.com", "0.0.0.0:8443", false, "port 443"},
		{"https://auth.example.com:9443", "127.0.0.1:8443", false, "port 9443"},
		{"https://auth.example.com", ":443", false, ""},
		{"https://auth.example.com:8443", "0.0.0.0:8443", false, ""},
		{"https://[2001:db8::1]:8443", "[::]:8443", false, ""},
		{"https://auth.example.com", "127.0.0.1:8443", true, ""},
		{"", "127.0.0.1:8443", false, ""},
	} {
		cfg := config.Default()
		cfg.PublicURL, cfg.Listen = c.public, c.listen
		if c.proxy {
			cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		}
		if text := cfg.Unheard(); (text == "") != (c.unheard == "") || !strings.Contains(text, c.unheard) {
			t.Errorf("%s on %s: %q, want %q", c.public, c.listen, text, c.unheard)
		}
	}
}
