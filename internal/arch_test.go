// Package internal_test checks which packages may import which: packages with rules and
// without I/O are at the bottom, and one package names the store's engines at the top.
package internal_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mintage/mintage/"

// A goFile is one Go file that is not a test.
type goFile struct {
	name    string // relative to the module's root, with slashes
	pkg     string // package name
	text    []byte
	imports []string // imports from the module, without the module's path
}

func (f goFile) dir() string { return path.Dir(f.name) }

// in reports whether f is in a directory or below it.
func (f goFile) in(dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return f.dir() == dir || strings.HasPrefix(f.dir(), dir+"/") })
}

// goFiles returns every Go file of the module, whatever its build tags, because it parses
// the files instead of building them.
func goFiles(t *testing.T) (code, tests []goFile) {
	t.Helper()
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && name != ".." && (base == "testdata" || base == "node_modules" || base == "vendor" || strings.HasPrefix(base, ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(base, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		f := goFile{name: filepath.ToSlash(name)[len("../"):], pkg: parsed.Name.Name, text: text, imports: importsOf(parsed)}
		if strings.HasSuffix(base, "_test.go") {
			tests = append(tests, f)
		} else {
			code = append(code, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(code) < 40 {
		t.Fatalf("found %d Go files: this test looks in the wrong place", len(code))
	}
	return code, tests
}

func importsOf(f *ast.File) (list []string) {
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser has accepted this literal
		}
		list = append(list, strings.TrimPrefix(p, module))
	}
	return list
}

func isOurs(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return slices.Contains([]string{"bench", "cmd", "internal", "resource"}, first)
}

// isStandard recognizes the standard library by the first path element, which has no dot.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !isOurs(imported) && !strings.Contains(first, ".")
}

// pure is what a package without I/O may import of the standard library.
var pure = []string{
	"bytes", "cmp", "crypto/sha256", "crypto/subtle", "encoding/base64", "encoding/binary", "encoding/hex", "errors", "fmt", "iter",
	"maps", "math", "math/bits", "net/netip", "net/url", "slices", "strconv", "strings", "time", "unicode", "unicode/utf8",
}

type importRule struct {
	dir      string
	others   []string
	standard []string
	not      []string
}

// mayImport lists for every package all that it may import from the module and from other
// modules; and from the standard library, if standard is set.
var mayImport = []importRule{
	{dir: "internal/oauth", standard: pure},
	{dir: "internal/plain", standard: []string{"encoding/base64", "encoding/json", "slices", "strconv", "strings", "unicode/utf8"}},
	{dir: "internal/grant", standard: pure, others: []string{"internal/oauth"}, not: []string{"net/url"}},
	{dir: "internal/dpop", others: []string{"internal/plain", "github.com/go-jose/go-jose/v4/json"},
		standard: slices.Concat(pure, []string{"crypto", "crypto/ecdsa", "crypto/ed25519", "crypto/elliptic", "crypto/rsa", "hash/maphash", "math/big", "sync"})},
	{dir: "internal/claims", others: []string{"internal/oauth"}, standard: slices.Concat(pure, []string{"encoding/json"})},
	{dir: "internal/keys", others: []string{"internal/overload", "internal/grant", "internal/oauth", "github.com/go-jose/go-jose/v4", "golang.org/x/crypto/argon2"},
		not: []string{"net", "net/http", "database/sql", "os", "log/slog", "encoding/json"}},
	{dir: "internal/config", others: []string{"internal/claims", "internal/oauth", "go.yaml.in/yaml/v4"}, not: []string{"net/http", "database/sql"}},
	{dir: "internal/store", others: []string{"internal/grant", "internal/keys", "internal/oauth", "internal/plain"},
		not: []string{"net/http", "database/sql", "os"}},
	{dir: "internal/directory", others: []string{"internal/grant", "internal/keys", "internal/oauth", "internal/store"},
		not: []string{"net/http", "database/sql", "os"}},
	{dir: "internal/keyset", others: []string{"internal/fetch", "github.com/go-jose/go-jose/v4", "github.com/go-jose/go-jose/v4/json"}, not: []string{"net/http", "database/sql", "os", "log/slog"}},
	{dir: "internal/client", others: []string{"internal/directory", "internal/grant", "internal/keys", "internal/keyset", "internal/oauth", "internal/overload", "internal/store",
		"github.com/go-jose/go-jose/v4", "github.com/go-jose/go-jose/v4/json"},
		not: []string{"net/http", "database/sql", "os"}},
	{dir: "internal/openid", standard: append([]string{"crypto/hmac", "crypto/sha512", "encoding/json"}, pure...), others: []string{"internal/grant", "internal/plain"}},
	{dir: "internal/issuer", others: []string{"internal/audit", "internal/claims", "internal/directory", "internal/grant", "internal/keys", "internal/lease", "internal/oauth", "internal/openid", "internal/overload", "internal/store", "github.com/go-jose/go-jose/v4"},
		not: []string{"net/http", "database/sql", "os"}},
	{dir: "internal/lease", others: []string{"internal/store"}, not: []string{"net/http", "database/sql", "os"}},
	{dir: "internal/logout", others: []string{"internal/audit", "internal/directory", "internal/grant", "internal/issuer", "internal/lease", "internal/metrics", "internal/openid", "internal/store"},
		not: []string{"database/sql", "os"}},
	{dir: "internal/sweep", others: []string{"internal/grant", "internal/store"}, not: []string{"net/http", "database/sql", "os"}},
	// Package upstream calls another provider over HTTP, and only the server imports it.
	{dir: "internal/upstream", others: []string{"internal/claims", "internal/fetch", "internal/oauth", "internal/openid", "github.com/go-jose/go-jose/v4", "github.com/coreos/go-oidc/v3/oidc", "golang.org/x/oauth2", "golang.org/x/sync/singleflight"},
		not: []string{"database/sql", "os", "log/slog"}},
	// Only this package connects to addresses that anybody may have named.
	{dir: "internal/fetch", others: []string{"internal/overload"}, not: []string{"database/sql", "os", "log/slog"}},
	{dir: "internal/overload", standard: []string{"container/list", "context", "errors", "fmt", "hash/maphash", "net/netip", "runtime", "sync", "sync/atomic", "time"}},
	{dir: "internal/account", others: []string{"internal/claims", "internal/overload", "internal/grant", "internal/keys", "internal/oauth", "internal/openid", "internal/plain", "internal/store"},
		not: []string{"net/http", "database/sql", "os"}},
	// Package login identifies users by the claims of other systems.
	{dir: "internal/login", others: []string{"internal/claims", "internal/directory", "internal/overload", "internal/grant", "internal/issuer", "internal/keys", "internal/oauth", "internal/openid", "internal/plain", "internal/store"},
		not: []string{"net/http", "database/sql", "os"}},
	{dir: "internal/pages", others: []string{"go.yaml.in/yaml/v4"}, not: []string{"net/http", "database/sql", "os"}},
	{dir: "internal/audit", others: []string{"internal/overload", "internal/grant", "internal/keys", "internal/store"}, not: []string{"net/http", "database/sql"}},
	{dir: "internal/server", others: []string{"internal/dpop", "internal/secretfile", "internal/audit", "internal/client", "internal/directory", "internal/overload", "internal/grant", "internal/issuer", "internal/oauth",
		"internal/metrics", "internal/store", "internal/tracing"},
		not: []string{"database/sql"}},
	{dir: "internal/web", others: []string{"internal/account", "internal/audit", "internal/claims", "internal/grant", "internal/login", "internal/metrics", "internal/oauth", "internal/openid", "internal/overload", "internal/pages",
		"internal/server", "internal/store", "internal/upstream"},
		not: []string{"database/sql", "os"}},
	// Operators of the console, without its pages.
	{dir: "internal/operator", others: []string{"internal/grant", "internal/keys", "internal/store"}, not: []string{"net/http", "database/sql", "os", "log/slog"}},
	// The operators' pages. They call the admin API, and use the store only for sign-ins.
	{dir: "internal/console", others: []string{"internal/account", "internal/admin", "internal/adminapi", "internal/audit", "internal/client", "internal/config", "internal/grant", "internal/oauth", "internal/operator", "internal/overload", "internal/pages", "internal/qr", "internal/server", "internal/server/admin",
		"internal/show", "internal/store"}, not: []string{"database/sql", "os"}},
	{dir: "internal/qr", standard: pure, others: []string{"rsc.io/qr/coding"}},
	// A client of the public endpoints, with pages that show what it does.
	{dir: "internal/demo", others: []string{"internal/directory", "internal/grant", "internal/issuer", "internal/keys", "internal/oauth", "internal/overload", "internal/pages", "internal/server"},
		not: []string{"database/sql", "os", "log/slog"}},
	{dir: "internal/traffic", others: []string{"internal/grant", "internal/keys", "internal/store"}, not: []string{"net/http", "database/sql", "os", "log/slog"}},
	// The endpoints import the transport, which imports none of them.
	{dir: "internal/server/token", others: []string{"internal/client", "internal/dpop", "internal/grant", "internal/issuer", "internal/keys", "internal/metrics", "internal/oauth", "internal/overload", "internal/server", "internal/store"},
		not: []string{"database/sql", "os"}},
	{dir: "internal/server/resource", others: []string{"internal/claims", "internal/client", "internal/directory", "internal/grant", "internal/issuer", "internal/keys", "internal/metrics", "internal/oauth", "internal/overload", "internal/server"},
		not: []string{"database/sql", "os"}},
	{dir: "internal/server/admin", others: []string{"internal/account", "internal/admin", "internal/adminapi", "internal/audit", "internal/claims", "internal/client", "internal/directory", "internal/grant", "internal/issuer", "internal/keys", "internal/login", "internal/oauth", "internal/openid",
		"internal/pages", "internal/server", "internal/store"}, not: []string{"database/sql", "os"}},
	// These packages only read. The server passes on how a request arrived.
	{dir: "internal/secretfile", others: []string{"internal/show"}, not: []string{"net/http", "database/sql", "log/slog"}},
	{dir: "internal/doctor", others: []string{"internal/adminapi", "internal/secretfile", "internal/audit", "internal/client", "internal/config", "internal/directory", "internal/grant", "internal/issuer", "internal/keys", "internal/keyset", "internal/oauth", "internal/operator",
		"internal/server", "internal/show", "internal/store"}, not: []string{"database/sql", "log/slog"}},
	{dir: "internal/explain", others: []string{"internal/account", "internal/adminapi", "internal/audit", "internal/config", "internal/directory", "internal/grant", "internal/issuer", "internal/keys", "internal/login", "internal/logout", "internal/oauth", "internal/openid",
		"internal/show", "internal/store"}, not: []string{"net/http", "database/sql", "log/slog"}},
	// One package opens what a configuration names, for commands and server.
	{dir: "internal/deployment", others: []string{"internal/secretfile", "internal/audit", "internal/config", "internal/grant", "internal/keys", "internal/show", "internal/store",
		"internal/store/postgres", "internal/store/sqlite"}, not: []string{"net/http", "database/sql"}},
	// An operator's use cases, whoever calls them, on an open store.
	{dir: "internal/admin", others: []string{"internal/account", "internal/adminapi", "internal/claims", "internal/client", "internal/config", "internal/directory", "internal/grant", "internal/issuer", "internal/keys", "internal/login", "internal/logout", "internal/oauth", "internal/operator", "internal/pages", "internal/show", "github.com/go-jose/go-jose/v4",
		"internal/store"}, not: []string{"net/http", "database/sql", "os", "log/slog"}},
	// Requests and responses, for both sides of the admin API.
	{dir: "internal/adminapi", others: []string{"internal/audit", "internal/claims", "internal/client", "internal/config", "internal/oauth", "internal/store"}, not: []string{"net/http", "database/sql", "os", "log/slog"}},
	// Replacing a store by a backup, and what that must not undo. Commands call it; admin
	// ends what it finds.
	{dir: "internal/restore", others: []string{"internal/account", "internal/admin", "internal/audit", "internal/backup", "internal/grant", "internal/keys", "internal/oauth", "internal/operator", "internal/show", "internal/store", "internal/store/sqlite",
		"modernc.org/sqlite/lib"}, not: []string{"net/http", "log/slog"}},
	{dir: "internal/adminclient", others: []string{"internal/admin", "internal/adminapi", "internal/config", "internal/deployment", "internal/directory", "internal/grant", "internal/keys", "internal/oauth", "internal/server", "internal/server/admin", "internal/store"}, not: []string{"database/sql"}},
	{dir: "internal/node", others: []string{"internal/secretfile", "internal/account", "internal/admin", "internal/adminapi", "internal/audit", "internal/claims", "internal/login", "internal/logout", "internal/client", "internal/config", "internal/console", "internal/demo", "internal/deployment", "internal/directory", "internal/doctor", "internal/dpop", "internal/explain", "internal/fetch", "internal/grant",
		"internal/issuer", "internal/keys", "internal/keyset", "internal/lease", "internal/metrics", "internal/oauth", "internal/operator", "internal/overload", "internal/pages", "internal/server", "internal/server/admin",
		"internal/server/resource", "internal/server/token", "internal/show", "internal/store", "internal/store/postgres", "internal/store/sqlite", "internal/sweep", "internal/tracing", "internal/traffic", "internal/upstream", "internal/web",
		"github.com/prometheus/client_golang/prometheus/promhttp"}, not: []string{"database/sql"}},
	{dir: "internal/cli", others: []string{"internal/account", "internal/admin", "internal/adminapi", "internal/adminclient", "internal/audit", "internal/backup", "internal/claims", "internal/client", "bench", "internal/config", "internal/deployment", "internal/directory",
		"internal/doctor", "internal/explain", "internal/grant", "internal/issuer", "internal/keys", "internal/node", "internal/oauth", "internal/pages", "internal/restore",
		"internal/server/token", "internal/show", "internal/store", "internal/store/moving", "internal/store/postgres", "internal/store/sqlite",
		"github.com/go-jose/go-jose/v4", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"}, not: []string{"net/http", "database/sql"}},
	{dir: "cmd/mintage", others: []string{"internal/cli"}, standard: []string{"runtime/debug"}},
	{dir: "internal/show", others: []string{"internal/adminapi", "internal/grant", "internal/store"}, not: []string{"net/http", "database/sql", "os", "log/slog"}},
	// These packages count and report, and make no decisions.
	{dir: "internal/metrics", others: []string{"internal/grant", "internal/oauth", "internal/store",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_golang/prometheus/collectors"}, not: []string{"database/sql", "os"}},
	{dir: "internal/tracing", others: []string{"internal/grant", "internal/store", "github.com/go-logr/logr", "go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/propagation",
		"go.opentelemetry.io/otel/sdk/resource", "go.opentelemetry.io/otel/sdk/trace", "go.opentelemetry.io/otel/trace",
		"go.opentelemetry.io/proto/slim/otlp/collector/trace/v1", "go.opentelemetry.io/proto/slim/otlp/common/v1",
		"go.opentelemetry.io/proto/slim/otlp/resource/v1", "go.opentelemetry.io/proto/slim/otlp/trace/v1",
		"google.golang.org/protobuf/proto"}, not: []string{"database/sql"}},
	{dir: "internal/store/sqlite", others: []string{"internal/grant", "internal/keys", "internal/oauth", "internal/store", "modernc.org/libc", "modernc.org/sqlite", "modernc.org/sqlite/lib"},
		not: []string{"net/http"}},
	{dir: "internal/backup", others: []string{"internal/grant", "internal/keys", "internal/store", "internal/store/sqlite", "modernc.org/sqlite", "modernc.org/sqlite/lib"},
		not: []string{"net/http"}},
	{dir: "internal/store/postgres", others: []string{"internal/grant", "internal/keys", "internal/store",
		"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgconn", "github.com/jackc/pgx/v5/pgxpool"},
		not: []string{"net/http", "database/sql", "os"}},
	{dir: "internal/store/moving", others: []string{"internal/store"}, not: []string{"net/http", "database/sql", "os", "log/slog"}},
	// A package that other modules import must not bring in the server. Both verify
	// proofs by the same package, which imports neither.
	{dir: "resource", others: []string{"internal/dpop", "github.com/go-jose/go-jose/v4", "github.com/go-jose/go-jose/v4/json"},
		not: []string{"database/sql", "os", "unsafe"}},
}

func TestImportsPointDownwards(t *testing.T) {
	code, _ := goFiles(t)
	for _, rule := range mayImport {
		files := 0
		for _, f := range code {
			if f.dir() != rule.dir {
				continue
			}
			files++
			for _, imported := range f.imports {
				allowed := slices.Contains(rule.others, imported)
				if isStandard(imported) {
					allowed = (rule.standard == nil || slices.Contains(rule.standard, imported)) && !slices.Contains(rule.not, imported)
				}
				if !allowed {
					t.Errorf("%s imports %s", f.name, imported)
				}
			}
		}
		if files == 0 {
			t.Errorf("no files in %s: the rule about it checks nothing", rule.dir)
		}
	}
}

// onlyIn lists imports that are confined to a few places.
var onlyIn = []struct {
	imported string // the package and everything below it
	dirs     []string
	files    []string
}{
	// disk.go reads the page sizes of a closed store's file.
	{imported: "database/sql", dirs: []string{"internal/store/sqlite", "internal/backup", "internal/restore", "internal/testkit"}, files: []string{"bench/suite/disk.go"}},
	{imported: "modernc.org", dirs: []string{"internal/store/sqlite", "internal/backup", "internal/restore"}, files: []string{"bench/suite/disk.go"}},
	{imported: "net/http", dirs: []string{"internal/server", "internal/web", "internal/console", "internal/demo", "internal/doctor", "internal/upstream", "internal/fetch", "internal/logout", "internal/metrics", "internal/tracing", "internal/adminclient", "internal/node", "internal/cli", "examples", "bench", "internal/e2e", "resource"}},
	{imported: "github.com/jackc", dirs: []string{"internal/store/postgres"}, files: []string{"bench/suite/cluster.go"}},
	{imported: "internal/store/postgres", dirs: []string{"internal/deployment", "internal/node", "internal/cli", "bench/suite", "internal/e2e"}},
	{imported: "internal/store/sqlite", dirs: []string{"internal/backup", "internal/restore", "internal/deployment", "internal/node", "internal/cli", "bench/suite", "internal/e2e", "internal/testkit"}},
	{imported: "internal/server", dirs: []string{"internal/server", "internal/web", "internal/console", "internal/demo", "internal/adminclient", "internal/node", "internal/cli", "internal/doctor", "bench", "internal/e2e"}},
	{imported: "internal/doctor", dirs: []string{"internal/cli", "internal/node"}},
	{imported: "internal/explain", dirs: []string{"internal/cli", "internal/node"}},
	{imported: "internal/show", dirs: []string{"internal/console", "internal/secretfile", "internal/admin", "internal/cli", "internal/node", "internal/deployment", "internal/doctor", "internal/explain", "internal/restore"}},
	// listener.go detects changed certificate files, certificate.go world-readable keys,
	// and request.go a missing audit log.
	{imported: "os", dirs: []string{"internal/secretfile", "internal/cli", "internal/node", "internal/deployment", "internal/adminclient", "packaging", "examples", "internal/config", "internal/doctor", "internal/backup", "internal/restore", "internal/store/sqlite", "internal/store/postgres/pgtest", "internal/store/storetest", "bench", "internal/e2e", "internal/conformance", "internal/server/apidoc", "internal/audit", "internal/metrics/page", "internal/tracing", "internal/testkit"},
		files: []string{"internal/server/listener.go", "internal/server/certificate.go", "internal/explain/request.go"}},
	{imported: "github.com/prometheus", dirs: []string{"internal/metrics", "internal/node"}},
	{imported: "go.opentelemetry.io", dirs: []string{"internal/tracing"}},
	{imported: "google.golang.org", dirs: []string{"internal/tracing"}},
	{imported: "github.com/coreos/go-oidc", dirs: []string{"examples", "internal/upstream"}},
	{imported: "github.com/spf13", dirs: []string{"internal/cli"}},
	{imported: "github.com/go-jose", dirs: []string{"internal/admin", "internal/client", "internal/keys", "internal/keyset", "internal/issuer", "internal/upstream", "internal/cli", "bench/suite", "internal/dpop", "internal/e2e", "resource"}},
	{imported: "go.yaml.in", dirs: []string{"internal/config", "internal/pages", "internal/server/apidoc"}},
	{imported: "testing", dirs: []string{"internal/store/storetest", "internal/testkit", "internal/store/postgres/pgtest", "internal/e2e", "internal/conformance"}},
	{imported: "unsafe", files: []string{"internal/store/sqlite/statement.go", "internal/store/sqlite/wal.go"}},
	{imported: "C"},
}

func TestImportsConfinedToAFewPlaces(t *testing.T) {
	code, _ := goFiles(t)
	for _, rule := range onlyIn {
		for _, f := range code {
			uses := slices.ContainsFunc(f.imports, func(p string) bool { return p == rule.imported || strings.HasPrefix(p, rule.imported+"/") })
			if uses && !f.in(rule.dirs...) && !slices.Contains(rule.files, f.name) {
				t.Errorf("%s imports %s", f.name, rule.imported)
			}
		}
	}
	for _, f := range code {
		if f.in("internal/store") && slices.ContainsFunc(f.imports, func(p string) bool { return p == "internal/issuer" || p == "internal/server" }) {
			t.Errorf("%s: an engine looks upwards", f.name)
		}
	}
}

// unrestricted are directories whose packages may import anything, because none of them
// is part of the server.
var unrestricted = []string{"examples", "packaging", "bench", "internal/conformance", "internal/e2e",
	"internal/cli/page", "internal/config/page", "internal/metrics/page", "internal/server/apidoc", "internal/store/postgres/pgtest", "internal/store/storetest", "internal/testkit"}

func TestImportRuleOfEveryPackage(t *testing.T) {
	code, _ := goFiles(t)
	for _, f := range code {
		if !f.in(unrestricted...) && !slices.ContainsFunc(mayImport, func(rule importRule) bool { return rule.dir == f.dir() }) {
			t.Errorf("%s: the package is neither in mayImport nor unrestricted", f.name)
		}
	}
}

// readClock are the packages that may read the clock. All others receive the time as a
// parameter.
var readClock = []string{"internal/adminclient", "internal/audit", "internal/backup", "internal/cli", "internal/deployment", "internal/directory", "internal/doctor", "internal/metrics", "internal/node",
	"internal/overload", "internal/server", "internal/store/postgres", "internal/store/sqlite", "internal/tracing", "resource"}

func TestArchClockIsReadInAFewPackages(t *testing.T) {
	now := regexp.MustCompile(`\btime\.(Now|Since|Until)\b`)
	code, _ := goFiles(t)
	reads := map[string]bool{}
	for _, f := range code {
		loc := now.FindIndex(f.text)
		if loc == nil || f.in(unrestricted...) {
			continue
		}
		reads[f.dir()] = true
		if !slices.Contains(readClock, f.dir()) {
			t.Errorf("%s:%d reads the clock", f.name, 1+bytes.Count(f.text[:loc[0]], []byte("\n")))
		}
	}
	for _, dir := range readClock {
		if !reads[dir] {
			t.Errorf("%s may read the clock, and does not", dir)
		}
	}
}

// knowProofs are the files outside of package dpop that use proofs of a key (RFC 9449),
// with the reason. All others use only the key, an oauth.JKT.
var knowProofs = map[string]string{
	"internal/server/proof.go":       "verifies the proofs of requests, for every endpoint",
	"internal/server/errors.go":      "names the algorithms in challenges",
	"internal/server/token/token.go": "names the algorithms in the metadata",
	"internal/node/node.go":          "keeps what a reload must not forget: the proofs that were seen",
	"resource/proof.go":              "verifies the proofs of requests to an API",
	"resource/verifier.go":           "keeps the proofs that were seen",
	"resource/protected.go":          "names the algorithms in the metadata of an API",
}

func TestArchProofsAreKnownInAFewFiles(t *testing.T) {
	code, _ := goFiles(t)
	known := map[string]bool{}
	for _, f := range code {
		if f.in(unrestricted...) || !slices.Contains(f.imports, "internal/dpop") {
			continue
		}
		known[f.name] = true
		if knowProofs[f.name] == "" {
			t.Errorf("%s knows what a proof is", f.name)
		}
	}
	for name := range knowProofs {
		if !known[name] {
			t.Errorf("%s may know what a proof is, and does not", name)
		}
	}
}

func TestNamesAndSizes(t *testing.T) {
	code, tests := goFiles(t)
	meaningless := []string{"util", "utils", "common", "helper", "helpers", "base", "core", "types", "misc", "shared"}
	for _, f := range slices.Concat(code, tests) {
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.name), ".go"), "_test")
		for _, name := range []string{f.pkg, path.Base(f.dir()), stem} {
			if slices.Contains(meaningless, strings.TrimSuffix(name, "_test")) {
				t.Errorf("%s: %q says nothing about what it knows", f.name, name)
			}
		}
	}
	for _, f := range code {
		if n := bytes.Count(f.text, []byte("\n")); n > 450 {
			t.Errorf("%s has %d lines", f.name, n)
		}
	}
}

func TestArchNothingIsLeftForLater(t *testing.T) {
	// Concatenated here, so that this file does not match itself.
	banned := regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}, "|") + `)\b`)
	skipped := regexp.MustCompile(`\bt\.Sk` + `ip`)
	code, tests := goFiles(t)
	for _, f := range slices.Concat(code, tests) {
		for _, found := range []*regexp.Regexp{banned, skipped} {
			if loc := found.FindIndex(f.text); loc != nil {
				t.Errorf("%s contains %q", fmt.Sprintf("%s:%d", f.name, 1+bytes.Count(f.text[:loc[0]], []byte("\n"))), f.text[loc[0]:loc[1]])
			}
		}
	}
}

// TestTestsThatAreSelectedByNameExist: go test accepts a pattern that matches nothing. Then
// a renamed test would no longer run, or run with the race detector.
func TestTestsThatAreSelectedByNameExist(t *testing.T) {
	_, tests := goFiles(t)
	for file, selects := range map[string]struct {
		pattern string
		lists   int
	}{"Makefile": {`(?m)^(?:LONG|COUNTS|MEETING) = (.*)$`, 3}, "CONTRIBUTING.md": {`-run '([^']*)'`, 1}} {
		text, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		lists := regexp.MustCompile(selects.pattern).FindAllSubmatch(text, -1)
		if len(lists) != selects.lists {
			t.Fatalf("%s: %d lists of tests, of %d", file, len(lists), selects.lists)
		}
		for _, list := range lists {
			for _, words := range strings.Split(string(list[1]), "|") {
				declared := regexp.MustCompile(`(?m)^func Test\w*` + words)
				if !slices.ContainsFunc(tests, func(f goFile) bool { return declared.Match(f.text) }) {
					t.Errorf("%s: no test has %s in its name", file, words)
				}
			}
		}
	}
}
