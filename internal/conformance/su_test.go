package conformance_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// steppingUp returns a client without id_tokens for each access token format.
func (d *deployment) steppingUp() map[string]oauthClient {
	made := map[string]oauthClient{}
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		made[string(format)] = d.client(client.Registration{Settings: store.Settings{FirstParty: true, TokenFormat: format, Scope: "a b"}})
	}
	return made
}

// A client that requests no class gets tokens without one. Otherwise the tokens contain
// the class for the life of the grant.
func TestSU03_SU04_TokensSayWhenAndHowTheUserSignedIn(t *testing.T) {
	d, b := signedIn(t)
	reader := d.client(client.Registration{Settings: store.Settings{Introspect: true}})
	for format, c := range d.steppingUp() {
		for _, asked := range []string{"", "urn:mintage:1", "x urn:mintage:1", "x"} {
			want := any("urn:mintage:1")
			if asked == "" {
				want = nil
			}
			a := d.post(with(c.redeem(b.agree(asking(c, "acr_values="+asked)).Query().Get("code")), "code_verifier", verifier))
			pair := d.mustIssue(a)
			for i, a := range []answer{a, d.post(c.refresh(pair.RefreshToken))} {
				told := members(t, d.introspect(reader, a.AccessToken).body)
				if told["acr"] != want || told["auth_time"] == nil || told["amr"] != nil || told["sid"] != nil {
					t.Errorf("%s, asked for %q, answer %d: introspection %v", format, asked, i, told)
				}
				if format != string(store.TokenJWT) {
					continue
				}
				if c := d.verified(a.AccessToken).claims; c["acr"] != want || fmt.Sprint(c["auth_time"]) != fmt.Sprint(told["auth_time"]) {
					t.Errorf("%s, asked for %q, answer %d: JWT %v", format, asked, i, c)
				}
			}
		}
	}
}

func TestSU01_SU02_SU06_AProxyDemandsALogin(t *testing.T) {
	d, b := signedIn(t)
	for format, c := range d.steppingUp() {
		redeem := func(pairs ...string) string {
			return d.mustRedeem(c, b.agree(asking(c, pairs...)).Query().Get("code")).AccessToken
		}
		plain, classed := redeem(), redeem("acr_values=urn:mintage:1")
		d.step(100 * time.Second)
		for _, x := range []struct {
			token, demand, challenge string // "" if the token is accepted
		}{
			{plain, "max_age=101", ""}, {classed, "acr=urn:mintage:1", ""}, {classed, "acr=x+urn:mintage:1&max_age=101", ""},
			{plain, "max_age=99", `max_age="99"`}, {plain, "acr=urn:mintage:1", `acr_values="urn:mintage:1"`},
			{classed, "acr=urn:mintage:2", `acr_values="urn:mintage:2"`}, {classed, "acr=urn:mintage:2+x&max_age=99", `acr_values="urn:mintage:2 x", max_age="99"`},
		} {
			a := d.send(ask("GET", verifyPath+"?"+x.demand, bearer(x.token)))
			got := strings.Join(a.header["Www-Authenticate"], "\n")
			const head = `Bearer realm="/api", error="insufficient_user_authentication", error_description="a more recent or another login of the user is required", `
			if x.challenge == "" && a.status != 200 || x.challenge != "" && (a.status != 401 || got != head+x.challenge) {
				t.Errorf("%s, %s: %d %s", format, x.demand, a.status, got)
			}
		}
		for _, bad := range []string{"acr=", "max_age=", "max_age=0", "max_age=-1", "max_age=x", `acr=%22`, "acr=+", "max_age=99999999999"} {
			if a := d.send(ask("GET", verifyPath+"?"+bad, bearer(classed))); a.status != 400 {
				t.Errorf("%s: %d", bad, a.status)
			}
		}
		d.step(-100 * time.Second)
	}
	// A client's own token has no user.
	service := d.client(client.Registration{Settings: store.Settings{NoPKCE: true, GrantTypes: []string{store.GrantClientCredentials}, Scope: "a"}})
	own := d.mustIssueOwn(service)
	for _, demand := range []string{"max_age=3600", "acr=urn:mintage:1"} {
		if a := d.send(ask("GET", verifyPath+"?"+demand, bearer(own))); a.status != 401 {
			t.Errorf("a service's own token, %s: %d", demand, a.status)
		}
	}
}

// mustIssueOwn returns a client credentials token.
func (d *deployment) mustIssueOwn(c oauthClient) string {
	d.t.Helper()
	a := d.post(c.identify(url.Values{"grant_type": {"client_credentials"}}))
	if a.status != 200 {
		d.t.Fatal(a)
	}
	return a.AccessToken
}

func TestSU05_TheSecondFactorOfTheUserFulfilsTheClass(t *testing.T) {
	d := start(t, withFront)
	secret := d.userWithCode("coded")
	d.user("plain")
	c := d.steppingUp()[string(store.TokenOpaque)]
	const strong = "acr_values=urn:mintage:2"

	b := d.browser()
	d.signIn(b, "coded") // by password alone, as before the second factor
	b.get(asking(c, strong, "prompt=none")).told(t, redirect, oauth.LoginRequired)
	page := b.logIn(b.open(asking(c, strong)).at(t, "login"), "coded", password).at(t, "second_factor")
	done := b.follow(b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+d.oneTimeCode(secret)))
	got := d.mustRedeem(c, done.location().Query().Get("code"))
	if a := d.send(ask("GET", verifyPath+"?acr=urn:mintage:2", bearer(got.AccessToken))); a.status != 200 {
		t.Errorf("with the second factor: %v", a)
	}
	// The session now has the second factor. A stronger class satisfies a weaker one.
	for _, asked := range []string{strong, "acr_values=urn:mintage:1", "acr_values=urn:mintage:2 urn:mintage:1"} {
		b.get(asking(c, asked, "prompt=none")).granted(t, redirect)
	}
	// A user without a second factor cannot satisfy the class.
	b = d.browser()
	page = b.open(asking(c, strong)).at(t, "login")
	b.logIn(page, "plain", password).told(t, redirect, oauth.UnmetRequirements)
	b.get(asking(c, "acr_values=urn:mintage:2 urn:mintage:1", "prompt=none")).granted(t, redirect)
	b.get(asking(c, "acr_values=urn:mace:x", "prompt=none")).granted(t, redirect) // an unknown class is ignored
}
