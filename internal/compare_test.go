package internal_test

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// comparing are the packages that compare secrets with values from callers.
var comparing = []string{
	"internal/keys", "internal/oauth", "internal/grant", "internal/directory", "internal/client", "internal/issuer", "internal/explain", "internal/login", "internal/account", "internal/upstream", "internal/server", "internal/server/admin", "internal/web",
}

// inConstantTime lists how many constant-time comparisons each function makes. If one
// disappears, == has replaced it, or nothing.
var inConstantTime = map[string]int{
	"internal/oauth/pkce.go VerifyS256":            1, // PKCE
	"internal/keys/token.go openText":              1, // the MAC of tokens, and of ids of registrations
	"internal/keys/secret.go MatchSlow":            1, // imported client secrets, passwords
	"internal/keys/audit.go CheckLineMAC":          1, // lines of the audit log
	"internal/client/authenticate.go bySecret":     2, // client secrets
	"internal/client/authenticate.go wrong":        2, // against expired secrets
	"internal/client/authenticate.go bySealedID":   1, // secrets of clients that registered themselves
	"internal/server/token/register.go register":   1, // the initial access token
	"internal/login/interaction.go Interaction":    1, // a browser's cookie
	"internal/login/session.go openSessionCookie":  1,
	"internal/login/handoff.go TakeLogin":          1, // the verifier of a handoff
	"internal/account/totp.go stepOf":              1, // one-time codes
	"internal/account/account.go nonce":            1, // the cookie of a known browser
	"internal/server/admin/access.go isConfigured": 1, // the token of the configuration
	"internal/keys/secret.go IsAdminToken":         1, // tokens of the admin API
	"internal/upstream/finish.go identity":         1, // the nonce of an upstream login
}

// secretWord matches the ends of names for secrets and their stored forms.
var secretWord = regexp.MustCompile(`(?i)(secret|digest|mac|mark|sum|hash|verifier|challenge|password|nonce|seal|slow|cookie|browser)s?$`)

// openly are comparisons of such names that reveal nothing.
var openly = map[string]string{
	"slices.Equal(c.RawIssuer, c.RawSubject)":           "certificates are public",
	"slices.Equal(leaf.RawIssuer, leaf.RawSubject)":     "likewise",
	"slices.Equal(d.scopes, scopes)":                    "the metadata publishes them",
	"cred.RawSecret != cred.Secret":                     "two readings of one header",
	"HashRedirectURI(r.RedirectURI) != c.RedirectHash":  "a redirect URI is no secret",
	"grant.HashRedirectURI(uri) == e.Code.RedirectHash": "nor for an operator who asks why",
	"string(e.Name) == string(a.Event)":                 "names of events",
	"bytes.Equal(next.TOTP, u.TOTP)":                    "two stored records of one user; nobody sends either",
	"next.Password == u.Password":                       "likewise, of hashes",
	"header.Algorithm != string(alg)":                   "both are names of algorithms",
	"string(raw) == value":                              "a claim whose signature has been verified",
	"g.Attempt != a.Digest":                             "two assertions of one issuer, which has signed both",
	`form["session"] != present.Mark()`:                 "a name of the browser's own session, which its page shows",
	"shown != s.Mark()":                                 "likewise",
	"string(stored) != who.Standard":                    "what one login says of a user, and what the last one said",
}

// The duration of a comparison by == reveals how much of a guess is right. No test of
// behaviour can detect that, so this one reads the source.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	code, _ := goFiles(t)
	found, used := map[string]int{}, map[string]bool{}
	for _, f := range code {
		if !f.in(comparing...) {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, f.name, f.text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		text := func(n ast.Node) string {
			var b strings.Builder
			printer.Fprint(&b, fset, n)
			return b.String()
		}
		check := func(n ast.Node, comparison string) {
			if used[comparison] = true; openly[comparison] == "" {
				t.Errorf("%s: %s takes as long as its operands are equal: use subtle.ConstantTimeCompare, or say in openly why not", fset.Position(n.Pos()), comparison)
			}
		}
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					switch text(n.Fun) {
					case "subtle.ConstantTimeCompare", "hmac.Equal":
						found[f.name+" "+fn.Name.Name]++
					case "bytes.Equal", "bytes.Compare", "reflect.DeepEqual", "slices.Equal", "slices.Compare":
						check(n, text(n))
					}
				case *ast.BinaryExpr:
					if (n.Op == token.EQL || n.Op == token.NEQ) && !plain(n.X) && !plain(n.Y) && (secret(n.X) || secret(n.Y)) {
						check(n, text(n))
					}
				}
				return true
			})
		}
	}
	for name, n := range inConstantTime {
		if found[name] != n {
			t.Errorf("%s compares %d times in constant time, and the list says %d", name, found[name], n)
		}
		delete(found, name)
	}
	for name, n := range found {
		t.Errorf("%s compares %d times in constant time: add it to the list", name, n)
	}
	for comparison := range openly {
		if !used[comparison] {
			t.Errorf("there is no %s any more", comparison)
		}
	}
}

// plain reports whether a comparison with x reveals only the source text: x is a literal,
// a constant of another package, nil, or a length.
func plain(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return x.Name == "nil" || x.Name == "true" || x.Name == "false" || x.Name == "err"
	case *ast.CallExpr:
		fn, ok := x.Fun.(*ast.Ident)
		return ok && fn.Name == "len"
	case *ast.CompositeLit:
		return true
	case *ast.ParenExpr:
		return plain(x.X)
	}
	return false
}

// secret reports whether x has the name of a secret, or converts bytes to a string.
func secret(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return secretWord.MatchString(x.Name)
	case *ast.SelectorExpr:
		return secretWord.MatchString(x.Sel.Name)
	case *ast.CallExpr:
		fn, ok := x.Fun.(*ast.Ident)
		return ok && fn.Name == "string" || secret(x.Fun)
	case *ast.IndexExpr:
		return secret(x.X)
	case *ast.SliceExpr:
		return secret(x.X)
	case *ast.StarExpr:
		return secret(x.X)
	case *ast.ParenExpr:
		return secret(x.X)
	}
	return false
}
