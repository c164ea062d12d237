package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

// byLogin returns a configuration in which operators sign in at a provider.
func byLogin() config.Config {
	c := config.Default()
	c.PublicURL, c.TLS = "https://auth.example.com", config.TLS{Cert: "c", Key: "k"}
	c.Login.Mode, c.Login.Upstream.Issuer, c.Login.Upstream.ClientID = config.LoginUpstream, "https://login.example.com", "mintage"
	c.Console = config.Console{Listen: "127.0.0.1:8445", SecondFactor: config.SecondFactor{AMR: []string{"mfa"}}, Operators: []string{"admin groups=mintage admins", "auditor@staff sub=a|b=c"}}
	staff := c
	staff.Realm, staff.BasePath = "/staff", "/staff"
	staff.Login.Mode = config.LoginUsers // operators are users of the first realm
	c.Realms = []config.Config{staff}
	return c
}

// logInBy sets the login.mode of every realm, and no other setting.
func logInBy(c *config.Config, mode string) {
	c.Login = config.Default().Login
	c.Login.Mode = mode
	c.Realms[0].Login = c.Login
}

func TestHowOperatorsSignIn(t *testing.T) {
	c := byLogin()
	if err := c.Check(); err != nil || !c.ByLogin() {
		t.Fatalf("by login %t, %v", c.ByLogin(), err)
	}
	if got := c.Console.Rules(); len(got) != 2 || got[0] != (config.OperatorRule{Role: "admin", Claim: "groups", Value: "mintage admins"}) || got[1] != (config.OperatorRule{Role: "auditor", Realm: "staff", Claim: "sub", Value: "a|b=c"}) {
		t.Errorf("rules %+v", got)
	}
	for i, r := range c.Console.Rules() {
		if r.String() != c.Console.Operators[i] {
			t.Errorf("%q is written %q", c.Console.Operators[i], r)
		}
	}
	for name, d := range map[string]struct {
		change func(*config.Config)
		want   string // "" if it is valid
	}{
		"without rules": {func(c *config.Config) { c.Console.Operators = nil }, ""},
		"by acr": {func(c *config.Config) {
			c.Console.SecondFactor = config.SecondFactor{ACR: []string{"https://refeds.org/profile/mfa"}}
		}, ""},
		"without a second factor":  {func(c *config.Config) { c.Console.SecondFactor = config.SecondFactor{} }, "console.second_factor: missing"},
		"built-in users":           {func(c *config.Config) { logInBy(c, config.LoginUsers) }, "console.second_factor: login.mode is users"},
		"no login":                 {func(c *config.Config) { logInBy(c, config.LoginOff) }, "console.second_factor: login.mode is off"},
		"no console":               {func(c *config.Config) { c.Console.Listen = "" }, "console.second_factor: there is no console"},
		"two values in one":        {func(c *config.Config) { c.Console.SecondFactor.AMR = []string{"mfa hwk"} }, `console.second_factor: "mfa hwk" is no value`},
		"an unknown realm":         {func(c *config.Config) { c.Console.Operators = []string{"admin@nowhere groups=a"} }, `there is no realm "nowhere"`},
		"an unknown role":          {func(c *config.Config) { c.Console.Operators = []string{"root groups=a"} }, "the role is neither auditor nor admin"},
		"no value":                 {func(c *config.Config) { c.Console.Operators = []string{"admin groups="} }, "is neither ROLE CLAIM=VALUE"},
		"no claim":                 {func(c *config.Config) { c.Console.Operators = []string{"admin =a"} }, "is neither ROLE CLAIM=VALUE"},
		"a role alone":             {func(c *config.Config) { c.Console.Operators = []string{"admin"} }, "is neither ROLE CLAIM=VALUE"},
		"no name of a realm":       {func(c *config.Config) { c.Console.Operators = []string{"admin@ groups=a"} }, "is neither ROLE CLAIM=VALUE"},
		"the rest after a comma":   {func(c *config.Config) { c.Console.Operators = []string{"admin groups=cn=a", "ou=b"} }, "a value has no comma"},
		"an address":               {func(c *config.Config) { c.Console.Operators = []string{"admin email=a@example.com"} }, "an address can be changed"},
		"a realm's own login mode": {func(c *config.Config) { c.Realms[0].Login.Mode = config.LoginOff }, ""},
	} {
		c := byLogin()
		d.change(&c)
		c.Share()
		err := c.Check()
		if d.want == "" && err != nil || d.want != "" && (err == nil || !strings.Contains(err.Error(), d.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhomARuleFits(t *testing.T) {
	r := config.OperatorRule{Role: "admin", Claim: "groups", Value: "a"}
	for claims, want := range map[string]bool{
		`{"groups":"a"}`: true, `{"groups":["b","a"]}`: true, `{}`: false, `{"groups":null}`: false, `{"groups":""}`: false, `{"groups":[]}`: false,
		`{"groups":"a b"}`: false, `{"groups":["A"]}`: false, `{"groups":["a",1]}`: false, `{"groups":{"a":true}}`: false, `{"groups":[["a"]]}`: false, `{"Groups":"a"}`: false,
	} {
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(claims), &all); err != nil {
			t.Fatal(err)
		}
		if r.Fits(all) != want {
			t.Errorf("%s fits: %t", claims, !want)
		}
	}
}
