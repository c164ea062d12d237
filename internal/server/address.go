package server

import (
	"net"
	"net/http"
	"net/netip"
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

// address returns the client's address: that of the peer or, if the peer is a
// trusted proxy, the last address in X-Forwarded-For that is not a trusted
// proxy's. It ignores the header of any other peer.
func (p Proxies) address(r *http.Request) netip.Addr {
	addr := PeerOf(r)
	if !p.trusted(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, err := parseHop(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		addr = next.WithZone("") // a zone can be any text, which pages and logs would show
		if !p.trusted(next) {
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

// maybeUndeclaredProxy reports whether a may be an undeclared proxy on this machine, behind
// which all clients seem to have the same address.
func (p Proxies) maybeUndeclaredProxy(a netip.Addr) bool {
	return p.PlainHTTP && len(p.TrustedProxies) == 0 && a.IsLoopback()
}

func (p Proxies) trusted(a netip.Addr) bool { return contains(p.TrustedProxies, a) }

func contains(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// PeerOf returns the address at the other end of the connection; invalid if unknown.
func PeerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}

func peer(address net.Addr) netip.Addr {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// encrypted reports whether the client certainly used TLS, to us or to a
// declared proxy.
func (p Proxies) encrypted(r *http.Request) bool {
	return r.TLS != nil || r.Header["X-Forwarded-Proto"] != nil && len(p.TrustedProxies) > 0 && p.secure(r)
}

// secure reports whether the request came over TLS, to us or to a declared proxy. The
// server never redirects to https: by then, the client has sent its secret in the clear.
func (p Proxies) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if !p.PlainHTTP {
		return false
	}
	addr, proto := PeerOf(r), r.Header["X-Forwarded-Proto"]
	if !p.trusted(addr) && (!addr.IsLoopback() || proto == nil) {
		return addr.IsLoopback()
	}
	// The headers of a proxy on this machine count even if it is not declared: they can
	// make the request less secure, and not more.
	return len(proto) == 1 && strings.EqualFold(proto[0], "https")
}
