package config_test

import (
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
)

// deployed returns Default with the two settings that every deployment must set.
func deployed() config.Config {
	c := config.Default()
	c.PublicURL = "https://auth.example.com"
	c.TLS = config.TLS{Cert: "cert.pem", Key: "key.pem"}
	return c
}

func TestDefaultIsTheSpecification(t *testing.T) {
	c := deployed()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if got := c.Departures(); len(got) != 0 {
		t.Errorf("departures %q", got)
	}
	if c.AccessTokenLifetime.Std() != 5*time.Minute || c.RefreshTokenLifetime.Std() != 31*24*time.Hour {
		t.Errorf("lifetimes %s and %s", c.AccessTokenLifetime, c.RefreshTokenLifetime)
	}
	if c.IssuerID() != "https://auth.example.com/oauth2/api" || c.AdminListen() != "unix:mintage-data/admin.sock" {
		t.Errorf("issuer %s, admin %s", c.IssuerID(), c.AdminListen())
	}
	c.Issuer, c.Admin.Listen = "https://id.example.com", "127.0.0.1:9"
	if c.IssuerID() != "https://id.example.com" || c.AdminListen() != "127.0.0.1:9" {
		t.Errorf("issuer %s, admin %s", c.IssuerID(), c.AdminListen())
	}
}

func TestCheck(t *testing.T) {
	d := func(s string) config.Duration {
		v, err := config.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	type C = config.Config
	for _, tt := range []struct {
		name string
		edit func(c *C)
		want string // prefix of the only fault; "" if the configuration is valid
	}{
		{"no public_url", func(c *C) { c.PublicURL, c.Issuer = "", "https://a.example/x" }, "public_url: missing"},
		{"public_url over http", func(c *C) { c.PublicURL, c.Issuer = "http://a.example", "https://a.example/x" }, "public_url:"},
		{"public_url with a path", func(c *C) { c.PublicURL = "https://a.example/x" }, "public_url:"},
		{"public_url with a slash", func(c *C) { c.PublicURL = "https://a.example/" }, "public_url:"},
		{"public_url with a query", func(c *C) { c.PublicURL, c.Issuer = "https://a.example?x=y", "https://a.example/x" }, "public_url:"},
		{"public_url with a user", func(c *C) { c.PublicURL = "https://u@a.example" }, "public_url:"},
		{"public_url without a host", func(c *C) { c.PublicURL, c.Issuer = "https://", "https://a.example/x" }, "public_url:"},
		{"public_url with a port and no host", func(c *C) { c.PublicURL = "https://:8443" }, "public_url:"},
		{"public_url with a colon and no port", func(c *C) { c.PublicURL = "https://a.example:" }, "public_url:"},
		{"public_url with a port that does not exist", func(c *C) { c.PublicURL = "https://a.example:84430" }, "public_url:"},
		{"public_url with an empty query", func(c *C) { c.PublicURL, c.Issuer = "https://a.example?", "https://a.example/x" }, "public_url:"},
		{"public_url with an empty fragment", func(c *C) { c.PublicURL, c.Issuer = "https://a.example#", "https://a.example/x" }, "public_url:"},
		{"console.url with a port and no host", func(c *C) { c.Console.Listen, c.Console.URL = "127.0.0.1:9", "https://:8443" }, "console.url:"},
		{"no data directory", func(c *C) { c.Data = "" }, "data: missing"},
		{"no data directory beside a database", func(c *C) { c.Data, c.Store = "", "postgres://mintage@db.example/mintage" }, "data: missing"},
		{"public_url with a port", func(c *C) { c.PublicURL = "https://a.example:8443" }, ""},
		{"an audit log without a limit", func(c *C) { c.Audit.MaxSize = 0 }, ""},
		{"an audit log of a few files", func(c *C) { c.Audit.MaxSize = 256 * config.MiB }, ""},
		{"an audit log of less than a file", func(c *C) { c.Audit.MaxSize = 63 * config.MiB }, "audit.max_size: 63MiB is neither 0"},
		{"base_path", func(c *C) { c.BasePath = "/openam" }, ""},
		{"base_path of two", func(c *C) { c.BasePath = "/sso/openam" }, ""},
		{"base_path without a slash", func(c *C) { c.BasePath, c.Issuer = "openam", "https://a.example/x" }, "base_path:"},
		{"base_path that ends in a slash", func(c *C) { c.BasePath = "/openam/" }, "base_path:"},
		{"base_path of a slash", func(c *C) { c.BasePath = "/" }, "base_path:"},
		{"base_path with two slashes", func(c *C) { c.BasePath = "/a//b" }, "base_path:"},
		{"base_path with a pattern", func(c *C) { c.BasePath, c.Issuer = "/{x}", "https://a.example/x" }, "base_path:"},
		{"issuer over http", func(c *C) { c.Issuer = "http://a.example" }, "issuer:"},
		{"issuer with a trailing slash", func(c *C) { c.Issuer = "https://a.example/" }, "issuer:"},
		{"issuer with a query", func(c *C) { c.Issuer = "https://a.example?x" }, "issuer:"},
		{"issuer with an empty query", func(c *C) { c.Issuer = "https://a.example/x?" }, "issuer:"},
		{"issuer without a host", func(c *C) { c.Issuer = "https:///x" }, "issuer:"},
		{"issuer with a user", func(c *C) { c.Issuer = "https://me@a.example/x" }, "issuer:"},
		{"issuer whose path has two spellings", func(c *C) { c.Issuer = "https://a.example/x/../y" }, "issuer:"},
		{"issuer whose path needs escapes", func(c *C) { c.Issuer = "https://a.example/{x}" }, "issuer:"},
		{"listen without a port", func(c *C) { c.Listen = "127.0.0.1" }, "listen:"},
		{"listen everywhere", func(c *C) { c.Listen = ":443" }, ""},
		{"management without a port", func(c *C) { c.Management.Listen = "localhost" }, "management.listen:"},
		{"a name of the management listener", func(c *C) { c.Management.Hosts = []string{"mintage.example.com"} }, ""},
		{"an address in place of a name", func(c *C) { c.Management.Hosts = []string{"http://mintage.example.com:9000"} }, "management.hosts:"},
		{"a name with a port", func(c *C) { c.Management.Hosts = []string{"mintage.example.com:9000"} }, "management.hosts:"},
		{"an empty name", func(c *C) { c.Management.Hosts = []string{""} }, "management.hosts:"},
		{"labels for fewer clients than none", func(c *C) { c.Management.MetricsClients = -1 }, "management.metrics_clients:"},
		{"certificate without its key", func(c *C) { c.TLS.Key = "" }, "tls: cert and key belong together: one of them is missing; of a systemd credential, name the file"},
		{"key without its certificate", func(c *C) { c.TLS.Cert = "" }, "tls:"},
		{"no certificate on loopback", func(c *C) { c.TLS = config.TLS{} }, ""},
		{"no certificate on IPv6 loopback", func(c *C) { c.TLS, c.Listen = config.TLS{}, "[::1]:80" }, ""},
		{"no certificate everywhere", func(c *C) { c.TLS, c.Listen = config.TLS{}, ":80" }, "tls: missing"},
		{"no certificate on an address", func(c *C) { c.TLS, c.Listen = config.TLS{}, "192.0.2.1:80" }, "tls: missing"},
		{"no certificate behind a proxy", func(c *C) {
			c.TLS, c.Listen, c.TrustedProxies = config.TLS{}, ":80", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		}, ""},
		{"admin on a socket", func(c *C) { c.Admin.Listen = "unix:/run/x" }, ""},
		{"admin over TCP", func(c *C) { c.Admin = config.Admin{Listen: "127.0.0.1:9", TokenFile: "t"} }, ""},
		{"admin over TCP without a token", func(c *C) { c.Admin.Listen = "127.0.0.1:9" }, ""},
		{"admin over TCP without TLS", func(c *C) { c.TLS, c.Admin = config.TLS{}, config.Admin{Listen: "127.0.0.1:9", TokenFile: "t"} }, "admin.listen:"},
		{"admin without a port", func(c *C) { c.Admin = config.Admin{Listen: "x", TokenFile: "t"} }, "admin.listen:"},

		{"shortest access token", func(c *C) { c.AccessTokenLifetime, c.RetryWindow, c.RetryWindowPublic = d("1m"), 0, 0 }, ""},
		{"access token too short", func(c *C) { c.AccessTokenLifetime, c.RetryWindow, c.RetryWindowPublic = d("59s"), d("0s"), d("0s") }, "access_token_lifetime:"},
		{"longest access token", func(c *C) { c.AccessTokenLifetime = d("1d") }, ""},
		{"access token too long", func(c *C) { c.AccessTokenLifetime = d("24h1s") }, "access_token_lifetime:"},
		{"access token of half a second", func(c *C) { c.AccessTokenLifetime = d("5m500ms") }, "access_token_lifetime:"},
		{"refresh token too short", func(c *C) { c.RefreshTokenLifetime = d("59s") }, "refresh_token_lifetime:"},
		{"longest id_tokens", func(c *C) { c.IDTokenLifetime = d("24h") }, ""},
		{"id_tokens too long", func(c *C) { c.IDTokenLifetime = d("24h1s") }, "id_token_lifetime:"},
		{"id_tokens of a second and a half", func(c *C) { c.IDTokenLifetime = d("1500ms") }, "id_token_lifetime:"},
		{"refresh token too long", func(c *C) { c.RefreshTokenLifetime = d("3661d") }, "refresh_token_lifetime:"},
		{"code too short", func(c *C) { c.CodeLifetime = d("999ms") }, "code_lifetime:"},
		{"longest code", func(c *C) { c.CodeLifetime = d("10m") }, ""},
		{"code too long", func(c *C) { c.CodeLifetime = d("10m1ms") }, "code_lifetime:"},
		{"grant lifetime", func(c *C) { c.GrantLifetime = d("365d") }, ""},
		{"grant lifetime negative", func(c *C) { c.GrantLifetime = -1 }, "grant_lifetime:"},
		{"longest retry window", func(c *C) { c.RetryWindow = d("4m") }, ""},
		{"retry window above the access token's lifetime less a minute", func(c *C) { c.RetryWindow = d("4m1ms") }, "retry_window: 4m0.001s is outside 0s to 4m, which is access_token_lifetime less a minute"},
		{"no retry window", func(c *C) { c.RetryWindow = 0 }, ""},
		{"retry window negative", func(c *C) { c.RetryWindow = d("-1s") }, "retry_window:"},
		{"public retry window too long", func(c *C) { c.RetryWindowPublic = d("4m1ms") }, "retry_window_public:"},
		{"no reuse grace", func(c *C) { c.ClientMetadata.ReuseGrace = 0 }, ""},
		{"longest reuse grace", func(c *C) { c.ClientMetadata.ReuseGrace = d("24h") }, ""},
		{"reuse grace too long", func(c *C) { c.ClientMetadata.ReuseGrace = d("24h1ms") }, "client_metadata.reuse_grace:"},
		{"largest skew", func(c *C) { c.MaxSkew = d("10s") }, ""},
		{"skew too large", func(c *C) { c.MaxSkew = d("10s1ms") }, "max_skew:"},
		{"skew negative", func(c *C) { c.MaxSkew = d("-1ms") }, "max_skew:"},

		{"no users", func(c *C) { c.Login.Mode = "off" }, ""},
		{"unknown login mode", func(c *C) { c.Login.Mode = "ldap" }, "login.mode:"},
		{"handoff", func(c *C) { c.Login.Mode, c.Login.HandoffURL = "handoff", "https://login.example/start?app=1" }, ""},
		{"handoff on loopback", func(c *C) { c.Login.Mode, c.Login.HandoffURL = "handoff", "http://127.0.0.1:8090/login" }, ""},
		{"handoff to nowhere", func(c *C) { c.Login.Mode = "handoff" }, "login.handoff_url: missing"},
		{"handoff over http", func(c *C) { c.Login.Mode, c.Login.HandoffURL = "handoff", "http://login.example/" }, "login.handoff_url:"},
		{"handoff with a challenge", func(c *C) { c.Login.Mode, c.Login.HandoffURL = "handoff", "https://login.example/?challenge=1" }, "login.handoff_url:"},
		{"handoff with a fragment", func(c *C) { c.Login.Mode, c.Login.HandoffURL = "handoff", "https://login.example/#x" }, "login.handoff_url:"},
		{"upstream", func(c *C) {
			c.Login.Mode, c.Login.Upstream.Issuer, c.Login.Upstream.ClientID = "upstream", "https://id.example", "x"
		}, ""},
		{"upstream without an issuer", func(c *C) { c.Login.Mode, c.Login.Upstream.ClientID = "upstream", "x" }, "login.upstream.issuer: missing"},
		{"upstream over http", func(c *C) {
			c.Login.Mode, c.Login.Upstream.Issuer, c.Login.Upstream.ClientID = "upstream", "http://id.example", "x"
		}, "login.upstream.issuer:"},
		{"upstream without a client", func(c *C) { c.Login.Mode, c.Login.Upstream.Issuer = "upstream", "https://id.example" }, "login.upstream.client_id: missing"},
		{"upstream with claims", func(c *C) {
			c.Login.Mode, c.Login.Upstream.Issuer, c.Login.Upstream.ClientID = "upstream", "https://id.example", "x"
			c.Login.Upstream.Claims = []string{"email", "given_name=first"}
		}, ""},
		{"upstream with another claim", func(c *C) {
			c.Login.Mode, c.Login.Upstream.Issuer, c.Login.Upstream.ClientID = "upstream", "https://id.example", "x"
			c.Login.Upstream.Claims = []string{"tenant"}
		}, `login.upstream.claims: "tenant" is not a standard claim`},
		{"upstream without a subject", func(c *C) {
			c.Login.Mode, c.Login.Upstream.Issuer, c.Login.Upstream.ClientID = "upstream", "https://id.example", "x"
			c.Login.Upstream.SubjectClaim = ""
		}, "login.upstream.subject_claim:"},
		{"a provider that nobody logs in at", func(c *C) { c.Login.Upstream.Issuer, c.Login.Upstream.ClientID = "https://id.example", "x" }, "login.upstream.issuer: is given, and login.mode is users: "},
		{"a provider without a login", func(c *C) { c.Login.Mode, c.Login.Upstream.Claims = "off", []string{"email"} }, "login.upstream.claims: is given, and login.mode is off: "},
		{"a login page that nobody is sent to", func(c *C) { c.Login.HandoffURL = "https://login.example/" }, "login.handoff_url: is given, and login.mode is users: "},
		{"pages in Japanese", func(c *C) { c.Pages.Locale = "ja" }, ""},
		{"pages with a name", func(c *C) { c.Pages.Name = "Example Bank 東京" }, ""},
		{"pages with the longest name", func(c *C) { c.Pages.Name = strings.Repeat("é", 60) }, ""},
		{"pages with a longer name", func(c *C) { c.Pages.Name = strings.Repeat("é", 61) }, "pages.name:"},
		{"pages with a name of two lines", func(c *C) { c.Pages.Name = "Example\nBank" }, "pages.name:"},
		{"pages with a name that turns the line", func(c *C) { c.Pages.Name = "Example \u202eknaB" }, "pages.name:"},
		{"pages with a name that is not UTF-8", func(c *C) { c.Pages.Name = "caf\xe9" }, "pages.name:"},
		{"pages in a language that is not there", func(c *C) { c.Pages.Locale = "pt" }, "pages.locale:"},
		{"session idle for longer than it lives", func(c *C) { c.Session.Lifetime, c.Session.Idle = d("1h"), d("2h") }, "session.idle:"},
		{"session too long", func(c *C) { c.Session.Lifetime, c.Session.Idle = d("367d"), d("1h") }, "session.lifetime:"},
		{"interaction too long", func(c *C) { c.InteractionLifetime = d("2h") }, "interaction_lifetime:"},
		{"logins without a limit", func(c *C) { c.Throttle.LoginFailures = 0 }, "throttle.login_failures:"},
		{"logins with an endless limit", func(c *C) { c.Throttle.LoginFailures = 1_000_001 }, "throttle.login_failures: 1000001 is outside 1 to 1000000"},
		{"logins with the highest limit", func(c *C) { c.Throttle.LoginFailures = 1_000_000 }, ""},
		{"interactions negative", func(c *C) { c.Throttle.Interactions = -1 }, "throttle.interactions:"},
		{"device codes with an endless limit", func(c *C) { c.Throttle.DeviceCodes = math.MaxInt }, "throttle.device_codes: 9223372036854775807 is outside 0, which is no limit, to 1000000000"},
		{"failures with the highest limit", func(c *C) { c.Throttle.AddressFailures = 1_000_000_000 }, ""},

		{"shortest keys", func(c *C) { c.KeyLifetime, c.KeyLead, c.JWKSMaxAge = d("2s"), d("16s"), d("1s") }, ""},
		{"key lifetime too short", func(c *C) { c.KeyLifetime = 0 }, "key_lifetime:"},
		{"key lifetime too long", func(c *C) { c.KeyLifetime = d("3661d") }, "key_lifetime:"},
		{"key lead within the time that verifiers keep the keys", func(c *C) { c.KeyLead = d("1h") }, "key_lead:"},
		{"shortest key lead", func(c *C) { c.KeyLead = d("1h15s") }, ""},
		{"shortest key lead with skew", func(c *C) { c.KeyLead, c.MaxSkew = d("1h17s"), d("2s") }, ""},
		{"key lead too short by the skew", func(c *C) { c.KeyLead, c.MaxSkew = d("1h16999ms"), d("2s") }, "key_lead:"},
		{"longest key lead", func(c *C) { c.KeyLifetime, c.KeyLead = d("1d"), d("10d") }, ""},
		{"key lead too long", func(c *C) { c.KeyLifetime, c.KeyLead = d("1d"), d("240h1s") }, "key_lead:"},
		{"longest age of the key set", func(c *C) { c.JWKSMaxAge = d("1d") }, ""},
		{"age of the key set too long", func(c *C) { c.JWKSMaxAge = d("24h1s") }, "jwks_max_age:"},
		{"age of the key set too short", func(c *C) { c.JWKSMaxAge = 0 }, "jwks_max_age:"},
		{"age of the key set of half a second", func(c *C) { c.JWKSMaxAge = d("1500ms") }, "jwks_max_age:"},
		{"longest age of the revocations", func(c *C) { c.RevocationsMaxAge = d("1m") }, ""},
		{"age of the revocations too long", func(c *C) { c.RevocationsMaxAge = d("61s") }, "revocations_max_age:"},
		{"age of the revocations too short", func(c *C) { c.RevocationsMaxAge = 0 }, "revocations_max_age:"},
		{"age of the revocations of half a second", func(c *C) { c.RevocationsMaxAge = d("1500ms") }, "revocations_max_age:"},

		{"Basic failures answered 400", func(c *C) { c.Errors.BasicAuthStatus = 400 }, ""},
		{"Basic failures answered 403", func(c *C) { c.Errors.BasicAuthStatus = 403 }, "errors.basic_auth_status:"},
		{"scopes", func(c *C) { c.ScopesSupported = []string{"read", "https://api.example/x"} }, ""},
		{"scopes in one text", func(c *C) { c.ScopesSupported = []string{"read write"} }, "scopes_supported:"},
		{"scope with a quote", func(c *C) { c.ScopesSupported = []string{`"`} }, "scopes_supported:"},
		{"scope without a name", func(c *C) { c.ScopesSupported = []string{""} }, "scopes_supported:"},
		{"origin", func(c *C) { c.CORS.Origins = []string{"https://app.example.com:8443"} }, ""},
		{"origin with a path", func(c *C) { c.CORS.Origins = []string{"https://app.example.com/"} }, "cors.origins:"},
		{"origin wildcard", func(c *C) { c.CORS.Origins = []string{"*"} }, "cors.origins:"},
		{"origin null", func(c *C) { c.CORS.Origins = []string{"null"} }, "cors.origins:"},
		{"fewer waiting requests than none", func(c *C) { c.Limits.Waiting = -1 }, "limits.waiting: -1 is negative"},
		{"an origin in upper case", func(c *C) { c.CORS.Origins = []string{"https://App.example.com"} }, `cors.origins: "https://App.example.com" is never sent: browsers send https://app.example.com`},
		{"an origin with the default port", func(c *C) { c.CORS.Origins = []string{"https://app.example.com:443"} }, "cors.origins:"},
		{"an origin with the default port of http", func(c *C) { c.CORS.Origins = []string{"http://localhost:80"} }, "cors.origins:"},
		{"origins with other ports, and of a program", func(c *C) {
			c.CORS.Origins = []string{"http://localhost:443", "https://app.example.com:80", "capacitor://localhost"}
		}, ""},
		{"negative limit", func(c *C) { c.Throttle.ClientFailures = -1 }, "throttle.client_failures:"},
		{"no limit", func(c *C) { c.Throttle = config.Throttle{LoginFailures: 1} }, ""},
		{"log level", func(c *C) { c.Log.Level = "verbose" }, "log.level:"},
		{"log format", func(c *C) { c.Log.Format = "xml" }, "log.format:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := deployed()
			tt.edit(&c)
			err := c.Check()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("%v; want one fault that begins %q", err, tt.want)
			}
		})
	}
}

func TestCheckTellsAllFaultsAtOnce(t *testing.T) {
	c := config.Config{}
	err := c.Check()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, key := range []string{"public_url", "listen", "management.listen", "tls", "access_token_lifetime", "errors.basic_auth_status", "log.level", "log.format"} {
		if !strings.Contains(err.Error(), key+":") {
			t.Errorf("nothing about %s in\n%v", key, err)
		}
	}
}

// By default, id_tokens live as long as access tokens. With login.mode off, there are
// none.
func TestIDTokensLiveAsLongAsAccessTokensByDefault(t *testing.T) {
	c := deployed()
	c.AccessTokenLifetime = config.Duration(7 * time.Minute)
	for _, mode := range []string{config.LoginUsers, config.LoginHandoff, config.LoginUpstream, config.LoginOff} {
		c.Login.Mode = mode
		for set, want := range map[time.Duration]time.Duration{0: 7 * time.Minute, time.Hour: time.Hour} {
			if mode == config.LoginOff {
				want = 0
			}
			c.IDTokenLifetime = config.Duration(set)
			if got := c.IDTokens(); got != want {
				t.Errorf("login.mode %s, id_token_lifetime %s: %s, want %s", mode, set, got, want)
			}
		}
	}
}

func TestDepartures(t *testing.T) {
	for want, edit := range map[string]func(c *config.Config){
		"access_token_lifetime is 10m;":           func(c *config.Config) { c.AccessTokenLifetime *= 2 },
		"refresh_token_lifetime is 62d;":          func(c *config.Config) { c.RefreshTokenLifetime *= 2 },
		"grant_lifetime ends grants 1d":           func(c *config.Config) { c.GrantLifetime = config.Duration(24 * time.Hour) },
		"errors.basic_auth_status":                func(c *config.Config) { c.Errors.BasicAuthStatus = 400 },
		"compat.callback_parameters":              func(c *config.Config) { c.Compat.CallbackParameters = true },
		"compat.query_parameters":                 func(c *config.Config) { c.Compat.QueryParameters = true },
		"compat.invalid_request_for_dead_refresh": func(c *config.Config) { c.Compat.InvalidRequestForDeadRefresh = true },
	} {
		c := deployed()
		edit(&c)
		if got := c.Departures(); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("departures %q, want one that begins %q", got, want)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		text string
	}{
		{0, "0s"}, {time.Millisecond, "1ms"}, {1500 * time.Millisecond, "1.5s"}, {90 * time.Second, "1m30s"}, {2 * time.Minute, "2m"},
		{12 * time.Hour, "12h"}, {25 * time.Hour, "25h"}, {24 * time.Hour, "1d"}, {31 * 24 * time.Hour, "31d"}, {36600 * 24 * time.Hour, "36600d"},
	} {
		if got := config.Duration(tt.d).String(); got != tt.text {
			t.Errorf("%s is written %q, want %q", tt.d, got, tt.text)
		}
		if got, err := config.ParseDuration(tt.text); err != nil || got.Std() != tt.d {
			t.Errorf("%q is read %s, %v", tt.text, got, err)
		}
	}
	for text, want := range map[string]time.Duration{"744h": 31 * 24 * time.Hour, "120s": 2 * time.Minute, "1h30m": 90 * time.Minute, "0": 0, "0d": 0} {
		if got, err := config.ParseDuration(text); err != nil || got.Std() != want {
			t.Errorf("%q is read %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "d", "-1d", "1.5d", "100001d", "1d12h", "5 m", "1us", "1.0001ms", "99999999999h", "1w", "five"} {
		if got, err := config.ParseDuration(text); err == nil || !strings.Contains(err.Error(), "90s, 5m, 12h or 31d") {
			t.Errorf("%q is read %s, %v", text, got, err)
		}
	}
}
