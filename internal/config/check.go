package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/oauth"
)

// maxRequests is the length of a store's own queue.
const maxRequests = 4096

// maxLoginFailures keeps the limits that package account derives from it from overflowing
// a time.Duration, which would reject every login.
const maxLoginFailures = 1_000_000

// maxThrottle is one event in some 60 ns. A far larger burst would overflow a time.Duration
// (see overload.Limit), which would reject every request.
const maxThrottle = 1_000_000_000

// minAuditSize leaves room for some files of the audit log: the last is never
// removed.
const minAuditSize = 256 * MiB

// Check sets derived defaults, and rejects a configuration that cannot work or is
// not safe. Its error joins a Fault for each fault. The --dev server sets its own
// public_url and certificate before it calls Check.
func (c *Config) Check() error {
	faults := append(c.check(), unusedLogins(c)...)
	return errors.Join(append(faults, c.checkRealms(faults)...)...)
}

// check checks the settings of one realm with those of the deployment.
func (c *Config) check() (faults []error) {
	for _, k := range Keys() {
		if text := k.Text(*c); k.Choices != nil && !slices.Contains(k.Choices, text) {
			faults = append(faults, &Fault{Name: k.Name, Err: k.noChoice(text)})
		}
	}
	bad := func(key, format string, args ...any) {
		faults = append(faults, &Fault{Name: key, Err: fmt.Errorf(format, args...)})
	}
	c.checkIssuer(bad)
	if c.Data == "" {
		bad("data", "missing: name the data directory, such as /var/lib/mintage")
	}
	if err := c.CheckStore(); err != nil {
		faults = append(faults, err)
	}
	c.checkListeners(bad)
	c.checkLifetimes(bad)
	c.checkLimits(bad)
	c.checkClientMetadata(bad)
	c.checkLogin(bad)
	for _, w := range c.Weakens(c.Authorization.Profile) {
		bad(w.Name, "contradicts authorization.profile %s: %s", c.Authorization.Profile, w.Rule)
	}
	return faults
}

// A Weakness is a setting that contradicts a profile, and the rule.
type Weakness struct{ Name, Rule string }

// Weakens lists the settings that contradict a value of authorization.profile.
func (c *Config) Weakens(profile string) (list []Weakness) {
	for _, d := range []struct {
		met        bool
		name, rule string
	}{
		{c.CodeLifetime.Std() <= time.Minute, "code_lifetime", "codes live a minute at most (FAPI 2.0 section 5.3.2.1-11)"},
		{!c.Compat.QueryParameters, "compat.query_parameters", "codes and refresh tokens are in no address (RFC 6749 section 3.2)"},
		{!c.Compat.TokenInfoQuery, "compat.tokeninfo_query", "access tokens are in no address (FAPI 2.0 section 5.3.4-2)"},
		{len(c.DocumentsAdmitted()) == 0, "client_metadata.documents", "clients are confidential, and those that describe themselves need not be (FAPI 2.0 section 5.3.2.1-3)"},
		{!c.ClientMetadata.Registration, "client_metadata.registration", "clients are confidential and have keys, and those that register themselves have none (FAPI 2.0 section 5.3.2.1-6)"},
	} {
		if profile == ProfileFAPI2 && !d.met {
			list = append(list, Weakness{d.name, d.rule})
		}
	}
	return list
}

// checkIssuer checks public_url, base_path and issuer.
func (c *Config) checkIssuer(report report) {
	faulty := false
	bad := func(key, format string, args ...any) {
		report(key, format, args...)
		faulty = true
	}
	switch u, err := url.Parse(c.PublicURL); {
	case c.PublicURL == "":
		bad("public_url", "missing: set the address that clients use, such as https://auth.example.com (or try it out with: mintage serve --dev)")
	case err != nil || u.Scheme != "https" || !isSite(u, c.PublicURL):
		bad("public_url", "%q must be https://HOST or https://HOST:PORT and nothing more", c.PublicURL)
	}
	if c.BasePath != "" && (!strings.HasPrefix(c.BasePath, "/") || strings.HasSuffix(c.BasePath, "/") || strings.ContainsAny(c.BasePath, "?#%{} ") || path.Clean(c.BasePath) != c.BasePath) {
		bad("base_path", "%q must be empty or like /openam", c.BasePath)
	}
	if u, err := url.Parse(c.IssuerID()); c.Issuer == "" && faulty {
		// The issuer derives from the settings whose faults are reported above.
	} else if err != nil || u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(c.IssuerID(), "/") {
		bad("issuer", "%q must be an https URL without query, fragment and trailing slash (RFC 8414 section 2)", c.IssuerID())
	} else if c.Issuer != "" && (u.Host == "" || u.User != nil || strings.ContainsAny(c.IssuerID(), "?#") || strings.Contains(u.EscapedPath(), "%") || u.Path != "" && path.Clean(u.Path) != u.Path) {
		bad("issuer", "%q must be https://HOST or https://HOST/PATH with a plain path: its metadata is found by it", c.IssuerID())
	}
}

// checkListeners checks the addresses of the listeners, and the TLS that protects them.
func (c *Config) checkListeners(bad report) {
	checkAddresses(c, bad)
	c.checkConsole(bad)
	checkOperators(c, bad)
	for _, name := range c.Management.Hosts {
		if u, err := url.Parse("http://" + name); err != nil || name == "" || u.Hostname() != name {
			bad("management.hosts", "%q must be a name without scheme and port, such as mintage.example.com", name)
		}
	}
	if c.Management.MetricsClients < 0 || c.Management.MetricsClients > 10_000 {
		bad("management.metrics_clients", "%d is outside 0 to 10000: each client is some ten series", c.Management.MetricsClients)
	}
	host, _, _ := net.SplitHostPort(c.Listen)
	switch {
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		bad("tls", "cert and key belong together: one of them is missing; of a systemd credential, name the file of the unit's LoadCredential=")
	case c.TLS.Cert == "" && len(c.TrustedProxies) == 0 && !IsLoopback(host):
		bad("tls", "missing: set tls.cert and tls.key; without them mintage listens on loopback only, or behind trusted_proxies")
	}
	if !strings.HasPrefix(c.AdminListen(), "unix:") {
		if c.Admin.Group != "" {
			bad("admin.group", "is about the socket unix:PATH; over TCP, tokens say who may call")
		}
		if c.TLS.Cert == "" {
			bad("admin.listen", "over TCP it needs tls.cert; unix:PATH does not")
		}
	}
}

// checkLifetimes checks durations, alone and against each other, and the size of the
// audit log.
func (c *Config) checkLifetimes(bad report) {
	for _, d := range []struct {
		key         string
		value       Duration
		least, most time.Duration
	}{
		{"access_token_lifetime", c.AccessTokenLifetime, time.Minute, day},
		{"id_token_lifetime", c.IDTokenLifetime, 0, day},
		{"refresh_token_lifetime", c.RefreshTokenLifetime, time.Minute, 3660 * day},
		{"code_lifetime", c.CodeLifetime, time.Second, 10 * time.Minute},
		{"grant_lifetime", c.GrantLifetime, 0, 36600 * day},
		{"retry_window", c.RetryWindow, 0, max(0, c.AccessTokenLifetime.Std()-time.Minute)},
		{"retry_window_public", c.RetryWindowPublic, 0, max(0, c.AccessTokenLifetime.Std()-time.Minute)},
		{"client_metadata.reuse_grace", c.ClientMetadata.ReuseGrace, 0, day}, // grant.MaxReuseGrace
		{"max_skew", c.MaxSkew, 0, 10 * time.Second},
		{"session.lifetime", c.Session.Lifetime, 5 * time.Minute, 366 * day},
		{"session.idle", c.Session.Idle, 5 * time.Minute, c.Session.Lifetime.Std()},
		{"interaction_lifetime", c.InteractionLifetime, time.Minute, time.Hour},
		{"audit.retention", c.Audit.Retention, 0, 36600 * day},
		{"key_lifetime", c.KeyLifetime, time.Second, 3660 * day},
		{"jwks_max_age", c.JWKSMaxAge, time.Second, day},
		{"revocations_max_age", c.RevocationsMaxAge, time.Second, time.Minute},
	} {
		if d.value.Std() < d.least || d.value.Std() > d.most {
			because := ""
			if strings.HasPrefix(d.key, "retry_window") {
				because = ", which is access_token_lifetime less a minute"
			}
			bad(d.key, "%s is outside %s to %s%s", d.value, Duration(d.least), Duration(d.most), because)
		}
	}
	if s := c.Audit.MaxSize; s != 0 && s < minAuditSize {
		bad("audit.max_size", "%s is neither 0, which is no limit, nor %s or more: a file of the audit log has up to 64MiB", s, minAuditSize)
	}
	for _, d := range []struct {
		key   string
		value Duration
	}{
		{"access_token_lifetime", c.AccessTokenLifetime}, {"id_token_lifetime", c.IDTokenLifetime},
		{"jwks_max_age", c.JWKSMaxAge}, {"revocations_max_age", c.RevocationsMaxAge},
	} {
		if d.value.Std()%time.Second != 0 {
			bad(d.key, "%s is not a whole number of seconds", d.value)
		}
	}
	if c.Store != StoreSQLite && c.MaxSkew > 0 && c.MaxSkew < Duration(500*time.Millisecond) {
		bad("max_skew", "%s is less than 500ms: nodes would take the time of a slow commit for that of a clock", c.MaxSkew)
	}
	// The 15 seconds are for the nodes, which poll keys within seconds.
	if least := c.JWKSMaxAge.Std() + c.Skew() + 15*time.Second; c.KeyLead.Std() < least {
		bad("key_lead", "%s is shorter than jwks_max_age + max_skew + 15s: verifiers would receive tokens of keys that they cannot have fetched yet", c.KeyLead)
	} else if c.KeyLifetime >= Duration(time.Second) && c.KeyLead > 10*c.KeyLifetime {
		bad("key_lead", "%s is longer than ten times key_lifetime: more than ten successor keys would exist before the first is used", c.KeyLead)
	}
}

// checkLimits checks the limits of load, scopes_supported and cors.origins.
func (c *Config) checkLimits(bad report) {
	for _, name := range c.ScopesSupported {
		// RFC 6749 section 3.3
		if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
			bad("scopes_supported", "%q is not a scope: write each as an item of the list", name)
		}
	}
	for _, o := range c.CORS.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
			bad("cors.origins", "%q must be like https://app.example.com", o)
		} else if sent := u.Scheme + "://" + oauth.Host(strings.ToLower(o)); (u.Scheme == "https" || u.Scheme == "http") && o != sent {
			bad("cors.origins", "%q is never sent: browsers send %s", o, sent)
		}
	}
	if c.Limits.Requests < 0 || c.Limits.Requests > maxRequests {
		bad("limits.requests", "%d must be 0 (chosen by the number of processors) or 1 to %d, the length of a store's queue", c.Limits.Requests, maxRequests)
	}
	if c.Limits.Connections > 0 && c.Limits.ConnectionsPerAddress > c.Limits.Connections {
		bad("limits.connections_per_address", "%d is more than limits.connections, %d", c.Limits.ConnectionsPerAddress, c.Limits.Connections)
	}
	if n := c.Throttle.LoginFailures; n < 1 || n > maxLoginFailures {
		bad("throttle.login_failures", "%d is outside 1 to %d", n, maxLoginFailures)
	}
	for _, k := range Keys() {
		n, isNumber := k.value(c).Interface().(int)
		switch {
		case !isNumber || k.Name == "throttle.login_failures" || k.Name == "limits.requests":
		case strings.HasPrefix(k.Name, "throttle.") && (n < 0 || n > maxThrottle):
			bad(k.Name, "%d is outside 0, which is no limit, to %d", n, maxThrottle)
		case strings.HasPrefix(k.Name, "limits.") && n < 0:
			bad(k.Name, "%d is negative", n)
		}
	}
}

// checkClientMetadata checks which clients may register themselves.
func (c *Config) checkClientMetadata(bad report) {
	for _, item := range c.ClientMetadata.Documents {
		switch {
		case (item == DocumentsOff || item == DocumentsAny) && len(c.ClientMetadata.Documents) > 1:
			bad("client_metadata.documents", "%s stands alone: it is not an item of a list", item)
		case item == DocumentsOff, item == DocumentsAny:
		case strings.Contains(item, "/"):
			if err := oauth.CheckClientAddress(item); err != nil {
				bad("client_metadata.documents", "%q is not the address of a document: %w", item, err)
			}
		case oauth.CheckClientAddress("https://"+item+"/") != nil || item != strings.ToLower(item):
			bad("client_metadata.documents", "%q is neither off, any, a host in lower case such as agent.example, nor an https address", item)
		}
	}
	for _, scheme := range c.ClientMetadata.Schemes {
		if err := oauth.CheckProgramScheme(scheme); err != nil {
			bad("client_metadata.schemes", "%q: %w", scheme, err)
		}
	}
	if len(c.DocumentsAdmitted()) > 0 && c.Login.Mode == LoginOff {
		bad("client_metadata.documents", "needs an authorization endpoint: login.mode is off")
	}
	if c.ClientMetadata.Registration && c.Login.Mode == LoginOff {
		bad("client_metadata.registration", "needs an authorization endpoint: login.mode is off")
	}
	if c.ClientMetadata.RegistrationTokenFile != "" && !c.ClientMetadata.Registration {
		bad("client_metadata.registration_token_file", "is given, and client_metadata.registration is off")
	}
}

// DocumentsAdmitted returns ClientMetadata.Documents, or nil if they are off.
func (c *Config) DocumentsAdmitted() []string {
	if slices.Equal(c.ClientMetadata.Documents, []string{DocumentsOff}) {
		return nil
	}
	return c.ClientMetadata.Documents
}

// checkConsole checks console.listen and console.url. The console needs TLS unless only
// this machine reaches it.
func (c *Config) checkConsole(bad report) {
	if c.Console.Listen == "" {
		if c.Console.URL != "" {
			bad("console.url", "there is no console: set console.listen")
		}
		return
	}
	host, _, err := net.SplitHostPort(c.Console.Listen)
	switch {
	case err != nil:
		// checkAddresses reports it.
	case c.TLS.Cert == "" && !IsLoopback(host):
		bad("console.listen", "%q needs tls.cert and tls.key: operators' sessions must not cross a network in the clear", c.Console.Listen)
	case c.Console.URL == "" && hostAddress(host).IsUnspecified():
		bad("console.url", "missing: browsers cannot open %s; name the address that they open, such as https://console.example.com:8445", c.Console.Listen)
	}
	if c.Console.URL == "" {
		return
	}
	u, err := url.Parse(c.Console.URL)
	if err != nil || !isSite(u, c.Console.URL) || u.Scheme != "https" && !(u.Scheme == "http" && IsLoopback(u.Hostname())) {
		bad("console.url", "%q must be https://HOST or https://HOST:PORT and nothing more", c.Console.URL)
	}
}

// OnLoopback reports whether every listener is reached from this machine only.
func (c *Config) OnLoopback() bool {
	for _, address := range []string{c.Listen, c.Management.Listen, c.AdminListen()} {
		host, _, err := net.SplitHostPort(address)
		if !strings.HasPrefix(address, "unix:") && (err != nil || !IsLoopback(host)) {
			return false
		}
	}
	return true
}

// PortWarning returns a warning if clients connect to another port than the server listens on,
// or else "". Another port is correct behind a proxy, which trusted_proxies names, and for
// a forwarded port, such as that of a container.
func (c Config) PortWarning() string {
	u, err := url.Parse(c.PublicURL)
	_, port, listenErr := net.SplitHostPort(c.Listen)
	if err != nil || listenErr != nil || u.Host == "" || len(c.TrustedProxies) > 0 {
		return ""
	}
	clients := cmp.Or(u.Port(), "443")
	if clients == port {
		return ""
	}
	return fmt.Sprintf("clients connect to port %s of public_url, and the server listens on %s: connections fail unless port %s is forwarded to it", clients, c.Listen, clients)
}

// checkLogin checks pages.name, and the settings that login.mode needs.
func (c *Config) checkLogin(bad report) {
	if n := c.Pages.Name; utf8.RuneCountInString(n) > 60 || !utf8.ValidString(n) || strings.ContainsFunc(n, func(r rune) bool { return !unicode.IsPrint(r) }) {
		bad("pages.name", "%q must be one line of at most 60 printable characters", n)
	}
	switch c.Login.Mode {
	case LoginHandoff:
		u, err := url.Parse(c.Login.HandoffURL)
		switch {
		case c.Login.HandoffURL == "":
			bad("login.handoff_url", "missing: users are sent there to log in")
		case err != nil || !isSafeURL(u) || u.Fragment != "" || u.Query().Has("challenge"):
			bad("login.handoff_url", "%q must be an https address (http on loopback) without fragment and without a parameter challenge", c.Login.HandoffURL)
		}
	case LoginUpstream:
		u, err := url.Parse(c.Login.Upstream.Issuer)
		switch {
		case c.Login.Upstream.Issuer == "":
			bad("login.upstream.issuer", "missing: the issuer identifier of the OpenID Connect provider")
		case err != nil || !isSafeURL(u) || u.RawQuery != "" || u.Fragment != "":
			bad("login.upstream.issuer", "%q must be an https address (http on loopback) without query and fragment", c.Login.Upstream.Issuer)
		}
		if c.Login.Upstream.ClientID == "" {
			bad("login.upstream.client_id", "missing: register this server at the provider, with the redirect URI %s", c.UpstreamRedirectURL())
		}
		if _, err := claims.ParseMapping(c.Login.Upstream.Claims); err != nil {
			bad("login.upstream.claims", "%w", err)
		}
		if c.Login.Upstream.SubjectClaim == "" {
			bad("login.upstream.subject_claim", "missing: sub is what every provider has")
		}
	}
}

// UpstreamRedirectURL is where the OpenID Connect provider sends browsers back.
func (c *Config) UpstreamRedirectURL() string { return c.PublicURL + c.BasePath + "/oauth2/callback" }

// isSafeURL reports whether TLS protects requests to u, or they stay on this machine.
func isSafeURL(u *url.URL) bool {
	return u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http" && IsLoopback(u.Hostname()))
}

// CheckStore is the part of Check about store and store_password_file. Its errors never
// quote the URL, which may contain a password.
func (c *Config) CheckStore() error {
	if c.Store == StoreSQLite {
		if c.StorePasswordFile != "" {
			return &Fault{Name: "store_password_file", Err: errors.New("the embedded store has no password; set store to postgres://USER@HOST:5432/DATABASE")}
		}
		return nil
	}
	u, err := postgresURL(c.Store)
	if err != nil {
		return err
	}
	if c.StorePasswordFile != "" && hasPassword(u) {
		return &Fault{Name: "store_password_file", Err: errors.New("store holds a password as well; leave one of them out")}
	}
	return nil
}

// StoreName is Store for people: the hosts and the database, no user, password
// or option.
func (c Config) StoreName() string {
	u, err := postgresURL(c.Store)
	if err != nil {
		return StoreSQLite
	}
	name := url.URL{Scheme: "postgres", Host: u.Host, Path: u.Path}
	if host := u.Query().Get("host"); host != "" {
		name.RawQuery = url.Values{"host": {host}}.Encode()
	}
	return name.String()
}

// refusePassword keeps passwords off the command line, which every user of the
// machine can read.
func refusePassword(store string) error {
	if u, err := postgresURL(store); err == nil && hasPassword(u) {
		return errors.New("a password in a flag can be read by everybody on this machine: use store_password_file, or set store in the configuration file or as MINTAGE_STORE")
	}
	return nil
}
