package config_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

func TestClientMetadataDocuments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "off": "", "any": "", "agent.example": "", "agent.example:8443": "", "agent.example,https://claude.ai/oauth/client.json": "",
		"off,agent.example": "stands alone", "any,agent.example": "stands alone", "http://agent.example/c": "not the address", "https://agent.example": "not the address",
		"https://agent.example/a?b": "not the address", "Agent.example": "lower case", "*.example": "lower case", "all of them": "lower case",
	} {
		cfg := config.Default()
		cfg.PublicURL = "https://auth.example"
		cfg.TLS = config.TLS{Cert: "c", Key: "k"}
		for item := range strings.SplitSeq(text, ",") {
			if item != "" {
				cfg.ClientMetadata.Documents = append(cfg.ClientMetadata.Documents, item)
			}
		}
		err := cfg.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if on := len(cfg.DocumentsAdmitted()) > 0; on != (text != "" && text != "off") {
			t.Errorf("%q: on %t", text, on)
		}
	}
}

func TestClientMetadataSchemes(t *testing.T) {
	t.Parallel()
	for scheme, want := range map[string]string{
		"example-agent": "", "com.example.app": "", "a+b.c-1": "",
		"": "not a scheme", "Agent": "not a scheme", "agent:": "not a scheme", "agent://": "not a scheme", "1agent": "not a scheme", "ägent": "not a scheme",
		"https": "give this scheme a meaning", "javascript": "give this scheme a meaning", "ms-settings": "give this scheme a meaning", "itms-services": "give this scheme a meaning",
		"microsoft-edge": "give this scheme a meaning", "googlechromes": "give this scheme a meaning", "vnc": "give this scheme a meaning",
	} {
		cfg := config.Default()
		cfg.PublicURL = "https://auth.example"
		cfg.TLS = config.TLS{Cert: "c", Key: "k"}
		cfg.ClientMetadata.Schemes = []string{scheme}
		if err := cfg.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "client_metadata.schemes: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", scheme, err, want)
		}
	}
}

func TestClientMetadataRegistration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"on": {func(c *config.Config) { c.ClientMetadata.Registration = true }, ""},
		"with a token": {func(c *config.Config) {
			c.ClientMetadata = config.ClientMetadata{Registration: true, RegistrationTokenFile: "t"}
		}, ""},
		"a token alone":                     {func(c *config.Config) { c.ClientMetadata.RegistrationTokenFile = "t" }, "client_metadata.registration_token_file: is given, and client_metadata.registration is off"},
		"without an authorization endpoint": {func(c *config.Config) { c.ClientMetadata.Registration, c.Login.Mode = true, config.LoginOff }, "client_metadata.registration: needs an authorization endpoint"},
	} {
		cfg := config.Default()
		cfg.PublicURL = "https://auth.example"
		cfg.TLS = config.TLS{Cert: "c", Key: "k"}
		c.change(&cfg)
		if err := cfg.Check(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestListenersOnLoopback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		public, management, admin string
		want                      bool
	}{
		{"127.0.0.1:8443", "127.0.0.1:9000", "", true},
		{"[::1]:8443", "localhost:9000", "unix:/run/x", true},
		{"127.0.0.1:8443", "0.0.0.0:9000", "", false},
		{"127.0.0.1:8443", ":9000", "", false},
		{"10.0.0.1:8443", "127.0.0.1:9000", "", false},
		{"127.0.0.1:8443", "127.0.0.1:9000", "10.0.0.1:9001", false},
	} {
		cfg := config.Config{Listen: c.public, Management: config.Management{Listen: c.management}, Admin: config.Admin{Listen: c.admin}}
		if got := cfg.OnLoopback(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
