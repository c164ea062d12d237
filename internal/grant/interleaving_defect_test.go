package grant_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
)

// This shows that the exploration would find defects: it must find each of these seeded
// ones.
func TestInterleavingsFindSeededDefects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		seed   func(*rules)
		breaks string
	}{
		{"store that does not compare versions", func(r *rules) { r.ignoreVersion = true }, "two pairs"},
		{"batch that matches outcomes on the id alone", func(r *rules) { r.batchByID = true }, "code was answered twice"},
		{"refusal that is not committed", func(r *rules) { r.refuseFirst = true }, "its grant lives on"},
		{"unknown outcome decided as a replay", func(r *rules) { r.assumeLost = true }, "sent once counts as replayed"},
		{"row that goes before its last token", func(r *rules) { r.deleteEarly = true }, "called behind"},
		{"cutoff that is not looked up", func(r *rules) { r.forgetCutoff = true }, "under a cutoff"},
		{"repeat that rotates again", func(r *rules) {
			r.refresh = func(g grant.Grant, q grant.Refresh, p grant.Policy, now grant.Instant) grant.Decision {
				if q.Generation+1 == g.Generation {
					return grant.Grant.Refresh(g, grant.Refresh{
						Realm: q.Realm, ClientID: q.ClientID, Allowed: q.Allowed, Cutoff: q.Cutoff, Attempt: q.Attempt, KeyID: q.KeyID,
						Generation: g.Generation, IssuedAt: g.RotatedAt, ExpiresAt: g.ExpiresAt, Maker: grant.Maker{Key: g.KeyID},
					}, p, now)
				}
				return g.Refresh(q, p, now)
			}
		}, "own repeats revoked its grant"},
		{"repeat with an access token of its own", func(r *rules) {
			r.refresh = func(g grant.Grant, q grant.Refresh, p grant.Policy, now grant.Instant) grant.Decision {
				d := g.Refresh(q, p, now)
				if d.Repeated {
					d.Access.IssuedAt = now
				}
				return d
			}
		}, "two pairs"},
		{"window without allowance for the other clock", func(r *rules) {
			r.refresh = func(g grant.Grant, q grant.Refresh, p grant.Policy, now grant.Instant) grant.Decision {
				p.MaxSkew = 0
				return g.Refresh(q, p, now)
			}
		}, "own repeats revoked its grant"},
		{"replay before ownership", func(r *rules) {
			r.refresh = func(g grant.Grant, q grant.Refresh, p grant.Policy, now grant.Instant) grant.Decision {
				mine := q
				mine.ClientID = g.ClientID
				if d := g.Refresh(mine, p, now); d.Refusal == grant.RefreshReplayed {
					return d
				}
				return g.Refresh(q, p, now)
			}
		}, "foreign client changed"},
		{"code replayed by anybody", func(r *rules) {
			r.redeem = func(c grant.Code, q grant.Redemption, p grant.Policy, now grant.Instant) grant.Decision {
				q.ClientID = c.ClientID
				return c.Redeem(q, p, now)
			}
			r.replay = func(g grant.Grant, q grant.Redemption) grant.Decision {
				q.ClientID = g.ClientID
				return g.Replay(q)
			}
		}, "foreign client"},
		{"revocation that the refresh does not see", func(r *rules) {
			r.refresh = func(g grant.Grant, q grant.Refresh, p grant.Policy, now grant.Instant) grant.Decision {
				g.State = grant.Active
				return g.Refresh(q, p, now)
			}
		}, "after the revocation"},
		{"cutoff without allowance for the other clock", func(r *rules) {
			r.redeem = func(c grant.Code, q grant.Redemption, p grant.Policy, now grant.Instant) grant.Decision {
				p.MaxSkew = 0
				return c.Redeem(q, p, now)
			}
		}, "under a cutoff"},
		{"restore that no node has", func(r *rules) {
			r.refresh = func(g grant.Grant, q grant.Refresh, p grant.Policy, now grant.Instant) grant.Decision {
				q.Restore = grant.Restore{}
				return g.Refresh(q, p, now)
			}
		}, "called behind"},
		{"code that a restore makes new", func(r *rules) {
			r.redeem = func(c grant.Code, q grant.Redemption, p grant.Policy, now grant.Instant) grant.Decision {
				q.Restore = grant.Restore{}
				return c.Redeem(q, p, now)
			}
		}, "a code made two grants"},
		{"restore that carries on whoever comes, also second", func(r *rules) {
			r.refresh = func(g grant.Grant, q grant.Refresh, p grant.Policy, now grant.Instant) grant.Decision {
				if q.Restore.At != 0 && g.RotatedAt >= q.Restore.At {
					was := g.RotatedAt
					g.RotatedAt = q.Restore.At - 1
					if d := g.Refresh(q, p, now); q.Generation > g.Generation && d.Refusal == grant.Allowed {
						return d
					}
					g.RotatedAt = was
				}
				return g.Refresh(q, p, now)
			}
		}, "two tokens from before the restore"},
		{"restore that takes a token's generation for the token", func(r *rules) {
			r.refresh = func(g grant.Grant, q grant.Refresh, p grant.Policy, now grant.Instant) grant.Decision {
				if q.Generation == g.Generation {
					q.IssuedAt = g.RotatedAt
				}
				return g.Refresh(q, p, now)
			}
		}, "two tokens from before the restore"},
		{"rotation that seems older than the restore", func(r *rules) {
			r.refresh = func(g grant.Grant, q grant.Refresh, p grant.Policy, now grant.Instant) grant.Decision {
				d := g.Refresh(q, p, now)
				if early := d.Next.RotatedAt - now; early > 0 && d.Next.RotatedAt == q.Restore.At {
					d.Next.RotatedAt -= early
					d.Next.ExpiresAt -= early
					d.Access.IssuedAt -= early
					d.Access.ExpiresAt = (d.Access.IssuedAt+second-1)/second*second + 5*minute
				}
				return d
			}
		}, "two tokens from before the restore"},
		{"sweep that does not wait for the end of a restore", func(r *rules) { r.sweepAlways = true }, "refused as restored_lost for nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, s := range scenarios {
				if strings.Contains(tt.name, "restore") && !strings.Contains(s.name, "restore") {
					continue
				}
				r := soundRules()
				tt.seed(&r)
				m := newModel(r, s.jumps)
				if _, trace := m.walk(s); m.broken != "" && strings.Contains(m.broken, tt.breaks) {
					if trace == "" {
						t.Error("found without a trace")
					}
					return
				} else if m.broken != "" {
					t.Logf("%s: %s", s.name, m.broken)
				}
			}
			t.Errorf("no interleaving breaks a promise with %q", tt.breaks)
		})
	}
}
