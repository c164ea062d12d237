package conformance_test

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// badGrant is a request whose grant is refused. Every defect has the same response.
func badGrant(step, name string, kinds []string, spoil func(*flow)) row {
	return row{
		step: step, name: name, kinds: kinds, status: http.StatusBadRequest, code: "invalid_grant",
		description: "grant is invalid", spoil: spoil,
	}
}

// ends marks a row after which the grant cannot be used.
func (r row) ends() row {
	r.dies = true
	return r
}

// revoking marks a row whose request revokes the grant.
func (r row) revoking(why grant.Reason) row {
	r.revokes = why
	return r
}

// credential returns the name of the parameter with the flow's code or token.
func (x *flow) credential() string {
	if x.kind == byCode {
		return "code"
	}
	return "refresh_token"
}

// alter sends the credential with a change.
func alter(name string, change func(s string) string) row {
	return badGrant("G1", name, bothKinds, func(x *flow) {
		x.set(x.credential(), change(x.good.Get(x.credential())))
	})
}

// forge returns a refresh token with a valid MAC of the server's key that was never
// issued.
func (x *flow) forge(realm string, change func(*keys.Token)) string {
	x.t.Helper()
	g := x.row(x.id)
	tok := keys.Token{GrantID: g.ID, Generation: g.Generation, IssuedAt: g.RotatedAt, ExpiresAt: g.ExpiresAt}
	if change != nil {
		change(&tok)
	}
	text, err := x.ring().SealRefresh(g.KeyID, realm, tok)
	if err != nil {
		x.t.Fatal(err)
	}
	return text
}

func behind(name string, change func(*keys.Token)) row {
	return row{
		step: "G10", name: name, kinds: onlyRefresh, status: http.StatusServiceUnavailable, code: "temporarily_unavailable",
		description: "try again later", header: []string{"Retry-After: N"},
		spoil: func(x *flow) { x.set("refresh_token", x.forge(realm, change)) },
	}
}

func badScope(name, scope string) row {
	return row{
		step: "S1", name: name, kinds: onlyRefresh, status: http.StatusBadRequest, code: "invalid_scope",
		description: "scope not allowed", spoil: func(x *flow) { x.set("scope", scope) },
	}
}

func cut(name string, of func(x *flow) store.Cutoff) row {
	return badGrant("G8", name, bothKinds, func(x *flow) {
		x.use(x.client, func(a *issuer.Authorization) { a.Subject = "subject of " + x.client.ID })
		x.cutOff(of(x))
	}).ends()
}

// proof is a row about a code with the challenge of RFC 7636 appendix B.
func proof(name, sent string) row {
	return badGrant("G6", name, onlyCode, func(x *flow) {
		x.use(x.client, func(a *issuer.Authorization) { a.Challenge = challenge })
		x.good.Set("code_verifier", verifier)
		x.set("code_verifier", sent)
	})
}

var grantRows = []row{
	alter("made up", func(string) string { return "made-up" }),
	alter("well-formed but unknown", func(s string) string { return s[:len(s)-32] + strings.Repeat("A", 32) }),
	alter("one character changed", func(s string) string {
		middle := len(s) / 2
		if s[middle] == 'A' {
			return s[:middle] + "B" + s[middle+1:]
		}
		return s[:middle] + "A" + s[middle+1:]
	}),
	alter("cut short", func(s string) string { return s[:len(s)-1] }),
	alter("longer", func(s string) string { return s + "A" }),
	alter("padded", func(s string) string { return s + "=" }),
	alter("space after", func(s string) string { return s + " " }),
	alter("space before", func(s string) string { return " " + s }),
	alter("other case", strings.ToUpper),
	badGrant("G1", "access token", bothKinds, func(x *flow) {
		other, _ := x.deployment.tokens(x.client)
		x.set(x.credential(), other.AccessToken)
	}),
	badGrant("G1", "the other kind", bothKinds, func(x *flow) {
		if x.kind == byCode {
			other, _ := x.deployment.tokens(x.client)
			x.set("code", other.RefreshToken)
			return
		}
		x.set("refresh_token", x.deployment.code(x.client).Code)
	}),
	badGrant("G1", "refresh token under a code's prefix", onlyCode, func(x *flow) {
		other, _ := x.deployment.tokens(x.client)
		x.set("code", keys.CodePrefix+strings.TrimPrefix(other.RefreshToken, keys.RefreshPrefix))
	}),
	badGrant("G1", "access token under a refresh token's prefix", onlyRefresh, func(x *flow) {
		x.set("refresh_token", keys.RefreshPrefix+strings.TrimPrefix(x.tokens.AccessToken, keys.AccessPrefix))
	}),
	badGrant("G1", "other realm", onlyRefresh, func(x *flow) { x.set("refresh_token", x.forge("/other", nil)) }),
	badGrant("G1", "other realm", onlyCode, func(x *flow) {
		now := grant.At(x.now())
		c := grant.Code{
			GrantID: x.id, Realm: "/other", ClientID: x.client.ID, Subject: "alice", Scope: "a",
			RedirectHash: grant.HashRedirectURI(redirect), AuthorizedAt: now, ExpiresAt: now.Add(time.Minute),
		}
		var nonce [keys.NonceSize]byte
		rand.Read(nonce[:])
		text, err := x.ring().SealCode(x.ring().Current(keys.Seal, now), c, nonce)
		if err != nil {
			x.t.Fatal(err)
		}
		x.set("code", text)
	}),

	badGrant("G2", "expired", onlyCode, func(x *flow) { x.step(time.Minute) }).ends(),
	badGrant("G2", "expired", onlyRefresh, func(x *flow) { x.step(31 * 24 * time.Hour) }).ends(),
	badGrant("G2", "expired and ahead of its row", onlyRefresh, func(x *flow) {
		x.set("refresh_token", x.forge(realm, func(t *keys.Token) { t.Generation++ }))
		x.step(31 * 24 * time.Hour)
	}).ends(),

	badGrant("G3", "another client", bothKinds, func(x *flow) { x.set("client_id", x.b.ID, "client_secret", x.b.secret) }),
	badGrant("G3", "another client, with Basic", bothKinds, func(x *flow) { x.req.basic(x.b.ID, x.b.secret) }),
	badGrant("G3", "another client, spent", onlyCode, func(x *flow) {
		x.tokens = x.mustIssue(x.post(x.good))
		x.set("client_id", x.b.ID, "client_secret", x.b.secret)
		x.good = x.client.refresh(x.tokens.RefreshToken)
	}),
	badGrant("G3", "another client, spent", onlyRefresh, func(x *flow) {
		x.tokens = x.mustIssue(x.post(x.good))
		x.set("client_id", x.b.ID, "client_secret", x.b.secret)
		x.good = x.client.refresh(x.tokens.RefreshToken)
	}),

	replay("spent", func(*flow) {}, bothKinds),
	replay("spent a second ago", func(x *flow) { x.step(time.Second) }, bothKinds),
	replay("spent, and now expired", func(x *flow) { x.step(time.Minute) }, onlyCode),
	replay("spent, and the whole grant has expired", func(x *flow) { x.step(32 * 24 * time.Hour) }, bothKinds),
	replay("spent, with a scope too wide", func(x *flow) { x.set("scope", "a z") }, onlyRefresh),
	replay("spent, the client has no scope left", func(x *flow) {
		x.client = x.change(x.client, func(c *store.Client) { c.Scope = "z" })
	}, onlyRefresh),

	badGrant("G5", "another registered URI", onlyCode, func(x *flow) { x.set("redirect_uri", otherRedirect) }),
	badGrant("G5", "unregistered URI", onlyCode, func(x *flow) { x.set("redirect_uri", "https://evil.example/cb") }),
	badGrant("G5", "a query more", onlyCode, func(x *flow) { x.set("redirect_uri", redirect+"?computer_says=no") }),
	badGrant("G5", "other case", onlyCode, func(x *flow) { x.set("redirect_uri", "https://client.example/Cb") }),
	badGrant("G5", "spent, another URI", onlyCode, func(x *flow) {
		x.tokens = x.mustIssue(x.post(x.good))
		x.set("redirect_uri", otherRedirect)
		x.good = x.client.refresh(x.tokens.RefreshToken)
	}),
	proof("missing", ""),
	proof("wrong", strings.Repeat("w", 43)),
	proof("the challenge itself", challenge),
	badGrant("G6", "verifier without a challenge", onlyCode, func(x *flow) { x.set("code_verifier", verifier) }),

	cut("subject", func(x *flow) store.Cutoff { return store.Cutoff{Subject: "subject of " + x.client.ID} }),
	cut("client", func(x *flow) store.Cutoff { return store.Cutoff{ClientID: x.client.ID} }),
	cut("subject and client", func(x *flow) store.Cutoff {
		return store.Cutoff{Subject: "subject of " + x.client.ID, ClientID: x.client.ID}
	}),
	badGrant("G8", "revoked by an operator", onlyRefresh, func(x *flow) {
		if err := storetest.Replace(x.t.Context(), x.sqlite, x.row(x.id).Revoke(grant.ReasonOperator).Next); err != nil {
			x.t.Fatal(err)
		}
	}).revoking(grant.ReasonOperator),

	overtaken(onlyCode, storetest.CreateGrant, grant.ReasonCodeReplayed),
	overtaken(onlyRefresh, storetest.UpdateGrant, grant.ReasonRefreshReplayed),

	behind("ahead of its row", func(t *keys.Token) { t.Generation++ }),
	behind("of another instant", func(t *keys.Token) { t.IssuedAt++ }),
	behind("without a row", func(t *keys.Token) { rand.Read(t.GrantID[:]) }),

	badScope("one more", "a b c d"),
	badScope("unknown", "z"),
	badScope("illegal character", `a "b"`),
	badScope("too long a list", strings.Repeat("a", 300)),
	badScope("spaces only", "  "),
}

// replay spends the credential before the request sends it again.
func replay(name string, then func(*flow), kinds []string) row {
	r := badGrant("G4", name, kinds, nil)
	r.spoil = func(x *flow) {
		x.tokens = x.mustIssue(x.post(x.good))
		then(x)
	}
	// The reason depends on the kind of the flow.
	return r.revoking(anyReplay)
}

// anyReplay stands for the replay reason of the flow's kind.
const anyReplay grant.Reason = 255

func (x *flow) replayReason() grant.Reason {
	if x.kind == byCode {
		return grant.ReasonCodeReplayed
	}
	return grant.ReasonRefreshReplayed
}

// overtaken makes another request of the same client succeed between this request's
// decision and its write.
func overtaken(kinds []string, operation storetest.Method, why grant.Reason) row {
	return badGrant("G9", "overtaken by another request", kinds, func(x *flow) {
		var once atomic.Bool
		client := x.httpClient()
		won := make(chan tokens, 1)
		x.undo = func() { x.tokens = <-won }
		x.faulty.Before(func(op storetest.Method, _ grant.Grant) error {
			if op == operation && once.CompareAndSwap(false, true) {
				winner, err := x.postVia(client, x.good)
				won <- winner.tokens
				return err
			}
			return nil
		})
	}).revoking(why)
}
