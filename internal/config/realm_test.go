package config_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
)

// withRealm returns a valid configuration with one more realm.
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
		want   string // "" for no fault
	}{
		"good":                        {"b", func(*config.Config) {}, ""},
		"its own host":                {"b", func(c *config.Config) { c.PublicURL, c.BasePath = "https://b.example", "" }, ""},
		"setting out of range":        {"b", func(c *config.Config) { c.CodeLifetime = config.Duration(time.Hour) }, "realms.b.code_lifetime: "},
		"the same address":            {"b", func(c *config.Config) { c.BasePath = "" }, "realms.b.base_path: "},
		"the same, spelled otherwise": {"b", func(c *config.Config) { c.PublicURL, c.BasePath = "https://AUTH.example:443", "" }, "realms.b.base_path: "},
		"within another's endpoints":  {"b", func(c *config.Config) { c.BasePath = "/oauth2/b" }, "realms.b.base_path: "},
		"another's page":              {"b", func(c *config.Config) { c.BasePath = "/device" }, "realms.b.base_path: "},
		"the same issuer":             {"b", func(c *config.Config) { c.Issuer = "https://auth.example/oauth2/api" }, "realms.b.issuer: "},
		"that issuer, upper-case":     {"b", func(c *config.Config) { c.Issuer = "https://AUTH.example:443/oauth2/api" }, "realms.b.issuer: "},
		"that issuer, as HTTPS":       {"b", func(c *config.Config) { c.Issuer = "HTTPS://auth.example/oauth2/api" }, "realms.b.issuer: "},
		"an issuer of another path":   {"b", func(c *config.Config) { c.Issuer = "https://auth.example/oauth2/API" }, ""},
		"default realm":               {"api", func(*config.Config) {}, "realms.api: "},
		"name in upper case":          {"B", func(*config.Config) {}, "realms.B: "},
		"name of a path":              {"connect", func(*config.Config) {}, "realms.connect: "},
		"setting of the deployment":   {"b", func(c *config.Config) { c.KeyLead = 0 }, ""}, // a realm cannot set it
		"a provider for nobody":       {"b", func(c *config.Config) { c.Login.Upstream.Issuer = "https://id.example" }, "realms.b.login.upstream.issuer: is given"},
		"authorization with no login": {"b", func(c *config.Config) { c.Login.Mode, c.ClientMetadata.Registration = config.LoginOff, true }, "realms.b.client_metadata.registration: "},
	} {
		cfg := withRealm(c.realm, c.change)
		err := cfg.Check()
		if (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A fault of the deployment is not reported for each realm.
	cfg := withRealm("b", func(*config.Config) {})
	cfg.Session.Idle, cfg.Realms[0].Session.Idle = 1, 1
	if err := cfg.Check(); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("one fault is reported as %v", err)
	}
}

// A provider that is configured outside of realms is for the realms that inherit it.
func TestAProviderIsForRealmsThatTakeItOver(t *testing.T) {
	for _, modes := range [][2]string{{config.LoginUpstream, config.LoginOff}, {config.LoginUsers, config.LoginUpstream}} {
		cfg := withRealm("b", func(c *config.Config) { c.Login.Mode = modes[1] })
		cfg.Login.Mode = modes[0]
		for _, c := range []*config.Config{&cfg, &cfg.Realms[0]} {
			c.Login.Upstream.Issuer, c.Login.Upstream.ClientID = "https://id.example", "x"
		}
		if err := cfg.Check(); err != nil {
			t.Errorf("%s outside of realms and %s within: %v", modes[0], modes[1], err)
		}
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

const twoRealms = `public_url: https://auth.example
issuer: https://auth.example/oauth2/api
base_path: /openam
code_lifetime: 30s
login:
  mode: upstream
  upstream:
    issuer: https://idp.example
    client_id: mintage
    client_secret_file: /secret
client_metadata:
  registration: true
  registration_token_file: /token
realms:
  staff-eu:
    public_url: https://staff.example
    base_path: ""
    access_token_lifetime: 10m
    login:
      upstream:
        issuer: https://staff-idp.example
        client_id: staff
    client_metadata: {registration: false}
  shop:
    base_path: /shop
`

func TestARealmOfTheFileTakesOverWhatItDoesNotSet(t *testing.T) {
	c, from, err := config.Load(writeFile(t, twoRealms), []string{"MINTAGE_REALMS_STAFF_EU_RETRY_WINDOW=9s", "MINTAGE_CODE_LIFETIME=20s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	staff, _ := c.Of("staff-eu")
	shop, _ := c.Of("/shop")
	if len(c.Realms) != 2 || staff.Realm != "/staff-eu" || shop.Realm != "/shop" {
		t.Fatalf("realms: %q, %q", staff.Realm, shop.Realm)
	}
	if staff.PublicURL != "https://staff.example" || staff.BasePath != "" || staff.AccessTokenLifetime != config.Duration(10*time.Minute) || staff.CodeLifetime != config.Duration(20*time.Second) || staff.RetryWindow != config.Duration(9*time.Second) {
		t.Errorf("staff-eu: %+v", staff)
	}
	// A client secret for another provider, and an unused registration token, are not
	// inherited.
	if u := staff.Login.Upstream; staff.Login.Mode != config.LoginUpstream || u.ClientID != "staff" || u.ClientSecretFile != "" || u.SubjectClaim != "sub" || staff.ClientMetadata.RegistrationTokenFile != "" {
		t.Errorf("login of staff-eu: %+v", u)
	}
	if shop.Issuer != "" || shop.PublicURL != "https://auth.example" || shop.Login.Upstream.ClientSecretFile != "/secret" || shop.ClientMetadata.RegistrationTokenFile != "/token" || shop.RetryWindow == staff.RetryWindow {
		t.Errorf("shop: %+v", shop)
	}
	if at := from["realms.staff-eu.access_token_lifetime"].String(); !strings.HasSuffix(at, ":18") {
		t.Errorf("access_token_lifetime comes from %s", at)
	}
	for _, changed := range []bool{false, true} {
		text := show(t, c, from, changed)
		again, _, err := config.Load(writeFile(t, text), nil, nil)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("shown as\n%s\nand read as %+v: %v", text, again, err)
		}
	}
	if text := show(t, c, from, false); !strings.Contains(text, "code_lifetime: 20s # outside of realms: MINTAGE_CODE_LIFETIME") || !strings.Contains(text, "retry_window: 9s # MINTAGE_REALMS_STAFF_EU_RETRY_WINDOW") {
		t.Errorf("sources are shown as\n%s", text)
	}
}

func TestFaultsInSectionsOfRealmsNameTheirLines(t *testing.T) {
	for text, want := range map[string]string{
		"realms: x\n":           ":1: realms: realms are expected",
		"realms: [a]\n":         "not a list",
		"realms:\n  a: x\n":     ":2: realms.a: the settings of the realm are expected",
		"realms:\n  a:\n  a:\n": ":3: realms.a: set before, in line 2",
		"realms:\n  a: {base_path: /a}\nrealms: {b: {}}\n":                        ":3: realms: set before, in line 1",
		"realms:\n  a:\n    listen: 127.0.0.1:1\n":                                ":3: realms.a.listen: is a setting of the whole deployment",
		"realms:\n  a:\n    tls: {cert: x}\n":                                     ":3: realms.a.tls.cert: is a setting of the whole deployment",
		"realms:\n  a:\n    lgoin: x\n":                                           `:3: unknown setting "realms.a.lgoin"`,
		"realms:\n  a:\n    realms: {b: {}}\n":                                    `unknown setting "realms.a.realms.b"`,
		"realms:\n  a:\n    code_lifetime: 1\n":                                   ":3: realms.a.code_lifetime: \"1\" is not a duration",
		"realms:\n  a:\n    code_lifetime: 1h\n    base_path: /a\n":               ":3: realms.a.code_lifetime: 1h is outside",
		"realms:\n  a:\n    login: {mode: maybe}\n    base_path: /a\n":            ":3: realms.a.login.mode: ",
		"realms:\n  a:\n    code_lifetime: 1s\n":                                  ":2: realms.a.base_path: \"\" is that of the realm api too",
		"realms:\n  A b: {base_path: /a}\n":                                       ":2: realms.A b: \"A b\" cannot be the name of a realm",
		"realms:\n  <<: {}\n":                                                     "cannot be the name of a realm",
		"":                                                                        "environment: MINTAGE_REALMS_NONE_ISSUER: is no setting of a realm that the file has",
		"realms: {none: {base_path: /a}, none-login-upstream: {base_path: /b}}\n": "environment: MINTAGE_REALMS_NONE_LOGIN_UPSTREAM_ISSUER: could be a setting of more than one realm",
	} {
		var environ []string
		if name, ok := strings.CutPrefix(want, "environment: "); ok {
			name, _, _ = strings.Cut(name, ":")
			environ = []string{name + "=https://a.example"}
		}
		cfg, from, err := config.Load(writeFile(t, text), environ, nil)
		if err == nil {
			cfg.PublicURL, cfg.TLS = "https://auth.example", config.TLS{Cert: "c", Key: "k"}
			cfg.Share()
			err = from.Explain(cfg.Check())
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	var many strings.Builder
	many.WriteString("realms:\n")
	for i := range 1001 {
		fmt.Fprintf(&many, "  r%d: {listen: x}\n", i)
	}
	_, _, err := config.Load(writeFile(t, many.String()), nil, nil)
	if faults, _ := config.Faults(err); len(faults) != 51 || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("%d faults of a file with too many realms: %v", len(faults), err)
	}
}
