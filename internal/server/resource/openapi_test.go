package resource

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	operator "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/upstream"
	"github.com/mintage/mintage/internal/web"
)

// described returns a server of which only the route table is used.
func described(site server.Site, issuerID string, front *web.Front) *Endpoints {
	iss := &issuer.Issuer{Realm: "/api", ID: issuerID, Directory: &directory.Directory{}}
	site.Realm = "/api"
	e := &Endpoints{Server: server.New(iss.Directory, server.Options{Site: site}, nil), Issuer: iss, Directory: iss.Directory}
	tokens := &token.Endpoints{Issuer: iss, Registrations: &client.Registrations{}, DevicePage: openapiExample + web.DevicePath}
	if front != nil {
		tokens.Push = func(context.Context, *server.Request, oauth.AuthorizationRequest, string, bool) (string, error) {
			return "", nil
		}
	}
	routes := slices.Concat(tokens.Routes(), e.Routes())
	if front != nil {
		routes = append(routes, front.Routes(e.Server)...)
	}
	e.Server.Mount(routes...)
	return e
}

func everything() *Endpoints {
	return described(server.Site{PublicURL: openapiExample}, openapiExample+"/oauth2/api", &web.Front{Upstream: &upstream.Provider{}, Authorizer: &login.Authorizer{Console: &login.Console{}}})
}

func load(t *testing.T, text []byte) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// operations returns every method of every address in a document, including its servers'
// paths.
func operations(t *testing.T, doc *openapi3.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for path, item := range doc.Paths.Map() {
		servers := doc.Servers
		if len(item.Servers) > 0 {
			servers = item.Servers
		}
		for _, s := range servers {
			at := s.URL + path
			if all[at] != nil {
				t.Errorf("%s is there twice", at)
			}
			all[at] = map[string]bool{}
			for method, op := range item.Operations() {
				if op.Extensions["x-any-method"] != nil {
					method = "any"
				}
				all[at][method] = true
			}
		}
	}
	return all
}

// The library validates every example against its schema, too.
func TestTheDescriptionIsValidOpenAPI(t *testing.T) {
	for name, text := range map[string][]byte{"the source": openapiSource, "what is served": everything().describeAPI()} {
		doc := load(t, text)
		if doc.OpenAPI != "3.1.0" {
			t.Errorf("%s: version %s", name, doc.OpenAPI)
		}
		if err := doc.Validate(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ids := map[string]bool{}
		for path, item := range doc.Paths.Map() {
			for method, op := range item.Operations() {
				if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" || len(op.Tags) != 1 {
					t.Errorf("%s: %s %s needs an operationId of its own, a summary and one tag", name, method, path)
				}
				ids[op.OperationID] = true
			}
		}
	}
}

func TestTheDescriptionAndTheRouterAgree(t *testing.T) {
	got := operations(t, load(t, openapiSource))
	want := map[string]map[string]bool{}
	for path, rt := range everything().Server.Patterns() {
		methods := map[string]bool{}
		for _, m := range rt.Methods {
			methods[m] = true
		}
		if rt.Methods == nil {
			methods["any"] = true
		}
		want[openapiExample+strings.ReplaceAll(path, "...}", "}")] = methods
	}
	for path, methods := range adminAndManagement(t) {
		want[path] = methods
	}
	for at, methods := range want {
		if !maps.Equal(got[at], methods) {
			t.Errorf("%s takes %v, and is described with %v", at, methods, got[at])
		}
	}
	for at := range got {
		if want[at] == nil {
			t.Errorf("%s is described and does not exist", at)
		}
	}
}

var managementPattern = regexp.MustCompile(`"(GET|POST) (/[^" ]*)"`)

// sources returns the texts of the Go files that match a pattern, without tests.
func sources(t *testing.T, pattern string) (texts []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// adminAndManagement returns what the other listeners serve. It reads the management
// listener's source, because a mux cannot list its routes.
func adminAndManagement(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for _, text := range sources(t, "../*.go") {
		for _, m := range managementPattern.FindAllStringSubmatch(text, -1) {
			all["http://127.0.0.1:9000"+strings.ReplaceAll(m[2], "...}", "}")] = map[string]bool{m[1]: true}
		}
	}
	a := admin.NewAPI(operator.Admin{}, nil, nil, admin.Access{}, nil)
	for _, rt := range a.Routes() {
		for _, at := range []string{"http://admin", "https://auth.example.com:8444"} {
			if all[at+rt.Path] == nil {
				all[at+rt.Path] = map[string]bool{}
			}
			all[at+rt.Path][rt.Method] = true
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d addresses were found", len(all))
	}
	return all
}

func TestTheServedDescriptionIsOfThisServer(t *testing.T) {
	for _, issuerID := range []string{"https://id.shop.test/openam/oauth2/api", "https://id.shop.test"} {
		servedDescriptionIsOf(t, described(server.Site{PublicURL: "https://id.shop.test", BasePath: "/openam"}, issuerID, nil))
	}
}

func servedDescriptionIsOf(t *testing.T, e *Endpoints) {
	t.Helper()
	s, text := e.Server, e.describeAPI()
	got := operations(t, load(t, text))
	for path := range s.Patterns() {
		if at := s.PublicURL + strings.ReplaceAll(path, "...}", "}"); got[at] == nil {
			t.Errorf("%s is missing", at)
		}
		delete(got, s.PublicURL+strings.ReplaceAll(path, "...}", "}"))
	}
	// With pages off, no page is described, and the other listeners are not public.
	if len(got) > 0 {
		t.Errorf("it names %v, which are not there", slices.Sorted(maps.Keys(got)))
	}
}

// Clients are generated from the description, so it must contain every error of each
// admin operation, and every problem type.
func TestTheDescriptionHasEveryRefusalOfTheAdminAPI(t *testing.T) {
	doc := load(t, openapiSource)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			want := []string{"401", "403", "404", "405", "422", "500", "503"}
			if op.RequestBody != nil {
				want = append(want, "400")
			}
			for _, status := range want {
				if slices.Contains(op.Tags, "Admin") && op.Responses.Value(status) == nil {
					t.Errorf("%s %s is described without %s", method, path, status)
				}
			}
		}
	}
	names := map[any]bool{}
	for _, code := range []operator.Code{operator.NotFound, operator.Deleted, operator.Taken, operator.Changed, operator.Full, operator.InUse, operator.Conflict} {
		names["urn:mintage:problem:"+strings.ReplaceAll(string(code), " ", "-")] = true
	}
	for _, text := range sources(t, "../admin/*.go") {
		for _, name := range problemType.FindAllString(text, -1) {
			names[name] = true
		}
	}
	types := doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum
	for name := range names {
		if !slices.Contains(types, name) {
			t.Errorf("problems are described without the type %s", name)
		}
	}
	for _, name := range types {
		if !names[name] {
			t.Errorf("problems are described with the type %s, which none has", name)
		}
	}
}

var problemType = regexp.MustCompile(`urn:mintage:problem:[a-z-]+`)
