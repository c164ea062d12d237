package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
)

// This file checks what the FAPI 2.0 Security Profile demands of the deployment, where a
// client or the configuration follows it.

// followsFAPI reports whether the configuration or a client follows the profile.
func (p *Deployment) followsFAPI() bool {
	return p.Config.Authorization.Profile == config.ProfileFAPI2 || slices.ContainsFunc(p.enabled(), func(c store.Client) bool { return c.FAPI() })
}

// judgeProfile reports clients without the profile if authorization.profile demands it of
// every client, and otherwise settings that weaken it for clients that follow it.
func (f *findings) judgeProfile(p *Deployment) {
	if !p.followsFAPI() {
		return
	}
	all := p.Config.Authorization.Profile == config.ProfileFAPI2
	trusted := map[string]bool{}
	for _, t := range p.presentTrusts() {
		trusted[t.ClientID] = trusted[t.ClientID] || !t.Disabled
	}
	for _, c := range p.enabled() {
		if all && !c.FAPI() && (c.GetsTokens() || trusted[c.ID]) {
			f.fault("mintage client update ID --profile fapi2, with --auth-method private_key_jwt and its keys; or disable it", "%s is registered without the profile that authorization.profile demands", clientName(c))
		}
	}
	if all {
		return // the configuration was checked
	}
	for _, w := range p.Config.Weakens(config.ProfileFAPI2) {
		f.warn("change the setting; authorization.profile: fapi2 has the configuration checked for it", "clients follow the FAPI 2.0 Security Profile, and %s contradicts it: %s", w.Name, w.Rule)
	}
}

// judgeProfileOfTLS checks the cipher suites of TLS 1.2, the versions before it, and
// whether browsers keep to https, at the public address.
func (f *findings) judgeProfileOfTLS(ctx context.Context, p *Deployment, header http.Header) {
	if !p.followsFAPI() {
		return
	}
	const advice = "limit TLS at the proxy to versions 1.3 and 1.2, the latter with ECDHE and AES-GCM or ChaCha20-Poly1305; this server itself does"
	if header.Get("Strict-Transport-Security") == "" {
		f.fault("have the proxy pass Strict-Transport-Security on, or set it", "the header Strict-Transport-Security, which keeps browsers to https, is missing: FAPI 2.0 section 5.2.3 demands it")
	}
	if p.handshake(ctx, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) == nil {
		f.fault(advice, "the public address accepts TLS 1.1 or 1.0: FAPI 2.0 section 5.2.1 demands 1.2 or later")
	}
	recommended := server.TLSConfig(nil).CipherSuites
	var weak []string
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if slices.Contains(suite.SupportedVersions, tls.VersionTLS12) && !slices.Contains(recommended, suite.ID) &&
			p.handshake(ctx, &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}}) == nil {
			weak = append(weak, suite.Name)
		}
	}
	if weak != nil {
		f.fault(advice, "with TLS 1.2, the public address accepts %s: FAPI 2.0 section 5.2.2 permits the cipher suites that BCP 195 recommends alone", strings.Join(weak, ", "))
	}
}

// handshake makes a connection to the public address.
func (p *Deployment) handshake(ctx context.Context, c *tls.Config) error {
	u, err := url.Parse(p.Config.PublicURL)
	if err != nil {
		return err
	}
	if c.RootCAs, err = p.roots(); err != nil {
		return err
	}
	c.ServerName = u.Hostname()
	address := cmp.Or(p.Connect, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	ctx, cancel := context.WithTimeout(ctx, publicTime)
	defer cancel()
	d := tls.Dialer{Config: c}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	}
	return err
}
