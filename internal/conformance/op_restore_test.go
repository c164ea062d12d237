package conformance_test

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// TestOP06_RemovalMakesNothingSpentLiveAgain presents spent codes and tokens at many
// moments of a grant's life and afterwards, each time to a store from which sweeps have
// removed all that they may. As long as the grant has a valid token, the replay is
// recognized and revokes the grant.
func TestOP06_RemovalMakesNothingSpentLiveAgain(t *testing.T) {
	d := start(t, strict)
	type family struct {
		code          issuer.IssuedCode
		first, second tokens
	}
	const day = 24 * time.Hour
	moments := []time.Duration{0, 59 * time.Second, time.Minute, 5 * time.Minute, 6 * time.Minute, time.Hour, 3 * time.Hour,
		day, 30 * day, 31*day - time.Second, 31 * day, 31*day + 59*time.Minute, 31*day + 2*time.Hour, 40 * day, 400 * day}
	var families []family
	for range 2 * len(moments) {
		f := family{code: d.code(d.a)}
		f.first = d.mustIssue(d.post(d.a.redeem(f.code.Code)))
		f.second = d.alive(d.a, f.first.RefreshToken)
		families = append(families, f)
	}
	passed := time.Duration(0)
	for i, at := range moments {
		d.step(at - passed)
		passed = at
		d.sweep()
		living := at < 31*day
		for kind, f := range families[2*i : 2*i+2] {
			why := grant.ReasonCodeReplayed
			if kind == 0 {
				want(t, d.post(d.a.redeem(f.code.Code)), 400, "invalid_grant")
			} else {
				why = grant.ReasonRefreshReplayed
				want(t, d.post(d.a.refresh(f.first.RefreshToken)), 400, "invalid_grant")
			}
			want(t, d.post(d.a.refresh(f.second.RefreshToken)), 400, "invalid_grant")
			want(t, d.post(d.a.refresh(f.first.RefreshToken)), 400, "invalid_grant")
			want(t, d.post(d.a.redeem(f.code.Code)), 400, "invalid_grant")
			if !living {
				continue
			}
			if g := d.row(f.code.GrantID); g.State != grant.Revoked || g.Reason != why {
				t.Errorf("after %s: %s, %s; want revoked because of %s", at, g.State, g.Reason, why)
			}
		}
	}
	if left := d.grants(); len(left) > 0 {
		t.Errorf("%d rows are left of grants of which nothing is alive", len(left))
	}
}

// putBack restores a grant's row to its state in a backup.
func (d *deployment) putBack(old grant.Grant) {
	d.t.Helper()
	err := d.sqlite.UpdateGrant(d.t.Context(), old.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
		old.Version = g.Version + 1
		return old, nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// declare declares that a backup was restored now.
func (d *deployment) declare() {
	d.t.Helper()
	d.step(time.Second)
	at := grant.At(d.now())
	if err := d.sqlite.Commit(d.t.Context(), store.Change{Restores: []grant.Restore{{Backup: at - 2000, At: at, Until: at.Add(31 * 24 * time.Hour)}}}); err != nil {
		d.t.Fatal(err)
	}
	d.poll()
}

// TestOP13_AfterARestoreWhatIsAheadGoesOnAndTwoHoldersEnd shows the responses to clients
// about a grant whose row was restored from an older backup.
func TestOP13_AfterARestoreWhatIsAheadGoesOnAndTwoHoldersEnd(t *testing.T) {
	for name, check := range map[string]func(d *deployment, id grant.ID, generations []tokens){
		"the newest goes on, an older one of before is a replay": func(d *deployment, id grant.ID, g []tokens) {
			d.alive(d.a, g[4].RefreshToken)
			d.step(3 * time.Minute)
			want(t, d.post(d.a.refresh(g[2].RefreshToken)), 400, "invalid_grant")
			if row := d.row(id); row.State != grant.Revoked || row.Reason != grant.ReasonRefreshReplayed {
				t.Errorf("%s, %s", row.State, row.Reason)
			}
		},
		"an older one goes on, and its owner, who is ahead, ends both": func(d *deployment, id grant.ID, g []tokens) {
			stolen := d.alive(d.a, g[2].RefreshToken)
			want(t, d.post(d.a.refresh(g[4].RefreshToken)), 400, "invalid_grant")
			d.dead(d.a, stolen.RefreshToken, id, grant.ReasonRefreshReplayed)
		},
		"one of the row's own generation from another rotation": func(d *deployment, id grant.ID, g []tokens) {
			stolen := d.alive(d.a, g[0].RefreshToken)
			want(t, d.post(d.a.refresh(g[1].RefreshToken)), 400, "invalid_grant")
			d.dead(d.a, stolen.RefreshToken, id, grant.ReasonRefreshReplayed)
		},
		"another client's, which costs the owner nothing": func(d *deployment, id grant.ID, g []tokens) {
			want(t, d.post(d.b.refresh(g[4].RefreshToken)), 400, "invalid_grant")
			d.alive(d.a, g[4].RefreshToken)
		},
		"a wider scope, which costs nothing either": func(d *deployment, id grant.ID, g []tokens) {
			form := d.a.refresh(g[4].RefreshToken)
			form.Set("scope", "never_granted")
			want(t, d.post(form), 400, "invalid_scope")
			d.alive(d.a, g[4].RefreshToken)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			api := d.resourceServer()
			pair, id := d.tokens(d.a)
			old := d.row(id)
			list := []tokens{pair}
			for range 4 {
				d.step(time.Second)
				list = append(list, d.alive(d.a, list[len(list)-1].RefreshToken))
			}
			d.putBack(old)
			// Until the restore is declared, the loss counts as the server's fault: 503.
			a := d.post(d.a.refresh(list[4].RefreshToken))
			want(t, a, 503, "temporarily_unavailable")
			compareHeader(t, a, "Retry-After: N")
			d.declare()
			d.wantActive(api, true, list[4].AccessToken, list[1].AccessToken)
			check(d, id, list)
		})
	}
}
