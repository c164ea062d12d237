//go:build e2e

package clients

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// relying registers a client whose id_tokens are signed with alg.
func relying(t *testing.T, s *binary.Server, alg string) registered {
	t.Helper()
	return register(t, s, "", "--scope", "openid email", "--post-logout-redirect-uri", goodbye, "--id-token-signing-alg", alg)
}

// goodbye is the post_logout_redirect_uri of the client.
const goodbye = "https://client.example/goodbye"

var idTokenAlgorithms = []string{"RS256", "ES256", "EdDSA"}

// TestGoOIDCSignsAUserIn configures go-oidc and x/oauth2 with only the issuer, the id and
// the secret.
func TestGoOIDCSignsAUserIn(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	ctx := oidc.ClientContext(t.Context(), &http.Client{Transport: s.Transport(t, "")})
	provider, err := oidc.NewProvider(ctx, s.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	for _, alg := range idTokenAlgorithms {
		c := relying(t, s, alg)
		conf := &oauth2.Config{ClientID: c.id, ClientSecret: c.secret, RedirectURL: c.redirect, Endpoint: provider.Endpoint()}
		tok, err := conf.Exchange(ctx, code(t, s, c))
		if err != nil {
			t.Fatal(err)
		}
		verify := func(tok *oauth2.Token) *oidc.IDToken {
			t.Helper()
			text, _ := tok.Extra("id_token").(string)
			id, err := provider.Verifier(&oidc.Config{ClientID: c.id, SupportedSigningAlgs: []string{alg}}).Verify(ctx, text)
			if err != nil {
				t.Fatalf("%s: %v", alg, err)
			}
			if err := id.VerifyAccessToken(tok.AccessToken); err != nil {
				t.Errorf("%s: %v", alg, err)
			}
			return id
		}
		first := verify(tok)
		fresh, err := conf.TokenSource(ctx, &oauth2.Token{RefreshToken: tok.RefreshToken}).Token()
		if err != nil {
			t.Fatal(err)
		}
		if second := verify(fresh); first.Subject != "alice" || second.Subject != "alice" {
			t.Errorf("%s: sub %q, then %q", alg, first.Subject, second.Subject)
		}
		if info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(fresh)); err != nil || info.Subject != "alice" {
			t.Errorf("%s: userinfo %+v, %v", alg, info, err)
		}
		// Nobody is signed in: the server redirects the browser back at once.
		var endpoints struct {
			EndSession string `json:"end_session_endpoint"`
		}
		if err := provider.Claims(&endpoints); err != nil {
			t.Fatal(err)
		}
		hint, _ := fresh.Extra("id_token").(string)
		browser := http.Client{Transport: s.Transport(t, ""), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		res, err := browser.Get(endpoints.EndSession + "?" + url.Values{"id_token_hint": {hint}, "post_logout_redirect_uri": {goodbye}, "state": {"s"}}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Header.Get("Location") != goodbye+"?state=s" {
			t.Errorf("%s: the logout response is %d to %q", alg, res.StatusCode, res.Header.Get("Location"))
		}
	}
}

func TestOpenIDClientSignsAUserIn(t *testing.T) {
	install(t)
	s := binary.Start(t, t.TempDir())
	for _, alg := range idTokenAlgorithms {
		c := relying(t, s, alg)
		issuer := s.Issuer
		job, err := json.Marshal(map[string]string{
			"issuer": issuer, "alg": alg, "goodbye": goodbye, "client_id": c.id, "client_secret": c.secret,
			"callback_url": redirect + "?code=" + code(t, s, c) + "&iss=" + issuer,
		})
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "node", "openid.mjs")
		cmd.Dir, cmd.Stdin, cmd.Stderr = "js", bytes.NewReader(job), &stderr
		cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+s.CAFile)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", alg, err, &stderr)
		}
		var got struct {
			After                   string
			First, Second, UserInfo struct {
				Subject string `json:"sub"`
				Client  string `json:"aud"`
			}
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		if got.First.Subject != "alice" || got.Second.Subject != "alice" || got.UserInfo.Subject != "alice" || got.First.Client != c.id || got.After != goodbye+"?state=s" {
			t.Errorf("%s: %+v", alg, got)
		}
	}
}
