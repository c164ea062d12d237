package conformance

import (
	"bytes"
	"fmt"
	"slices"
)

// A Mutation breaks one safety on purpose.
type Mutation struct {
	Name string // what is taken out
	File string // relative to the repository's root
	Old  string // occurs exactly once
	New  string
	Test string // command that must fail, in the manner of a test
}

// Apply is the broken source.
func (m Mutation) Apply(source []byte) ([]byte, error) {
	if n := bytes.Count(source, []byte(m.Old)); n != 1 {
		return nil, fmt.Errorf("mutation %q: its text occurs %d times in %s", m.Name, n, m.File)
	}
	return bytes.Replace(source, []byte(m.Old), []byte(m.New), 1), nil
}

const here = "go test ./internal/conformance -run "

// Mutations lists what must not be taken out unnoticed.
var Mutations = slices.Concat(tokenMutations, authorizationMutations, nodeMutations, restoreMutations, auditMutations, setupMutations, limitMutations, grantMutations, keyMutations, storeMutations)

var tokenMutations = []Mutation{
	{
		Name: "rotation before its answer", File: "internal/store/sqlite/writer.go",
		Old:  "if next == have {",
		New:  "if next == have || next.State == grant.Active {",
		Test: here + "TestTR11",
	},
	{
		Name: "decision on what is stored", File: "internal/store/sqlite/writer.go",
		Old:  "next, events := op.decided(have)",
		New:  "if have.Generation > 1 {\n\t\thave.Generation--\n\t}\n\tnext, events := op.decided(have)",
		Test: here + "TestTR11",
	},
	{
		Name: "single-use gate of codes", File: "internal/store/sqlite/grant.go",
		Old:  "ON CONFLICT (prefix) DO NOTHING`",
		New:  "ON CONFLICT (prefix) DO UPDATE SET attempt = excluded.attempt`",
		Test: here + "TestTC19",
	},
	{
		Name: "owner of a refresh token", File: "internal/grant/grant.go",
		Old:  "case g.ClientID != r.ClientID || g.Realm != r.Realm:\n\t\treturn g.refuse(OtherClient)\n\tcase g.State == Revoked:",
		New:  "case false:\n\t\treturn g.refuse(OtherClient)\n\tcase g.State == Revoked:",
		Test: here + "TestTR04",
	},
	{
		Name: "owner of a code", File: "internal/grant/grant.go",
		Old: "case c.ClientID != r.ClientID || c.Realm != r.Realm:", New: "case false:",
		Test: here + "TestTC04",
	},
	{
		Name: "replay before expiry", File: "internal/grant/grant.go",
		Old: "older && !g.repeats(r, p, now):", New: "older && now < g.ExpiresAt && !g.repeats(r, p, now):",
		Test: here + "TestTR06",
	},
	{
		Name: "replay before scope", File: "internal/grant/grant.go",
		Old: "older && !g.repeats(r, p, now):", New: `older && (r.Scope == "" || g.Scope.Covers(r.Scope)) && !g.repeats(r, p, now):`,
		Test: here + "TestTG43",
	},
	{
		Name: "end of the retry window", File: "internal/grant/grant.go",
		Old: "if p.RetryWindow <= 0 || r.Generation != g.Generation-1 {", New: "if r.Generation != g.Generation-1 {\n\t\treturn false\n\t}\n\tif p.RetryWindow > 0 {\n\t\treturn true\n\t}\n\tif p.RetryWindow <= 0 {",
		Test: here + "TestTR13",
	},
	{
		Name: "retry only of the last generation", File: "internal/grant/grant.go",
		Old: "if p.RetryWindow <= 0 || r.Generation != g.Generation-1 {", New: "if p.RetryWindow <= 0 {",
		Test: here + "TestTR09",
	},
	{
		Name: "revocation by a replayed code", File: "internal/grant/grant.go",
		Old: "return g.revoke(CodeReplayed)", New: "return g.refuse(CodeReplayed)",
		Test: here + "TestTC14",
	},
	{
		Name: "commit before a refusal", File: "internal/issuer/token.go",
		Old: "return d.Next, revocation(g, d, evidence, now)", New: "if d.Refusal != grant.Allowed {\n\t\t\treturn g, nil\n\t\t}\n\t\treturn d.Next, revocation(g, d, evidence, now)",
		Test: here + "TestTR06",
	},
	{
		Name: "redirect URI of a code", File: "internal/grant/grant.go",
		Old: "case HashRedirectURI(r.RedirectURI) != c.RedirectHash:", New: "case false:",
		Test: here + "TestTC06",
	},
	{
		Name: "PKCE", File: "internal/grant/grant.go",
		Old: "case !c.proves(r.Verifier):", New: "case false:",
		Test: here + "TestTC09",
	},
	{
		Name: "CORS for the origins of confidential clients", File: "internal/issuer/origins.go",
		Old: "if !c.Public() || ", New: "if ", Test: here + "TestTG38",
	},
	{
		Name: "CORS for the origins of disabled clients", File: "internal/issuer/origins.go",
		Old: " || c.State != store.ClientEnabled", New: "", Test: here + "TestTG38",
	},
	{
		Name: "verifier without a challenge", File: "internal/grant/code.go",
		Old: `return verifier == ""`, New: "return true",
		Test: here + "TestTC11",
	},
	{
		Name: "cutoffs", File: "internal/grant/policy.go",
		Old: "return cutoff != 0 && authorizedAt <= cutoff.Add(p.MaxSkew)", New: "return false",
		Test: here + "TestTR26",
	},
	{
		Name: "MAC of tokens", File: "internal/keys/token.go",
		Old:  "if subtle.ConstantTimeCompare(k.macToken(sum[:0], prefix, realm, b[:size])[:macSize], b[size:]) != 1 {",
		New:  "if subtle.ConstantTimeCompare(k.macToken(sum[:0], prefix, realm, b[:size])[:macSize], b[size:]) == 2 {",
		Test: here + "TestTR03",
	},
	{
		Name: "realm in the MAC", File: "internal/keys/token.go",
		Old: "l = append(l, realm...)", New: `l = append(l, "/api"...)`,
		Test: here + "TestTG43",
	},
	{
		Name: "kind in the MAC", File: "internal/keys/token.go",
		Old: "l := append(label[:0], prefix...)", New: "l := append(label[:0], CodePrefix...)",
		Test: "go test ./internal/keys",
	},
	{
		Name: "state of clients", File: "internal/issuer/directory.go",
		Old: "if r == nil || r.Realm != realm || r.State != store.ClientEnabled {", New: "if r == nil || r.Realm != realm {",
		Test: here + "TestCA21",
	},
	{
		Name: "same work for unknown clients", File: "internal/issuer/client.go",
		Old: "	digest := view.Ring.Digest(cred.Secret)\n", New: "	if _, known := view.Client(iss.Realm, cred.ClientID); !known {\n\t\treturn nil, ErrClient\n\t}\n	digest := view.Ring.Digest(cred.Secret)\n",
		Test: here + "TestCA26",
	},
	{
		Name: "expiry of secrets", File: "internal/store/client.go",
		Old: "return s.ExpiresAt != 0 && now >= s.ExpiresAt", New: "return false",
		Test: here + "TestCA20",
	},
	{
		Name: "all of the PKCE hash", File: "internal/oauth/pkce.go",
		Old: "subtle.ConstantTimeCompare(sum[:], challenge[:])", New: "subtle.ConstantTimeCompare(sum[:16], challenge[:16])",
		Test: "go test ./internal/oauth -run TestVerifyS256",
	},
	{
		Name: "PKCE in constant time", File: "internal/oauth/pkce.go",
		Old: "return subtle.ConstantTimeCompare(sum[:], challenge[:]) == 1", New: "_ = subtle.ConstantTimeCompare\n\treturn sum == challenge",
		Test: "go test ./internal -run TestSecretsAreCompared",
	},
	{
		Name: "MAC of tokens in constant time", File: "internal/keys/token.go",
		Old:  "if subtle.ConstantTimeCompare(k.macToken(sum[:0], prefix, realm, b[:size])[:macSize], b[size:]) != 1 {",
		New:  "_ = subtle.ConstantTimeCompare\n\tif string(k.macToken(sum[:0], prefix, realm, b[:size])[:macSize]) != string(b[size:]) {",
		Test: "go test ./internal -run TestSecretsAreCompared",
	},
	{
		Name: "client secrets in constant time", File: "internal/issuer/client.go",
		Old:  "case subtle.ConstantTimeCompare(s.Digest, digest)|subtle.ConstantTimeCompare(s.Digest, raw) == 1:",
		New:  "case subtle.ConstantTimeCompare(nil, nil) == 1 && (string(s.Digest) == string(digest) || string(s.Digest) == string(raw)):",
		Test: "go test ./internal -run TestSecretsAreCompared",
	},
	{
		Name: "all of a slow hash", File: "internal/keys/secret.go",
		Old: "subtle.ConstantTimeCompare(got, want)", New: "subtle.ConstantTimeCompare(got[:16], want[:16])",
		Test: "go test ./internal/keys -run TestMatchSlow",
	},
	{
		Name: "known grant types in the log", File: "internal/server/record.go",
		Old: `slog.String("grant_type", knownGrantType(rec.GrantType))`, New: `slog.String("grant_type", rec.GrantType)`,
		Test: here + "TestOP08",
	},
	{
		Name: "known clients in the log", File: "internal/server/record.go",
		Old: `slog.String("client_id", s.known(rec.ClientID))`, New: `slog.String("client_id", rec.ClientID)`,
		Test: here + "TestOP08",
	},
	{
		Name: "known clients in the audit log", File: "internal/server/record.go",
		Old: "ClientID: s.known(clientID)", New: "ClientID: clientID",
		Test: here + "TestOP08",
	},
	{
		Name: "right to a phantom token", File: "internal/server/resource/introspect.go",
		Old: "&& t.MayBeAskedBy(c):", New: ":",
		Test: here + "TestIN14",
	},
	{
		Name: "headers of verification in another spelling", File: "internal/server/resource/bearer.go",
		Old: "if isAlias(name) {", New: "if isAlias(name) && false {",
		Test: here + "TestTL21",
	},
	{
		Name: "parameters in the query", File: "internal/oauth/params.go",
		Old: "case known && !queryAllowed:", New: "case known && !queryAllowed && false:",
		Test: here + "TestTG05",
	},
	{
		Name: "end of a chunked connection", File: "internal/server/server.go",
		Old: "if len(r.TransferEncoding) > 0 {", New: "if len(r.TransferEncoding) > 9 {",
		Test: here + "TestTL08",
	},
	{
		Name: "cipher suites", File: "internal/server/listener.go",
		Old: "tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,", New: "tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,",
		Test: here + "TestTL03",
	},
	{
		Name: "durable commits", File: "internal/store/sqlite/sqlite.go",
		Old: `"synchronous = FULL"`, New: `"synchronous = OFF"`,
		Test: "go test ./internal/store/sqlite -run TestEveryConnectionHasTheSettingsThatDurabilityNeeds",
	},
	{
		Name: "owner at revocation of a refresh token", File: "internal/grant/inspect.go",
		Old:  "if g.ClientID != t.ClientID || g.Realm != t.Realm {\n\t\treturn g.refuse(OtherClient)\n\t}\n\treturn g.Revoke(ReasonClient)",
		New:  "return g.Revoke(ReasonClient)",
		Test: here + "TestRV04",
	},
	{
		Name: "owner at revocation of an access token", File: "internal/grant/inspect.go",
		Old:  "if g.ClientID != t.ClientID || g.Realm != t.Realm {\n\t\treturn g.refuse(OtherClient)\n\t}\n\tif g.State == Revoked ||",
		New:  "if g.State == Revoked ||",
		Test: here + "TestRV04",
	},
	{
		Name: "floor of access tokens", File: "internal/grant/inspect.go",
		Old: "case t.IssuedAt <= g.AccessFloor:", New: "case t.IssuedAt < g.AccessFloor:",
		Test: here + "TestRV13",
	},
	{
		Name: "floor as far as the present pair", File: "internal/grant/inspect.go",
		Old: "max(now, t.IssuedAt, g.RotatedAt)", New: "max(now, t.IssuedAt)",
		Test: "go test ./internal/grant -run TestRevoking",
	},
	{
		Name: "state of the grant at introspection", File: "internal/grant/inspect.go",
		Old: "case g.State == Revoked:\n\t\treturn GrantRevoked", New: "case false:\n\t\treturn GrantRevoked",
		Test: here + "TestIN12",
	},
	{
		Name: "cutoffs at introspection", File: "internal/grant/inspect.go",
		Old: "case p.cutOff(g.AuthorizedAt, t.Cutoff):", New: "case false:",
		Test: here + "TestOP18",
	},
	{
		Name: "expiry of access tokens", File: "internal/grant/inspect.go",
		Old: "return now >= t.Maker.expiry(t.ExpiresAt, p.AccessLifetime, p).Add(p.MaxSkew)", New: "return false",
		Test: here + "TestIN04",
	},
	{
		Name: "a lost record is no dead token", File: "internal/server/resource/introspect.go",
		Old: "if errors.As(err, &refused) && refused.Why != grant.StoreBehind {", New: "if errors.As(err, &refused) && refused.Why != grant.OtherClient {",
		Test: here + "TestIN17",
	},
	{
		Name: "state of the client at introspection", File: "internal/issuer/inspect.go",
		Old: "if why == grant.Allowed && !enabled {", New: "if why == grant.Allowed && !enabled && false {",
		Test: here + "TestIN12",
	},
	{
		Name: "permission to introspect", File: "internal/issuer/inspect.go",
		Old: "return caller.Introspect && (", New: "return (",
		Test: here + "TestIN03",
	},
	{
		Name: "audience at introspection", File: "internal/issuer/inspect.go",
		Old: "(len(limits) == 0 || slices", New: "(len(limits) >= 0 || slices",
		Test: here + "TestIN11",
	},
	{
		Name: "public clients at introspection", File: "internal/server/resource/introspect.go",
		Old: "if c.Public() {", New: "if false {",
		Test: here + "TestIN02",
	},
	{
		Name: "type of a JWT", File: "internal/issuer/inspect.go",
		Old: "if !slices.Contains(store.JWTTypes, typ) ||", New: "if (!slices.Contains(store.JWTTypes, typ) && false) ||",
		Test: here + "TestTK09",
	},
	{
		Name: "issuer of a JWT", File: "internal/issuer/inspect.go",
		Old: " || c.Issuer != iss.ID {", New: " {",
		Test: here + "TestTK09",
	},
	{
		Name: "commit before a revocation's answer", File: "internal/issuer/revoke.go",
		Old: "case err != nil:\n\t\treturn tok.GrantID, err", New: "case err != nil:\n\t\treturn tok.GrantID, nil",
		Test: here + "TestRV11",
	},
	{
		Name: "a lost record is no revocation", File: "internal/issuer/revoke.go",
		Old: "why == grant.StoreBehind {", New: "why == grant.StoreBehind && false {",
		Test: here + "TestRV11",
	},
	{
		Name: "our own write and no other's", File: "internal/issuer/token.go",
		Old: "return g == next", New: "return g.State == next.State && g.Version == next.Version && g.Attempt == next.Attempt",
		Test: "go test ./internal/issuer -run TestAnotherNodes",
	},
	{
		Name: "scope at the door", File: "internal/server/resource/bearer.go",
		Old: "if !t.Scope.Covers(scope) {", New: "if !t.Scope.Covers(scope) && false {",
		Test: here + "TestTL21",
	},
	{
		Name: "audience at the door", File: "internal/server/resource/bearer.go",
		Old: `if audience != "" && !slices.Contains(t.Audience, audience) {`, New: `if audience == "-" && !slices.Contains(t.Audience, audience) {`,
		Test: here + "TestTK09",
	},
	{
		Name: "demands that contradict each other", File: "internal/server/resource/bearer.go",
		Old: `case audience != "" && audience != h:`, New: `case audience == "-":`,
		Test: here + "TestTL21",
	},
}
