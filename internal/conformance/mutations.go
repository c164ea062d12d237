package conformance

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Mutation removes one safeguard on purpose. It names the declaration that it changes
// instead of a file, so that it survives moves and renames of files.
type Mutation struct {
	Name string // the safeguard that is removed
	// In is a function, a method (Grant.Refresh), a variable, a constant or a type,
	// prefixed by its package's name where several declarations contain the text; or the
	// path of a file that is not Go.
	In   string
	Old  string // occurs there exactly once
	New  string
	Test string // the command that must fail, with a failed test
}

// A Declaration is the position of a declaration in a file of the repository.
type Declaration struct {
	file, pkg  string
	start, end int
}

// Declarations returns the top-level declarations of the repository by their names.
func Declarations(root string) (map[string][]Declaration, error) {
	all := map[string][]Declaration{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		add := func(name string, n ast.Node) {
			all[name] = append(all[name], Declaration{filepath.ToSlash(file), parsed.Name.Name, set.Position(n.Pos()).Offset, set.Position(n.End()).Offset})
		}
		for _, decl := range parsed.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				add(receiver(decl)+decl.Name.Name, decl)
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add(spec.Name.Name, spec)
					case *ast.ValueSpec:
						add(spec.Names[0].Name, spec)
					}
				}
			}
		}
		return nil
	})
	return all, err
}

// receiver returns the type of a method's receiver, followed by a dot.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// Apply returns the path below root of the file that m changes, and its mutated source.
func (m Mutation) Apply(root string, declarations map[string][]Declaration) (file string, broken []byte, err error) {
	candidates := slices.Clone(declarations[m.In])
	if pkg, name, ok := strings.Cut(m.In, "."); ok {
		for _, d := range declarations[name] {
			if d.pkg == pkg {
				candidates = append(candidates, d)
			}
		}
	}
	if strings.Contains(m.In, "/") {
		candidates = []Declaration{{file: m.In, end: -1}}
	}
	found := 0
	for _, d := range candidates {
		source, err := os.ReadFile(filepath.Join(root, d.file))
		if err != nil {
			return "", nil, err
		}
		if d.end < 0 {
			d.end = len(source)
		}
		if n := bytes.Count(source[d.start:d.end], []byte(m.Old)); n > 0 {
			found += n
			file = d.file
			broken = slices.Concat(source[:d.start], bytes.Replace(source[d.start:d.end], []byte(m.Old), []byte(m.New), 1), source[d.end:])
		}
	}
	if found != 1 {
		return "", nil, fmt.Errorf("mutation %q: its text occurs %d times in %s (%d declarations)", m.Name, found, m.In, len(candidates))
	}
	return file, broken, nil
}

const here = "go test ./internal/conformance -run "

// Mutations lists the safeguards whose removal the tests must notice.
var Mutations = slices.Concat(tokenMutations, authorizationMutations, nodeMutations, restoreMutations, auditMutations, setupMutations, machineMutations, limitMutations, grantMutations, keyMutations, storeMutations, fapiMutations, trustMutations)

var tokenMutations = []Mutation{
	{
		Name: "rotation before its answer", In: "writer.apply",
		Old:  "if next == have {",
		New:  "if next == have || next.State == grant.Active {",
		Test: here + "TestTR11",
	},
	{
		Name: "decision on what is stored", In: "writer.apply",
		Old:  "next, events := op.decided(have)",
		New:  "if have.Generation > 1 {\n\t\thave.Generation--\n\t}\n\tnext, events := op.decided(have)",
		Test: here + "TestTR11",
	},
	{
		Name: "single-use gate of codes", In: "insertGrantSQL",
		Old:  "ON CONFLICT (prefix) DO NOTHING`",
		New:  "ON CONFLICT (prefix) DO UPDATE SET attempt = excluded.attempt`",
		Test: here + "TestTC19",
	},
	{
		Name: "owner of a refresh token", In: "Grant.Refresh",
		Old:  "case g.ClientID != r.ClientID || g.Realm != r.Realm:\n\t\treturn g.refuse(OtherClient)\n\tcase !g.JKT.Bound()",
		New:  "case false:\n\t\treturn g.refuse(OtherClient)\n\tcase !g.JKT.Bound()",
		Test: here + "TestTR04",
	},
	{
		Name: "owner of a code", In: "Code.Redeem",
		Old: "case c.ClientID != r.ClientID || c.Realm != r.Realm:", New: "case false:",
		Test: here + "TestTC04",
	},
	{
		Name: "replay before expiry", In: "Grant.Refresh",
		Old: "older && !repeats && !shared:", New: "older && now < g.ExpiresAt && !repeats && !shared:",
		Test: here + "TestTR06",
	},
	{
		Name: "replay before scope", In: "Grant.Refresh",
		Old: "older && !repeats && !shared:", New: `older && (r.Scope == "" || g.Scope.Covers(r.Scope)) && !repeats && !shared:`,
		Test: here + "TestTG43",
	},
	{
		Name: "end of the retry window", In: "Grant.repeats",
		Old: "if p.RetryWindow <= 0 || r.Generation != g.Generation-1 {", New: "if r.Generation != g.Generation-1 {\n\t\treturn false\n\t}\n\tif p.RetryWindow > 0 {\n\t\treturn true\n\t}\n\tif p.RetryWindow <= 0 {",
		Test: here + "TestTR13",
	},
	{
		Name: "retry only of the last generation", In: "Grant.repeats",
		Old: "if p.RetryWindow <= 0 || r.Generation != g.Generation-1 {", New: "if p.RetryWindow <= 0 {",
		Test: here + "TestTR09",
	},
	{
		Name: "revocation by a replayed code", In: "Grant.Replay",
		Old: "return g.revoke(CodeReplayed)", New: "return g.refuse(CodeReplayed)",
		Test: here + "TestTC14",
	},
	{
		Name: "commit before a refusal", In: "change.on",
		Old: "return c.made.Next, revocation(g, c.made, c.evidence, c.now)", New: "if c.made.Refusal != grant.Allowed {\n\t\treturn g, nil\n\t}\n\treturn c.made.Next, revocation(g, c.made, c.evidence, c.now)",
		Test: here + "TestTR06",
	},
	{
		Name: "redirect URI of a code", In: "Code.Redeem",
		Old: "case HashRedirectURI(r.RedirectURI) != c.RedirectHash:", New: "case false:",
		Test: here + "TestTC06",
	},
	{
		Name: "PKCE", In: "Code.Redeem",
		Old: "case !c.Proves(r.Verifier):", New: "case false:",
		Test: here + "TestTC09",
	},
	{
		Name: "CORS for the origins of confidential clients", In: "scriptOrigins",
		Old: "if !c.Public() || ", New: "if ", Test: here + "TestTG38",
	},
	{
		Name: "CORS for the origins of disabled clients", In: "scriptOrigins",
		Old: " || c.State != store.ClientEnabled", New: "", Test: here + "TestTG38",
	},
	{
		Name: "verifier without a challenge", In: "Code.Proves",
		Old: `return verifier == ""`, New: "return true",
		Test: here + "TestTC11",
	},
	{
		Name: "cutoffs", In: "Policy.cutOff",
		Old: "return cutoff != 0 && authorizedAt <= cutoff.Add(p.MaxSkew)", New: "return false",
		Test: here + "TestTR26",
	},
	{
		Name: "MAC of tokens", In: "Ring.openText",
		Old:  "if k == nil || subtle.ConstantTimeCompare(k.macToken(made[:0], prefix, realm, b)[:macSize], sum) != 1 {",
		New:  "if k == nil || subtle.ConstantTimeCompare(k.macToken(made[:0], prefix, realm, b)[:macSize], sum) == 2 {",
		Test: here + "TestTR03",
	},
	{
		Name: "realm in the MAC", In: "key.macToken",
		Old: "l = append(l, realm...)", New: `l = append(l, "/api"...)`,
		Test: here + "TestTG43",
	},
	{
		Name: "kind in the MAC", In: "key.macToken",
		Old: "l := append(label[:0], prefix...)", New: "l := append(label[:0], CodePrefix...)",
		Test: "go test ./internal/keys",
	},
	{
		Name: "state of clients", In: "View.Client",
		Old: "if r == nil || r.State != store.ClientEnabled {", New: "if r == nil {",
		Test: here + "TestCA21",
	},
	{
		Name: "same work for unknown clients", In: "Authenticator.bySecret",
		Old: "	digest := view.Ring.Digest(cred.Secret)\n", New: "	if _, known := view.Client(a.Realm, cred.ClientID); !known {\n\t\treturn nil, ErrClient\n\t}\n	digest := view.Ring.Digest(cred.Secret)\n",
		Test: here + "TestCA26",
	},
	{
		Name: "expiry of secrets", In: "Secret.Expired",
		Old: "return s.ExpiresAt != 0 && now >= s.ExpiresAt", New: "return false",
		Test: here + "TestCA20",
	},
	{
		Name: "all of the PKCE hash", In: "VerifyS256",
		Old: "subtle.ConstantTimeCompare(sum[:], challenge[:])", New: "subtle.ConstantTimeCompare(sum[:16], challenge[:16])",
		Test: "go test ./internal/oauth -run TestVerifyS256",
	},
	{
		Name: "PKCE in constant time", In: "VerifyS256",
		Old: "return subtle.ConstantTimeCompare(sum[:], challenge[:]) == 1", New: "_ = subtle.ConstantTimeCompare\n\treturn sum == challenge",
		Test: "go test ./internal -run TestSecretsAreCompared",
	},
	{
		Name: "MAC of tokens in constant time", In: "Ring.openText",
		Old:  "if k == nil || subtle.ConstantTimeCompare(k.macToken(made[:0], prefix, realm, b)[:macSize], sum) != 1 {",
		New:  "_ = subtle.ConstantTimeCompare\n\tif k == nil || string(k.macToken(made[:0], prefix, realm, b)[:macSize]) != string(sum) {",
		Test: "go test ./internal -run TestSecretsAreCompared",
	},
	{
		Name: "client secrets in constant time", In: "Authenticator.bySecret",
		Old:  "case subtle.ConstantTimeCompare(s.Digest, digest)|subtle.ConstantTimeCompare(s.Digest, raw) == 1:",
		New:  "case subtle.ConstantTimeCompare(nil, nil) == 1 && (string(s.Digest) == string(digest) || string(s.Digest) == string(raw)):",
		Test: "go test ./internal -run TestSecretsAreCompared",
	},
	{
		Name: "all of a slow hash", In: "MatchSlow",
		Old: "subtle.ConstantTimeCompare(got, h.sum)", New: "subtle.ConstantTimeCompare(got[:16], h.sum[:16])",
		Test: "go test ./internal/keys -run TestMatchSlow",
	},
	{
		Name: "known grant types in the log", In: "Server.record",
		Old: `slog.String("grant_type", knownGrantType(rec.GrantType))`, New: `slog.String("grant_type", rec.GrantType)`,
		Test: here + "TestOP08",
	},
	{
		Name: "known clients in the log", In: "Server.record",
		Old: `slog.String("client_id", s.known(rec.ClientID))`, New: `slog.String("client_id", rec.ClientID)`,
		Test: here + "TestOP08",
	},
	{
		Name: "known clients in the audit log", In: "Server.Note",
		Old: "s.known(e.ClientID)", New: "e.ClientID",
		Test: here + "TestOP08",
	},
	{
		Name: "right to a phantom token", In: "Endpoints.introspect",
		Old: "&& t.IntrospectableBy(c):", New: ":",
		Test: here + "TestIN14",
	},
	{
		Name: "headers of verification in another spelling", In: "demands",
		Old: "if isAlias(name) {", New: "if isAlias(name) && false {",
		Test: here + "TestTL21",
	},
	{
		Name: "parameters in the query", In: "ParseParams",
		Old: "case known && !queryAllowed:", New: "case known && !queryAllowed && false:",
		Test: here + "TestTG05",
	},
	{
		Name: "end of a chunked connection", In: "Server.respond",
		Old: "if len(r.TransferEncoding) > 0 {", New: "if len(r.TransferEncoding) > 9 {",
		Test: here + "TestTL08",
	},
	{
		Name: "cipher suites", In: "TLSConfig",
		Old: "tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,", New: "tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,",
		Test: here + "TestTL03",
	},
	{
		Name: "durable commits", In: "Pragmas",
		Old: `"synchronous = FULL"`, New: `"synchronous = OFF"`,
		Test: "go test ./internal/store/sqlite -run TestEveryConnectionHasTheSettingsThatDurabilityNeeds",
	},
	{
		Name: "owner at revocation of a refresh token", In: "Grant.RevokeRefresh",
		Old:  "if g.ClientID != t.ClientID || g.Realm != t.Realm {\n\t\treturn g.refuse(OtherClient)\n\t}\n\treturn g.Revoke(ReasonClient)",
		New:  "return g.Revoke(ReasonClient)",
		Test: here + "TestRV04",
	},
	{
		Name: "owner at revocation of an access token", In: "Grant.RevokeAccess",
		Old:  "if g.ClientID != t.ClientID || g.Realm != t.Realm {\n\t\treturn g.refuse(OtherClient)\n\t}\n\tif g.State == Revoked ||",
		New:  "if g.State == Revoked ||",
		Test: here + "TestRV04",
	},
	{
		Name: "floor of access tokens", In: "Grant.Inspect",
		Old: "case t.IssuedAt <= g.AccessFloor:", New: "case t.IssuedAt < g.AccessFloor:",
		Test: here + "TestRV13",
	},
	{
		Name: "floor as far as the present pair", In: "Grant.RevokeAccess",
		Old: "max(now, t.IssuedAt, g.RotatedAt)", New: "max(now, t.IssuedAt)",
		Test: "go test ./internal/grant -run TestRevoking",
	},
	{
		Name: "state of the grant at introspection", In: "Grant.Inspect",
		Old: "case g.State == Revoked:\n\t\treturn GrantRevoked", New: "case false:\n\t\treturn GrantRevoked",
		Test: here + "TestIN12",
	},
	{
		Name: "cutoffs at introspection", In: "Grant.Inspect",
		Old: "case p.cutOff(g.AuthorizedAt, t.Cutoff):", New: "case false:",
		Test: here + "TestOP18",
	},
	{
		Name: "expiry of access tokens", In: "Presented.Expired",
		Old: "return now >= t.Maker.expiry(t.ExpiresAt, p.AccessLifetime, p).Add(p.MaxSkew)", New: "return false",
		Test: here + "TestIN04",
	},
	{
		Name: "a lost record does not make a token inactive", In: "Endpoints.introspect",
		Old: "ok && refused.Why != grant.StoreBehind {", New: "ok && refused.Why != grant.OtherClient {",
		Test: here + "TestIN17",
	},
	{
		Name: "state of the client at introspection", In: "Issuer.inspectOfGrant",
		Old: "if why == grant.Allowed && c == nil {", New: "if c, _ = view.Registered(g.Realm, g.ClientID); false {",
		Test: here + "TestIN12",
	},
	{
		Name: "permission to introspect", In: "Token.IntrospectableBy",
		Old: "return caller.Introspect && (", New: "return (",
		Test: here + "TestIN03",
	},
	{
		Name: "audience at introspection", In: "Token.IntrospectableBy",
		Old: "(len(limits) == 0 || t.IsFor", New: "(len(limits) >= 0 || t.IsFor",
		Test: here + "TestIN11",
	},
	{
		Name: "public clients at introspection", In: "Endpoints.introspect",
		Old: "if c.Public() {", New: "if false {",
		Test: here + "TestIN02",
	},
	{
		Name: "type of a JWT", In: "Issuer.Read",
		Old: "if !slices.Contains(store.JWTTypes, typ) ||", New: "if (!slices.Contains(store.JWTTypes, typ) && false) ||",
		Test: here + "TestTK09",
	},
	{
		Name: "issuer of a JWT", In: "Issuer.Read",
		Old: " || c.Issuer != iss.ID {", New: " {",
		Test: here + "TestTK09",
	},
	{
		Name: "commit before a revocation's answer", In: "Issuer.Revoke",
		Old: "case err != nil:\n\t\treturn t, err", New: "case err != nil:\n\t\treturn t, nil",
		Test: here + "TestRV11",
	},
	{
		Name: "a lost record is not answered as a revocation", In: "Issuer.Revoke",
		Old: "why == grant.StoreBehind {", New: "why == grant.StoreBehind && false {",
		Test: here + "TestRV11",
	},
	{
		Name: "our own write and no other's", In: "Issuer.settled",
		Old: "return g == next", New: "return g.State == next.State && g.Version == next.Version && g.Attempt == next.Attempt",
		Test: "go test ./internal/issuer -run TestAnotherNodes",
	},
	{
		Name: "scope that verification demands", In: "Endpoints.verify",
		Old: "case !t.Scope.Covers(d.scope):", New: "case !t.Scope.Covers(d.scope) && false:",
		Test: here + "TestTL21",
	},
	{
		Name: "audience that verification demands", In: "Endpoints.verify",
		Old: `case d.audience != "" && !t.IsFor(d.audience):`, New: `case d.audience == "-" && !t.IsFor(d.audience):`,
		Test: here + "TestTK09",
	},
	{
		Name: "demands that contradict each other", In: "demands",
		Old: `case d.audience != "" && d.audience != h:`, New: `case d.audience == "-":`,
		Test: here + "TestTL21",
	},
}
