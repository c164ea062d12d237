package token

import (
	"errors"
	"maps"
	"regexp"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

var isCounter = regexp.MustCompile(`^mintage_\w+_total\b`)

// counts returns the server's counters that are not zero.
func counts(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	all := testkit.Series(t, m)
	maps.DeleteFunc(all, func(name string, n float64) bool { return n == 0 || !isCounter.MatchString(name) })
	return all
}

// TestTheOutcomeOfARequestIsCounted: the alert MintageReplay and the panels of a dashboard
// read these counters.
func TestTheOutcomeOfARequestIsCounted(t *testing.T) {
	t.Parallel()
	refused := func(why grant.Refusal) error { return &grant.Refused{Why: why} }
	requests := "mintage_token_requests_total{grant_type=refresh_token,result="
	for name, c := range map[string]struct {
		count func(*metrics.Metrics, *server.Outcome)
		of    func(*server.Outcome)
		want  map[string]float64
	}{
		"a refresh": {countToken, func(o *server.Outcome) { o.Tokens = issuer.Tokens{Format: store.TokenJWT} }, map[string]float64{
			requests + "ok}": 1, "mintage_refreshes_total": 1, "mintage_tokens_issued_total{format=jwt,type=access}": 1, "mintage_tokens_issued_total{format=opaque,type=refresh}": 1}},
		"the same pair": {countToken, func(o *server.Outcome) { o.Tokens.Repeated = true }, map[string]float64{requests + "ok}": 1, "mintage_refresh_repeats_total": 1}},
		"a second holder": {countToken, func(o *server.Outcome) { o.Tokens.Repeated, o.Tokens.Shared = true, true }, map[string]float64{
			requests + "ok}": 1, "mintage_refresh_shared_total": 1}},
		"a replay of a refresh token": {countToken, func(o *server.Outcome) { o.Err, o.Code = refused(grant.RefreshReplayed), oauth.InvalidGrant }, map[string]float64{
			requests + "invalid_grant}": 1, "mintage_replays_total{kind=refresh}": 1}},
		"a replay of a code": {countToken, func(o *server.Outcome) { o.Err, o.Code = refused(grant.CodeReplayed), oauth.InvalidGrant }, map[string]float64{
			requests + "invalid_grant}": 1, "mintage_replays_total{kind=code}": 1}},
		"another refusal": {countToken, func(o *server.Outcome) { o.Err, o.Code = refused(grant.CutOff), oauth.InvalidGrant }, map[string]float64{requests + "invalid_grant}": 1}},
		"device codes":    {countDevice, func(*server.Outcome) {}, map[string]float64{"mintage_device_authorizations_total{result=asked}": 1}},
		"too many of them": {countDevice, func(o *server.Outcome) { o.Err = issuer.ErrManyDevices }, map[string]float64{
			"mintage_throttled_total{limit=device_codes}": 1}},
		"none, for another reason": {countDevice, func(o *server.Outcome) { o.Err = errors.New("disk") }, map[string]float64{}},
	} {
		m, o := metrics.New("v1", 0), server.Outcome{}
		o.GrantType = store.GrantRefreshToken
		c.of(&o)
		c.count(m, &o)
		if got := counts(t, m); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
