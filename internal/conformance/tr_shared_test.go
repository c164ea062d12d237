package conformance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

func TestTR37_CopiesOfOneTokenFileAreOneHolder(t *testing.T) {
	d := start(t)
	const grace = 24 * time.Hour
	agent := d.client(client.Registration{Auth: store.AuthNone, ReuseGrace: new(grace)})
	issue := func() (tokens, grant.ID) {
		code := d.code(agent, pkce)
		return d.mustIssue(d.post(with(agent.redeem(code.Code), "code_verifier", verifier))), code.GrantID
	}
	pair, id := issue()
	one := d.alive(agent, pair.RefreshToken)
	d.step(2 * time.Minute)
	if other := d.alive(agent, pair.RefreshToken); other.RefreshToken != one.RefreshToken || other.AccessToken != one.AccessToken {
		t.Error("the second holder gets another pair while the first one's access token is not spent")
	}
	if !strings.Contains(d.log.String(), "token request with an earlier refresh token answered") {
		t.Error("the log does not say so")
	}
	d.step(10 * time.Minute)
	next := d.alive(agent, pair.RefreshToken)
	if next.RefreshToken == one.RefreshToken {
		t.Error("the second holder gets an expired access token")
	}
	if again := d.alive(agent, one.RefreshToken); again.RefreshToken != next.RefreshToken {
		t.Error("the chain has forked")
	}
	if g := d.row(id); g.Generation != 3 {
		t.Errorf("generation %d", g.Generation)
	}
	d.step(grace - 12*time.Minute)
	want(t, d.post(agent.refresh(pair.RefreshToken)), 400, "invalid_grant")
	d.dead(agent, next.RefreshToken, id, grant.ReasonRefreshReplayed)

	// Without it, the first of these is a replay.
	strict := d.client(client.Registration{Auth: store.AuthNone})
	agent = strict
	pair, id = issue()
	one = d.alive(agent, pair.RefreshToken)
	d.step(2 * time.Minute)
	want(t, d.post(agent.refresh(pair.RefreshToken)), 400, "invalid_grant")
	d.dead(agent, one.RefreshToken, id, grant.ReasonRefreshReplayed)
}
