package node

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/pages"
)

// The switch must be passed on to the code that makes the callback; otherwise the setting
// has no effect.
func TestCallbackParametersReachTheAuthorizationEndpoint(t *testing.T) {
	for _, on := range []bool{false, true} {
		cfg := config.Default()
		cfg.Login.Mode, cfg.Login.HandoffURL = config.LoginHandoff, "https://login.example/"
		cfg.Compat.CallbackParameters = on
		front, err := (&realm{node: new(node)}).newFront(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if front.Authorizer.CallbackParameters != on {
			t.Errorf("compat.callback_parameters %t has no effect", on)
		}
	}
}

// id_tokens live as long as configured. They are hints for as long as a session or a
// refresh token from the same login can live.
func TestLifetimesOfIDTokensReachTheIssuer(t *testing.T) {
	cfg := config.Default()
	cfg.Login.Mode, cfg.AccessTokenLifetime = config.LoginUsers, config.Duration(7*time.Minute)
	cfg.Session.Lifetime, cfg.RefreshTokenLifetime = config.Duration(time.Hour), config.Duration(24*time.Hour)
	for set, want := range map[time.Duration]time.Duration{0: 7 * time.Minute, 2 * time.Hour: 2 * time.Hour} {
		cfg.IDTokenLifetime = config.Duration(set)
		iss := NewIssuer(cfg, nil, &directory.Directory{}, nil, nil)
		if iss.IDTokenLifetime != want || iss.HintAge != 25*time.Hour {
			t.Errorf("id_token_lifetime %s: id_tokens live %s, and are hints for %s", set, iss.IDTokenLifetime, iss.HintAge)
		}
	}
}

// The node keeps pending interactions, failed logins and the list of revocations across a
// reload.
func TestCountsAndCachesOutliveAReload(t *testing.T) {
	n := realm{node: &node{directory: &directory.Directory{}, guard: account.NewGuard(account.DefaultFailures)}, feed: issuer.NewFeed()}
	cfg := config.Default()
	cfg.Login.HandoffURL, cfg.PublicURL = "https://login.example/", "https://auth.example"
	for _, mode := range []string{config.LoginHandoff, config.LoginUsers, config.LoginUsers} {
		cfg.Login.Mode = mode
		a, err := n.answer(cfg, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if a.front.Authorizer.Pending != &n.pending || a.issuer.Feed != n.feed || a.front.Users != nil && a.front.Users.Guard != n.guard {
			t.Error("a reload does not keep the counts and caches")
		}
	}
}

// The pages show pages.name, or else the host.
func TestPagesNameTheService(t *testing.T) {
	for name, want := range map[string]string{"Example Bank": "Example Bank", "": "auth.example"} {
		cfg := config.Default()
		cfg.PublicURL, cfg.Pages.Name = "https://auth.example:8443", name
		set, err := newPages(cfg)
		if err != nil {
			t.Fatal(err)
		}
		page, err := set.Render("en", pages.SignedOut{})
		if err != nil || !strings.Contains(string(page), `<span class="service" translate="no">`+want+`</span>`) {
			t.Errorf("%q: %v, the page is\n%s", name, err, page)
		}
	}
	cfg := config.Default()
	cfg.Data, cfg.TLS.Cert = t.TempDir(), "cert.pem"
	if err := prepareDev(&cfg, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}); err != nil || cfg.Pages.Name != "Mintage" {
		t.Errorf("serve --dev: %q, %v", cfg.Pages.Name, err)
	}
}

// pages.locale accepts exactly the languages of the pages.
func TestEveryLanguageOfThePagesCanBeTheDefault(t *testing.T) {
	for locale, want := range map[string]bool{"en": true, "de": true, "es": true, "fr": true, "ja": true, "pt": false} {
		cfg := config.Default()
		cfg.PublicURL, cfg.Pages.Locale = "https://auth.example", locale
		err := cfg.Check()
		if _, fault := newPages(cfg); (err == nil) != want || (fault == nil) != want || slices.Contains(pages.Locales, locale) != want {
			t.Errorf("%s: %v, %v", locale, err, fault)
		}
	}
}
