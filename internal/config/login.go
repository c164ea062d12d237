package config

import (
	"fmt"
	"net/url"

	"github.com/mintage/mintage/internal/claims"
)

// checkLogin checks the settings of login.mode.
func (c *Config) checkLogin() (faults []error) {
	bad := func(key, format string, args ...any) {
		faults = append(faults, &Fault{Name: key, Err: fmt.Errorf(format, args...)})
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
	return faults
}

// UpstreamRedirectURL is where the OpenID Connect provider sends browsers back.
func (c *Config) UpstreamRedirectURL() string { return c.PublicURL + c.BasePath + "/oauth2/callback" }

// isSafeURL reports whether nobody on the network can read what is sent there.
func isSafeURL(u *url.URL) bool {
	return u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()))
}
