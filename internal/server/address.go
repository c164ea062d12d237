package server

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Proxies says how requests reach the listener.
type Proxies struct {
	TrustedProxies []netip.Prefix
	// PlainHTTP says that the listener does not speak TLS: a trusted proxy
	// does, or requests come from this machine.
	PlainHTTP bool
}

// address is where a request comes from: the peer, or, if that is a declared
// proxy, the last address of X-Forwarded-For that is not one. What another
// caller writes into the header is never read.
func (p Proxies) address(r *http.Request) netip.Addr {
	addr := peerOf(r)
	if !p.trusted(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, err := parseHop(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		addr = next
		if !p.trusted(addr) {
			break
		}
	}
	return addr
}

// parseHop reads an address, which some proxies write together with a port:
// 192.0.2.1:80 or [2001:db8::1]:80.
func parseHop(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		var withPort netip.AddrPort
		withPort, err = netip.ParseAddrPort(text)
		a = withPort.Addr()
	}
	return a.Unmap(), err
}

// alike reports whether this may be the address of an undeclared proxy on this machine,
// so that all clients seem to have it.
func (p Proxies) alike(a netip.Addr) bool {
	return p.PlainHTTP && len(p.TrustedProxies) == 0 && a.IsLoopback()
}

// noticeProxy warns, once, of a proxy on this machine that is not declared: its clients
// share one address, and nothing shows whether they came over TLS.
func (s *Server) noticeProxy(r *http.Request) {
	if !s.PlainHTTP || len(s.TrustedProxies) > 0 {
		return
	}
	peer := peerOf(r)
	if !s.alike(peer) {
		return
	}
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "Forwarded"} {
		if r.Header[name] != nil {
			s.undeclared.Do(func() {
				s.log.Warn("requests come through a proxy that is not declared: name its address in trusted_proxies",
					"address", peer.String(), "header", name)
			})
			return
		}
	}
}

func (p Proxies) trusted(a netip.Addr) bool { return contains(p.TrustedProxies, a) }

func contains(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// peerOf is the address at the other end of the connection; invalid if it is unknown.
func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}

// encrypted reports whether the client certainly used TLS, to us or to a
// declared proxy.
func (p Proxies) encrypted(r *http.Request) bool {
	return r.TLS != nil || r.Header["X-Forwarded-Proto"] != nil && len(p.TrustedProxies) > 0 && p.secure(r)
}

// strictTransport reports whether answers have Strict-Transport-Security (RFC 6797). The
// header applies to every port of a host, so it would break other servers on a
// developer's machine, and to no IP address (section 8.1.1).
func (site Site) strictTransport() bool {
	u, err := url.Parse(site.PublicURL)
	if err != nil {
		return false
	}
	host := u.Hostname()
	_, err = netip.ParseAddr(host)
	return err != nil && host != "localhost" && !strings.HasSuffix(host, ".localhost")
}

// secure reports whether the request came over TLS, to us or to a declared proxy. There
// is never a redirect to https: the secret would already have been sent.
func (p Proxies) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if !p.PlainHTTP {
		return false
	}
	addr, proto := peerOf(r), r.Header["X-Forwarded-Proto"]
	if !p.trusted(addr) && (!addr.IsLoopback() || proto == nil) {
		return addr.IsLoopback()
	}
	// The headers of a proxy on this machine count even if it is not declared: they can
	// make the request less secure, and not more.
	return len(proto) == 1 && strings.EqualFold(proto[0], "https")
}
