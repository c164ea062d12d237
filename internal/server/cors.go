package server

import (
	"net/http"
	"slices"
)

// cors lets scripts of the configured origins read the answer, and those of
// any origin what is public. Credentials of the browser are never part of it.
func (s *Server) cors(h http.Header, r *http.Request, x *exchange) {
	if x.public {
		h["Access-Control-Allow-Origin"] = []string{"*"}
		h["Access-Control-Expose-Headers"] = []string{"ETag, Retry-After, X-Request-Id"}
		if s.preflight(r, x) {
			h["Access-Control-Allow-Methods"] = []string{x.allow}
			h["Access-Control-Allow-Headers"] = []string{"If-None-Match"}
			h["Access-Control-Max-Age"] = []string{"600"}
		}
		return
	}
	if !x.scripts || len(s.opt.CORSOrigins) == 0 {
		return
	}
	h["Vary"] = []string{"Origin"}
	if origin := r.Header.Get("Origin"); slices.Contains(s.opt.CORSOrigins, origin) {
		h["Access-Control-Allow-Origin"] = []string{origin}
		h["Access-Control-Expose-Headers"] = []string{"WWW-Authenticate, Retry-After, X-Request-Id"}
		if s.preflight(r, x) {
			h["Access-Control-Allow-Methods"] = []string{x.allow}
			h["Access-Control-Allow-Headers"] = []string{"Authorization, Content-Type"}
			h["Access-Control-Max-Age"] = []string{"600"}
		}
	}
}

func (s *Server) preflight(r *http.Request, x *exchange) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		(x.public || x.scripts && slices.Contains(s.opt.CORSOrigins, r.Header.Get("Origin")))
}
