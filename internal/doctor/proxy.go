package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/show"
)

// This file compares requests to the public address with what arrives at the running
// server, because only the server sees what proxies change.

// probes is the number of requests before the check reports that they go elsewhere:
// several nodes may share one address.
const probes = 6

// A probed is the response to a probe, and how the probe arrived.
type probed struct {
	server.Arrival
	local string // this machine's address on the connection

	status      int
	code        oauth.ErrorCode
	noStore     bool
	requestID   string
	contentType string
}

// checkProxy sends token requests that the server refuses before it looks for a
// client: with an unsupported grant type, and with credentials of no client.
func checkProxy(ctx context.Context, p *Deployment) (f findings) {
	if p.Config.PublicURL == "" {
		return f.unknown("give doctor the server's configuration, or --dev for a server that runs with --dev", "no public_url is configured")
	}
	var announced adminapi.Probe
	err := p.Admin(ctx, http.MethodPost, "/admin/v1/probes", &announced)
	if err != nil {
		return f.unknown("run doctor where the server runs, as its user, while it runs", "cannot ask the server how requests arrive: %v", err)
	}
	var seen probed
	client, err := p.client(&seen.local)
	if err != nil {
		return f.unknown("name a file with certificates in PEM: --ca-file", "%v", err)
	}
	for range probes {
		if err := p.probe(ctx, client, announced.Probe, &seen); err != nil {
			return f.fault("see public address", "a token request does not get through: %s", cause(err))
		}
		if err := p.Admin(ctx, http.MethodGet, "/admin/v1/probes/"+announced.Probe, &seen.Arrival); err != nil {
			return f.unknown("try again", "cannot ask the server how requests arrive: %v", err)
		}
		if seen.Arrived > 0 {
			f.judgeProbe(p, seen)
			return f.unless("a token request arrives as it was sent: from %s%s, as secure, for %s, over %s", seen.RemoteIP, via(seen), seen.Host, seen.Protocol)
		}
	}
	if p.Config.Store != config.StoreSQLite {
		return f.unknown("run doctor on another node, too; or name the way to this one with --connect HOST:PORT", "none of %d requests to %s came to this node: another one has answered, or the address leads elsewhere", probes, p.Config.PublicURL)
	}
	return f.fault("have public_url lead here; a proxy must pass User-Agent on", "none of %d requests to %s came to this server: the address leads elsewhere, or what is in between replaces User-Agent", probes, p.Config.PublicURL)
}

func via(a probed) string {
	if a.Peer == a.RemoteIP && !a.Declared {
		return ""
	}
	return " by way of " + a.Peer
}

// probe makes one request, over a connection of its own.
func (p *Deployment) probe(ctx context.Context, client *http.Client, name string, seen *probed) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint("access_token")+"?realm="+url.QueryEscape(p.Realm), strings.NewReader("grant_type=mintage-doctor"))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", server.ProbeAgent+name)
	req.SetBasicAuth("mintage-doctor", "nobody")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var told struct {
		Error oauth.ErrorCode `json:"error"`
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxPublic))
	_ = json.Unmarshal(body, &told) // a body without JSON has no error code
	seen.status, seen.code = resp.StatusCode, told.Error
	seen.noStore = strings.Contains(resp.Header.Get("Cache-Control"), "no-store")
	seen.requestID, seen.contentType = resp.Header.Get("X-Request-Id"), resp.Header.Get("Content-Type")
	return nil
}

// judgeProbe compares the request that arrived with the one that was sent.
func (f *findings) judgeProbe(p *Deployment, a probed) {
	f.judgeSecure(a)
	f.judgeAddress(p, a)
	if u, err := url.Parse(p.Config.PublicURL); err == nil && !sameHost(a.Host, u) {
		f.warn("pass the name on (nginx: proxy_set_header Host $host;)", "requests arrive for the host %s, and public_url says %s: nothing here depends on it, but logs and what else stands behind the proxy may", a.Host, u.Host)
	}
	if !a.Authorization {
		f.fault("have the proxy pass the header Authorization on to this server", "the header Authorization does not arrive: clients that use Basic cannot authenticate, and no bearer token can be checked")
	}
	if a.Secure && !strings.HasPrefix(a.ContentType, "application/x-www-form-urlencoded") {
		f.fault("have the proxy pass the request as it is", "the header Content-Type arrives as %q: no token request can be read", a.ContentType)
	}
	const replaced = "have the proxy pass answers as they are: no error pages of its own (nginx: proxy_intercept_errors off), no caching"
	switch {
	case !a.Secure:
	case a.status != http.StatusBadRequest || a.code != oauth.UnsupportedGrantType:
		f.fault(replaced, "the server's answer does not come back: status %d, type %q, and it has sent 400 with JSON", a.status, show.Bounded(a.contentType))
	case !a.noStore:
		f.warn(replaced, "answers come back without Cache-Control: no-store: something in between could keep tokens")
	}
	if a.requestID != a.RequestID {
		f.warn("have the proxy pass X-Request-Id of answers as it is", "the answer's X-Request-Id does not come back: what a client reports cannot be found with explain")
	}
}

// sameHost reports whether a Host header names the host of the public address.
// Some proxies leave out the port.
func sameHost(host string, public *url.URL) bool {
	got := &url.URL{Host: host}
	return strings.EqualFold(got.Hostname(), public.Hostname()) &&
		(got.Port() == "" || got.Port() == cmp.Or(public.Port(), "443"))
}

// judgeSecure checks whether requests count as sent over TLS.
func (f *findings) judgeSecure(a probed) {
	const header = "nginx: proxy_set_header X-Forwarded-Proto $scheme;"
	switch {
	case a.Secure:
	case !a.Declared && !config.IsLoopback(a.Peer):
		f.fault("trusted_proxies: ["+a.Peer+"] in the configuration, if that is the proxy", "requests come in clear from %s, which is not in trusted_proxies: every one is refused (https required)", a.Peer)
	case len(a.ForwardedProto) == 0:
		f.fault("have the proxy set it; "+header, "the proxy at %s does not send X-Forwarded-Proto: every request is refused (https required)", a.Peer)
	case len(a.ForwardedProto) > 1:
		f.fault("have the proxy replace the header instead of adding to it; "+header, "X-Forwarded-Proto arrives %d times: every request is refused (https required)", len(a.ForwardedProto))
	default:
		f.fault("have the proxy that ends TLS set it; "+header, "X-Forwarded-Proto arrives as %q although the request was sent over https: every request is refused (https required)", a.ForwardedProto[0])
	}
}

// judgeAddress checks the address that a request is attributed to, in limits of
// failures and in records.
func (f *findings) judgeAddress(p *Deployment, a probed) {
	const header = "nginx: proxy_set_header X-Forwarded-For $remote_addr;"
	switch {
	case !a.Declared && (a.ForwardedFor > 0 || len(a.ForwardedProto) > 0 || a.Forwarded):
		f.fault("trusted_proxies: ["+a.Peer+"] in the configuration, if that is the proxy", "a proxy at %s is not in trusted_proxies: all clients seem to be it, and share its limit of failures", a.Peer)
	case a.Declared && a.ForwardedFor == 0:
		f.fault("have the proxy add the client's address; "+header, "the proxy at %s does not send X-Forwarded-For: all clients seem to be it, and share its limit of failures", a.Peer)
	case a.Declared && a.RemoteIP != a.local && p.trusts(a.RemoteIP):
		f.fault("have the outermost proxy add the client's address, and name in trusted_proxies the proxies alone; "+header, "a request of this machine (%s) seems to come from %s, which trusted_proxies names", a.local, a.RemoteIP)
	case a.RemoteIP != a.local:
		f.note("a request of this machine (%s) is seen as from %s: right, if its address is translated on the way", a.local, a.RemoteIP)
	}
}

func (p *Deployment) trusts(address string) bool {
	addr, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(p.Config.TrustedProxies, func(n netip.Prefix) bool { return n.Contains(addr) })
}
