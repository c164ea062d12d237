package resource_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
)

// introspected introspects a token as its own client.
func (p *publicSide) introspected(token, accept string) string {
	p.t.Helper()
	form := url.Values{"token": {token}, "client_id": {"billing"}, "client_secret": {string(p.secret)}}
	r := httptest.NewRequest("POST", "/oauth2/introspect", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", accept)
	return text(p.t, p.send(r))
}

// payload returns the payload of a JWT.
func (p *publicSide) payload(jwt string) string {
	p.t.Helper()
	signed, err := jose.ParseSigned(jwt, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		p.t.Fatal(err)
	}
	claims, err := signed.Verify(p.keySet())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(claims)
}

// forms returns the responses about a token in every form of introspection.
func (p *publicSide) forms(tokens issuer.Tokens) map[string]map[string]any {
	p.t.Helper()
	signed := read[struct {
		Answer map[string]any `json:"token_introspection"`
	}](p.t, p.payload(p.introspected(tokens.AccessToken, "application/token-introspection+jwt")))
	return map[string]map[string]any{
		"JSON":          read[map[string]any](p.t, p.introspected(tokens.AccessToken, "application/json")),
		"signed":        signed.Answer,
		"phantom":       read[map[string]any](p.t, p.payload(p.introspected(tokens.AccessToken, "application/jwt"))),
		"refresh token": read[map[string]any](p.t, p.introspected(tokens.RefreshToken, "")),
	}
}

func TestIntrospectionShowsTheAuthenticationAndClaimsOfTheSubject(t *testing.T) {
	p := newPublicSide(t)
	code, err := p.kit.Codes().Issue(t.Context(), issuer.Authorization{
		ClientID: "billing", RedirectURI: callback, Subject: "alice",
		AuthTime: p.now().Add(-time.Hour), Claims: json.RawMessage(`{"tenant": "t1 <é>", "roles": ["a"]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := p.kit.Exchange(t.Context(), p.client, issuer.CodeRequest{Code: code.Code, RedirectURI: callback})
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range p.forms(tokens) {
		if a["auth_time"] != float64(p.now().Add(-time.Hour).Unix()) || a["tenant"] != "t1 <é>" || fmt.Sprint(a["roles"]) != "[a]" || a["sub"] != "alice" {
			t.Errorf("%s: %v", name, a)
		}
	}
	for name, a := range p.forms(p.login("bob")) {
		if _, told := a["auth_time"]; told || a["tenant"] != nil || a["sub"] != "bob" {
			t.Errorf("%s of a subject of whom nothing was said: %v", name, a)
		}
	}
}

// A version with fewer members may have stored such claims.
func TestAClaimNeverReplacesAMemberOfAnAnswer(t *testing.T) {
	p := newPublicSide(t)
	view, err := p.kit.Directory.View()
	if err != nil {
		t.Fatal(err)
	}
	now := grant.At(p.now())
	for i, name := range []string{"active", "scope", "client_id", "token_type", "exp", "iat", "sub", "aud", "iss", "jti", "auth_time", "username", "Sub", "EXP"} {
		c := grant.Code{
			GrantID: grant.ID{byte(i), 1}, Realm: "/api", ClientID: "billing", Subject: "alice", Scope: p.client.Scope,
			RedirectHash: grant.HashRedirectURI(callback), AuthorizedAt: now, ExpiresAt: now.Add(time.Minute),
			AuthTime: now, Facts: grant.Facts{Claims: `{"` + name + `":"forged","tenant":"t1"}`},
		}
		code, err := view.Ring.SealCode(view.Ring.Current(keys.Seal, now), c, [keys.NonceSize]byte{byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := p.kit.Exchange(t.Context(), p.client, issuer.CodeRequest{Code: code, RedirectURI: callback})
		if err != nil {
			t.Fatal(err)
		}
		for form, a := range p.forms(tokens) {
			if a[name] == "forged" || a["tenant"] != "t1" || a["sub"] != "alice" || a["auth_time"] != float64(now/1000) {
				t.Errorf("claim %s, %s: %v", name, form, a)
			}
		}
		answer := p.introspected(tokens.AccessToken, "")
		if n := strings.Count(answer, `"`+name+`":`); n > 1 || strings.Contains(answer, "forged") {
			t.Errorf("claim %s is in the answer %d times", name, n)
		}
	}
}
