//go:build e2e

package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// logins are the claims of the operators' provider, by the link that the user clicks.
var logins = map[string]map[string]any{
	"strong": {"sub": "alice", "groups": []string{"people", "admins"}, "amr": []string{"pwd", "mfa"}},
	"weak":   {"sub": "alice", "groups": []string{"people", "admins"}, "amr": []string{"pwd"}},
	"other":  {"sub": "bob", "groups": []string{"readers"}, "amr": []string{"mfa"}},
	"nobody": {"sub": "auth0|eve", "groups": []string{"people"}, "amr": []string{"mfa"}},
}

// startProvider starts an OpenID Connect provider on another site than the console.
func startProvider(t *testing.T) (issuer string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": issuer, "authorization_endpoint": issuer + "/auth", "token_endpoint": issuer + "/token", "jwks_uri": issuer + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	})
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		q := r.URL.Query()
		fmt.Fprintf(w, "<!doctype html><html lang=en><title>Provider</title><h1>Who are you?</h1><p>prompt=%s</p>", html.EscapeString(q.Get("prompt")))
		for name := range logins {
			back := url.Values{"code": {name + " " + q.Get("nonce")}, "state": {q.Get("state")}}
			fmt.Fprintf(w, `<p><a id="%s" href="%s">%[1]s</a></p>`, name, html.EscapeString(q.Get("redirect_uri")+"?"+back.Encode()))
		}
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		name, nonce, _ := strings.Cut(r.PostFormValue("code"), " ")
		now := time.Now().Unix()
		claims := map[string]any{"iss": issuer, "aud": "mintage", "iat": now, "auth_time": now, "exp": now + 60, "nonce": nonce}
		for member, value := range logins[name] {
			claims[member] = value
		}
		payload, _ := json.Marshal(claims)
		signed, err := signer.Sign(payload)
		if err != nil {
			t.Error(err)
			return
		}
		text, _ := signed.CompactSerialize()
		answer(w, map[string]any{"access_token": "at", "token_type": "Bearer", "id_token": text})
	})
	issuer = serveHTTP(t, "127.0.0.1:0", mux)
	return issuer
}

// TestConsoleSignInAtTheProvider: operators sign in at the users' provider, with a second
// factor, and get their role by a rule about a claim. The provider is on another site, so
// redirects from it carry no SameSite=Strict cookies.
func TestConsoleSignInAtTheProvider(t *testing.T) {
	t.Parallel()
	issuer := startProvider(t)
	w := openConsole(t, "--login-mode", "upstream", "--login-upstream-issuer", issuer, "--login-upstream-client-id", "mintage",
		"--console-second-factor-amr", "mfa,hwk", "--console-operators", "admin groups=admins,auditor groups=readers")
	b := newWindow(t).knowsAxe()
	b.open(w.url)
	b.reads("You sign in where the users of this service do")
	b.examine(t, "console-sign-in-elsewhere")
	b.click("#submit")
	b.reads("prompt=login")
	b.click("#weak")
	b.reads("It was without a second factor")
	b.answered(403)
	b.examine(t, "console-refused-factor")
	b.click("#again")
	b.click("#nobody")
	b.reads("You are no operator")
	b.reads("auth0|eve")
	b.answered(403)
	b.examine(t, "console-refused-operator")
	b.click("#again")
	b.click("#strong")
	b.reads("Needs attention")
	b.open(w.url + "/operators")
	b.reads("console.operators: admin groups=admins")
	b.examine(t, "console-operators-by-rule")

	b.open(w.url + "/sign-in/elsewhere")
	b.click("#other")
	b.reads("another operator is signed in")
	b.answered(403)
	b.examine(t, "console-refused-other")
	b.click("#again")
	b.reads("You have signed out.")
	b.click("#submit")
	b.click("#other")
	b.reads("Needs attention")
	b.reads("auditor")

	b.open(w.url + "/signed-in?ticket=none")
	b.reads("It was used already")
	b.answered(410)
	b.examine(t, "console-refused-ticket")

	other := newWindow(t).withoutScripts()
	other.open(w.url)
	other.click("#submit")
	other.click("#strong")
	other.reads("Needs attention")
}
