package server

import (
	"net/http"
	"slices"
)

// headerVaryOrigin is shared by all answers, which saves an allocation.
var headerVaryOrigin = []string{"Origin"}

// cors lets scripts read the answer (Fetch standard, CORS protocol). Scripts of any origin
// may read public documents and userinfo. Scripts from the origin of a public client's
// redirect URI, or from cors.origins, may read the answers of the token and revocation
// endpoints. The browser must not send its credentials, and these endpoints read no
// cookie: a script can read only what its own request is authorized to.
func (s *Server) cors(h http.Header, r *Request) {
	origin, exposed, allowed := "*", "WWW-Authenticate, Retry-After, X-Request-Id", "Authorization, Content-Type, DPoP"
	if r.HasProof() || r.nonce != "" {
		exposed += ", DPoP-Nonce" // other answers have no nonce
	}
	switch {
	case r.Route.Public || r.Route.AnyOrigin:
		// The wildcard stands for every header but Authorization (Fetch
		// standard, CORS-preflight fetch). Client libraries send headers of their own.
		if allowed = "*, Authorization"; !r.Route.AnyOrigin {
			exposed = "ETag, Retry-After, X-Request-Id"
		}
	case !r.Route.Scripts:
		return
	default:
		// Caches do not store the answers of these endpoints, so that answers to requests
		// without Origin need no Vary.
		if origin = r.Header.Get("Origin"); origin == "" && len(s.CORSOrigins) == 0 {
			return
		}
		if h["Vary"] = headerVaryOrigin; !s.mayRead(origin) {
			return
		}
	}
	h["Access-Control-Allow-Origin"] = []string{origin}
	h["Access-Control-Expose-Headers"] = []string{exposed}
	if s.preflight(r) {
		h["Access-Control-Allow-Methods"] = []string{r.Route.allow}
		h["Access-Control-Allow-Headers"] = []string{allowed}
		h["Access-Control-Max-Age"] = []string{"600"}
	}
}

// mayRead reports whether scripts of an origin may read the answers of the token
// and revocation endpoints.
func (s *Server) mayRead(origin string) bool {
	return origin != "" && (slices.Contains(s.CORSOrigins, origin) || s.directory.IsScriptOrigin(s.Realm, origin))
}

func (s *Server) preflight(r *Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		(r.Route.Public || r.Route.AnyOrigin || r.Route.Scripts && s.mayRead(r.Header.Get("Origin")))
}
