package conformance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

func TestTR37_CopiesOfOneTokenFileAreOneHolder(t *testing.T) {
	d := start(t)
	const grace = 24 * time.Hour
	agent := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone, ReuseGrace: store.InMilliseconds(grace)}})
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

	// Without a reuse grace, the second holder's first request is a replay.
	strict := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	agent = strict
	pair, id = issue()
	one = d.alive(agent, pair.RefreshToken)
	d.step(2 * time.Minute)
	want(t, d.post(agent.refresh(pair.RefreshToken)), 400, "invalid_grant")
	d.dead(agent, one.RefreshToken, id, grant.ReasonRefreshReplayed)
}

// A second holder may be a thief: the audit log records each use with the address, and a
// metric counts it.
func TestTR37_EachUseByASecondHolderIsRecorded(t *testing.T) {
	var tr auditLog
	counted := metrics.New("v1", 0)
	d := start(t, audited(t, &tr), func(o *options) { o.Metrics = counted })
	agent := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone, ReuseGrace: store.InMilliseconds(24 * time.Hour)}})
	code := d.code(agent, pkce)
	pair := d.mustIssue(d.post(with(agent.redeem(code.Code), "code_verifier", verifier)))
	d.alive(agent, pair.RefreshToken)
	var answers []answer
	for _, later := range []time.Duration{2 * time.Minute, 10 * time.Minute} { // the second holder gets the same pair, and then the next one
		d.step(later)
		a := d.send(newRequest(agent.refresh(pair.RefreshToken)))
		d.mustIssue(a)
		answers = append(answers, a)
	}
	list := tr.entries()
	if n := len(of(list, audit.RefreshShared)); n != len(answers) {
		t.Errorf("%d records", n)
	}
	for i, a := range answers {
		if e := sole(t, list, audit.RefreshShared, a); e.GrantID != code.GrantID.String() || e.ClientID != agent.ID || e.Subject != "alice" || e.Generation != uint32(i+2) || e.Outcome != audit.Success {
			t.Errorf("%+v", e)
		}
	}
	n := testkit.Series(t, counted)["mintage_refresh_shared_total"]
	if n != float64(len(answers)) {
		t.Errorf("%v are counted", n)
	}
}
