package conformance_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestOP05_AClockThatJumpsAcceptsNothingTwiceAndLosesNothing(t *testing.T) {
	d := start(t, strict)
	pair, id := d.tokens(d.a)
	code := d.code(d.a)
	for _, jump := range []time.Duration{-time.Hour, time.Hour, time.Second, -time.Second, 24 * time.Hour, -24 * time.Hour} {
		d.step(jump)
		before := d.row(id)
		next := d.alive(d.a, pair.RefreshToken)
		after := d.row(id)
		if after.Generation != before.Generation+1 || after.RotatedAt < before.RotatedAt {
			t.Errorf("after %s: generation %d to %d, instant %d to %d", jump, before.Generation, after.Generation, before.RotatedAt, after.RotatedAt)
		}
		if next.RefreshToken == pair.RefreshToken || next.AccessToken == pair.AccessToken {
			t.Errorf("after %s: a token came back", jump)
		}
		pair = next
	}
	// By the clock, the code has expired; it is valid again after the clock was set back.
	// Its single use does not depend on the clock.
	d.step(time.Hour)
	want(t, d.post(d.a.redeem(code.Code)), 400, "invalid_grant")
	d.step(-time.Hour)
	made := d.mustIssue(d.post(d.a.redeem(code.Code)))
	for _, jump := range []time.Duration{-24 * time.Hour, 48 * time.Hour} {
		d.step(jump)
		want(t, d.post(d.a.redeem(code.Code)), 400, "invalid_grant")
	}
	d.dead(d.a, made.RefreshToken, code.GrantID, grant.ReasonCodeReplayed)

	// A clock far ahead removes only rows whose tokens can no longer be presented.
	sweep := func() (deleted int) {
		t.Helper()
		_, n, err := d.sqlite.Sweep(context.Background(), store.SweptGrants, "", grant.At(d.now()), 100)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	spent, last := d.tokens(d.a)
	d.alive(d.a, spent.RefreshToken)
	d.step(31 * 24 * time.Hour)
	if n := sweep(); n != 1 {
		t.Errorf("%d grants were removed, want the one of the redeemed code", n)
	}
	want(t, d.post(d.a.refresh(spent.RefreshToken)), 400, "invalid_grant")
	if g := d.row(last); g.State != grant.Revoked {
		t.Errorf("a replay was not recognised: %v", g.State)
	}
	d.step(72 * time.Hour)
	if n := sweep(); n == 0 {
		t.Error("nothing was removed")
	}
}

func TestOP11_AFaultyConfigurationIsRefusedAtStart(t *testing.T) {
	d := start(t)
	good := config.Default()
	good.PublicURL, good.TLS.Cert, good.TLS.Key = "https://auth.example.com", "cert.pem", "key.pem"
	if c := good; c.Check() != nil {
		t.Fatalf("the good configuration: %v", c.Check())
	}
	for key, spoil := range map[string]func(*config.Config){
		"public_url":               func(c *config.Config) { c.PublicURL = "http://auth.example.com" },
		"issuer":                   func(c *config.Config) { c.Issuer = "http://auth.example.com/oauth2/api" },
		"tls":                      func(c *config.Config) { c.TLS.Key = "" },
		"listen":                   func(c *config.Config) { c.Listen = "8443" },
		"retry_window":             func(c *config.Config) { c.RetryWindow = config.Duration(5 * time.Minute) },
		"access_token_lifetime":    func(c *config.Config) { c.AccessTokenLifetime = config.Duration(90500 * time.Millisecond) },
		"code_lifetime":            func(c *config.Config) { c.CodeLifetime = config.Duration(time.Hour) },
		"errors.basic_auth_status": func(c *config.Config) { c.Errors.BasicAuthStatus = 403 },
		"cors.origins":             func(c *config.Config) { c.CORS.Origins = []string{"*"} },
		"admin.listen":             func(c *config.Config) { c.Admin.Listen, c.TLS = "127.0.0.1:9443", config.TLS{} },
	} {
		c := good
		spoil(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	open := good
	open.TLS, open.Listen = config.TLS{}, "0.0.0.0:8443"
	if err := open.Check(); err == nil {
		t.Error("plain http on every interface is accepted")
	}

	// Key-encryption keys that do not open the store, or are malformed.
	log := slog.New(slog.DiscardHandler)
	other, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := directory.Open(t.Context(), d.sqlite, other, keys.Schedule{}, log, time.Now); err == nil || !strings.Contains(err.Error(), "wrong key-encryption key") {
		t.Errorf("another key-encryption key: %v", err)
	}
	for _, text := range []string{"", "c2hvcnQ=\n", "not base64", strings.Repeat("A", 44)} {
		if _, err := keys.ParseKEK(text); err == nil || !strings.Contains(err.Error(), "32 bytes in base64") {
			t.Errorf("a key-encryption key of %d characters: %v", len(text), err)
		}
	}
}

// An operator's revocation is in force for the next request, and affects nothing else.
func TestOP18_EverythingOfAUserAClientOrAGrantIsEndedOnTheNextCall(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	jwt := d.jwtClient()
	type held struct {
		client  oauthClient
		subject string
		tokens  tokens
		id      grant.ID
	}
	login := func(c oauthClient, subject string) held {
		code := d.code(c, func(a *issuer.Authorization) { a.Subject = subject })
		return held{c, subject, d.mustIssue(d.post(c.redeem(code.Code))), code.GrantID}
	}
	for name, r := range map[string]struct {
		do   func(of held)
		hits func(h, of held) bool
	}{
		"a user":             {func(of held) { d.cutOff(store.Cutoff{Subject: of.subject}) }, func(h, of held) bool { return h.subject == of.subject }},
		"a client":           {func(of held) { d.cutOff(store.Cutoff{ClientID: of.client.ID}) }, func(h, of held) bool { return h.client.ID == of.client.ID }},
		"a client of a user": {func(of held) { d.cutOff(store.Cutoff{Subject: of.subject, ClientID: of.client.ID}) }, func(h, of held) bool { return h.subject == of.subject && h.client.ID == of.client.ID }},
		"a grant": {func(of held) {
			if err := storetest.Replace(t.Context(), d.sqlite, d.row(of.id).Revoke(grant.ReasonOperator).Next); err != nil {
				t.Fatal(err)
			}
		}, func(h, of held) bool { return h.id == of.id }},
	} {
		for target := range 3 {
			d.step(time.Second) // past the last cutoff
			var all []held
			for _, c := range []oauthClient{d.a, d.b, jwt} {
				for _, subject := range []string{name + " alice", name + " bob", name + " alice"} {
					all = append(all, login(c, subject))
				}
			}
			of := all[4*target]
			r.do(of)
			after := login(of.client, of.subject)
			for i, h := range all {
				dead := r.hits(h, of)
				d.wantActive(rs, !dead, h.tokens.AccessToken)
				d.wantActive(h.client, !dead, h.tokens.RefreshToken)
				if a := d.verify(h.tokens.AccessToken); (a.status == 401) != dead {
					t.Errorf("%s: number %d at a resource: %v", name, i, a)
				}
				if dead {
					want(t, d.post(h.client.refresh(h.tokens.RefreshToken)), 400, "invalid_grant")
				}
			}
			// What is authorized afterwards is valid, even within the same millisecond.
			d.wantActive(rs, true, after.tokens.AccessToken)
		}
	}
}

func TestOP19_RegistrationRefusesWhatIsNotSafe(t *testing.T) {
	d := start(t)
	refused := func(r client.Registration, field string) {
		t.Helper()
		r.Name, r.Scope = "x", "a"
		if r.Auth == "" {
			r.Auth = store.AuthEither
		}
		_, _, err := r.Client(realm, d.ring(), d.issuer.Policy, 1)
		if invalid, ok := err.(*oauth.Invalid); !ok || invalid.Field != field || invalid.Message == "" {
			t.Errorf("%v: %v, want a fault of %s", r.RedirectURIs, err, field)
		}
	}
	for _, uri := range []string{
		"https://*.example/cb", "https://client.example/*", "http://client.example/cb", "https://client.example/cb#f", "/cb", "client.example/cb",
		"javascript:alert(1)", "data:text/html,x", "https://user@client.example/", "https:///cb", "ftp://client.example/", "com.example.app:/cb",
		"http://127.0.0.1/cb", "https://client.example/a b", "https://client.example/\n", "",
	} {
		refused(client.Registration{Settings: store.Settings{RedirectURIs: []string{uri}}}, "redirect-uri")
	}
	refused(client.Registration{}, "redirect-uri")
	refused(client.Registration{Settings: store.Settings{RedirectURIs: []string{redirect}, GrantTypes: []string{"password"}}}, "grant-types")
	refused(client.Registration{Settings: store.Settings{RedirectURIs: []string{redirect}, RetryWindow: store.InMilliseconds(time.Hour)}}, "retry-window")
	refused(client.Registration{Settings: store.Settings{RedirectURIs: []string{redirect}}, Secret: "short"}, "secret-stdin")
	refused(client.Registration{Settings: store.Settings{RedirectURIs: []string{redirect}, Auth: store.AuthNone, NoRotation: true}}, "no-rotation")
	for _, uri := range []string{"http://localhost.evil.example/cb", "http://127.0.0.1.evil.example/cb", "http://0x7f000001/cb", "myapp:/cb"} {
		refused(client.Registration{Settings: store.Settings{Native: true, RedirectURIs: []string{uri}}}, "redirect-uri")
	}
}
