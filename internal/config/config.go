// Package config is the one place where a deployment's choices are named,
// defaulted, read and checked. A value comes from a flag, or else from the
// environment, or else from the file, or else from Default.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Config is what can be configured. The doc tags are the manual: help texts
// are made from them.
type Config struct {
	Data    string `yaml:"data" doc:"data directory: the store, its lock, the key-encryption key, the admin socket"`
	KEKFile string `yaml:"kek_file" doc:"key-encryption key; default: the systemd credential kek, or else DATA/kek, made at first start"`

	Store             string `yaml:"store" doc:"where grants and clients are: sqlite (in the data directory, for one node) or postgres://USER@HOST:5432/DATABASE, for several"`
	StorePasswordFile string `yaml:"store_password_file" doc:"file with the password of the database's user; read again for each connection"`

	PublicURL string `yaml:"public_url" doc:"address that clients use, such as https://auth.example.com; never taken from a request"`
	BasePath  string `yaml:"base_path" doc:"path before /oauth2, such as /openam"`
	Issuer    string `yaml:"issuer" doc:"issuer identifier; default: public_url + base_path + /oauth2/api"`

	Listen         string         `yaml:"listen" doc:"address of the public listener"`
	TLS            TLS            `yaml:"tls"`
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies" doc:"networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed"`
	Management     Management     `yaml:"management"`
	Admin          Admin          `yaml:"admin"`

	AccessTokenLifetime  Duration `yaml:"access_token_lifetime" doc:"lifetime of access tokens"`
	RefreshTokenLifetime Duration `yaml:"refresh_token_lifetime" doc:"lifetime of each refresh token, from its issue"`
	CodeLifetime         Duration `yaml:"code_lifetime" doc:"lifetime of authorization codes"`
	GrantLifetime        Duration `yaml:"grant_lifetime" doc:"end of a grant after its authorization, however often it is refreshed; 0: none"`
	RetryWindow          Duration `yaml:"retry_window" doc:"how long a spent refresh token gets the same pair again, while the successor is unused; 0: never"`
	RetryWindowPublic    Duration `yaml:"retry_window_public" doc:"the same for public clients"`
	MaxSkew              Duration `yaml:"max_skew" doc:"how far the clocks of nodes may differ; 0 means 2s with PostgreSQL, and nothing with the embedded store"`

	KeyLifetime       Duration `yaml:"key_lifetime" doc:"how long a key makes tokens, codes and signatures before its follower does"`
	KeyLead           Duration `yaml:"key_lead" doc:"how long before its use a key is made and published; a backup that is older lacks keys"`
	JWKSMaxAge        Duration `yaml:"jwks_max_age" doc:"how long verifiers may keep the published keys"`
	RevocationsMaxAge Duration `yaml:"revocations_max_age" doc:"how long followers may keep the list of revocations"`

	Login               Login    `yaml:"login"`
	Session             Session  `yaml:"session"`
	InteractionLifetime Duration `yaml:"interaction_lifetime" doc:"how long a user may take over login and consent"`
	Pages               Pages    `yaml:"pages"`

	Errors   Errors   `yaml:"errors"`
	Compat   Compat   `yaml:"compat"`
	CORS     CORS     `yaml:"cors"`
	Throttle Throttle `yaml:"throttle"`
	Log      Log      `yaml:"log"`
}

type TLS struct {
	Cert string `yaml:"cert" doc:"certificate chain, PEM; a changed file is used within a second"`
	Key  string `yaml:"key" doc:"its private key, PEM"`
}

type Management struct {
	Listen string `yaml:"listen" doc:"address of /livez and /readyz; never expose it to the public"`
	Pprof  bool   `yaml:"pprof" doc:"serve Go's profiles at /debug/pprof/ there, for those who look for where time and memory go"`
}

type Admin struct {
	Listen    string `yaml:"listen" doc:"address of the admin API: unix:PATH, or HOST:PORT, which needs tls and admin.token_file; default: unix:DATA/admin.sock"`
	TokenFile string `yaml:"token_file" doc:"file with the bearer token of the admin API, 32 characters or more"`
}

// Ways to know who the user is.
const (
	LoginUsers    = "users"
	LoginHandoff  = "handoff"
	LoginUpstream = "upstream"
	LoginOff      = "off"
)

type Login struct {
	Mode       string   `yaml:"mode" doc:"who knows the users: users (built in; see mintage user), handoff (a login page of the provider's own), upstream (an OpenID Connect provider) or off (no authorization endpoint)"`
	HandoffURL string   `yaml:"handoff_url" doc:"address of the provider's own login page, for login.mode handoff"`
	Upstream   Upstream `yaml:"upstream"`
}

type Upstream struct {
	Issuer           string   `yaml:"issuer" doc:"issuer identifier of the OpenID Connect provider, for login.mode upstream"`
	ClientID         string   `yaml:"client_id" doc:"who this server is there; the redirect URI to register is public_url + base_path + /oauth2/callback"`
	ClientSecretFile string   `yaml:"client_secret_file" doc:"file with its client secret; empty for a public client"`
	Scopes           []string `yaml:"scopes" doc:"scopes to ask for beside openid, such as profile or email"`
	SubjectClaim     string   `yaml:"subject_claim" doc:"claim of the ID token that becomes the subject; email counts only if it is verified"`
	SubjectPrefix    string   `yaml:"subject_prefix" doc:"put before it, to keep these subjects apart from others"`
}

type Session struct {
	Lifetime Duration `yaml:"lifetime" doc:"end of a browser's session after its login"`
	Idle     Duration `yaml:"idle" doc:"end of a browser's session after its last use"`
}

type Pages struct {
	Directory  string `yaml:"directory" doc:"brand of the pages: brand.css, images, and templates that replace the built-in ones"`
	Locale     string `yaml:"locale" doc:"language of the pages for those who read none that is there: en or ja"`
	ScopesFile string `yaml:"scopes_file" doc:"what scopes mean, in words (YAML: scope, locale, text)"`
}

type Errors struct {
	BasicAuthStatus int `yaml:"basic_auth_status" doc:"status of a failed Authorization header: 401 (RFC 6749) or 400"`
}

type Compat struct {
	QueryParameters              bool `yaml:"query_parameters" doc:"accept a token request's parameters in the URL, as old clients send them"`
	InvalidRequestForDeadRefresh bool `yaml:"invalid_request_for_dead_refresh" doc:"answer invalid_request for an unknown refresh token, as OpenAM 13 does"`
	RedirectURIMismatch          bool `yaml:"redirect_uri_mismatch" doc:"name the error of an unregistered redirect URI redirect_uri_mismatch, as OpenAM does"`
	TokenInfoQuery               bool `yaml:"tokeninfo_query" doc:"accept ?access_token= at tokeninfo, as old resource servers send it"`
}

type CORS struct {
	Origins []string `yaml:"origins" doc:"origins whose scripts may read the token endpoint's answers"`
}

type Throttle struct {
	AddressFailures int `yaml:"address_failures" doc:"failed client authentications in a minute from one address before it is answered 429; 0: no limit"`
	ClientFailures  int `yaml:"client_failures" doc:"the same for one client from one address"`
	LoginFailures   int `yaml:"login_failures" doc:"wrong passwords for one account from one network before it has to wait; the other limits of logins go by it"`
	Interactions    int `yaml:"interactions" doc:"logins and consents that one address may begin in a minute; 0: no limit"`
}

type Log struct {
	Level  string `yaml:"level" doc:"debug (every request), info (refusals, safe retries, changes), warn or error"`
	Format string `yaml:"format" doc:"json, text, or auto: text on a terminal"`
}

const day = 24 * time.Hour

// Default is the configuration of the service's specification.
func Default() Config {
	return Config{
		Data:                 "mintage-data",
		Store:                StoreSQLite,
		Listen:               "127.0.0.1:8443",
		Management:           Management{Listen: "127.0.0.1:9000"},
		AccessTokenLifetime:  Duration(5 * time.Minute),
		RefreshTokenLifetime: Duration(31 * day),
		CodeLifetime:         Duration(time.Minute),
		RetryWindow:          Duration(2 * time.Minute),
		RetryWindowPublic:    Duration(10 * time.Second),
		KeyLifetime:          Duration(90 * day),
		KeyLead:              Duration(7 * day),
		JWKSMaxAge:           Duration(time.Hour),
		RevocationsMaxAge:    Duration(5 * time.Second),
		Login:                Login{Mode: LoginUsers, Upstream: Upstream{SubjectClaim: "sub"}},
		Session:              Session{Lifetime: Duration(12 * time.Hour), Idle: Duration(time.Hour)},
		InteractionLifetime:  Duration(10 * time.Minute),
		Pages:                Pages{Locale: "en"},
		Errors:               Errors{BasicAuthStatus: 401},
		Throttle:             Throttle{AddressFailures: 600, ClientFailures: 30, LoginFailures: 5, Interactions: 600},
		Log:                  Log{Level: "info", Format: "auto"},
	}
}

// AdminListen is Admin.Listen with its default.
func (c Config) AdminListen() string {
	if c.Admin.Listen != "" {
		return c.Admin.Listen
	}
	return "unix:" + filepath.Join(c.Data, "admin.sock")
}

// Skew is MaxSkew with its default.
func (c Config) Skew() time.Duration {
	if c.MaxSkew == 0 && c.Store != StoreSQLite {
		return 2 * time.Second
	}
	return c.MaxSkew.Std()
}

// IssuerID is Issuer with its default.
func (c Config) IssuerID() string {
	if c.Issuer != "" {
		return c.Issuer
	}
	return c.PublicURL + c.BasePath + "/oauth2/api"
}

// Check completes what has a derived default and refuses what cannot work or
// is not safe, all faults at once. The --dev server chooses its own public_url
// and certificate before it calls Check.
func (c *Config) Check() error {
	var faults []error
	bad := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	switch u, err := url.Parse(c.PublicURL); {
	case c.PublicURL == "":
		bad("public_url", "missing: set the address that clients use, such as https://auth.example.com (or try it out with: mintage serve --dev)")
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
		bad("public_url", "%q must be https://HOST or https://HOST:PORT and nothing more", c.PublicURL)
	}
	if c.BasePath != "" && (!strings.HasPrefix(c.BasePath, "/") || strings.HasSuffix(c.BasePath, "/") || strings.ContainsAny(c.BasePath, "?#%{} ") || path.Clean(c.BasePath) != c.BasePath) {
		bad("base_path", "%q must be empty or like /openam", c.BasePath)
	}
	if u, err := url.Parse(c.IssuerID()); err != nil || u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(c.IssuerID(), "/") {
		bad("issuer", "%q must be an https URL without query, fragment and trailing slash (RFC 8414 section 2)", c.IssuerID())
	} else if c.Issuer != "" && (u.Host == "" || u.User != nil || strings.ContainsAny(c.IssuerID(), "?#") || strings.Contains(u.EscapedPath(), "%") || u.Path != "" && path.Clean(u.Path) != u.Path) {
		bad("issuer", "%q must be https://HOST or https://HOST/PATH with a plain path: its metadata is found by it", c.IssuerID())
	}
	if err := c.CheckStore(); err != nil {
		faults = append(faults, err)
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		bad("listen", "%q must be HOST:PORT", c.Listen)
	}
	if _, _, err := net.SplitHostPort(c.Management.Listen); err != nil {
		bad("management.listen", "%q must be HOST:PORT", c.Management.Listen)
	}
	switch {
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		bad("tls", "cert and key belong together: one of them is missing")
	case c.TLS.Cert == "" && len(c.TrustedProxies) == 0 && !isLoopback(host):
		bad("tls", "missing: set tls.cert and tls.key; without them mintage listens on loopback only, or behind trusted_proxies")
	}
	if !strings.HasPrefix(c.AdminListen(), "unix:") {
		if _, _, err := net.SplitHostPort(c.Admin.Listen); err != nil {
			bad("admin.listen", "%q must be unix:PATH or HOST:PORT", c.Admin.Listen)
		}
		if c.Admin.TokenFile == "" || c.TLS.Cert == "" {
			bad("admin.listen", "over TCP it needs admin.token_file and tls.cert; unix:PATH needs neither")
		}
	}
	for _, d := range []struct {
		key         string
		value       Duration
		least, most time.Duration
	}{
		{"access_token_lifetime", c.AccessTokenLifetime, time.Minute, day},
		{"refresh_token_lifetime", c.RefreshTokenLifetime, time.Minute, 3660 * day},
		{"code_lifetime", c.CodeLifetime, time.Second, 10 * time.Minute},
		{"grant_lifetime", c.GrantLifetime, 0, 36600 * day},
		{"retry_window", c.RetryWindow, 0, max(0, c.AccessTokenLifetime.Std()-time.Minute)},
		{"retry_window_public", c.RetryWindowPublic, 0, max(0, c.AccessTokenLifetime.Std()-time.Minute)},
		{"max_skew", c.MaxSkew, 0, 10 * time.Second},
		{"session.lifetime", c.Session.Lifetime, 5 * time.Minute, 366 * day},
		{"session.idle", c.Session.Idle, 5 * time.Minute, c.Session.Lifetime.Std()},
		{"interaction_lifetime", c.InteractionLifetime, time.Minute, time.Hour},
		{"key_lifetime", c.KeyLifetime, time.Second, 3660 * day},
		{"jwks_max_age", c.JWKSMaxAge, time.Second, day},
		{"revocations_max_age", c.RevocationsMaxAge, time.Second, time.Minute},
	} {
		if d.value.Std() < d.least || d.value.Std() > d.most {
			bad(d.key, "%s is outside %s to %s", d.value, Duration(d.least), Duration(d.most))
		}
	}
	for _, d := range []struct {
		key   string
		value Duration
	}{
		{"access_token_lifetime", c.AccessTokenLifetime}, {"jwks_max_age", c.JWKSMaxAge}, {"revocations_max_age", c.RevocationsMaxAge},
	} {
		if d.value.Std()%time.Second != 0 {
			bad(d.key, "%s is not a whole number of seconds", d.value)
		}
	}
	if c.Store != StoreSQLite && c.MaxSkew > 0 && c.MaxSkew < Duration(500*time.Millisecond) {
		bad("max_skew", "%s is less than 500ms: nodes would take the time of a slow commit for that of a clock", c.MaxSkew)
	}
	// The rest of the lead is for the nodes, which hear of a key within seconds.
	if least := c.JWKSMaxAge.Std() + c.Skew() + 15*time.Second; c.KeyLead.Std() < least {
		bad("key_lead", "%s is shorter than jwks_max_age + max_skew + 15s: verifiers would meet keys that they cannot know yet", c.KeyLead)
	} else if c.KeyLifetime >= Duration(time.Second) && c.KeyLead > 10*c.KeyLifetime {
		bad("key_lead", "%s is longer than ten times key_lifetime: as many keys would wait for their use", c.KeyLead)
	}
	if c.Errors.BasicAuthStatus != 400 && c.Errors.BasicAuthStatus != 401 {
		bad("errors.basic_auth_status", "%d is neither 401 nor 400", c.Errors.BasicAuthStatus)
	}
	for _, o := range c.CORS.Origins {
		if u, err := url.Parse(o); err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			bad("cors.origins", "%q must be like https://app.example.com", o)
		}
	}
	if c.Throttle.AddressFailures < 0 || c.Throttle.ClientFailures < 0 || c.Throttle.Interactions < 0 {
		bad("throttle", "limits are not negative")
	}
	if c.Throttle.LoginFailures < 1 {
		bad("throttle.login_failures", "must be at least 1")
	}
	faults = append(faults, c.checkLogin()...)
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		bad("log.level", "%q is not debug, info, warn or error", c.Log.Level)
	}
	if !slices.Contains([]string{"json", "text", "auto"}, c.Log.Format) {
		bad("log.format", "%q is not json, text or auto", c.Log.Format)
	}
	return errors.Join(faults...)
}

// Departures lists where the configuration leaves the service's specification
// or switches a compatibility on, for the start-up log.
func (c Config) Departures() (list []string) {
	def := Default()
	note := func(differs bool, format string, args ...any) {
		if differs {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	note(c.AccessTokenLifetime != def.AccessTokenLifetime, "access_token_lifetime is %s; the specification says %s", c.AccessTokenLifetime, def.AccessTokenLifetime)
	note(c.RefreshTokenLifetime != def.RefreshTokenLifetime, "refresh_token_lifetime is %s; the specification says %s", c.RefreshTokenLifetime, def.RefreshTokenLifetime)
	note(c.GrantLifetime != 0, "grant_lifetime ends grants %s after their authorization", c.GrantLifetime)
	note(c.Errors.BasicAuthStatus == 400, "errors.basic_auth_status is 400; RFC 6749 section 5.2 says 401")
	note(c.Compat.QueryParameters, "compat.query_parameters accepts secrets in URLs")
	note(c.Compat.InvalidRequestForDeadRefresh, "compat.invalid_request_for_dead_refresh answers invalid_request where RFC 6749 says invalid_grant")
	note(c.Compat.RedirectURIMismatch, "compat.redirect_uri_mismatch shows an error code that RFC 6749 does not know")
	note(c.Compat.TokenInfoQuery, "compat.tokeninfo_query accepts access tokens in URLs")
	return list
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
