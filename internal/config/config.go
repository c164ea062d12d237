// Package config is the one place where a deployment's choices are named,
// defaulted, read and checked. A value comes from a flag, or else from the
// environment, or else from the file, or else from Default.
package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// Config holds all settings. Help texts, the reference page and the schema for
// editors are generated from the tags:
//
//	yaml        its name in the file
//	group       the title over it in help texts; that of a section holds for all in it
//	realm       yes if each realm may have its own value; that of a section holds for all in it
//	reload      whether a reload (SIGHUP) applies a new value: yes or no
//	enum        the allowed values, if they are a closed set
//	secret      yes if the value may contain a secret: it can come from a file
//	credential  the systemd credential that is used if nothing else is given
//	doc         its meaning
type Config struct {
	// Realm is the name of the realm that the settings are for, with a slash.
	Realm string `yaml:"-"`
	// Realms are the settings of all other realms: the section realms of the file. A realm
	// inherits from here what it does not set.
	Realms []Config `yaml:"-"`

	Data    string `yaml:"data" group:"Store and files" reload:"no" doc:"data directory: the store, its lock, the key-encryption key, the admin socket"`
	KEKFile string `yaml:"kek_file" group:"Store and files" reload:"no" credential:"kek" doc:"key-encryption key; default: DATA/kek, made at first start"`

	NewStore bool `yaml:"new_store" group:"Store and files" reload:"no" doc:"create a store if there is none, even if the key-encryption key or the audit log of an earlier one exists: for a first start; remove it afterwards, otherwise a lost store would be replaced by an empty one"`

	Store             string `yaml:"store" group:"Store and files" reload:"no" credential:"store" secret:"yes" doc:"where grants and clients are stored: sqlite (in the data directory, for one node) or postgres://USER@HOST:5432/DATABASE, for several"`
	StorePasswordFile string `yaml:"store_password_file" group:"Store and files" reload:"no" credential:"store_password" doc:"file with the password of the database's user; read again for each connection"`

	PublicURL string `yaml:"public_url" group:"Addresses and TLS" realm:"yes" reload:"no" doc:"address that clients use, such as https://auth.example.com; it is never taken from a request"`
	BasePath  string `yaml:"base_path" group:"Addresses and TLS" realm:"yes" reload:"no" doc:"path before /oauth2, such as /openam"`
	Issuer    string `yaml:"issuer" group:"Addresses and TLS" realm:"yes" reload:"no" doc:"issuer identifier; default: public_url + base_path + /oauth2/api"`
	// ScopesSupported is for operators whose clients request every scope that the
	// metadata names, or whose scopes are not public.
	ScopesSupported []string `yaml:"scopes_supported" group:"Answers and compatibility" realm:"yes" reload:"yes" doc:"scopes that the metadata list; default: those of clients, or with registered APIs those of OpenID Connect and of APIs that are open to clients which register themselves"`

	Listen         string         `yaml:"listen" group:"Addresses and TLS" reload:"no" doc:"address of the public listener"`
	TLS            TLS            `yaml:"tls" group:"Addresses and TLS"`
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies" group:"Addresses and TLS" reload:"yes" doc:"networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted"`
	Management     Management     `yaml:"management" group:"Addresses and TLS"`
	Admin          Admin          `yaml:"admin" group:"Addresses and TLS"`
	Console        Console        `yaml:"console" group:"Addresses and TLS"`

	AccessTokenLifetime  Duration `yaml:"access_token_lifetime" group:"Lifetimes" realm:"yes" reload:"no" doc:"lifetime of access tokens"`
	IDTokenLifetime      Duration `yaml:"id_token_lifetime" group:"Lifetimes" realm:"yes" reload:"no" doc:"lifetime of id_tokens, at most 24h; 0 means access_token_lifetime"`
	RefreshTokenLifetime Duration `yaml:"refresh_token_lifetime" group:"Lifetimes" realm:"yes" reload:"yes" doc:"lifetime of each refresh token, from its issue"`
	CodeLifetime         Duration `yaml:"code_lifetime" group:"Lifetimes" realm:"yes" reload:"yes" doc:"lifetime of authorization codes"`
	GrantLifetime        Duration `yaml:"grant_lifetime" group:"Lifetimes" realm:"yes" reload:"yes" doc:"lifetime of a grant from its authorization, even if it is refreshed; 0: unlimited"`
	RetryWindow          Duration `yaml:"retry_window" group:"Lifetimes" realm:"yes" reload:"yes" doc:"how long a spent refresh token is answered with the same pair again, while the successor is unused; 0: never"`
	RetryWindowPublic    Duration `yaml:"retry_window_public" group:"Lifetimes" realm:"yes" reload:"yes" doc:"the same for public clients"`
	MaxSkew              Duration `yaml:"max_skew" group:"Lifetimes" reload:"no" doc:"how far the clocks of nodes may differ; 0 means 2s with PostgreSQL, and nothing with the embedded store"`

	KeyLifetime       Duration `yaml:"key_lifetime" group:"Keys" reload:"no" doc:"how long a key makes tokens, codes and signatures before its successor key does"`
	KeyLead           Duration `yaml:"key_lead" group:"Keys" reload:"no" doc:"how long before its use a key is created and published; an older backup lacks keys"`
	JWKSMaxAge        Duration `yaml:"jwks_max_age" group:"Keys" reload:"no" doc:"how long verifiers may cache the published keys"`
	RevocationsMaxAge Duration `yaml:"revocations_max_age" group:"Keys" reload:"yes" doc:"how long subscribers may cache the list of revocations"`

	ClientMetadata ClientMetadata `yaml:"client_metadata" group:"Clients that register themselves"`

	Login               Login    `yaml:"login" group:"Login and pages" realm:"yes"`
	Session             Session  `yaml:"session" group:"Login and pages" realm:"yes"`
	InteractionLifetime Duration `yaml:"interaction_lifetime" group:"Login and pages" realm:"yes" reload:"yes" doc:"how long a user may take over login and consent"`
	Pages               Pages    `yaml:"pages" group:"Login and pages" realm:"yes"`

	Authorization Authorization `yaml:"authorization" group:"Answers and compatibility" realm:"yes"`

	Errors   Errors   `yaml:"errors" group:"Answers and compatibility" realm:"yes"`
	Compat   Compat   `yaml:"compat" group:"Answers and compatibility" realm:"yes"`
	CORS     CORS     `yaml:"cors" group:"Answers and compatibility" realm:"yes"`
	Throttle Throttle `yaml:"throttle" group:"Limits"`
	Limits   Limits   `yaml:"limits" group:"Limits"`
	Log      Log      `yaml:"log" group:"Log and audit"`
	Audit    Audit    `yaml:"audit" group:"Log and audit"`
}

type TLS struct {
	Cert string `yaml:"cert" reload:"no" doc:"certificate chain, PEM; a changed file is used within a second"`
	Key  string `yaml:"key" reload:"no" credential:"tls_key" doc:"its private key, PEM"`
}

type Management struct {
	Listen string `yaml:"listen" reload:"no" doc:"address of /livez, /readyz and /metrics; never expose it to the public"`
	// Hosts are names of the listener; see server.Health.
	Hosts []string `yaml:"hosts" reload:"no" doc:"names by which Prometheus may call that listener, beside IP addresses, localhost, names without a dot, this machine's name and that of management.listen; under another name, for example after DNS rebinding, there are no metrics, and /livez and /readyz give no reason"`
	// MetricsClients limits the number of series: each client has some ten.
	MetricsClients int  `yaml:"metrics_clients" reload:"no" doc:"count token requests by client: so many clients, the first to receive tokens, have metrics of their own, and all others share one; 0: off"`
	Pprof          bool `yaml:"pprof" reload:"no" doc:"serve Go's profiles at /debug/pprof/ there, to find where time and memory are spent"`
}

type Admin struct {
	Listen    string `yaml:"listen" reload:"no" doc:"address of the admin API: unix:PATH, or HOST:PORT, which needs tls, and tokens of its callers; default: unix:DATA/admin.sock"`
	Group     string `yaml:"group" reload:"no" doc:"group whose members may use the admin socket, and log in as any user through it; default: only Mintage's user"`
	TokenFile string `yaml:"token_file" reload:"yes" credential:"admin_token" doc:"file with a token of the admin API, 32 characters or more: the server accepts it as an admin, a command presents it"`
}

type Console struct {
	Listen string `yaml:"listen" reload:"no" doc:"address of the console, HOST:PORT; it needs tls unless it is on loopback; off by default, and 127.0.0.1:8445 with serve --dev"`
	URL    string `yaml:"url" reload:"no" doc:"address of the console in browsers, https://HOST or https://HOST:PORT; default: made of console.listen"`

	SecondFactor SecondFactor `yaml:"second_factor"`
	Operators    []string     `yaml:"operators" reload:"yes" doc:"who is an operator by a claim of such a login, each ROLE CLAIM=VALUE, as in admin groups=mintage-admins, or ROLE@REALM CLAIM=VALUE for one realm; the first that fits counts, and the claim sub is the subject"`
}

type SecondFactor struct {
	ACR []string `yaml:"acr" reload:"yes" doc:"values of acr by which a login of login.mode handoff or upstream had a second factor: such a login opens the console. Without acr and amr, operators get in by invitation alone"`
	AMR []string `yaml:"amr" reload:"yes" doc:"values of amr that mean the same, such as mfa, otp or hwk: one of them is enough"`
}

// Values of client_metadata.documents that are neither hosts nor addresses.
const (
	DocumentsOff = "off"
	DocumentsAny = "any"
)

type ClientMetadata struct {
	Documents []string `yaml:"documents" reload:"yes" realm:"yes" doc:"clients that may describe themselves by a document at their client_id, as agents do (Client ID Metadata Documents): off (default), any, or a list of hosts and of whole addresses"`
	Schemes   []string `yaml:"schemes" reload:"no" doc:"private-use schemes of redirect URIs that these clients may have, beside those that begin with a domain (com.example.app) and those of known editors (cursor, kiro, vscode, vscode-insiders, vscodium, windsurf, windsurf-next, zed); without the colon"`
	// Registration needs a restart, because its keys are made at the start. So does
	// RegistrationTokenFile: if both are removed, a reload that applied the removal of the
	// file alone would open registration to everybody.
	Registration          bool   `yaml:"registration" reload:"no" realm:"yes" doc:"let clients register themselves (RFC 7591), as agents without a document do; nothing is stored until a user agrees"`
	RegistrationTokenFile string `yaml:"registration_token_file" reload:"no" realm:"yes" credential:"registration_token" doc:"file with the initial access token that registrations need, 32 characters or more; default: none is needed. A reload reads its content again; a first or another file takes a restart"`
	// ReuseGrace is for clients that registered themselves: only an operator's client can
	// have a grace of its own.
	ReuseGrace Duration `yaml:"reuse_grace" reload:"yes" realm:"yes" doc:"how long after its issue a spent refresh token of a client that registered itself is treated as the present one, because processes of such clients may share a token file; 0s: never, at most 24h"`
}

// Values of login.mode: where users authenticate.
const (
	LoginUsers    = "users"
	LoginHandoff  = "handoff"
	LoginUpstream = "upstream"
	LoginOff      = "off"
)

type Login struct {
	Mode       string   `yaml:"mode" reload:"yes" enum:"users,handoff,upstream,off" doc:"where users authenticate: users (built in; see mintage user), handoff (a login page of the provider's own), upstream (an OpenID Connect provider) or off (no authorization endpoint)"`
	HandoffURL string   `yaml:"handoff_url" reload:"yes" doc:"address of the provider's own login page, for login.mode handoff"`
	Upstream   Upstream `yaml:"upstream"`
}

type Upstream struct {
	Issuer           string   `yaml:"issuer" reload:"yes" doc:"issuer identifier of the OpenID Connect provider, for login.mode upstream"`
	ClientID         string   `yaml:"client_id" reload:"yes" doc:"client id of this server at the provider; the redirect URI to register is public_url + base_path + /oauth2/callback"`
	ClientSecretFile string   `yaml:"client_secret_file" reload:"yes" credential:"upstream_client_secret" doc:"file with its client secret; empty for a public client"`
	Scopes           []string `yaml:"scopes" reload:"yes" doc:"scopes to ask for beside openid, such as profile or email"`
	SubjectClaim     string   `yaml:"subject_claim" reload:"yes" doc:"claim of the ID token that becomes the subject; email counts only if it is verified"`
	SubjectPrefix    string   `yaml:"subject_prefix" reload:"yes" doc:"prefix of these subjects, to keep them apart from others"`
	Claims           []string `yaml:"claims" reload:"yes" doc:"standard claims that clients may learn, from the ID token or userinfo: CLAIM, or CLAIM=THEIRS if the provider calls it otherwise; none by default"`
	Logout           bool     `yaml:"logout" reload:"yes" doc:"send the browser to the provider after a logout, which ends the session there too; the post-logout redirect URI to register is public_url + base_path + /account/logout"`
}

type Session struct {
	Lifetime Duration `yaml:"lifetime" reload:"yes" doc:"end of a browser's session after its login"`
	Idle     Duration `yaml:"idle" reload:"yes" doc:"end of a browser's session after its last use"`
}

type Pages struct {
	Name       string `yaml:"name" reload:"yes" doc:"name of the service, beside the logo and in the title of each page; default: the host of public_url"`
	Directory  string `yaml:"directory" reload:"yes" doc:"brand of the pages: brand.css, images, and templates that replace the built-in ones"`
	Locale     string `yaml:"locale" reload:"yes" enum:"en,de,es,fr,ja" doc:"language of the pages if none of the user's languages is supported: en, de, es, fr or ja"`
	ScopesFile string `yaml:"scopes_file" reload:"yes" doc:"texts that explain scopes to users (YAML: scope, locale, text)"`
}

// Values of authorization.error_page.
const (
	ErrorPageSelfRegistered = "self_registered"
	ErrorPageAlways         = "always"
)

// Values of authorization.dpop_nonce.
const (
	DPoPNonceOff    = "off"
	DPoPNoncePublic = "public"
	DPoPNonceAll    = "all"
)

// Values of authorization.profile.
const (
	ProfileOff   = "off"
	ProfileFAPI2 = "fapi2" // store.ProfileFAPI2
)

type Authorization struct {
	Profile    string `yaml:"profile" reload:"yes" enum:"off,fapi2" doc:"security profile that every client follows which gets tokens: off (each as it is registered), or fapi2 (FAPI 2.0): registrations without --profile fapi2 and settings that weaken it are refused"`
	ErrorPage  string `yaml:"error_page" reload:"yes" enum:"self_registered,always" doc:"whose errors are shown on a page with a link, instead of a redirect to the client: those of clients that registered themselves, or always if the user is not signed in"`
	DPoPNonce  string `yaml:"dpop_nonce" reload:"yes" enum:"off,public,all" doc:"whose proofs of keys (RFC 9449) must have a nonce of this server, so that none can be made in advance, or used at two nodes: nobody's, those of public clients, or all"`
	RequirePAR bool   `yaml:"require_par" reload:"yes" doc:"refuse authorization requests that were not pushed (RFC 9126), of every client; otherwise by client"`
}

// Demanded returns the profile that every client must follow, or "".
func (a Authorization) Demanded() string {
	if a.Profile == ProfileOff {
		return ""
	}
	return a.Profile
}

type Errors struct {
	BasicAuthStatus int `yaml:"basic_auth_status" reload:"yes" enum:"401,400" doc:"status of a failed Authorization header: 401 (RFC 6749) or 400"`
}

type Compat struct {
	CallbackParameters           bool `yaml:"callback_parameters" reload:"yes" doc:"add scope and client_id to the code in the callback, as OpenAM does"`
	QueryParameters              bool `yaml:"query_parameters" reload:"yes" doc:"accept a token request's parameters in the URL, as old clients send them"`
	InvalidRequestForDeadRefresh bool `yaml:"invalid_request_for_dead_refresh" reload:"yes" doc:"answer invalid_request for an unknown refresh token, as OpenAM 13 does"`
	RedirectURIMismatch          bool `yaml:"redirect_uri_mismatch" reload:"yes" doc:"name the error of an unregistered redirect URI redirect_uri_mismatch, as OpenAM does"`
	TokenInfoQuery               bool `yaml:"tokeninfo_query" reload:"yes" doc:"accept ?access_token= at tokeninfo, as old resource servers send it"`
}

type CORS struct {
	Origins []string `yaml:"origins" reload:"yes" doc:"additional origins whose scripts may read the answers of the token and revocation endpoints; origins of public clients' redirect URIs are allowed without it"`
}

type Throttle struct {
	AddressFailures int `yaml:"address_failures" reload:"yes" doc:"failed client authentications in a minute from one address (a /64 of IPv6) before it is answered 429; 0: no limit"`
	ClientFailures  int `yaml:"client_failures" reload:"yes" doc:"the same for one client from one address"`
	LoginFailures   int `yaml:"login_failures" reload:"yes" doc:"wrong passwords for one account from one network before it must wait, at most 1000000; the other limits of logins derive from it"`
	Interactions    int `yaml:"interactions" reload:"yes" doc:"logins and consents that one address may begin in a minute, each counted once for every kilobyte of its request or part of one; 0: no limit"`
	AddressRequests int `yaml:"address_requests" reload:"yes" doc:"token requests that one address may make in a minute before it is answered 429; 0: no limit"`
	ClientRequests  int `yaml:"client_requests" reload:"yes" doc:"the same for one client, from all addresses; a public client is counted for each address"`
	DeviceCodes     int `yaml:"device_codes" reload:"yes" doc:"device codes that wait for their users at once and that public clients of one network (a /24, or a /48 of IPv6) have asked for, before it is answered 429; 0: no limit"`
}

type Limits struct {
	Requests              int `yaml:"requests" reload:"yes" doc:"requests that are processed at once; 0: about 16 for each processor, at least 64 and at most 1024"`
	Waiting               int `yaml:"waiting" reload:"yes" doc:"requests that may be queued, for at most half a second; further ones are answered 503; 0: 4096"`
	Connections           int `yaml:"connections" reload:"yes" doc:"connections at the public listener; for each new one above it, the connection that the server has waited for longest is closed; 0: no limit"`
	ConnectionsPerAddress int `yaml:"connections_per_address" reload:"yes" doc:"the same for one address, unless it is in trusted_proxies; 0: no limit"`
}

type Audit struct {
	Directory string   `yaml:"directory" reload:"no" doc:"directory of the audit log, or off; default: DATA/audit"`
	Refreshes bool     `yaml:"refreshes" reload:"no" doc:"record every refresh; false: only repeated, refused and replayed ones"`
	Retention Duration `yaml:"retention" reload:"no" doc:"how long audit records are kept; whole files are removed; 0: for ever"`
	MaxSize   Size     `yaml:"max_size" reload:"no" doc:"maximum size of the audit log; its oldest files are removed when it is reached; 0: no limit"`
}

type Log struct {
	Level  string `yaml:"level" reload:"yes" enum:"debug,info,warn,error" doc:"debug (every request), info (refusals, safe retries, changes), warn or error"`
	Format string `yaml:"format" reload:"no" enum:"json,text,auto" doc:"json, text, or auto: text on a terminal"`
}

// Default is the configuration of the service's specification.
func Default() Config {
	return Config{
		Realm:                oauth.DefaultRealm,
		Data:                 "mintage-data",
		Store:                StoreSQLite,
		Listen:               "127.0.0.1:8443",
		Management:           Management{Listen: "127.0.0.1:9000"},
		AccessTokenLifetime:  Duration(5 * time.Minute),
		RefreshTokenLifetime: Duration(31 * day),
		CodeLifetime:         Duration(time.Minute),
		RetryWindow:          Duration(2 * time.Minute),
		RetryWindowPublic:    Duration(time.Minute),
		KeyLifetime:          Duration(90 * day),
		KeyLead:              Duration(7 * day),
		JWKSMaxAge:           Duration(time.Hour),
		RevocationsMaxAge:    Duration(5 * time.Second),
		ClientMetadata:       ClientMetadata{ReuseGrace: Duration(day)},
		Login:                Login{Mode: LoginUsers, Upstream: Upstream{SubjectClaim: "sub"}},
		Session:              Session{Lifetime: Duration(12 * time.Hour), Idle: Duration(time.Hour)},
		InteractionLifetime:  Duration(10 * time.Minute),
		Pages:                Pages{Locale: "en"},
		Authorization:        Authorization{Profile: ProfileOff, ErrorPage: ErrorPageSelfRegistered, DPoPNonce: DPoPNonceOff},
		Errors:               Errors{BasicAuthStatus: 401},
		Throttle:             Throttle{AddressFailures: 600, ClientFailures: 30, LoginFailures: 5, Interactions: 600, DeviceCodes: 200},
		Limits:               Limits{Connections: 4096, ConnectionsPerAddress: 1024},
		Audit:                Audit{Refreshes: true, Retention: Duration(400 * day), MaxSize: 10 * GiB},
		Log:                  Log{Level: "info", Format: "auto"},
	}
}

// ConsoleURL returns the address of the console in browsers, without a slash at its end;
// "" if there is no console.
func (c Config) ConsoleURL() string {
	switch {
	case c.Console.Listen == "" || c.Console.URL != "":
		return c.Console.URL
	case c.TLS.Cert == "":
		return "http://" + c.Console.Listen
	}
	return "https://" + c.Console.Listen
}

// AdminListen is Admin.Listen with its default.
func (c Config) AdminListen() string {
	return cmp.Or(c.Admin.Listen, "unix:"+filepath.Join(c.Data, "admin.sock"))
}

// AuditOff is the audit.directory of a deployment without an audit log.
const AuditOff = "off"

// AuditDirectory is Audit.Directory with its default; "" without an audit log.
func (c Config) AuditDirectory() string {
	if c.Audit.Directory == AuditOff {
		return ""
	}
	return cmp.Or(c.Audit.Directory, filepath.Join(c.Data, "audit"))
}

// Skew is MaxSkew with its default.
func (c Config) Skew() time.Duration {
	if c.MaxSkew == 0 && c.Store != StoreSQLite {
		return 2 * time.Second
	}
	return c.MaxSkew.Std()
}

// IDTokens returns the lifetime of id_tokens: zero if nobody can log in, because
// then there are none.
func (c Config) IDTokens() time.Duration {
	if c.Login.Mode == LoginOff {
		return 0
	}
	return cmp.Or(c.IDTokenLifetime, c.AccessTokenLifetime).Std()
}

// IssuerID is Issuer with its default.
func (c Config) IssuerID() string {
	return cmp.Or(c.Issuer, c.PublicURL+c.BasePath+"/oauth2"+c.Realm)
}

// ServiceName is the name of this service in authenticator apps and, unless pages.name is
// set, on its pages.
func (c Config) ServiceName() string {
	if u, err := url.Parse(c.PublicURL); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return "Mintage"
}

// Departures lists, for the start-up log, where the configuration deviates from the
// service's specification or enables a setting of compat.
func (c Config) Departures() (list []string) {
	list = c.departures()
	for _, r := range c.Realms {
		for _, d := range r.departures() {
			if !slices.Contains(list, d) {
				list = append(list, "realm "+r.Realm[1:]+": "+d)
			}
		}
	}
	return list
}

// departures is Departures of one realm.
func (c Config) departures() (list []string) {
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
	note(c.Compat.CallbackParameters, "compat.callback_parameters adds scope and client_id to the callback, which RFC 6749 does not know there")
	note(c.Compat.QueryParameters, "compat.query_parameters accepts secrets in URLs")
	note(c.Compat.InvalidRequestForDeadRefresh, "compat.invalid_request_for_dead_refresh answers invalid_request where RFC 6749 says invalid_grant")
	note(c.Compat.RedirectURIMismatch, "compat.redirect_uri_mismatch shows an error code that RFC 6749 does not know")
	note(c.Compat.TokenInfoQuery, "compat.tokeninfo_query accepts access tokens in URLs")
	return list
}

// StoreSQLite is the embedded store, for one node.
const StoreSQLite = "sqlite"
