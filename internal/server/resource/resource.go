// Package resource implements the endpoints for resource servers and verifiers: what
// a token allows, and the documents by which tokens are verified.
package resource

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
)

// Endpoints are the endpoints of resource servers and verifiers.
type Endpoints struct {
	Server          *server.Server // on which the routes are mounted
	Issuer          *issuer.Issuer
	Directory       *directory.Directory
	ScopesSupported []string // in the metadata; none: all that clients are registered for
	TokenInfoQuery  bool     // compat.tokeninfo_query
	// Claims returns the claims about a subject; nil if users do not log in at this server.
	Claims func(ctx context.Context, subject string) (claims.Claims, error)

	description atomic.Pointer[description]   // the metadata; nil before the first request
	revoked     atomic.Pointer[publishedList] // nil before the first request
}

// Routes returns introspection, verification, token info, userinfo, and the documents.
func (e *Endpoints) Routes() []server.Route {
	get := []string{http.MethodGet, http.MethodHead}
	introspection := client.Metadata("introspection", true)
	if algorithms := e.Directory.Schedule.Algorithms; len(algorithms) > 0 {
		introspection["introspection_signing_alg_values_supported"] = algorithms // RFC 9701
	}
	userinfo := server.Route{Name: "userinfo", Paths: []string{"userinfo"}, Methods: append(get, http.MethodPost), Class: overload.Check, Handle: e.userInfo, Refusals: slog.LevelDebug, AnyOrigin: true, Protected: true}
	if e.Issuer.IDTokenLifetime != 0 {
		userinfo.Member, userinfo.Metadata = "userinfo_endpoint", map[string]any{"userinfo_signing_alg_values_supported": keys.SigningAlgorithms}
	}
	return []server.Route{
		{Name: "introspection", Paths: []string{"introspect"}, Methods: []string{http.MethodPost}, Class: overload.Check, Handle: e.introspect, Count: countIntrospection,
			Member: "introspection_endpoint", Metadata: introspection},
		{Name: "token info", Paths: []string{"tokeninfo"}, Methods: get, Class: overload.Check, Handle: e.tokenInfo, Refusals: slog.LevelDebug, Protected: true},
		userinfo,
		// Envoy appends the path of the request that it verifies.
		{Name: "verification", Paths: []string{"verify", "verify/{rest...}"}, Class: overload.Check, Handle: e.verify, Refusals: slog.LevelDebug, Unadmitted: true},
		{Name: "keys", Paths: []string{"jwks", "connect/jwk_uri"}, Methods: get, Handle: server.Published(e.keySet), Public: true, Member: "jwks_uri"},
		{Name: "keys", Paths: []string{"jwks/{file}"}, Methods: get, Handle: server.Published(e.keyFile), Public: true},
		{Name: "metadata", Paths: append(metadataLocations(e.Issuer.ID), metadataPath, serverMetadataPath), Methods: get, Handle: server.Published(e.metadata), Public: true},
		{Name: "list of revocations", Paths: []string{"revocations"}, Methods: get, Handle: server.Published(e.revocations), Public: true, Member: "revocations_uri"},
		{Name: "description", Paths: []string{e.Server.BasePath + openapiPath}, Methods: get, Handle: e.openapi(), Public: true},
	}
}
