package resource_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/testkit"
)

// The metadata names the first path of each route, or the description of the path says that
// it does not.
func TestMD12_TheDocumentNamesWhatIsServedAndAllOfIt(t *testing.T) {
	for _, base := range []string{"", "/openam"} {
		p := newPublicSide(t, func(iss *testkit.Setup, o *server.Options) {
			o.BasePath, iss.ID, iss.IDTokenLifetime = base, publicURL+base+"/oauth2/api", time.Minute
		})
		body, _ := p.get(base + "/oauth2/.well-known/openid-configuration")
		description, _ := p.get(base + "/openapi.json")
		described := read[struct {
			Paths map[string]struct{ Get struct{ Description string } }
		}](t, description).Paths
		routes := p.Patterns()
		named := map[string]bool{}
		for name, value := range read[map[string]any](t, body) {
			if !strings.HasSuffix(name, "_endpoint") && !strings.HasSuffix(name, "_uri") {
				continue
			}
			address, ours := strings.CutPrefix(value.(string), publicURL)
			if _, served := routes[address]; !ours || !served {
				t.Errorf("%s is %s, which is not served", name, value)
			}
			short, ok := strings.CutPrefix(address, base+"/oauth2/api/") // many clients drop the query
			if !ok {
				t.Errorf("%s is %s: its path does not name the realm", name, value)
			}
			named[short] = true
		}
		forms := []string{base + "/oauth2/realms/root/realms/api/", base + "/oauth2/api/", base + "/oauth2/"}
		for _, path := range slices.Sorted(maps.Keys(routes)) {
			if strings.Contains(path, "/.well-known/") || path == base+"/openapi.json" { // documents about the whole server
				continue
			}
			short, ok := path, false
			for _, form := range forms {
				if short, ok = strings.CutPrefix(path, form); ok {
					break
				}
			}
			has := named[routes[path].Paths[0]] // the other paths of a route have no names
			denies := strings.Contains(described["/"+strings.ReplaceAll(short, "...}", "}")].Get.Description, "metadata does not name it")
			if !ok || has == denies {
				t.Errorf("%s: the metadata names it: %t; its description says that the metadata does not: %t", path, has, denies)
			}
		}
	}
}

func TestMetadataIsWhereTheIssuersPathSays(t *testing.T) {
	for id, where := range map[string][]string{
		"https://auth.example.com/oauth2/api": {
			"/.well-known/oauth-authorization-server/oauth2/api", "/.well-known/openid-configuration/oauth2/api", "/oauth2/api/.well-known/openid-configuration",
			"/oauth2/api/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration",
		},
		// Another host may forward requests.
		"https://login.example.org/tenants/7": {
			"/.well-known/oauth-authorization-server/tenants/7", "/.well-known/openid-configuration/tenants/7", "/tenants/7/.well-known/openid-configuration",
			"/tenants/7/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration",
		},
		"https://auth.example.com": {
			"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration",
		},
		"https://auth.example.com/oauth2": {
			"/.well-known/oauth-authorization-server/oauth2", "/.well-known/openid-configuration/oauth2", "/oauth2/.well-known/openid-configuration",
			"/oauth2/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration",
		},
	} {
		p := newPublicSide(t, func(iss *testkit.Setup, _ *server.Options) { iss.ID = id })
		whole, _ := p.get("/oauth2/.well-known/openid-configuration")
		if got := read[map[string]any](t, whole)["issuer"]; got != id {
			t.Errorf("issuer %q, want %q", got, id)
		}
		for _, path := range where {
			if body, _ := p.get(path); body != whole {
				t.Errorf("%s: another document at %s", id, path)
			}
		}
		// Nowhere else before a path.
		for path := range paths(p.Server) {
			if strings.HasPrefix(path, "/.well-known/") && !slices.Contains(where, path) {
				t.Errorf("%s: a document at %s too", id, path)
			}
		}
	}
}

var update = flag.Bool("update", false, "write the document into docs/reference/metadata.md")

func TestMetadataPageShowsTheDocument(t *testing.T) {
	const name = "../../../docs/reference/metadata.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), "```json\n")
	example, after, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no JSON")
	}
	p := newPublicSide(t, allAlgorithms)
	body, _ := p.get("/oauth2/.well-known/openid-configuration")
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(body), "", "  "); err != nil {
		t.Fatal(err)
	}
	// The page has a line for each member.
	document := strings.NewReplacer("[\n    ", "[", "\n    ", " ", "\n  ]", "]").Replace(indented.String()) + "\n"
	switch {
	case example == document:
	case *update:
		if err := os.WriteFile(name, []byte(before+"```json\n"+document+"```"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the document is\n%s\nand the page shows\n%s\nTo write it: go test ./internal/server/resource -run MetadataPage -update", document, example)
	}
}
