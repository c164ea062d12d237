//go:build e2e

package clients

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A counter counts the HTTP requests of a library, its retries included.
type counter struct {
	http.RoundTripper
	requests atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// library configures golang.org/x/oauth2 as a program would.
func library(t *testing.T, s *binary.Server, c registered, address string, style oauth2.AuthStyle) (*oauth2.Config, context.Context, *counter) {
	t.Helper()
	n := &counter{RoundTripper: s.Transport(t, "")}
	conf := &oauth2.Config{
		ClientID: c.id, ClientSecret: c.secret, RedirectURL: c.redirect,
		Endpoint: oauth2.Endpoint{TokenURL: address, AuthStyle: style},
	}
	return conf, context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: n}), n
}

var styles = map[string]oauth2.AuthStyle{
	"auto detect": oauth2.AuthStyleAutoDetect,
	"in header":   oauth2.AuthStyleInHeader,
	"in params":   oauth2.AuthStyleInParams,
}

func TestOAuth2LibraryLivesAGrant(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	for where, address := range addresses(s) {
		for how, style := range styles {
			for _, pkce := range []bool{false, true} {
				name := where + "/" + how + "/no pkce"
				if pkce {
					name = where + "/" + how + "/pkce"
				}
				t.Run(name, func(t *testing.T) {
					conf, ctx, _ := library(t, s, demo(s), address, style)
					if pkce {
						verifier := oauth2.GenerateVerifier()
						challenged := code(t, s, demo(s), "--code-challenge", oauth2.S256ChallengeFromVerifier(verifier))
						wantRefused(t, conf, ctx, challenged, "invalid_grant")
						wantRefused(t, conf, ctx, challenged, "invalid_grant", oauth2.VerifierOption(oauth2.GenerateVerifier()))
						liveGrant(t, conf, ctx, challenged, oauth2.VerifierOption(verifier))
					} else {
						liveGrant(t, conf, ctx, code(t, s, demo(s)))
					}
				})
			}
		}
	}
}

// liveGrant exchanges, refreshes, repeats a refresh, and replays the code.
func liveGrant(t *testing.T, conf *oauth2.Config, ctx context.Context, code string, opts ...oauth2.AuthCodeOption) {
	t.Helper()
	first, err := conf.Exchange(ctx, code, opts...)
	if err != nil {
		t.Fatalf("exchange: %v", err)
	}
	wantToken(t, first)

	// The library refreshes a token that looks expired.
	expired := *first
	expired.Expiry = time.Now().Add(-time.Minute)
	second, err := conf.TokenSource(ctx, &expired).Token()
	if err != nil {
		t.Fatalf("refresh: %v", err)
	}
	wantToken(t, second)
	if second.AccessToken == first.AccessToken || second.RefreshToken == first.RefreshToken {
		t.Error("a refresh must bring two new tokens")
	}

	// A second process of the same client still has the old token, and gets the same
	// pair.
	same, err := conf.TokenSource(ctx, &expired).Token()
	if err != nil {
		t.Fatalf("repeated refresh: %v", err)
	}
	if same.AccessToken != second.AccessToken || same.RefreshToken != second.RefreshToken {
		t.Error("a repeated refresh must bring the same pair")
	}

	// RFC 6749 section 4.1.2: a code that is used twice revokes the tokens it was
	// redeemed for.
	wantRefused(t, conf, ctx, code, "invalid_grant", opts...)
	gone := *second
	gone.Expiry = time.Now().Add(-time.Minute)
	_, err = conf.TokenSource(ctx, &gone).Token()
	wantError(t, err, "invalid_grant", http.StatusBadRequest)
}

func wantToken(t *testing.T, tok *oauth2.Token) {
	t.Helper()
	if !tok.Valid() {
		t.Error("the library reports an invalid token")
	}
	if got := tok.Type(); got != "Bearer" {
		t.Errorf("token type %q, want Bearer", got)
	}
	if got := tok.Extra("scope"); got != "read write" {
		t.Errorf("scope %v, want read write", got)
	}
	if left := time.Until(tok.Expiry); left < 290*time.Second || left > 300*time.Second {
		t.Errorf("the library computes %s until the expiry, want 300 s", left)
	}
	if !strings.HasPrefix(tok.AccessToken, "mintage_at_") || !strings.HasPrefix(tok.RefreshToken, "mintage_rt_") {
		t.Error("the tokens have lost their prefixes")
	}
}

func wantRefused(t *testing.T, conf *oauth2.Config, ctx context.Context, code, errorCode string, opts ...oauth2.AuthCodeOption) {
	t.Helper()
	_, err := conf.Exchange(ctx, code, opts...)
	wantError(t, err, errorCode, http.StatusBadRequest)
}

func wantError(t *testing.T, err error, errorCode string, status int) {
	t.Helper()
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		t.Fatalf("error %v, want a RetrieveError", err)
	}
	if refused.ErrorCode != errorCode || refused.ErrorDescription == "" || refused.Response.StatusCode != status {
		t.Errorf("refused with %d %q %q, want %d %q and a description",
			refused.Response.StatusCode, refused.ErrorCode, refused.ErrorDescription, status, errorCode)
	}
}

// TestOAuth2LibraryDetectsTheMethodWithoutBurningTheCode: the library sends the code with
// the header first, and then with the form.
func TestOAuth2LibraryDetectsTheMethodWithoutBurningTheCode(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	for _, test := range []struct {
		method   string
		requests int64 // of the first exchange
	}{{"either", 1}, {"basic", 1}, {"post", 2}} {
		t.Run(test.method, func(t *testing.T) {
			c := register(t, s, "", "--auth-method", test.method)
			conf, ctx, n := library(t, s, c, s.TokenEndpoint, oauth2.AuthStyleAutoDetect)
			tok, err := conf.Exchange(ctx, code(t, s, c))
			if err != nil {
				t.Fatalf("exchange: %v", err)
			}
			if got := n.requests.Load(); got != test.requests {
				t.Errorf("%d requests for the exchange, want %d", got, test.requests)
			}
			tok.Expiry = time.Now().Add(-time.Minute)
			if _, err := conf.TokenSource(ctx, tok).Token(); err != nil {
				t.Fatalf("refresh: %v", err)
			}
			if got := n.requests.Load(); got != test.requests+1 {
				t.Errorf("%d requests after the refresh, want %d: the library has remembered the method", got, test.requests+1)
			}
		})
	}
}

func TestOAuth2LibraryWithWrongCredentialsBurnsNothing(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	status := map[string]int{"auto detect": http.StatusBadRequest, "in header": http.StatusUnauthorized, "in params": http.StatusBadRequest}
	for how, style := range styles {
		t.Run(how, func(t *testing.T) {
			issued := code(t, s, demo(s))
			conf, ctx, _ := library(t, s, demo(s), s.TokenEndpoint, style)
			conf.ClientSecret += "x"
			_, err := conf.Exchange(ctx, issued)
			wantError(t, err, "invalid_client", status[how])

			right, ctx, _ := library(t, s, demo(s), s.TokenEndpoint, style)
			liveGrant(t, right, ctx, issued)
		})
	}
}

// TestOAuth2LibraryWithAnImportedSecret: an imported secret may contain characters that
// the form encoding of RFC 6749 section 2.3.1 changes; the library does that encoding.
func TestOAuth2LibraryWithAnImportedSecret(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	for how, style := range styles {
		t.Run(how, func(t *testing.T) {
			c := register(t, s, importedSecret, "--id", "legacy:"+strings.ReplaceAll(how, " ", "-"), "--secret-stdin")
			conf, ctx, _ := library(t, s, c, s.TokenEndpoint, style)
			liveGrant(t, conf, ctx, code(t, s, c))
		})
	}
}

const importedSecret = "p+s%41 &=:/?~w\"ord"

func TestOAuth2LibraryAsAPublicClient(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	c := register(t, s, "", "--public")
	for how, style := range map[string]oauth2.AuthStyle{"auto detect": oauth2.AuthStyleAutoDetect, "in params": oauth2.AuthStyleInParams} {
		t.Run(how, func(t *testing.T) {
			verifier := oauth2.GenerateVerifier()
			conf, ctx, _ := library(t, s, c, s.TokenEndpoint, style)
			challenged := code(t, s, c, "--code-challenge", oauth2.S256ChallengeFromVerifier(verifier))
			wantRefused(t, conf, ctx, challenged, "invalid_grant")
			liveGrant(t, conf, ctx, challenged, oauth2.VerifierOption(verifier))
		})
	}
}
