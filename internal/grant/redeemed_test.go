package grant

import (
	"testing"
	"time"
)

func TestRedeemedDeviceCodes(t *testing.T) {
	const at Instant = 1_800_000_000_000
	policy := Policy{AccessLifetime: 5 * time.Minute, RefreshLifetime: time.Hour, RetryWindow: time.Minute}
	made := Grant{
		ID: ID{1}, Realm: "/api", ClientID: "cli", Subject: "alice", Scope: "a b", AuthorizedAt: at, Generation: 1, Version: 1,
		RotatedAt: at, ExpiresAt: at.Add(time.Hour), State: Active,
	}
	request := Redemption{Realm: "/api", ClientID: "cli", Allowed: "a b"}
	for name, c := range map[string]struct {
		change func(*Grant, *Redemption, *Policy)
		after  time.Duration
		want   Refusal
		ends   bool
	}{
		"at once":              {nil, 0, Allowed, false},
		"within the window":    {nil, time.Minute, Allowed, false},
		"after the window":     {nil, time.Minute + time.Millisecond, CodeReplayed, true},
		"the pair is in use":   {func(g *Grant, _ *Redemption, _ *Policy) { g.Generation = 2 }, 0, CodeReplayed, true},
		"no window":            {func(_ *Grant, _ *Redemption, p *Policy) { p.RetryWindow = 0 }, 0, CodeReplayed, true},
		"another client":       {func(_ *Grant, r *Redemption, _ *Policy) { r.ClientID = "other" }, time.Hour, OtherClient, false},
		"another realm":        {func(_ *Grant, r *Redemption, _ *Policy) { r.Realm = "/other" }, time.Hour, OtherClient, false},
		"another key":          {func(g *Grant, _ *Redemption, _ *Policy) { g.JKT[0] = 1 }, time.Hour, KeyMismatch, false},
		"its key":              {func(g *Grant, r *Redemption, _ *Policy) { g.JKT[0], r.JKT[0] = 1, 1 }, 0, Allowed, false},
		"revoked":              {func(g *Grant, _ *Redemption, _ *Policy) { g.State = Revoked }, 0, GrantRevoked, false},
		"cut off":              {func(_ *Grant, r *Redemption, _ *Policy) { r.Cutoff = at }, 0, CutOff, false},
		"no scope is left":     {func(_ *Grant, r *Redemption, _ *Policy) { r.Allowed = "c" }, 0, ScopeTooWide, false},
		"an API that was left": {func(_ *Grant, r *Redemption, _ *Policy) { r.Target = &Target{Refusal: TargetGone} }, 0, TargetGone, false},
	} {
		g, r, p := made, request, policy
		if c.change != nil {
			c.change(&g, &r, &p)
		}
		d := g.Redeemed(r, p, at.Add(c.after))
		if d.Refusal != c.want || (d.Next.State == Revoked && g.State != Revoked) != c.ends {
			t.Errorf("%s: %v, %v", name, d.Refusal, d.Next.State)
		}
		if d.Refusal == Allowed && (!d.Repeated || d.Next != g || d.Access.IssuedAt != at) {
			t.Errorf("%s: %+v", name, d)
		}
	}
	// Revoked access tokens stay revoked.
	g := made
	g.AccessFloor = at.Add(time.Second)
	if d := g.Redeemed(request, policy, at.Add(2*time.Second)); d.Refusal != Allowed || d.Access.IssuedAt <= g.AccessFloor {
		t.Errorf("%+v", d)
	}
}
