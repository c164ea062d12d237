package conformance_test

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestTR11_ConcurrentRefreshWithoutAWindowHasOneWinner(t *testing.T) {
	d := start(t, strict)
	for _, n := range []int{2, 8, 64} {
		for _, forced := range []bool{false, true} {
			pair, id := d.tokens(d.a)
			if forced {
				// All requests decide to rotate before one of them does.
				d.faulty.Before(gather(n, storetest.UpdateGrant))
			}
			won := winners(t, d.atOnce(n, d.a.refresh(pair.RefreshToken)))
			d.faulty.Heal()
			if len(won) != 1 {
				t.Fatalf("%d winners of %d (forced: %v)", len(won), n, forced)
			}
			if g := d.row(id); g.Generation != 2 {
				t.Errorf("generation %d: more than one successor", g.Generation)
			}
			// The losers were replays, which revoked the grant.
			d.dead(d.a, won[0].RefreshToken, id, grant.ReasonRefreshReplayed)
		}
	}
}

func TestTR13_ConcurrentRefreshInsideTheWindowGivesOnePair(t *testing.T) {
	d := start(t)
	for _, n := range []int{2, 8, 64} {
		for _, forced := range []bool{false, true} {
			pair, id := d.tokens(d.a)
			if forced {
				d.faulty.Before(gather(n, storetest.UpdateGrant))
			}
			won := winners(t, d.atOnce(n, d.a.refresh(pair.RefreshToken)))
			d.faulty.Heal()
			if len(won) != n {
				t.Fatalf("%d of %d succeeded (forced: %v)", len(won), n, forced)
			}
			for _, w := range won {
				if w != won[0] {
					t.Fatal("two answers to one token differ")
				}
			}
			if g := d.row(id); g.Generation != 2 || g.State != grant.Active {
				t.Errorf("generation %d, %v", g.Generation, g.State)
			}
			// There is one successor: it is valid, and using it ends the repeats.
			next := d.alive(d.a, won[0].RefreshToken)
			want(t, d.post(d.a.refresh(pair.RefreshToken)), 400, "invalid_grant")
			d.dead(d.a, next.RefreshToken, id, grant.ReasonRefreshReplayed)
		}
	}
}

func TestTR13_TheWindowEndsByTime(t *testing.T) {
	d := start(t)
	for _, c := range []struct {
		client oauthClient
		window time.Duration
	}{
		{d.a, 2 * time.Minute},
		{d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}}), time.Minute},
		{d.client(client.Registration{Settings: store.Settings{RetryWindow: store.InMilliseconds(time.Minute)}}), time.Minute},
	} {
		issue := func() (tokens, grant.ID) {
			code := d.code(c.client, pkce)
			return d.mustIssue(d.post(with(c.client.redeem(code.Code), "code_verifier", verifier))), code.GrantID
		}
		pair, id := issue()
		next := d.alive(c.client, pair.RefreshToken)
		d.step(c.window)
		again := d.alive(c.client, pair.RefreshToken)
		if again.RefreshToken != next.RefreshToken || again.AccessToken != next.AccessToken {
			t.Error("the repeat is another pair")
		}
		d.step(time.Millisecond)
		want(t, d.post(c.client.refresh(pair.RefreshToken)), 400, "invalid_grant")
		d.dead(c.client, next.RefreshToken, id, grant.ReasonRefreshReplayed)
	}
}
