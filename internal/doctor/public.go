package doctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
)

// This file checks the public address as a client.

// A publicAnswer is a response of the public address.
type publicAnswer struct {
	date time.Time // of its Date header
	at   time.Time // when it came
	took time.Duration
	jwks string // jwks_uri
}

const (
	publicTime = 5 * time.Second
	maxPublic  = 1 << 20
)

// roots returns the certificate authorities that clients trust.
func (p *Deployment) roots() (*x509.CertPool, error) {
	if p.CAFile == "" {
		return nil, nil // the system's
	}
	pem, err := os.ReadFile(p.CAFile)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificate authorities: %s holds no certificate in PEM", p.CAFile)
	}
	return pool, nil
}

// client returns an HTTP client like that of a client system. It follows no
// redirect, and uses a new connection for each request. Local, unless it is nil,
// receives this machine's address on the last connection.
func (p *Deployment) client(local *string) (*http.Client, error) {
	roots, err := p.roots()
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, cmp.Or(p.Connect, address))
		if err == nil && local != nil {
			*local, _, _ = net.SplitHostPort(c.LocalAddr().String())
		}
		return c, err
	}
	return &http.Client{
		Timeout:       publicTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableKeepAlives: true},
	}, nil
}

// endpoint returns the configured URL of an endpoint.
func (p *Deployment) endpoint(name string) string {
	return p.Config.PublicURL + p.Config.BasePath + "/oauth2/" + name
}

// get fetches a document.
func get(ctx context.Context, client *http.Client, address string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPublic))
	return resp, body, err
}

// checkPublic fetches the metadata as clients do, and compares it with the
// configuration.
func checkPublic(ctx context.Context, p *Deployment) (f findings) {
	if p.Config.PublicURL == "" {
		return f.unknown("give doctor the server's configuration, or --dev for a server that runs with --dev", "no public_url is configured")
	}
	client, err := p.client(nil)
	if err != nil {
		return f.unknown("name a file with certificates in PEM: --ca-file", "%v", err)
	}
	began := time.Now()
	resp, body, err := get(ctx, client, p.endpoint(".well-known/openid-configuration"))
	if err != nil {
		if text := p.Config.PortWarning(); errors.Is(err, syscall.ECONNREFUSED) && text != "" {
			return f.fault("set listen to the port of public_url (on the package's unit, 443 takes its drop-in port-443.conf), or put the port that is served into public_url, or have a proxy or a firewall forward it",
				"%s does not answer: %s", p.Config.PublicURL, text)
		}
		f.unreachable(p.Config.PublicURL, err)
		return f
	}
	p.seen = &publicAnswer{at: time.Now(), took: time.Since(began)}
	p.seen.date, _ = http.ParseTime(resp.Header.Get("Date"))
	f.judgeTLS(resp.TLS)
	f.judgeProfileOfTLS(ctx, p, resp.Header)
	if resp.StatusCode == http.StatusServiceUnavailable {
		return f.fault("see server, here and on the other nodes; if one is ready, see why the proxy does not find it", "%s is answered with status 503: no node is ready", p.Config.PublicURL)
	}
	f.judgeMetadata(p, resp, body)
	// Clients that have only the issuer look here (RFC 8414 section 3.1).
	if issuer, err := url.Parse(p.Config.IssuerID()); err == nil {
		well := "https://" + issuer.Host + "/.well-known/oauth-authorization-server" + issuer.Path
		resp, found, err := get(ctx, client, well)
		switch {
		case err != nil:
			f.warn("route that address to this server, too", "the metadata is not at %s, where clients look that know the issuer: %s", well, cause(err))
		case resp.StatusCode != http.StatusOK || !bytes.Equal(found, body):
			f.warn("route /.well-known/ to this server, too", "the metadata is not at %s, where clients look that know the issuer: status %d", well, resp.StatusCode)
		}
	}
	version, protocol := "", resp.Proto
	if resp.TLS != nil {
		version = tls.VersionName(resp.TLS.Version) + ", certificate until " + resp.TLS.PeerCertificates[0].NotAfter.UTC().Format(time.RFC3339) + ", "
	}
	return f.unless("%s answers as configured (%s%s)", p.Config.PublicURL, version, protocol)
}

// unreachable reports why clients cannot use the public address.
func (f *findings) unreachable(address string, err error) {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.RecordHeaderError
	switch {
	case errors.As(err, &name):
		f.fault("have a certificate issued for the host of public_url", "the certificate at %s is for another name: %v", address, name)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		f.fault("renew it, and have the server or the proxy load it", "the certificate at %s has expired, or is not valid yet: %v", address, invalid)
	case errors.As(err, &unknown):
		f.fault("serve the whole chain (the certificate, and then those of the intermediate authorities); if the authority is your own, name it with --ca-file", "the certificate at %s is signed by an authority that clients do not trust: %v", address, unknown)
	case errors.As(err, &alert):
		f.fault("let TLS end there, at a proxy or at this server", "what answers at %s does not speak TLS", address)
	default:
		f.fault("if clients reach it and only this machine does not (its own public address, a split DNS), name the proxy with --connect HOST:PORT, or leave these checks out with --offline",
			"%s does not answer: %s", address, cause(err))
	}
}

// cause returns an error of a request without the address.
func cause(err error) string {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	return err.Error()
}

// judgeTLS checks the certificate and the version of TLS.
func (f *findings) judgeTLS(state *tls.ConnectionState) {
	if state == nil {
		return
	}
	f.validity(state.PeerCertificates[0], time.Now())
	if state.Version < tls.VersionTLS13 {
		f.note("the public address does not speak TLS 1.3")
	}
}

// judgeMetadata compares the fetched metadata with the configuration.
func (f *findings) judgeMetadata(p *Deployment, resp *http.Response, body []byte) {
	const elsewhere = "does the address lead to this server, with this configuration? Restart it if the configuration is newer"
	if resp.StatusCode != http.StatusOK {
		f.fault("route "+p.Config.BasePath+"/oauth2/ to this server", "the metadata is answered with status %d: another program answers there, or the proxy does", resp.StatusCode)
		return
	}
	var m map[string]any
	if json.Unmarshal(body, &m) != nil {
		f.fault("route "+p.Config.BasePath+"/oauth2/ to this server", "the metadata is no JSON: another program answers there, or the proxy does")
		return
	}
	if got := fmt.Sprint(m["issuer"]); got != p.Config.IssuerID() {
		f.fault(elsewhere, "the issuer there is %s, and here %s", show.Bounded(got), p.Config.IssuerID())
	}
	for name, at := range map[string]string{"token_endpoint": "access_token", "jwks_uri": "jwks", "introspection_endpoint": "introspect", "revocation_endpoint": "revoke"} {
		own := p.endpoint(strings.Trim(p.Realm, "/") + "/" + at)
		if got := fmt.Sprint(m[name]); got != own {
			f.fault(elsewhere, "%s there is %s, and here %s", name, show.Bounded(got), own)
		}
	}
	p.seen.jwks, _ = m["jwks_uri"].(string)
}

// checkPlainHTTP checks what happens to a client that is configured with http by
// mistake. A redirect would let it work while it sends its secret in clear.
func checkPlainHTTP(ctx context.Context, p *Deployment) (f findings) {
	u, err := url.Parse(p.Config.PublicURL)
	if err != nil || u.Host == "" {
		return f.unknown("give doctor the server's configuration", "no public_url is configured")
	}
	if u.Port() != "" && u.Port() != "443" && p.plainPort == "" {
		return f.note("public_url has a port of its own: there is no http beside it to look at")
	}
	client := &http.Client{Timeout: publicTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	host := u.Hostname()
	if p.Connect != "" {
		host, _, _ = net.SplitHostPort(p.Connect)
	}
	address := "http://" + net.JoinHostPort(host, cmp.Or(p.plainPort, "80")) + p.Config.BasePath + "/oauth2/access_token"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("grant_type=mintage-doctor"))
	if err != nil {
		return f.unknown("check public_url", "%v", err)
	}
	req.Host = u.Hostname()
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	if err != nil {
		return f.ok("no server answers over plain HTTP")
	}
	resp.Body.Close()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		f.warn("have the proxy refuse "+p.Config.BasePath+"/oauth2/ over plain HTTP (404 or 403); a redirect for the pages alone does no harm",
			"the token endpoint is redirected from http (status %d): a client with the wrong address sends its secret in clear with every request, and nobody notices", resp.StatusCode)
	case resp.StatusCode < 300:
		f.fault("close port 80, or have it refuse "+p.Config.BasePath+"/oauth2/", "the token endpoint answers over plain HTTP with status %d", resp.StatusCode)
	default:
		f.ok("the token endpoint is refused over plain HTTP (status %d)", resp.StatusCode)
	}
	return f
}

// checkPublishedKeys compares the published keys with those of the store. If they differ,
// the address leads to another deployment, or a cache is too old.
func checkPublishedKeys(ctx context.Context, p *Deployment) (f findings) {
	if p.seen == nil || p.seen.jwks == "" {
		return f.unknown("see public address", "could not be checked: there is no metadata to find them by")
	}
	client, err := p.client(nil)
	if err != nil {
		return f.unknown("name a file with certificates in PEM: --ca-file", "%v", err)
	}
	resp, body, err := get(ctx, client, p.seen.jwks)
	var set struct {
		Keys []struct{ Kid string }
	}
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(body, &set) != nil {
		return f.fault("route it to this server", "the keys cannot be fetched from %s", p.seen.jwks)
	}
	published := map[string]bool{}
	for _, k := range set.Keys {
		published[k.Kid] = true
	}
	for _, l := range keys.NewTimeline(p.Changes.Keys).Lives(p.Now, p.Schedule) {
		if l.Purpose.Signs() && (l.Phase == keys.Active || l.Phase == keys.Next && p.Now.Since(l.CreatedAt) > p.Schedule.MaxAge+time.Minute) && !published[l.ID.String()] {
			f.fault("does the address lead to a server on this store? If a cache is in between, it must heed Cache-Control", "key %s (%s, %s) of this store is not among the published ones", l.ID, l.Purpose, l.Phase)
		}
	}
	for kid := range published {
		if !slices.ContainsFunc(p.Changes.Keys, func(r keys.Stored) bool { return r.ID.String() == kid }) {
			f.fault("does the address lead to a server on this store?", "key %s is published and not in this store", show.Bounded(kid))
		}
	}
	return f.unless("%s, those of this store", show.Count(len(published), "key", "keys"))
}
