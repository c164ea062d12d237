package grant_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// A history is the state after a random sequence of requests about two grants of two
// clients, with all tokens that were issued.
type history struct {
	policy grant.Policy
	now    grant.Instant
	codes  [2]grant.Code
	rows   map[grant.ID]grant.Grant
	// handed has every refresh token that was issued, including those whose answer was
	// lost. A thief may present any of them.
	handed []refreshToken
	// given has every access token that was issued, even if it is no longer valid.
	given   []accessToken
	pairs   map[pairName]refreshToken
	access  map[accessName]grant.Access
	cutoffs map[string]grant.Instant // by subject
	attempt uint64
	seen    map[string]int // number of outcomes of all histories, by name
}

// These are defaults: flags on the command line override them.
func init() {
	flag.Set("rapid.checks", "2000")
	flag.Set("rapid.steps", "100")
}

// A refreshToken has the contents of a refresh token, which determine its text.
type refreshToken struct {
	ID         grant.ID
	Generation uint32
	IssuedAt   grant.Instant
	ExpiresAt  grant.Instant
	KeyID      grant.KeyID
}

type pairName struct {
	id         grant.ID
	generation uint32
}

// An accessName has everything on which a repeated access token may depend.
type accessName struct {
	row            grant.Grant
	asked, allowed oauth.Scope
}

var (
	clients = []string{"shop", "bank"}
	scopes  = []oauth.Scope{"", "read", "write read", "read write admin", "read write", "mail", "read mail", `"`}
)

func newHistory(t *rapid.T, seen map[string]int) *history {
	h := &history{
		now: t0, seen: seen, rows: map[grant.ID]grant.Grant{}, pairs: map[pairName]refreshToken{},
		access: map[accessName]grant.Access{}, cutoffs: map[string]grant.Instant{},
		policy: grant.Policy{
			AccessLifetime: 5 * time.Minute, RefreshLifetime: 31 * 24 * time.Hour,
			GrantLifetime: rapid.SampledFrom([]time.Duration{0, 20 * time.Minute, 90 * 24 * time.Hour}).Draw(t, "grant lifetime"),
			RetryWindow:   rapid.SampledFrom([]time.Duration{0, 10 * time.Second, 2 * time.Minute}).Draw(t, "retry window"),
			MaxSkew:       rapid.SampledFrom([]time.Duration{0, 2 * time.Second}).Draw(t, "max skew"),
		},
	}
	for i, client := range clients {
		h.codes[i] = aCode()
		h.codes[i].GrantID, h.codes[i].ClientID, h.codes[i].Subject = grant.ID{byte(i + 1)}, client, "user of "+client
	}
	return h
}

// commit checks the invariants of every decision, whichever client presented the token,
// and applies the decision.
func (h *history) commit(t *rapid.T, before grant.Grant, d grant.Decision, presenter string) {
	after := d.Next
	h.seen[d.Refusal.String()]++
	if before.Version != 0 && presenter != before.ClientID && (after != before || d.Refusal != grant.OtherClient) {
		t.Fatalf("client %s got %s for the grant of %s, which becomes\n%+v", presenter, d.Refusal, before.ClientID, after)
	}
	if after == before {
		return
	}
	if after.Version != before.Version+1 {
		t.Fatalf("a change took version %d to %d", before.Version, after.Version)
	}
	if d.Refusal != grant.Allowed {
		if d.Refusal != grant.CodeReplayed && d.Refusal != grant.RefreshReplayed {
			t.Fatalf("a request refused as %s changed the grant", d.Refusal)
		}
		ended := before
		ended.Version, ended.State, ended.Reason = after.Version, grant.Revoked, after.Reason
		if after != ended || after.Reason == grant.NoReason {
			t.Fatalf("a replay changed more than the state:\n%+v\nto\n%+v", before, after)
		}
	}
	if before.Version != 0 {
		fixed := after
		fixed.Generation, fixed.Version, fixed.RotatedAt, fixed.KeyID, fixed.ExpiresAt = before.Generation, before.Version, before.RotatedAt, before.KeyID, before.ExpiresAt
		fixed.DeleteAfter, fixed.AccessFloor, fixed.State, fixed.Reason, fixed.Attempt = before.DeleteAfter, before.AccessFloor, before.State, before.Reason, before.Attempt
		if fixed != before {
			t.Fatalf("a change altered a constant field:\n%+v\nto\n%+v", before, after)
		}
	}
	if after.RotatedAt < before.RotatedAt || after.DeleteAfter < before.DeleteAfter || after.Generation < before.Generation {
		t.Fatalf("an instant or the generation decreased:\n%+v\nto\n%+v", before, after)
	}
	if before.State == grant.Revoked && after.State != grant.Revoked {
		t.Fatal("a revoked grant is alive again")
	}
	h.rows[after.ID] = after
}

// answered checks an answer with tokens, and adds them to the history.
func (h *history) answered(t *rapid.T, before grant.Grant, d grant.Decision, asked, allowed oauth.Scope) {
	g, a := d.Next, d.Access
	if d.Repeated {
		h.seen["repeated"]++
	}
	cutoff, cut := h.cutoffs[g.Subject]
	switch {
	case before.State == grant.Revoked:
		t.Fatal("answered after the revocation")
	case cut && g.AuthorizedAt <= cutoff.Add(h.policy.MaxSkew):
		t.Fatal("answered after the cutoff")
	case d.Repeated && g != before:
		t.Fatal("a repeat changed the grant")
	case d.Repeated && h.policy.RetryWindow == 0:
		t.Fatal("a repeat was answered without a window")
	case a.IssuedAt <= g.AccessFloor:
		t.Fatal("an access token was issued below the floor, and so is never active")
	case a.ExpiresAt > g.ExpiresAt:
		t.Fatal("the access token outlives the refresh token")
	case g.DeleteAfter < max(g.ExpiresAt, a.ExpiresAt).Add(time.Hour+2*h.policy.MaxSkew):
		t.Fatal("the row is deleted before its tokens expire")
	case h.policy.GrantLifetime != 0 && g.ExpiresAt > g.AuthorizedAt.Add(h.policy.GrantLifetime):
		t.Fatal("a token outlives the grant's lifetime")
	case !g.Scope.Covers(a.Scope) || !allowed.Covers(a.Scope) || asked != "" && !asked.Covers(a.Scope) || a.Scope == "":
		t.Fatalf("scope %q of grant %q, asked %q, client %q", a.Scope, g.Scope, asked, allowed)
	}
	if in := h.policy.ExpiresIn(a, h.now); in < 1 || in > 300 {
		t.Fatalf("expires_in %d", in)
	}
	tok := refreshToken{g.ID, g.Generation, g.RotatedAt, g.ExpiresAt, g.KeyID}
	name := pairName{g.ID, g.Generation}
	if first, again := h.pairs[name]; again && first != tok {
		t.Fatalf("two refresh tokens of one generation:\n%+v\n%+v", first, tok)
	}
	h.pairs[name] = tok
	if !slices.Contains(h.handed, tok) {
		h.handed = append(h.handed, tok)
	}
	again := slices.ContainsFunc(h.given, func(x accessToken) bool {
		return x.ID == g.ID && x.Generation == g.Generation && x.IssuedAt == a.IssuedAt && x.ExpiresAt == a.ExpiresAt
	})
	if !again {
		h.given = append(h.given, accessToken{ID: g.ID, Generation: g.Generation, IssuedAt: a.IssuedAt, ExpiresAt: a.ExpiresAt, kept: d.Next == before && !d.Repeated})
	}
	if !h.policy.NoRotation {
		key := accessName{g, asked, allowed}
		if first, again := h.access[key]; again && first != a {
			t.Fatalf("two access tokens of one row:\n%+v\n%+v", first, a)
		}
		h.access[key] = a
	}
}

func (h *history) redeem(t *rapid.T) {
	code := rapid.SampledFrom(h.codes[:]).Draw(t, "code")
	if h.rows[code.GrantID].Version != 0 && rapid.IntRange(0, 19).Draw(t, "luck") != 0 {
		return // otherwise few grants would get old
	}
	h.attempt++
	r := grant.Redemption{
		Realm: "/api", ClientID: rapid.SampledFrom(append(clients, code.ClientID, code.ClientID)).Draw(t, "client"),
		Allowed:     rapid.SampledFrom(append(scopes[1:], code.Scope, code.Scope)).Draw(t, "allowed"),
		RedirectURI: rapid.SampledFrom([]string{redirectURI, redirectURI, "https://evil.example/"}).Draw(t, "redirect"),
		Cutoff:      h.cutoffs[code.Subject], Attempt: h.attempt, KeyID: 7,
	}
	before := h.rows[code.GrantID]
	d := code.Redeem(r, h.policy, h.now)
	if d.Refusal.Foreign() {
		if d != (grant.Decision{Refusal: d.Refusal}) {
			t.Fatalf("a foreign redemption creates a grant: %+v", d)
		}
		return
	}
	if r.ClientID != code.ClientID || r.RedirectURI != redirectURI {
		t.Fatalf("a foreign redemption is decided as %s", d.Refusal)
	}
	if before.Version == 0 {
		if d.Refusal != grant.Allowed {
			if d != (grant.Decision{Refusal: d.Refusal}) {
				t.Fatalf("a refused redemption creates a grant: %+v", d)
			}
			return
		}
		h.commit(t, before, d, r.ClientID)
		h.answered(t, before, d, "", r.Allowed)
		return
	}
	d = before.Replay(r)
	if d.Refusal != grant.CodeReplayed || d.Next.State != grant.Revoked {
		t.Fatalf("the owner's second redemption: %+v", d)
	}
	h.commit(t, before, d, r.ClientID)
}

func (h *history) refresh(t *rapid.T) {
	if len(h.handed) == 0 {
		return
	}
	from := h.handed
	if rapid.IntRange(0, 3).Draw(t, "recent") != 0 {
		from = from[max(0, len(from)-4):]
	}
	tok := rapid.SampledFrom(from).Draw(t, "token")
	before := h.rows[tok.ID]
	h.attempt++
	r := grant.Refresh{
		Realm: "/api", ClientID: rapid.SampledFrom(append(clients, before.ClientID, before.ClientID)).Draw(t, "client"),
		Allowed:    rapid.SampledFrom(append(scopes[1:], before.Scope, before.Scope)).Draw(t, "allowed"),
		Scope:      rapid.SampledFrom(append(scopes, "", "")).Draw(t, "scope"),
		Generation: tok.Generation, IssuedAt: tok.IssuedAt, ExpiresAt: tok.ExpiresAt, Maker: grant.Maker{Key: tok.KeyID},
		Cutoff: h.cutoffs[before.Subject], Attempt: h.attempt,
		KeyID: rapid.SampledFrom([]grant.KeyID{7, 8}).Draw(t, "key"),
	}
	d := before.Refresh(r, h.policy, h.now)
	if d.Refusal == grant.StoreBehind {
		t.Fatal("a token that was issued counts as unrecorded")
	}
	if d != before.Refresh(r, h.policy, h.now) {
		t.Fatal("deciding twice gives two decisions")
	}
	h.commit(t, before, d, r.ClientID)
	if d.Refusal == grant.Allowed {
		h.answered(t, before, d, r.Scope, r.Allowed)
	}
}

// checkTokens checks what each issued token would still do.
func (h *history) checkTokens(t *rapid.T) {
	h.checkAccess(t)
	rotates := map[grant.ID]int{}
	for _, tok := range h.handed {
		g := h.rows[tok.ID]
		r := grant.Refresh{
			Realm: g.Realm, ClientID: g.ClientID, Allowed: g.Scope, Cutoff: h.cutoffs[g.Subject],
			Generation: tok.Generation, IssuedAt: tok.IssuedAt, ExpiresAt: tok.ExpiresAt, Maker: grant.Maker{Key: tok.KeyID}, Attempt: 1 << 40, KeyID: 9,
		}
		d := g.Refresh(r, h.policy, h.now)
		switch {
		case d.Refusal == grant.Allowed && !d.Repeated:
			rotates[tok.ID]++
		case d.Refusal == grant.Allowed && (d.Next != g || tok.Generation+1 != g.Generation):
			t.Fatalf("generation %d of %d gets a pair that is not the present one", tok.Generation, g.Generation)
		}
	}
	for id, n := range rotates {
		if n > 1 {
			t.Fatalf("%d refresh tokens of grant %s are alive", n, id)
		}
	}
}

func TestRandomHistories(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t, seen)
		t.Repeat(map[string]func(*rapid.T){
			"redeem":    h.redeem,
			"refresh":   h.refresh,
			"refresh 2": h.refresh, // twice as likely as the rest
			"refresh 3": h.refresh,
			"clock": func(t *rapid.T) {
				h.now += rapid.SampledFrom([]grant.Instant{
					1, 999, second, 9 * second, 11 * second, minute, 119 * second, 122 * second, 5 * minute,
					-1, -2 * second, -minute, -hour,
				}).Draw(t, "step")
			},
			"long rest": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "luck") == 0 {
					h.now += rapid.SampledFrom([]grant.Instant{hour, 30 * day, 31 * day, 60 * day}).Draw(t, "rest")
				}
			},
			"operator": func(t *rapid.T) {
				g := h.rows[rapid.SampledFrom(h.codes[:]).Draw(t, "code").GrantID]
				if g.Version == 0 || rapid.IntRange(0, 9).Draw(t, "luck") != 0 {
					return
				}
				d := g.Revoke(grant.ReasonOperator)
				if d.Refusal != grant.Allowed || d.Next.State != grant.Revoked {
					t.Fatalf("revoking: %+v", d)
				}
				h.commit(t, g, d, g.ClientID)
			},
			"cutoff": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "luck") == 0 {
					subject := rapid.SampledFrom(h.codes[:]).Draw(t, "code").Subject
					h.cutoffs[subject] = max(h.cutoffs[subject], h.now)
				}
			},
			"revoke refresh": h.revokeRefresh,
			"revoke access":  h.revokeAccess,
			"registration":   func(t *rapid.T) { h.policy.NoRotation = rapid.Bool().Draw(t, "no rotation") },
			"":               h.checkTokens,
		})
	})
	// Histories without certain outcomes would prove nothing.
	t.Log(seen)
	for _, outcome := range []string{
		"allowed", "repeated", "other_client", "code_replayed", "grant_revoked", "cut_off", "grant_expired",
		"refresh_replayed", "scope_too_wide", "refresh token revoked", "access token revoked",
		"inspected: allowed", "inspected: access_revoked", "inspected: grant_revoked", "inspected: cut_off", "inspected: grant_expired",
	} {
		if seen[outcome] < 10 {
			t.Errorf("outcome %s was seen %d times", outcome, seen[outcome])
		}
	}
}

func ExampleGrant_Refresh() {
	g := third()
	d := g.Refresh(presents(g, 1), specification(), rotated+minute)
	fmt.Println(d.Refusal, d.Next.State, d.Next.Reason)
	// Output: refresh_replayed revoked refresh_replayed
}
