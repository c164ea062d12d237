package explain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// explained returns the printed explanation of a text, with a log line of a request.
func (s *service) explained(t *testing.T, text string, line adminapi.LogLine) string {
	t.Helper()
	x := explainer(s.Issuer, s.Engine)
	x.Config.Audit.Directory = config.AuditOff
	line.RequestID = text
	v, err := x.Explain(t.Context(), explain.Parse(text), &explain.Log{Name: "the log", Lines: []adminapi.LogLine{line}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(v); err != nil {
		t.Errorf("for programs: %v", err)
	}
	var b strings.Builder
	if err := v.Print(&b); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// For a refused request, explain shows what the store has about the cause: the client's
// secrets, and the APIs to which a scope belongs.
func TestARefusedRequestShowsWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	s := withAPIs(t)
	now := s.At()
	s.Administer("shop", func(c *store.Client) {
		c.Scope = "openid"
		c.APIs = nil
		c.Secrets = []store.Secret{{ID: "s1"}, {ID: "s2", ExpiresAt: now.Add(time.Hour)}, {ID: "s3", ExpiresAt: now.Add(-time.Hour)}}
	})
	for _, c := range []struct {
		error string
		want  []string
	}{
		{"client authentication failed: wrong_secret", []string{
			"secret s1: never used, does not expire", "secret s2: never used, expires 2023-11-14T23", "secret s3: never used, expired 2023-11-14T21",
			"client shop has 3 secrets: mintage client secret list shop; another one: mintage client secret add shop",
		}},
		{oauth.Sent(oauth.ErrScope, "openid orders:read nonsense").Error(), []string{
			`invalid_scope: scope not allowed: it was "openid orders:read nonsense"`,
			"scope orders:read belongs to the API " + orders + ": mintage client update shop --add-api '" + orders + " orders:read'", "mintage client update ID --add-scope",
		}},
		{oauth.Sent(oauth.ErrRedirectMismatch, "https://evil.example/\x1b[31m"+strings.Repeat("x", 5000)).Error(), []string{
			`redirect_uri not registered: it was "https://evil.example/\x1b[31mxxx`, "--add-redirect-uri URI",
		}},
		{login.ErrClientChanged.Error() + ": " + oauth.Sent(oauth.ErrRedirectMismatch, oauth.LoggedURI("com.example.app:/cb?code=secret")).Error(), []string{
			`redirect_uri not registered: it was "com.example.app:/cb?..."`, "--add-redirect-uri URI",
		}},
	} {
		text := s.explained(t, "00000000000000aa", adminapi.LogLine{Message: "refused", ClientID: "shop", Error: c.error})
		for _, part := range c.want {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in\n%s", part, text)
			}
		}
		if strings.Contains(text, "nonsense belongs") || len(text) > 1500 {
			t.Error(text)
		}
	}
}

// The explanation of an opaque access token shows its audience, and which APIs refuse it.
func TestAnOpaqueTokenShowsItsAudience(t *testing.T) {
	t.Parallel()
	s := withAPIs(t)
	code, err := s.AuthorizeAt("", orders)
	if err != nil {
		t.Fatal(err)
	}
	tokens := s.Must(s.Exchange(t.Context(), s.Listed("shop"), issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, From: testkit.Origin}))
	if text := s.explained(t, tokens.AccessToken, adminapi.LogLine{}); !strings.Contains(text, "audience "+orders) || !strings.Contains(text, "refused by "+invoices) {
		t.Error(text)
	}
	if text := s.explained(t, "mintage", adminapi.LogLine{}); !strings.Contains(text, "mintage_st_") {
		t.Error(text)
	}
}

// A cutoff from before the grant is not shown as a cause.
func TestAnOldCutoffIsNoCause(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.CutOff(store.Cutoff{Realm: realm, Subject: subject, At: s.At()})
	s.Clock.Advance(time.Hour)
	tokens := s.Login()
	e, err := explainer(s.Issuer, s.Issuer.Store).Grant(t.Context(), tokens.GrantID)
	if err != nil || len(e.Cutoffs) != 0 || e.Answer.Why != grant.Allowed {
		t.Errorf("%+v, %v", e.Cutoffs, err)
	}
	old := "cut off until then"
	if text := s.explained(t, tokens.GrantID.String(), adminapi.LogLine{}); strings.Contains(text, old) {
		t.Errorf("an old cutoff is in the life of the grant:\n%s", text)
	}
}

// The explanation names the profile of a grant's client.
func TestTheClientOfAGrantFollowsAProfile(t *testing.T) {
	t.Parallel()
	s := newService(t)
	token := s.Login().RefreshToken
	for profile, want := range map[store.Profile]string{"": "enabled subject", store.ProfileFAPI2: "enabled, follows the profile fapi2 subject"} {
		s.Administer(testkit.ClientID, func(c *store.Client) { c.Profile = profile })
		if got := s.explained(t, token, adminapi.LogLine{}); !strings.Contains(got, "(Billing), "+want) {
			t.Errorf("profile %q:\n%s", profile, got)
		}
	}
}
