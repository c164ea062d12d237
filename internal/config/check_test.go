package config_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

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
		if text := cfg.PortWarning(); (text == "") != (c.unheard == "") || !strings.Contains(text, c.unheard) {
			t.Errorf("%s on %s: %q, want %q", c.public, c.listen, text, c.unheard)
		}
	}
}

// If the configuration requires a profile of every client, settings that weaken it are
// refused; otherwise they are allowed.
func TestAConfigurationThatDemandsAProfile(t *testing.T) {
	for name, weaken := range map[string]func(*config.Config){
		"code_lifetime":                func(c *config.Config) { c.CodeLifetime = config.Duration(61 * time.Second) },
		"compat.query_parameters":      func(c *config.Config) { c.Compat.QueryParameters = true },
		"compat.tokeninfo_query":       func(c *config.Config) { c.Compat.TokenInfoQuery = true },
		"client_metadata.documents":    func(c *config.Config) { c.ClientMetadata.Documents = []string{config.DocumentsAny} },
		"client_metadata.registration": func(c *config.Config) { c.ClientMetadata.Registration = true },
	} {
		c := deployed()
		weaken(&c)
		if err := c.Check(); err != nil {
			t.Errorf("%s without a profile: %v", name, err)
		}
		c.Authorization.Profile = config.ProfileFAPI2
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), name+": contradicts authorization.profile fapi2: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := deployed()
	c.Authorization.Profile = config.ProfileFAPI2
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// The server cannot listen twice on one address, or on an invalid port.
func TestListenersThatCannotOpen(t *testing.T) {
	const public, management = "127.0.0.1:8443", "127.0.0.1:9090"
	for _, c := range []struct{ listen, management, admin, console, fault string }{
		{public, management, "", "", ""},
		{public, "127.0.0.2:8443", "", "", ""},
		{"127.0.0.1:0", "127.0.0.1:0", "", "", ""},
		{public, public, "", "", `management.listen: "127.0.0.1:8443" is taken by listen, "127.0.0.1:8443": choose another port`},
		{":8443", public, "", "", "management.listen: "},
		{"[::]:8443", public, "", "", "management.listen: "},
		{public, "localhost:8443", "", "", "management.listen: "},
		{public, management, "unix:/run/mintage/admin.sock", management, "console.listen: "},
		{public, management, "0.0.0.0:9090", "", "admin.listen: "},
		{"127.0.0.1:99999", management, "", "", `listen: "127.0.0.1:99999": port 99999 is outside 0 to 65535`},
		{public, management, "", "nowhere", `console.listen: "nowhere" must be HOST:PORT`},
		{public, management, "nowhere", "", `admin.listen: "nowhere" must be unix:PATH or HOST:PORT`},
	} {
		cfg := deployed()
		cfg.Listen, cfg.Management.Listen, cfg.Admin.Listen, cfg.Console.Listen = c.listen, c.management, c.admin, c.console
		err := cfg.Check()
		if (err == nil) != (c.fault == "") || err != nil && !strings.HasPrefix(err.Error(), c.fault) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The issuer derives from public_url and base_path. Their fault is not reported again for
// the issuer; the fault of an explicit issuer is.
func TestTheFaultOfAnAddressIsReportedOnce(t *testing.T) {
	for _, c := range []struct{ public, base, issuer, faults string }{
		{"http://auth.example.com", "", "", "public_url"},
		{"https://auth.example.com", "/a?b", "", "base_path"},
		{"auth.example.com", "a", "", "public_url base_path"},
		{"https://auth.example.com", "/\x7f", "", "issuer"},
		{"http://auth.example.com", "", "http://auth.example.com", "public_url issuer"},
		{"", "", "http://auth.example.com", "public_url issuer"},
	} {
		cfg := deployed()
		cfg.PublicURL, cfg.BasePath, cfg.Issuer = c.public, c.base, c.issuer
		found, _ := config.Faults(cfg.Check())
		var names []string
		for _, f := range found {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != c.faults {
			t.Errorf("%q, %q, %q: faults of %q, want of %q: %v", c.public, c.base, c.issuer, got, c.faults, found)
		}
	}
}
