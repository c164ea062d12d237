package conformance_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/store"
)

// An invalid challenge is an error: it never counts as method plain, and is never
// ignored, even for a client that need not use PKCE.
func TestAZ51_AZ52_AZ53_AZ54_AZ55_AZ56_Challenges(t *testing.T) {
	d, b := signedIn(t)
	for _, c := range []oauthClient{d.ours(), d.ours(func(r *client.Registration) { r.NoPKCE = true })} {
		for _, pairs := range [][]string{
			// AZ-52
			{"code_challenge_method"}, {"code_challenge_method="},
			// AZ-53
			{"code_challenge_method=plain"}, {"code_challenge_method=plain", "code_challenge=" + verifier},
			// AZ-54
			{"code_challenge_method=s256"}, {"code_challenge_method=S512"}, {"code_challenge_method=S256 "}, {"code_challenge_method=none"},
			// AZ-55
			{"code_challenge"}, {"code_challenge="}, {"code_challenge", "code_challenge_method=plain"},
			// AZ-56
			{"code_challenge=" + challenge[1:]}, {"code_challenge=" + challenge + "A"}, {"code_challenge=" + challenge + "="},
			{"code_challenge=" + strings.Repeat("a", 128)}, {"code_challenge=" + strings.Repeat("a", 129)}, {"code_challenge=" + strings.Repeat("a", 300)},
			{"code_challenge=" + strings.Replace(challenge, "-", "+", 1)}, {"code_challenge=" + challenge[:42] + "."}, {"code_challenge=" + challenge[:42] + "\u00e9"},
			{"code_challenge= " + challenge[:42]}, {"code_challenge=" + challenge + " "},
			{"code_challenge=" + challenge[:42] + "N"}, // bits beyond 256 are set
		} {
			if q := b.get(asking(c, pairs...)).told(t, redirect, "invalid_request"); q.Get("state") != "st" {
				t.Errorf("%q: state %q", pairs, q["state"])
			}
		}
		b.get(asking(c)).granted(t, redirect)
	}
}

func TestAZ51_OnlyARegisteredExceptionDoesWithoutAChallenge(t *testing.T) {
	d, b := signedIn(t)
	none := []string{"code_challenge", "code_challenge_method"}
	public := d.ours(func(r *client.Registration) { r.Auth = store.AuthNone })
	forced := d.change(public, func(c *store.Client) { c.NoPKCE = true })
	for _, c := range []oauthClient{d.ours(), public, forced} {
		b.get(asking(c, none...)).told(t, redirect, "invalid_request")
	}
	c := d.ours(func(r *client.Registration) { r.NoPKCE = true })
	q := b.get(asking(c, none...)).granted(t, redirect)
	want(t, d.post(with(c.redeem(q.Get("code")), "code_verifier", verifier)), 400, "invalid_grant")
	d.mustIssue(d.post(c.redeem(q.Get("code"))))
	// If such a client sends a challenge, it must prove it.
	q = b.get(asking(c)).granted(t, redirect)
	want(t, d.post(c.redeem(q.Get("code"))), 400, "invalid_grant")
	d.mustRedeem(c, q.Get("code"))
}
