package resource

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/url"
	"strings"
	"sync"

	"github.com/mintage/mintage/internal/server"
)

// openapiPath is the path of the description of the public endpoints, below
// BasePath.
const openapiPath = "/openapi.json"

// openapiSource describes every listener, with the addresses of an example. It
// is made from docs/reference/openapi.yaml by: go run ./internal/server/apidoc
//
//go:embed openapi.json
var openapiSource []byte

// The example's addresses in openapiSource.
const (
	openapiExample    = "https://auth.example.com"
	openapiIssuerPath = "/oauth2/api"
)

// describeAPI returns the description of the public endpoints that this server has, with
// its own addresses. It leaves out endpoints of other listeners, or switched off.
func (e *Endpoints) describeAPI() []byte {
	var doc map[string]any
	if err := json.Unmarshal(openapiSource, &doc); err != nil {
		panic(err) // the embedded file is JSON
	}
	have := map[string]bool{}
	for pattern := range e.Server.Patterns() {
		have[strings.ReplaceAll(pattern, "...}", "}")] = true
	}
	issuer, err := url.Parse(e.Issuer.ID)
	if err != nil {
		panic(err) // the check of the configuration refuses it
	}
	common := e.atHome(doc["servers"], e.Server.BasePath)
	doc["servers"] = common
	paths := map[string]any{}
	for path, item := range doc["paths"].(map[string]any) {
		item, servers, rootBase := item.(map[string]any), common, e.Server.BasePath
		if strings.HasPrefix(path, "/.well-known/") {
			rootBase = "" // at the root, and before the issuer's path, which has the base
			if below, ok := strings.CutSuffix(path, openapiIssuerPath); ok && issuer.Path == "" {
				continue // these are the locations at the root
			} else if ok {
				path = below + issuer.Path
			}
		}
		if own := item["servers"]; own != nil {
			servers = e.atHome(own, rootBase)
			item["servers"] = servers
		}
		for _, server := range servers {
			at, isOurs := strings.CutPrefix(server.(map[string]any)["url"].(string), e.Server.PublicURL)
			if isOurs && have[at+path] {
				paths[path] = item
			}
		}
	}
	doc["paths"] = paths
	body, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it was JSON
	}
	return body
}

// atHome returns a list of servers with this deployment's addresses in the place
// of the example's. A server without a path gets the base path rootBase.
func (e *Endpoints) atHome(servers any, rootBase string) []any {
	list := servers.([]any)
	for _, server := range list {
		server := server.(map[string]any)
		switch path, ok := strings.CutPrefix(server["url"].(string), openapiExample); {
		case ok && path == "":
			server["url"] = e.Server.PublicURL + rootBase
		case ok && path[0] == '/':
			server["url"] = e.Server.PublicURL + e.Server.BasePath + path
		}
	}
	return list
}

// openapi serves the description, which it makes for the first request.
func (e *Endpoints) openapi() server.Handler {
	made := sync.OnceValue(e.describeAPI)
	return server.Published(func(context.Context, *server.Request) (server.Publication, error) {
		return server.Publication{Media: "application/json", Body: made(), MaxAge: metadataMaxAge}, nil
	})
}
