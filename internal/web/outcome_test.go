package web_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/upstream"
	"github.com/mintage/mintage/internal/web"
)

func codeRequest(code string) issuer.CodeRequest {
	return issuer.CodeRequest{Code: code, RedirectURI: redirectURI}
}

// handoff makes the users of a fixture log in at a handoff login page.
func handoff(_ *fixture, c *choice) {
	c.Users, c.Authorizer.Alive, c.Handoff = nil, nil, "https://portal.example/login?a=b"
}

// everywhere offers to end all sessions of alice. The attempt returns err.
func everywhere(err error) func(*fixture, *choice) {
	return func(r *fixture, c *choice) {
		c.EndAll = func(_ context.Context, subject string) error {
			if subject != "s-alice" {
				r.t.Errorf("the sessions of %s end", subject)
			}
			return err
		}
	}
}

// An outcome is the result of a login, a consent or a logout: the response, the audit
// records and the metrics. Each record and count happens once.
type outcome struct {
	name    string
	choose  []func(*fixture, *choice)
	prepare func(r *fixture) *browser // its effects are not checked; nil: a new browser
	do      func(r *fixture, b *browser) shownPage
	status  int
	to      string   // prefix of the redirect's address
	audit   []string // event|outcome|subject|client|detail
	counted []string
}

const users, atHandoff, elsewhere = "built-in users", "login page of the provider", "OpenID Connect provider"

// outcomes lists every possible result of a login, a consent or a logout.
func outcomes(t *testing.T) []outcome {
	signedIn := func(r *fixture) *browser { return r.signedIn("alice") }
	consenting := func(decision ...string) func(*fixture, *browser) shownPage {
		return func(r *fixture, b *browser) shownPage {
			page := b.open(asking(r.shop)).at(r.t, login.StepConsent)
			b.post(interactionURL, append([]string{"id=" + page.field("id")}, decision...)...)
			return b.post(interactionURL, append([]string{"id=" + page.field("id")}, decision...)...) // a second click
		}
	}
	withFactor := func(send func(r *fixture, b *browser, id string, code func() string) shownPage) func(*fixture, *browser) shownPage {
		return func(r *fixture, b *browser) shownPage {
			code := r.secondFactor("alice")
			page := b.follow(b.logIn(b.open(asking(r.shop)).at(r.t, login.StepLogin), "alice", password)).at(r.t, login.StepSecondFactor)
			return send(r, b, page.field("id"), code)
		}
	}
	device := func(decision ...string) func(*fixture, *browser) shownPage {
		return func(r *fixture, b *browser) shownPage {
			cli := r.client(client.Registration{ID: "cli", Settings: store.Settings{Name: "Terminal", GrantTypes: []string{store.GrantDeviceCode}}})
			asked := must(issuer.DeviceCodes{Issuer: r.kit.Issuer}.DeviceAuthorization(r.t.Context(), &cli, issuer.DeviceRequest{Scope: "a"}))
			page := b.follow(b.post(publicURL+web.DevicePath, "user_code="+asked.UserCode)).at(r.t, login.StepConsent)
			answer := append([]string{"id=" + page.field("id"), "step=consent"}, decision...)
			s := b.follow(b.post(interactionURL, answer...))
			b.post(interactionURL, answer...) // a second click
			b.post(interactionURL, answer...)
			return s
		}
	}
	// told is a login at the handoff login page, which calls say to report the result.
	told := func(say func(r *fixture, challenge string) (string, error)) func(*fixture, *browser) shownPage {
		return func(r *fixture, b *browser) shownPage {
			s := b.open(asking(r.shop))
			next, err := say(r, s.query().Get("challenge"))
			if err != nil {
				r.t.Fatal(err)
			}
			s = b.get(next)
			b.get(next) // the browser's back button
			return s
		}
	}
	// at is a login at an OpenID Connect provider, which answers with the query that
	// change returns.
	at := func(change func(r *fixture, p *provider) (query string), account ...bool) (func(*fixture, *choice), func(*fixture, *browser) shownPage) {
		p := newProvider(t)
		return atProvider(p), func(r *fixture, b *browser) shownPage {
			address := asking(r.shop)
			if len(account) > 0 {
				address = connectionsURL
			}
			state := p.sent(b.open(address))
			b.header["Sec-Fetch-Site"] = "cross-site"
			return b.get(callbackURL + "?state=" + state + "&" + change(r, p))
		}
	}
	const ok = "code=c"
	upstreamOK, upstreamOKDo := at(func(*fixture, *provider) string { return ok })
	upstreamDenied, upstreamDeniedDo := at(func(*fixture, *provider) string { return "error=access_denied" })
	upstreamUnwilling, upstreamUnwillingDo := at(func(*fixture, *provider) string { return "error=interaction_required" })
	upstreamDown, upstreamDownDo := at(func(_ *fixture, p *provider) string { p.down = true; return ok })
	upstreamForged, upstreamForgedDo := at(func(_ *fixture, p *provider) string { p.claims["aud"] = "another"; return ok })
	upstreamRefused, upstreamRefusedDo := at(func(_ *fixture, p *provider) string { p.refuse = "server_error"; return ok })
	upstreamClient, upstreamClientDo := at(func(r *fixture, p *provider) string {
		r.client(client.Registration{ID: "people:42", Settings: store.Settings{Name: "A client"}})
		return ok
	})
	upstreamEnded, upstreamEndedDo := at(func(r *fixture, p *provider) string {
		p.claims["sid"], p.claims["iat"] = "s1", r.kit.Clock.Now().Unix()
		r.kit.Clock.Advance(2 * time.Second)
		if s := r.browser().post(publicURL+"/oauth2/backchannel_logout", "logout_token="+p.logoutToken("j", "s1")); s.StatusCode != http.StatusOK {
			r.t.Fatalf("status %d, %s", s.StatusCode, s.body)
		}
		return ok
	})
	accountUnwilling, accountUnwillingDo := at(func(*fixture, *provider) string { return "error=unmet_authentication_requirements" }, true)
	accountDenied, accountDeniedDo := at(func(*fixture, *provider) string { return "error=access_denied" }, true)
	unseen := newProvider(t)
	unseen.down = true
	ending := newProvider(t)
	passing := newProvider(t)

	shop := "|s-alice|shop|"
	loginOK, codeOK := "login_succeeded|success"+shop+users, "code_issued|success"+shop
	consentGiven := "consent_given|success" + shop + "scope a"
	return []outcome{
		// Logins of built-in users.
		{name: "login", do: func(r *fixture, b *browser) shownPage {
			page := b.open(asking(r.shop)).at(r.t, login.StepLogin)
			s := b.logIn(page, "alice", password)
			b.logIn(page, "alice", password) // a second click
			return s
		}, status: 303, to: interactionURL, audit: []string{loginOK}, counted: []string{"login ok +1"}},
		{name: "login for the account pages", do: func(r *fixture, b *browser) shownPage {
			return b.logIn(b.open(connectionsURL).at(r.t, login.StepLogin), "alice", password)
		}, status: 303, to: interactionURL, audit: []string{"login_succeeded|success|s-alice||" + users}, counted: []string{"login ok +1"}},
		{name: "wrong password", do: func(r *fixture, b *browser) shownPage {
			return b.logIn(b.open(asking(r.shop)).at(r.t, login.StepLogin), "alice", "wrong")
		}, status: 422, audit: []string{"login_failed|refused" + shop + users}, counted: []string{"login wrong +1"}},
		{name: "no such user", do: func(r *fixture, b *browser) shownPage {
			return b.logIn(b.open(asking(r.shop)).at(r.t, login.StepLogin), "a password by mistake", "wrong")
		}, status: 422, audit: []string{"login_failed|refused||shop|" + users + ", no such user"}, counted: []string{"login wrong +1"}},
		{name: "too many wrong passwords", choose: []func(*fixture, *choice){func(_ *fixture, c *choice) {
			c.Users.SetFailures(1)
		}}, prepare: func(r *fixture) *browser {
			b := r.browser()
			b.logIn(b.open(asking(r.shop)).at(r.t, login.StepLogin), "alice", "wrong")
			return b
		}, do: func(r *fixture, b *browser) shownPage {
			page := b.open(asking(r.shop)).at(r.t, login.StepLogin)
			b.logIn(page, "alice", password)
			return b.logIn(page, "alice", password)
		}, status: 429, audit: []string{"throttled|refused||shop|interaction; further ones within a minute are not recorded"},
			counted: []string{"login throttled +2", "throttled login_failures +2"}},
		{name: "a store that does not answer", do: func(r *fixture, b *browser) shownPage {
			page := b.open(asking(r.shop)).at(r.t, login.StepLogin)
			r.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
			return b.logIn(page, "alice", password)
		}, status: 503, counted: []string{"login failed +1"}},
		{name: "a password that cannot be compared", do: func(r *fixture, b *browser) shownPage {
			r.change("alice", func(u account.User) account.User { u.Password, u.Version = "none", u.Version+1; return u })
			return b.logIn(b.open(asking(r.shop)).at(r.t, login.StepLogin), "alice", password)
		}, status: 500, counted: []string{"login failed +1"}},
		{name: "password and code", do: withFactor(func(r *fixture, b *browser, id string, code func() string) shownPage {
			return b.post(interactionURL, "id="+id, "step=second_factor", "code="+code())
		}), status: 303, to: interactionURL, audit: []string{loginOK}, counted: []string{"login ok +1"}},
		{name: "wrong code", do: withFactor(func(r *fixture, b *browser, id string, code func() string) shownPage {
			return b.post(interactionURL, "id="+id, "step=second_factor", "code=x"+code())
		}), status: 422, audit: []string{"login_failed|refused" + shop + users + ", one-time code after the right password"}, counted: []string{"login wrong +1"}},
		{name: "a password that was changed before the code", do: withFactor(func(r *fixture, b *browser, id string, code func() string) shownPage {
			r.change("alice", func(u account.User) account.User { return must(u.SetPassword("another long password", r.kit.At()+1)) })
			return b.post(interactionURL, "id="+id, "step=second_factor", "code="+code())
		}), status: 303, to: interactionURL},
		{name: "a user who was disabled before the code", do: withFactor(func(r *fixture, b *browser, id string, code func() string) shownPage {
			r.change("alice", func(u account.User) account.User { return u.Disable(r.kit.At() + 1) })
			return b.post(interactionURL, "id="+id, "step=second_factor", "code="+code())
		}), status: 303, to: interactionURL},
		{name: "a subject that is a client's id", do: func(r *fixture, b *browser) shownPage {
			page := b.open(asking(r.shop)).at(r.t, login.StepLogin)
			r.client(client.Registration{ID: "s-alice", Settings: store.Settings{Name: "A client"}})
			return b.logIn(page, "alice", password)
		}, status: 403, audit: []string{"login_failed|refused" + shop + users + ", the subject is the id of a client"}, counted: []string{"login rejected +1"}},
		{name: "login cancelled", do: func(r *fixture, b *browser) shownPage {
			page := b.open(asking(r.shop)).at(r.t, login.StepLogin)
			return b.post(interactionURL, "id="+page.field("id"), "step=login", "action=cancel")
		}, status: 303, to: redirectURI + "?error=access_denied"},
		{name: "going on as who is signed in", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			page := b.open(asking(r.shop, "prompt=select_account")).at(r.t, login.StepAccount)
			return b.post(interactionURL, "id="+page.field("id"), "step=account", "action=continue")
		}, status: 303, to: interactionURL},

		// Logins at a handoff login page.
		{name: "a portal accepts", choose: []func(*fixture, *choice){handoff}, do: told(func(r *fixture, challenge string) (string, error) {
			return r.Authorizer.AcceptLogin(r.t.Context(), challenge, login.Identity{Subject: "42"})
		}), status: 200, audit: []string{"login_succeeded|success|42|shop|" + atHandoff}, counted: []string{"login ok +1"}},
		{name: "a portal rejects with a code", choose: []func(*fixture, *choice){handoff}, do: told(func(r *fixture, challenge string) (string, error) {
			return r.Authorizer.RejectLogin(r.t.Context(), challenge, "login_required")
		}), status: 303, to: redirectURI + "?error=login_required", audit: []string{"login_failed|refused||shop|" + atHandoff}, counted: []string{"login rejected +1"}},
		{name: "a portal rejects", choose: []func(*fixture, *choice){handoff}, do: told(func(r *fixture, challenge string) (string, error) {
			return r.Authorizer.RejectLogin(r.t.Context(), challenge, "")
		}), status: 303, to: redirectURI + "?error=access_denied", audit: []string{"login_failed|refused||shop|" + atHandoff}, counted: []string{"login rejected +1"}},

		// Logins at an OpenID Connect provider.
		{name: "a provider lets in", choose: []func(*fixture, *choice){upstreamOK}, do: upstreamOKDo, status: 303, to: interactionURL,
			audit: []string{"login_succeeded|success|people:42|shop|" + elsewhere}, counted: []string{"login ok +1"}},
		{name: "a provider denies", choose: []func(*fixture, *choice){upstreamDenied}, do: upstreamDeniedDo, status: 303, to: redirectURI + "?error=access_denied",
			audit: []string{"login_failed|refused||shop|" + elsewhere}, counted: []string{"login rejected +1"}},
		{name: "a provider asks for more", choose: []func(*fixture, *choice){upstreamUnwilling}, do: upstreamUnwillingDo, status: 303, to: redirectURI + "?error=interaction_required",
			audit: []string{"login_failed|refused||shop|" + elsewhere}, counted: []string{"login rejected +1"}},
		{name: "a provider is down", choose: []func(*fixture, *choice){upstreamDown}, do: upstreamDownDo, status: 502,
			audit: []string{"login_failed|failed||shop|" + elsewhere}, counted: []string{"login failed +1"}},
		{name: "a provider fails", choose: []func(*fixture, *choice){upstreamRefused}, do: upstreamRefusedDo, status: 502,
			audit: []string{"login_failed|failed||shop|" + elsewhere}, counted: []string{"login failed +1"}},
		{name: "a provider is down before the login", choose: []func(*fixture, *choice){atProvider(unseen)}, do: func(r *fixture, b *browser) shownPage {
			return b.open(asking(r.shop))
		}, status: 502, audit: []string{"login_failed|failed||shop|" + elsewhere}, counted: []string{"login failed +1"}},
		{name: "an answer that is not the provider's", choose: []func(*fixture, *choice){upstreamForged}, do: upstreamForgedDo, status: 502,
			audit: []string{"login_failed|refused||shop|" + elsewhere}, counted: []string{"login failed +1"}},
		{name: "a user of the provider who is a client here", choose: []func(*fixture, *choice){upstreamClient}, do: upstreamClientDo, status: 403,
			audit: []string{"login_failed|refused|people:42|shop|" + elsewhere + ", the subject is the id of a client"}, counted: []string{"login rejected +1"}},
		{name: "a session that has ended at the provider", choose: []func(*fixture, *choice){upstreamEnded}, do: upstreamEndedDo, status: 303, to: interactionURL,
			audit: []string{"login_failed|refused|people:42|shop|" + elsewhere}, counted: []string{"login rejected +1"}},
		{name: "a provider asks for more for the account pages", choose: []func(*fixture, *choice){accountUnwilling}, do: accountUnwillingDo, status: 403,
			audit: []string{"login_failed|refused|||" + elsewhere}, counted: []string{"login rejected +1"}},
		{name: "a provider denies the account pages", choose: []func(*fixture, *choice){accountDenied}, do: accountDeniedDo, status: 403,
			audit: []string{"login_failed|refused|||" + elsewhere}, counted: []string{"login rejected +1"}},

		// Consents.
		{name: "consent", prepare: signedIn, do: consenting("step=consent", "decision=allow"), status: 303, to: redirectURI + "?code=", audit: []string{consentGiven, codeOK}},
		{name: "consent to claims by name", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			return b.agree(asking(r.shop, "scope=openid", `claims={"userinfo":{"email":null}}`))
		}, status: 303, to: redirectURI + "?code=", audit: []string{"consent_given|success" + shop + "scope openid, claims email", codeOK}},
		{name: "denial", prepare: signedIn, do: consenting("step=consent", "decision=deny"), status: 303, to: redirectURI + "?error=access_denied",
			audit: []string{"consent_denied|success" + shop + "scope a"}},
		{name: "cancelled at the consent", prepare: signedIn, do: consenting("step=consent", "action=cancel"), status: 303, to: redirectURI + "?error=access_denied",
			audit: []string{"consent_denied|success" + shop + "scope a"}},
		{name: "a consent that is not stored", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			page := b.open(asking(r.shop)).at(r.t, login.StepConsent)
			r.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
			return b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow")
		}, status: 503},
		{name: "the other answer afterwards", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			page := b.open(asking(r.shop)).at(r.t, login.StepConsent)
			b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow")
			return b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=deny")
		}, status: 409, audit: []string{consentGiven, codeOK}},
		{name: "a consent of before", prepare: func(r *fixture) *browser {
			b := r.signedIn("alice")
			b.agree(asking(r.shop))
			return b
		}, do: func(r *fixture, b *browser) shownPage { return b.get(asking(r.shop)) }, status: 303, to: redirectURI + "?code=", audit: []string{codeOK}},

		// Devices.
		{name: "device allowed", prepare: signedIn, do: device("decision=allow", "same=yes"), status: 200, audit: []string{"consent_given|success|s-alice|cli|scope a"}, counted: []string{"device allowed +1"}},
		{name: "device denied", prepare: signedIn, do: device("decision=deny"), status: 200, audit: []string{"consent_denied|success|s-alice|cli|scope a"}, counted: []string{"device denied +1"}},
		{name: "a code that no device has", prepare: signedIn, do: func(_ *fixture, b *browser) shownPage {
			return b.follow(b.post(publicURL+web.DevicePath, "user_code=BCDF-GHJK"))
		}, status: 422, audit: []string{"user_code_refused|refused|s-alice||wrong"}, counted: []string{"device wrong +1"}},
		{name: "too many codes that no device has", prepare: func(r *fixture) *browser {
			b := r.signedIn("alice")
			for range 10 {
				b.follow(b.post(publicURL+web.DevicePath, "user_code=BCDF-GHJK"))
			}
			return b
		}, do: func(_ *fixture, b *browser) shownPage {
			return b.follow(b.post(publicURL+web.DevicePath, "user_code=BCDF-GHJK"))
		}, status: 429,
			audit:   []string{"user_code_refused|refused|s-alice||limited", "throttled|refused|||interaction; further ones within a minute are not recorded"},
			counted: []string{"device limited +1"}},

		// Logouts.
		{name: "logout by the user", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			s := b.post(logoutURL)
			b.post(logoutURL) // a second click
			return s
		}, status: 303, to: logoutURL, audit: []string{"logged_out|success|s-alice||"}, counted: []string{"logout ended +1"}},
		{name: "logout of one browser, where everywhere is offered", choose: []func(*fixture, *choice){everywhere(errors.New("disk"))}, prepare: signedIn, do: func(r *fixture, b *browser) shownPage { return b.post(logoutURL) },
			status: 303, to: logoutURL, audit: []string{"logged_out|success|s-alice||"}, counted: []string{"logout ended +1"}},
		{name: "logout everywhere", choose: []func(*fixture, *choice){everywhere(nil)}, prepare: signedIn, do: func(r *fixture, b *browser) shownPage { return b.post(logoutURL, "everywhere=yes") },
			status: 303, to: logoutURL, audit: []string{"logged_out|success|s-alice||everywhere"}, counted: []string{"logout ended +1"}},
		{name: "logout everywhere that fails", choose: []func(*fixture, *choice){everywhere(errors.New("disk"))}, prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			s := b.post(logoutURL, "everywhere=yes")
			if !b.isSignedIn() {
				r.t.Error("the session has ended, and what else should have has not")
			}
			return s
		}, status: 500},
		{name: "logout of a client, confirmed", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			page := b.open(endSessionURL+"?client_id=shop&state=x&post_logout_redirect_uri="+afterLogout).at(r.t, stepLogout)
			return b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout")
		}, status: 303, to: afterLogout + "?state=x", audit: []string{"logged_out|success|s-alice|shop|asked by the client, confirmed by the user"},
			counted: []string{"logout asked +1", "logout ended +1"}},
		{name: "logout of a client, cancelled", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			page := b.open(endSessionURL+"?client_id=shop").at(r.t, stepLogout)
			s := b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=cancel")
			if !b.isSignedIn() {
				r.t.Error("the session has ended")
			}
			return s
		}, status: 303, to: connectionsURL, counted: []string{"logout asked +1", "logout denied +1"}},
		{name: "logout of a client, with a hint", prepare: func(r *fixture) *browser {
			b := r.signedIn("alice")
			b.header["hint"] = b.hint(r.shop)
			return b
		}, do: func(r *fixture, b *browser) shownPage {
			return b.get(endSessionURL + "?id_token_hint=" + b.header["hint"] + "&post_logout_redirect_uri=" + afterLogout)
		}, status: 303, to: afterLogout, audit: []string{"logged_out|success|s-alice|shop|asked by the client"}, counted: []string{"logout ended +1"}},
		{name: "logout of a client, with a hint, by POST", prepare: func(r *fixture) *browser {
			b := r.signedIn("alice")
			b.header["hint"] = b.hint(r.shop)
			return b
		}, do: func(r *fixture, b *browser) shownPage {
			return b.follow(b.post(endSessionURL, "id_token_hint="+b.header["hint"], "post_logout_redirect_uri="+afterLogout))
		}, status: 303, to: afterLogout, audit: []string{"logged_out|success|s-alice|shop|asked by the client"}, counted: []string{"logout ended +1"}},
		{name: "logout that a client asks for wrongly", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			return b.get(endSessionURL + "?client_id=shop&post_logout_redirect_uri=https://evil.example/")
		}, status: 400, counted: []string{"logout refused +1"}},
		{name: "logout with a parameter twice", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			return b.get(endSessionURL + "?client_id=shop&client_id=shop")
		}, status: 400, counted: []string{"logout refused +1"}},
		{name: "logout at a store that does not answer", prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
			r.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
			return b.post(logoutURL)
		}, status: 503},
		{name: "logout of a client at a store that does not answer", prepare: func(r *fixture) *browser {
			b := r.signedIn("alice")
			b.header["hint"] = b.hint(r.shop)
			return b
		}, do: func(r *fixture, b *browser) shownPage {
			r.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
			return b.get(endSessionURL + "?id_token_hint=" + b.header["hint"])
		}, status: 503},
		{name: "logout at the provider", choose: []func(*fixture, *choice){atProvider(ending)}, prepare: func(r *fixture) *browser {
			return r.signedIn("bob", func(who *login.Identity) { who.Subject, who.Provider = "people:42", ending.url+"\x00s1" })
		}, do: func(r *fixture, b *browser) shownPage {
			s := r.browser().post(publicURL+"/oauth2/backchannel_logout", "logout_token="+ending.logoutToken("j1", "s1"))
			if b.isSignedIn() {
				r.t.Error("the session continues")
			}
			return s
		}, status: 200, audit: []string{"logged_out|success|people:42||at the OpenID Connect provider"}, counted: []string{"logout ended +1"}},
		{name: "logout passed on to the provider", choose: []func(*fixture, *choice){atProvider(passing, func(c *upstream.Config) { c.LogoutURL = logoutURL })},
			prepare: signedIn, do: func(r *fixture, b *browser) shownPage {
				s := b.post(logoutURL)
				b.get(logoutURL) // back from the provider
				return s
			}, status: 303, to: passing.url + "/end?", audit: []string{"logged_out|success|s-alice||"}, counted: []string{"logout ended +1"}},
	}
}

// meanwhile runs f once, when the next session is checked: after a request has read an
// interaction, and before it changes the interaction.
func (r *fixture) meanwhile(f func()) {
	alive := r.Authorizer.Alive
	r.Authorizer.Alive = func(ctx context.Context, username string, epoch int64) (bool, error) {
		r.Authorizer.Alive = alive
		f()
		return alive(ctx, username, epoch)
	}
}

func TestTwoClicksAtOnceAreOneConsent(t *testing.T) {
	t.Parallel()
	for _, decision := range []string{"allow", "deny"} {
		r := newFixture(t)
		b := r.signedIn("alice")
		page := b.open(asking(r.shop)).at(t, login.StepConsent)
		click := func() shownPage {
			return b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision="+decision)
		}
		var other shownPage
		began := r.kit.Clock.Now()
		r.meanwhile(func() { other = click() })
		if s := click(); s.StatusCode != http.StatusSeeOther || s.to() != other.to() {
			t.Errorf("%s: %d to %q, and %d to %q", decision, s.StatusCode, s.to(), other.StatusCode, other.to())
		}
		consents := slices.DeleteFunc(r.recorded(began), func(line string) bool { return !strings.HasPrefix(line, "consent_") })
		if len(consents) != 1 {
			t.Errorf("%s: recorded %q", decision, consents)
		}
	}
}

// must returns v, and panics if err is not nil.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestOutcomesOfLoginConsentAndLogout(t *testing.T) {
	for _, o := range outcomes(t) {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, o.choose...)
			b := r.browser()
			if o.prepare != nil {
				b = o.prepare(r)
			}
			r.kit.Clock.Advance(time.Millisecond)
			began := r.kit.Clock.Now()
			r.counts()
			s := o.do(r, b)
			if s.StatusCode != o.status || !strings.HasPrefix(s.to(), o.to) || o.to == "" && s.to() != "" {
				t.Errorf("status %d to %q, want %d to %q", s.StatusCode, s.to(), o.status, o.to)
			}
			if o.status == http.StatusTooManyRequests && s.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			if got := r.counts(); !slices.Equal(got, o.counted) {
				t.Errorf("counted %q, want %q", got, o.counted)
			}
			if got := r.recorded(began); !slices.Equal(got, o.audit) {
				t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(o.audit, "\n"))
			}
		})
	}
}
