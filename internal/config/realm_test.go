package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
)

// withRealm returns a configuration that can be used, with a further realm.
func withRealm(name string, change func(*config.Config)) config.Config {
	c := config.Default()
	c.PublicURL, c.TLS = "https://auth.example", config.TLS{Cert: "c", Key: "k"}
	of := c
	of.Realm, of.BasePath = "/"+name, "/"+name
	change(&of)
	c.Realms = []config.Config{of}
	return c
}

func TestFaultsOfRealmsNameTheirSettings(t *testing.T) {
	for name, c := range map[string]struct {
		realm  string
		change func(*config.Config)
		want   string // "": no fault
	}{
		"good":                        {"b", func(*config.Config) {}, ""},
		"its own host":                {"b", func(c *config.Config) { c.PublicURL, c.BasePath = "https://b.example", "" }, ""},
		"setting out of range":        {"b", func(c *config.Config) { c.CodeLifetime = config.Duration(time.Hour) }, "realms.b.code_lifetime: "},
		"the same address":            {"b", func(c *config.Config) { c.BasePath = "" }, "realms.b.base_path: "},
		"within another's endpoints":  {"b", func(c *config.Config) { c.BasePath = "/oauth2/b" }, "realms.b.base_path: "},
		"the same issuer":             {"b", func(c *config.Config) { c.Issuer = "https://auth.example/oauth2/api" }, "realms.b.issuer: "},
		"default realm":               {"api", func(*config.Config) {}, "realms.api: "},
		"name in upper case":          {"B", func(*config.Config) {}, "realms.B: "},
		"name of a path":              {"connect", func(*config.Config) {}, "realms.connect: "},
		"setting of the deployment":   {"b", func(c *config.Config) { c.KeyLead = 0 }, ""}, // nobody can give it to a realm
		"authorization with no login": {"b", func(c *config.Config) { c.Login.Mode, c.ClientMetadata.Registration = config.LoginOff, true }, "realms.b.client_metadata.registration: "},
	} {
		cfg := withRealm(c.realm, c.change)
		err := cfg.Check()
		if (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// What is wrong with the deployment is no fault of each realm.
	cfg := withRealm("b", func(*config.Config) {})
	cfg.Session.Idle, cfg.Realms[0].Session.Idle = 1, 1
	if err := cfg.Check(); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("one fault is reported as %v", err)
	}
}

func TestAReloadChangesEachRealm(t *testing.T) {
	was := withRealm("b", func(c *config.Config) { c.CodeLifetime = config.Duration(time.Second) })
	is := withRealm("b", func(c *config.Config) {
		c.CodeLifetime, c.Pages.Name, c.Login.Mode, c.AccessTokenLifetime = config.Duration(2*time.Second), "B", config.LoginOff, config.Duration(time.Hour)
	})
	is.Pages.Name = "B"
	is.Realms = append(is.Realms, withRealm("c", func(*config.Config) {}).Realms...)
	next, changed, kept := was.Reloaded(is)
	if want := []string{"pages.name", "realms.b.code_lifetime", "realms.b.login.mode"}; !slices.Equal(slices.Sorted(slices.Values(changed)), want) {
		t.Errorf("changed %q, want %q", changed, want)
	}
	if want := []string{"realms.b.access_token_lifetime", "realms.c"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
	of, _ := next.Of("b")
	if len(next.Realms) != 1 || of.CodeLifetime != config.Duration(2*time.Second) || of.Pages.Name != "B" || of.Login.Mode != config.LoginOff || of.AccessTokenLifetime == config.Duration(time.Hour) {
		t.Errorf("realm b: %+v", of)
	}
}
