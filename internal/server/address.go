package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// address is where a request comes from: the peer, or, if that is a declared
// proxy, the last address of X-Forwarded-For that is not one. What a stranger
// writes into the header is never reached.
func (s *Server) address(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := peer.Addr().Unmap()
	if !s.trusted(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		addr = next.Unmap()
		if !s.trusted(addr) {
			break
		}
	}
	return addr
}

func (s *Server) trusted(a netip.Addr) bool {
	for _, p := range s.opt.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// secure reports whether the request came over TLS, to us or to a declared
// proxy. There is never a redirect to https: the secret has already been sent.
func (s *Server) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if !s.opt.PlainHTTP {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	if addr := peer.Addr().Unmap(); s.trusted(addr) {
		proto := r.Header["X-Forwarded-Proto"]
		return len(proto) == 1 && strings.EqualFold(proto[0], "https")
	} else {
		return addr.IsLoopback()
	}
}

// cors lets scripts of the configured origins read the answer. Credentials of
// the browser are never part of it.
func (s *Server) cors(h http.Header, r *http.Request) {
	if len(s.opt.CORSOrigins) == 0 {
		return
	}
	h["Vary"] = []string{"Origin"}
	if origin := r.Header.Get("Origin"); slices.Contains(s.opt.CORSOrigins, origin) {
		h["Access-Control-Allow-Origin"] = []string{origin}
		h["Access-Control-Expose-Headers"] = []string{"WWW-Authenticate, Retry-After, X-Request-Id"}
		if s.preflight(r) {
			h["Access-Control-Allow-Methods"] = []string{http.MethodPost}
			h["Access-Control-Allow-Headers"] = []string{"Authorization, Content-Type"}
			h["Access-Control-Max-Age"] = []string{"600"}
		}
	}
}

func (s *Server) preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		slices.Contains(s.opt.CORSOrigins, r.Header.Get("Origin"))
}
