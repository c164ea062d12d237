package conformance_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// The response is never 200 if the revocation may not be stored.
func TestRV11_AFailedRevocationIsNeverASuccess(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	failedAfter := func(op storetest.Method, _ grant.Grant) error {
		if op == storetest.UpdateGrant {
			return errDown
		}
		return nil
	}
	for _, c := range []oauthClient{d.a, d.jwtClient()} {
		for kind, pick := range map[string]func(tokens) string{
			"access":  func(pair tokens) string { return pair.AccessToken },
			"refresh": func(pair tokens) string { return pair.RefreshToken },
		} {
			pair, id := d.tokens(c)
			failed := func(name string) {
				t.Helper()
				a := d.revoke(c, pick(pair))
				if a.status != http.StatusServiceUnavailable || a.body != errorBody("temporarily_unavailable", "try again later") {
					t.Errorf("%s, %s: %v", kind, name, a)
				}
				compareHeader(t, a, "Retry-After: N")
			}
			d.faulty.Before(failing(storetest.UpdateGrant))
			failed("a lost write")
			d.faulty.Before(func(op storetest.Method, _ grant.Grant) error {
				if op == storetest.UpdateGrant {
					return store.ErrBusy
				}
				return nil
			})
			failed("a busy store")
			d.faulty.Before(func(op storetest.Method, _ grant.Grant) error {
				if op == storetest.UpdateGrant {
					return store.ErrNotFound
				}
				return nil
			})
			failed("a row that is missing")
			d.faulty.Before(func(op storetest.Method, _ grant.Grant) error {
				if op == storetest.UpdateGrant {
					panic("bug")
				}
				return nil
			})
			want(t, d.revoke(c, pick(pair)), 500, "server_error")
			d.faulty.Heal()
			if g := d.row(id); g.Version != 1 {
				t.Errorf("%s: a failed write wrote: version %d", kind, g.Version)
			}
			d.wantActive(rs, true, pair.AccessToken)

			// The revocation is stored, but its outcome is unknown. The response may be
			// 200 only if the server has verified the outcome.
			d.faulty.After(failedAfter)
			a := d.revoke(c, pick(pair))
			d.faulty.Heal()
			if kind == "access" {
				revoked(t, a)
			} else {
				want(t, a, http.StatusServiceUnavailable, "temporarily_unavailable")
			}
			d.wantActive(rs, false, pair.AccessToken)
			// The client repeats the request, as the 503 says.
			revoked(t, d.revoke(c, pick(pair)))
			d.wantActive(rs, false, pair.AccessToken)
		}
	}
}

func TestRV13_AHundredRevocationsAtOnceAllSucceed(t *testing.T) {
	d := start(t, alone) // in parallel with other tests, a hundred requests could exceed their timeout
	rs := d.resourceServer()
	for n, forced := range map[int]bool{100: false, 16: true} {
		for kind, pick := range map[string]func(tokens) string{
			"access":  func(pair tokens) string { return pair.AccessToken },
			"refresh": func(pair tokens) string { return pair.RefreshToken },
		} {
			pair, id := d.tokens(d.a)
			if forced {
				// All requests arrive before one is decided.
				d.faulty.Before(gather(n, storetest.UpdateGrant))
			}
			for _, a := range d.together(slices.Repeat([]*request{d.a.about(revokePath, pick(pair))}, n)...) {
				revoked(t, a)
			}
			d.faulty.Heal()
			if g := d.row(id); g.Version != 2 {
				t.Errorf("%s: %d changes, want one", kind, g.Version-1)
			}
			events, err := d.sqlite.Events(t.Context(), id.String(), 10)
			if err != nil || len(events) != 1 {
				t.Errorf("%s: %d events, %v; want one", kind, len(events), err)
			}
			d.wantActive(rs, false, pair.AccessToken)
			d.wantActive(d.a, kind == "access", pair.RefreshToken)
		}
	}
}

// In either order, no token of the grant is valid afterwards, including the pair that the
// refresh may have returned.
func TestTR27_RV13_RevocationDuringARefreshLeavesNothingAlive(t *testing.T) {
	for name, choose := range map[string]func(*options){"without a window": strict, "inside the window": func(*options) {}} {
		t.Run(name, func(t *testing.T) {
			d := start(t, choose, alone)
			rs := d.resourceServer()
			first := map[bool]int{}
			for i := range 24 {
				c := d.a
				if i%2 == 1 {
					c = d.jwtClient()
				}
				pair, id := d.tokens(c)
				refresh, revoke := newRequest(c.refresh(pair.RefreshToken)), c.about(revokePath, pair.RefreshToken)
				d.faulty.Before(gather(2, storetest.UpdateGrant))
				answers := d.together(refresh, revoke)
				d.faulty.Heal()
				revoked(t, answers[1])
				refreshed := answers[0].status == http.StatusOK
				first[refreshed]++
				if refreshed {
					d.wantActive(rs, false, answers[0].AccessToken)
					d.wantActive(c, false, answers[0].RefreshToken)
					want(t, d.post(c.refresh(answers[0].RefreshToken)), 400, "invalid_grant")
				} else {
					want(t, answers[0], 400, "invalid_grant")
				}
				d.wantActive(rs, false, pair.AccessToken)
				d.dead(c, pair.RefreshToken, id, grant.ReasonClient)
			}
			t.Logf("the refresh was first %d times, the revocation %d times", first[true], first[false])
		})
	}
}

// Many refreshes run while all grants of the user are revoked.
func TestTR27_RV13_ManyRefreshesDuringARevocation(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for range 3 {
		pair, id := d.tokens(d.a)
		list := slices.Repeat([]*request{newRequest(d.a.refresh(pair.RefreshToken))}, 16)
		list = append(list, d.a.about(revokePath, pair.AccessToken), d.a.about(revokePath, pair.RefreshToken))
		answers := d.together(list...)
		revoked(t, answers[16])
		revoked(t, answers[17])
		for _, a := range answers[:16] {
			if a.status == http.StatusOK {
				d.wantActive(rs, false, a.AccessToken)
				d.wantActive(d.a, false, a.RefreshToken)
			} else {
				want(t, a, 400, "invalid_grant")
			}
		}
		d.dead(d.a, pair.RefreshToken, id, grant.ReasonClient)
	}
}

// An access token that is issued while the grant's access tokens are revoked is either
// invalid or was issued afterwards. The refresh token stays valid.
func TestRV13_RevokingAnAccessTokenDuringARefresh(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for range 12 {
		pair, id := d.tokens(d.a)
		d.faulty.Before(gather(2, storetest.UpdateGrant))
		answers := d.together(newRequest(d.a.refresh(pair.RefreshToken)), d.a.about(revokePath, pair.AccessToken))
		d.faulty.Heal()
		next := d.mustIssue(answers[0])
		revoked(t, answers[1])
		d.wantActive(rs, false, pair.AccessToken)
		tok, err := d.ring().OpenAccess(realm, next.AccessToken)
		if err != nil {
			t.Fatal(err)
		}
		d.wantActive(rs, tok.IssuedAt > d.row(id).AccessFloor, next.AccessToken)
		d.wantActive(rs, true, d.alive(d.a, next.RefreshToken).AccessToken)
	}
}
