package issuer_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// An id_token has the claims that the request named for it (OpenID Connect Core section
// 5.5) with their current values, also at a refresh, as long as the client is registered
// for their scope and the token's scope includes it.
func TestAnIDTokenHasTheClaimsThatTheRequestNamed(t *testing.T) {
	known := claims.Claims{"email": json.RawMessage(`"a@example.com"`), "name": json.RawMessage(`"Alice"`), "nickname": json.RawMessage(`"Al"`)}
	var fault error
	reads := 0
	s := newProvider(t, func(iss *issuer.Issuer) {
		iss.Claims = func(_ context.Context, about string) (claims.Claims, error) {
			if reads++; about != subject {
				t.Errorf("the claims of %q are read", about)
			}
			return known, fault
		}
	})
	s.Administer(clientID, func(c *store.Client) { c.Scope = "openid email profile read" })
	asks := func(scope string, names ...string) issuer.Authorization {
		a := authentication(scope)
		a.InIDToken = uint32(claims.SetOf(names))
		return a
	}
	expect := func(when string, tokens issuer.Tokens, email, name any) {
		t.Helper()
		if _, c := s.claims(tokens.IDToken); c["email"] != email || c["name"] != name || c["nickname"] != nil || c["sub"] != subject {
			t.Errorf("%s: %v", when, c)
		}
	}
	expect("none named", s.authenticates(asks("openid email profile")), nil, nil)
	if reads != 0 {
		t.Error("claims are read that no request named")
	}
	tokens := s.authenticates(asks("openid email read", "email", "name"))
	expect("named", tokens, "a@example.com", "Alice")
	known["email"] = json.RawMessage(`"new@example.com"`)
	tokens = s.Must(s.Renew(tokens.RefreshToken))
	expect("refreshed", tokens, "new@example.com", "Alice")
	narrow, err := s.Refresh(t.Context(), s.Listed(clientID), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, Scope: "openid read"})
	expect("narrowed", s.Must(narrow, err), nil, "Alice")
	s.Administer(clientID, func(c *store.Client) { c.Scope = "openid email read" })
	expect("no longer registered for profile", s.Must(s.Renew(narrow.RefreshToken)), "new@example.com", nil)

	// A failure to read the claims spends neither the code nor the refresh token.
	fault = store.Unavailable(errors.New("no store"))
	code, err := s.Codes().Issue(t.Context(), asks("openid email", "email"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Redeem(code.Code); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v instead of the fault", err)
	}
	fault = nil
	tokens = s.Must(s.Redeem(code.Code))
	expect("after a fault", tokens, "new@example.com", nil)
	fault = store.Unavailable(errors.New("no store"))
	if _, err := s.Renew(tokens.RefreshToken); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v instead of the fault", err)
	}
	fault = nil
	expect("after a fault of a refresh", s.Must(s.Renew(tokens.RefreshToken)), "new@example.com", nil)
}
