package explain_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// explainer explains tokens of an issuer, from a store.
func explainer(iss *issuer.Issuer, st store.Store) *explain.Explainer {
	return &explain.Explainer{Realm: iss.Realm, Store: st, Directory: iss.Directory, Now: iss.Now, MaxSkew: iss.Policy.MaxSkew, Issuer: iss}
}

func (s *service) explainToken(text string) explain.Explanation {
	s.T.Helper()
	e, err := explainer(s.Issuer, s.Issuer.Store).Token(s.T.Context(), text)
	if err != nil {
		s.T.Fatal(err)
	}
	// However a program prints the explanation, the token is not in it.
	for _, form := range []string{fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e)} {
		if strings.Contains(form, text) || strings.Contains(form, text[max(0, len(text)-24):]) {
			s.T.Error("the explanation holds the text")
		}
	}
	printed, err := json.Marshal(e)
	if err != nil || strings.Contains(string(printed), text) {
		s.T.Errorf("the explanation in JSON: %v, or it holds the text", err)
	}
	return e
}

// A token's shown expiry is in the past if it has expired, even if a lifetime was changed
// since, and its lifetime follows from its own instants.
func TestExplainDatesAnExpiry(t *testing.T) {
	t.Parallel()
	s := newService(t)
	tokens := s.Login()
	s.Policy.GrantLifetime, s.Policy.AccessLifetime = time.Hour, time.Minute
	s.Clock.Advance(2 * time.Hour)
	s.Refused(grant.GrantExpired)(s.Renew(tokens.RefreshToken))
	for text, want := range map[string]string{
		tokens.RefreshToken:     "grant_lifetime has ended its grant on 2023-11-14T23:13:20Z, 60 min ago",
		tokens.GrantID.String(): "grant_lifetime has ended its grant on 2023-11-14T23:13:20Z, 60 min ago",
		tokens.AccessToken:      "nothing is wrong: it was to live for 5m; the client refreshes",
	} {
		x := explainer(s.Issuer, s.Engine)
		x.Config.Audit.Directory, x.Config.GrantLifetime = config.AuditOff, config.Duration(time.Hour)
		x.ResponseTo = func(string, grant.Refusal) (int, oauth.ErrorCode) { return 400, oauth.InvalidGrant }
		v, err := x.Explain(t.Context(), explain.Parse(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := v.Print(&b); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s, %v", want, b.String(), err)
		}
	}
}

// The explanation of a refresh token predicts the token endpoint's response.
func TestExplainForeseesARefresh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		make     func(s *service) (token string)
		want     grant.Refusal
		standing string
		repeats  bool
		revokes  bool
	}{
		{"present", func(s *service) string { return s.Login().RefreshToken }, grant.Allowed, "present", false, false},
		{"spent a moment ago", func(s *service) string {
			first := s.Login()
			s.Must(s.Renew(first.RefreshToken))
			s.Clock.Advance(time.Minute)
			return first.RefreshToken
		}, grant.Allowed, "spent", true, false},
		{"spent long ago, of a token file that is shared", func(s *service) string {
			grace := store.Milliseconds((24 * time.Hour).Milliseconds())
			s.Administer(clientID, func(c *store.Client) { c.ReuseGrace = &grace })
			first := s.Login()
			s.Must(s.Renew(s.Must(s.Renew(first.RefreshToken)).RefreshToken))
			s.Clock.Advance(3 * time.Minute)
			return first.RefreshToken
		}, grant.Allowed, "spent", true, false},
		{"spent, after the window", func(s *service) string {
			first := s.Login()
			s.Must(s.Renew(first.RefreshToken))
			s.Clock.Advance(121 * time.Second)
			return first.RefreshToken
		}, grant.RefreshReplayed, "spent", false, true},
		{"spent twice over", func(s *service) string {
			first := s.Login()
			s.Must(s.Renew(s.Must(s.Renew(first.RefreshToken)).RefreshToken))
			return first.RefreshToken
		}, grant.RefreshReplayed, "spent", false, true},
		{"of a grant that was replayed", func(s *service) string {
			first := s.Login()
			second := s.Must(s.Renew(s.Must(s.Renew(first.RefreshToken)).RefreshToken))
			s.Renew(first.RefreshToken)
			return second.RefreshToken
		}, grant.GrantRevoked, "present", false, false},
		{"expired", func(s *service) string {
			first := s.Login()
			s.Clock.Advance(31 * day)
			return first.RefreshToken
		}, grant.GrantExpired, "present", false, false},
		{"cut off", func(s *service) string {
			first := s.Login()
			s.CutOff(store.Cutoff{Realm: realm, Subject: subject, At: s.At()})
			return first.RefreshToken
		}, grant.CutOff, "present", false, false},
		{"of a client that lost its scopes", func(s *service) string {
			first := s.Login()
			s.Administer(clientID, func(c *store.Client) { c.Scope = "other" })
			return first.RefreshToken
		}, grant.ScopeTooWide, "present", false, false},
		{"ahead of its row", func(s *service) string {
			first := s.Login()
			old := s.Row(first.GrantID)
			second := s.Must(s.Renew(first.RefreshToken))
			s.RowAgain(old)
			return second.RefreshToken
		}, grant.StoreBehind, "ahead", false, false},
		{"ahead of its row, after a restore", func(s *service) string {
			first := s.Login()
			old := s.Row(first.GrantID)
			second := s.Must(s.Renew(s.Must(s.Renew(first.RefreshToken)).RefreshToken))
			s.RowAgain(old)
			s.Restored()
			return second.RefreshToken
		}, grant.Allowed, "ahead", false, false},
		{"without a row", func(s *service) string {
			text, err := s.View().Ring.SealRefresh(s.View().Ring.Current(keys.MAC, s.At()), realm,
				keys.Token{GrantID: grant.ID{1}, Generation: 1, IssuedAt: s.At(), ExpiresAt: s.At().Add(day)})
			if err != nil {
				t.Fatal(err)
			}
			return text
		}, grant.StoreBehind, "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			token := c.make(s)
			e := s.explainToken(token)
			if !e.Authentic || e.As != explain.AsRefresh || !e.Answer.Known || e.Answer.Why != c.want ||
				e.Answer.Repeats != c.repeats || e.Answer.Revokes != c.revokes || e.Standing() != c.standing {
				t.Errorf("explained: authentic %t, %s, standing %q, %+v", e.Authentic, e.As, e.Standing(), e.Answer)
			}
			if c.name == "ahead of its row, after a restore" && (!e.Answer.CatchesUp || e.Restore.At == 0) {
				t.Errorf("the restore is missing: %+v", e.Answer)
			}
			if (e.Answer.SharedUntil != 0) != (c.name == "spent long ago, of a token file that is shared") {
				t.Errorf("a second holder, until %d", e.Answer.SharedUntil)
			}
			// The actual response.
			got, err := s.Renew(token)
			if why := testkit.RefusalOf(t, err); why != c.want || got.Repeated != c.repeats {
				t.Errorf("the token endpoint: %s, repeated %t", why, got.Repeated)
			}
			if g := e.Grant; g != nil && c.revokes {
				if now := s.Row(g.ID); g.State != grant.Active || now.State != grant.Revoked {
					t.Errorf("explain has changed the grant, or the request has not ended it: %s, %s", g.State, now.State)
				}
			}
		})
	}
}

// The explanation of a code predicts the token endpoint's response to the code's own
// request.
func TestExplainForeseesARedemption(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		make    func(s *service) (code string)
		want    grant.Refusal
		revokes bool
	}{
		{"fresh", func(s *service) string { return s.NewCode() }, grant.Allowed, false},
		{"redeemed", func(s *service) string {
			code := s.NewCode()
			s.Must(s.Redeem(code))
			return code
		}, grant.CodeReplayed, true},
		{"redeemed twice", func(s *service) string {
			code := s.NewCode()
			s.Must(s.Redeem(code))
			s.Redeem(code)
			return code
		}, grant.CodeReplayed, false},
		{"expired", func(s *service) string {
			code := s.NewCode()
			s.Clock.Advance(time.Minute)
			return code
		}, grant.CodeExpired, false},
		{"cut off", func(s *service) string {
			code := s.NewCode()
			s.CutOff(store.Cutoff{Realm: realm, ClientID: clientID, At: s.At()})
			return code
		}, grant.CutOff, false},
		{"of before a restore", func(s *service) string {
			code := s.NewCode()
			s.Restored()
			return code
		}, grant.CodeBeforeRestore, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			code := c.make(s)
			e := s.explainToken(code)
			if !e.Authentic || e.As != explain.AsCode || e.Code == nil || e.RedirectURI != redirectURI || e.Answer.Why != c.want || e.Answer.Revokes != c.revokes {
				t.Errorf("explained: %+v, %+v", e, e.Answer)
			}
			if _, err := s.Redeem(code); testkit.RefusalOf(t, err) != c.want {
				t.Errorf("the token endpoint: %v, want %s", err, c.want)
			}
		})
	}
}

func TestExplainForeseesAnIntrospection(t *testing.T) {
	t.Parallel()
	for _, form := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		for _, c := range []struct {
			name     string
			do       func(s *service, first issuer.Tokens)
			want     grant.Refusal
			standing string
		}{
			{"alive", func(*service, issuer.Tokens) {}, grant.Allowed, "present"},
			{"of an earlier pair", func(s *service, first issuer.Tokens) { s.Must(s.Renew(first.RefreshToken)) }, grant.Allowed, "spent"},
			{"expired", func(s *service, _ issuer.Tokens) { s.Clock.Advance(301 * time.Second) }, grant.GrantExpired, "present"},
			{"revoked with its like", func(s *service, first issuer.Tokens) {
				if _, err := s.Revoke(t.Context(), s.Listed(clientID), first.AccessToken, testkit.Origin); err != nil {
					t.Fatal(err)
				}
			}, grant.AccessRevoked, "present"},
			{"of a revoked grant", func(s *service, first issuer.Tokens) {
				if _, err := s.Revoke(t.Context(), s.Listed(clientID), first.RefreshToken, testkit.Origin); err != nil {
					t.Fatal(err)
				}
			}, grant.GrantRevoked, "present"},
			{"of a disabled client", func(s *service, _ issuer.Tokens) {
				s.Administer(clientID, func(c *store.Client) { c.State = store.ClientDisabled })
			}, grant.ClientDisabled, "present"},
		} {
			t.Run(string(form)+" "+c.name, func(t *testing.T) {
				t.Parallel()
				s := newService(t, testkit.Named)
				s.Administer(clientID, func(c *store.Client) { c.TokenFormat = form })
				first := s.Login()
				c.do(s, first)
				e := s.explainToken(first.AccessToken)
				if !e.Authentic || e.Answer.Why != c.want || e.Standing() != c.standing || e.Scope != allScopes || (e.JWT != nil) != (form == store.TokenJWT) {
					t.Errorf("explained: authentic %t, standing %q, scope %q, %+v", e.Authentic, e.Standing(), e.Scope, e.Answer)
				}
				if _, err := s.Inspect(t.Context(), first.AccessToken); testkit.RefusalOf(t, err) != c.want {
					t.Errorf("introspection: %v, want %s", err, c.want)
				}
			})
		}
	}
}

func TestExplainTellsWhyAClientCannotEvenAsk(t *testing.T) {
	t.Parallel()
	s := newService(t)
	token := s.Login().RefreshToken
	for want, change := range map[string]func(*store.Client){
		"disabled": func(c *store.Client) { c.State = store.ClientDisabled },
		"grant_type": func(c *store.Client) {
			c.State, c.GrantTypes = store.ClientEnabled, []string{store.GrantAuthorizationCode}
		},
	} {
		s.Administer(clientID, change)
		if e := s.explainToken(token); e.Answer.Client != want || e.Answer.Why != grant.Allowed {
			t.Errorf("explained: %+v, want trouble with the client: %s", e.Answer, want)
		}
		s.Administer(clientID, func(c *store.Client) { c.State, c.GrantTypes = store.ClientEnabled, store.GrantTypes })
	}
}

func TestExplainNamesTheFaultOfAForgedText(t *testing.T) {
	t.Parallel()
	s, other := newService(t, testkit.Named), newService(t, testkit.Named)
	pair, theirs := s.Login(), other.Login()
	r, code := pair.RefreshToken, s.NewCode()
	alter := func(text string, at int) string {
		with := "A"
		if text[at] == 'A' {
			with = "B"
		}
		return text[:at] + with + text[at+1:]
	}
	for _, c := range []struct {
		name, text string
		want       keys.Fault
		named      bool // it still names a grant
	}{
		{"altered in its MAC", alter(r, len(r)-9), keys.WrongSeal, true},
		{"altered in its grant", alter(r, 30), keys.WrongSeal, true},
		{"cut short", r[:len(r)-4], keys.WrongLength, true},
		{"cut very short", r[:20], keys.WrongLength, false},
		{"with something added", r + "AAAA", keys.WrongLength, true},
		{"percent-encoded", r[:40] + "%2D" + r[41:], keys.WrongCharacters, false},
		{"of another deployment", theirs.RefreshToken, keys.UnknownKey, true},
		{"an access token of another deployment", theirs.AccessToken, keys.UnknownKey, true},
		{"a refresh token under the prefix of an access token", keys.AccessPrefix + strings.TrimPrefix(r, keys.RefreshPrefix), keys.WrongLength, true},
		{"of a later version", keys.RefreshPrefix + "AgAA" + r[len(keys.RefreshPrefix)+4:], keys.WrongVersion, false},
		{"a code that was altered", alter(code, len(code)-20), keys.WrongSeal, false},
		{"a code that was cut", code[:60], keys.WrongLength, false},
		{"something else", "c29tZXRoaW5nIGVsc2UgdGhhdCBpcyBubyB0b2tlbg", keys.Unlike, false},
	} {
		e := s.explainToken(c.text)
		if e.Authentic || e.Diagnosis.Fault != c.want || e.Named != c.named || !e.Answer.Known || e.Answer.Why != grant.TokenUnknown {
			t.Errorf("%s: authentic %t, fault %q, named %t, %+v", c.name, e.Authentic, e.Diagnosis.Fault, e.Named, e.Answer)
		}
		if _, err := s.Renew(c.text); testkit.RefusalOf(t, err) != grant.TokenUnknown {
			t.Errorf("%s: the token endpoint: %v", c.name, err)
		}
	}
}

func TestExplainNamesTheFaultOfAForgedJWT(t *testing.T) {
	t.Parallel()
	s, other := newService(t, testkit.Named), newService(t, testkit.Named)
	for _, x := range []*service{s, other} {
		x.Administer(clientID, func(c *store.Client) { c.TokenFormat = store.TokenJWT })
	}
	text := s.Login().AccessToken
	parts := strings.Split(text, ".")
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, new string) string {
		if !strings.Contains(string(claims), old) {
			t.Fatalf("no %s in the claims", old)
		}
		return parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(claims), old, new, 1))) + "." + parts[2]
	}
	sign := func(typ, claims string) string {
		text, err := s.View().Ring.Sign(keys.ES256, typ, []byte(claims), s.At())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, c := range []struct {
		name, text string
		want       explain.JWTFault
	}{
		{"altered claims", with(subject, "mallory"), explain.JWTWrongSeal},
		{"another issuer", with("auth.example", "evil.example"), explain.JWTOtherIssuer},
		{"another deployment of the same issuer", other.Login().AccessToken, explain.JWTUnknownKey},
		{"a list of revocations", sign("revocations+jwt", string(claims)), explain.JWTOtherType},
		{"no claims", parts[0] + "." + parts[1][:40] + "." + parts[2], explain.JWTUnreadable},
		{"of a subject that the grant does not have", sign("at+jwt", strings.Replace(string(claims), subject, "mallory", 1)), explain.JWTOtherMeaning},
	} {
		e := s.explainToken(c.text)
		if e.As != explain.AsJWT || e.JWT == nil || e.JWT.Fault != c.want || e.Answer.Why != grant.TokenUnknown {
			t.Errorf("%s: %s, %+v, %+v", c.name, e.As, e.JWT, e.Answer)
		}
		if _, err := s.Inspect(t.Context(), c.text); testkit.RefusalOf(t, err) != grant.TokenUnknown {
			t.Errorf("%s: introspection: %v", c.name, err)
		}
	}
}

// Without the key-encryption key, explain does not call a text false, and looks up what
// it says.
func TestExplainWithoutTheKeyTellsWhatItCan(t *testing.T) {
	t.Parallel()
	s := newService(t, testkit.Named)
	pair := s.Login()
	s.Must(s.Renew(pair.RefreshToken))
	code := s.NewCode()
	dir, err := directory.Read(t.Context(), s.Engine, nil, testkit.Schedule(), s.Clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	locked := &service{Service: &testkit.Service{Kit: testkit.Kit{T: t, Issuer: issuer.New(issuer.Issuer{Realm: realm, ID: s.ID, Store: s.Engine, Directory: dir, Policy: s.Policy, Now: s.Clock.Now})}}}
	e := locked.explainToken(pair.RefreshToken)
	if e.Authentic || e.Answer.Known || e.Diagnosis.Fault != keys.Locked || e.Grant == nil || e.Grant.Generation != 2 || e.Standing() != "spent" {
		t.Errorf("a refresh token: %+v", e)
	}
	if e := locked.explainToken(code); e.Authentic || e.Answer.Known || e.Diagnosis.Fault != keys.Locked || e.Code != nil {
		t.Errorf("a code: %+v", e)
	}
	e, err = explainer(locked.Issuer, locked.Issuer.Store).Grant(t.Context(), pair.GrantID)
	if err != nil || e.Grant == nil || !e.Answer.Known || e.Answer.Why != grant.Allowed {
		t.Errorf("a grant: %+v, %v", e.Answer, err)
	}
	// A malformed text is reported even without the key.
	if e := locked.explainToken(pair.RefreshToken[:60]); !e.Answer.Known || e.Diagnosis.Fault != keys.WrongLength {
		t.Errorf("one that was cut: %+v", e)
	}
}

func TestExplainedGrantHasItsEventsAndCutoffs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.Login()
	s.Must(s.Renew(s.Must(s.Renew(first.RefreshToken)).RefreshToken))
	s.Refused(grant.RefreshReplayed)(s.Renew(first.RefreshToken))
	s.CutOff(store.Cutoff{Realm: realm, Subject: "bob", At: s.At()})
	s.CutOff(store.Cutoff{Realm: realm, Subject: subject, ClientID: clientID, At: s.At()})
	e, err := explainer(s.Issuer, s.Issuer.Store).Grant(t.Context(), first.GrantID)
	if err != nil || e.Grant == nil || e.Answer.Why != grant.GrantRevoked || len(e.Events) != 1 || e.Events[0].Name != store.EventRefreshReplayed {
		t.Fatalf("explained: %+v, %v", e, err)
	}
	if len(e.Cutoffs) != 1 || e.Cutoffs[0].Subject != subject || e.Client == nil || e.Client.Name != "Billing" {
		t.Errorf("cutoffs %+v, client %+v", e.Cutoffs, e.Client)
	}
	if e, err := explainer(s.Issuer, s.Issuer.Store).Grant(t.Context(), grant.ID{9}); err != nil || e.Grant != nil || e.Answer.Known {
		t.Errorf("a grant that is not there: %+v, %v", e, err)
	}
}

func TestExplainNamesTheAPIsOfATokenAndOfItsGrant(t *testing.T) {
	s := withAPIs(t)
	code, err := s.AuthorizeAt("", orders, invoices)
	if err != nil {
		t.Fatal(err)
	}
	names := func(text string, want ...string) {
		t.Helper()
		e := s.explainToken(text)
		if !slices.Equal(e.APIs, want) || e.Grant != nil && e.Grant.APIs != (grant.APIs{1, 2}) {
			t.Errorf("%s for %q of %v; want %q", e.As, e.APIs, e.Grant, want)
		}
		if gone := slices.Contains(want, "deleted API 1"); e.Answer.Why != grant.Allowed && !gone || gone && e.Answer.Why != grant.TargetGone {
			t.Errorf("%s for %q would be answered: %s", e.As, want, e.Answer.Why)
		}
	}
	names(code.Code, orders, invoices)
	tokens := s.Must(s.Exchange(t.Context(), s.Listed("shop"), issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, From: testkit.Origin}))
	names(tokens.AccessToken, orders, invoices)
	names(tokens.RefreshToken)
	tokens = s.Must(s.RefreshAt(tokens.RefreshToken, "", orders))
	names(tokens.AccessToken, orders)
	gone := testkit.OrdersAPI()
	gone.Deleted, gone.Scopes = true, nil
	s.PutAPI(gone)
	names(tokens.AccessToken, "deleted API 1")
}

func TestExplainKnowsAClientThatRegisteredItself(t *testing.T) {
	s := newService(t)
	s.Directory.AdmitSelfRegistered(func(_, _ string) bool { return true })
	agent := s.Agent()
	tokens := s.LoginOfAgent(agent)
	if e := s.explainToken(tokens.RefreshToken); e.Client == nil || e.Client.Name != "Agent" || e.Answer.Why != grant.Allowed {
		t.Errorf("client %v, answer %+v", e.Client, e.Answer)
	}
	barred := *agent
	barred.Version, barred.State = 1, store.ClientDisabled
	if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{barred.Entry()}}); err != nil {
		t.Fatal(err)
	}
	s.Poll()
	for _, token := range []string{tokens.RefreshToken, tokens.AccessToken} {
		if e := s.explainToken(token); e.Answer.Client != string(store.ClientDisabled) || e.Client == nil || e.Client.Name != "Agent" {
			t.Errorf("disabled: client %v, answer %+v", e.Client, e.Answer)
		}
	}
}

// TestExplainTellsOfServiceTokens: explain and the endpoints agree about a service's
// tokens.
func TestExplainTellsOfServiceTokens(t *testing.T) {
	t.Parallel()
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s := newService(t)
		c, text := s.machine(format)
		check := func(what string, want grant.Refusal) {
			t.Helper()
			e := s.explainToken(text)
			if !e.Authentic || !e.Token.IsService() || e.Named || !e.Answer.Known || e.Answer.Why != want || e.Client == nil || e.Client.ID != "orders-service" || e.Scope != "orders.read orders.write" {
				t.Errorf("%s, %s: %+v", format, what, e)
			}
		}
		check("alive", grant.Allowed)
		if _, err := s.Revoke(t.Context(), c, text, grant.Origin{}); err != nil {
			t.Fatal(err)
		}
		check("revoked", grant.AccessRevoked)
		s.Clock.Advance(time.Hour)
		check("expired", grant.GrantExpired)
	}
	s := newService(t)
	_, text := s.machine("")
	if e := s.explainToken(text[:len(text)-4]); e.Authentic || e.Answer.Why != grant.TokenUnknown || e.Diagnosis.Form != "service_token" {
		t.Errorf("cut short: %+v", e)
	}
}

// machine registers a client that gets tokens for itself, and gets such a token.
func (s *service) machine(format store.TokenFormat) (*store.Client, string) {
	s.T.Helper()
	s.Register(client.Registration{ID: "orders-service", Settings: store.Settings{Name: "Orders", Scope: "orders.read orders.write", GrantTypes: []string{store.GrantClientCredentials}, Auth: store.AuthEither, TokenFormat: format}})
	c := s.Listed("orders-service")
	tokens, err := s.ServiceToken(s.T.Context(), c, issuer.ServiceRequest{})
	if err != nil {
		s.T.Fatal(err)
	}
	return c, tokens.AccessToken
}
