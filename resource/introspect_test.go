package resource_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/resource"
)

func TestOpaqueTokenIsLookedUp(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		token := s.issue("mintage_at_AbC-_09", map[string]any{"aud": []string{"https://other.example", audience}})
		got, err := v.Verify(t.Context(), token, "write", "read")
		now := time.Now().UTC().Truncate(time.Second)
		want := resource.Principal{
			Subject: "alice", ClientID: "shop", Scope: []string{"read", "write"}, Audience: []string{"https://other.example", audience},
			IssuedAt: now, ExpiresAt: now.Add(300 * time.Second), TokenID: s.claims()["jti"].(string),
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}

		q := s.lastQuery
		if q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || q.Header.Get("Accept") != "application/json" {
			t.Errorf("%s with %v", q.Method, q.Header)
		}
		if q.PostForm.Get("token") != token || q.PostForm.Get("token_type_hint") != "access_token" || len(q.PostForm) != 2 || q.URL.RawQuery != "" {
			t.Errorf("the request has %d parameters", len(q.PostForm))
		}
		// RFC 6749 section 2.3.1: form-encoded, and then Basic.
		user, password, ok := q.BasicAuth()
		if !ok || user != "invoices+api%3A1" || password != "s3cret%2B%2F%C3%BC" {
			t.Errorf("Basic credentials %q", user)
		}
		if s.times(jwksPath) != 0 {
			t.Error("keys were fetched for an opaque token")
		}
	})
}

func TestTheIntrospectionResponseDecides(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		wants(t, "a good token", v, s.issue("good"), nil)
		wants(t, "type in small letters", v, s.issue("small", map[string]any{"token_type": "bearer"}), nil)
		wants(t, "no issuer, scope or jti", v, s.issue("sparse", map[string]any{"iss": nil, "scope": nil, "jti": nil, "iat": nil}), nil)
		wants(t, "expired by our clock and not by the server's", v, s.issue("late", map[string]any{"exp": time.Now().Unix() - 1}), nil)
		for what, changes := range map[string]map[string]any{
			"unknown":              {"active": false},
			"a refresh token":      {"token_type": nil},
			"a DPoP token":         {"token_type": "DPoP"},
			"bound to a key":       {"cnf": map[string]any{"x5t#S256": "x"}},
			"another audience":     {"aud": "https://other.example"},
			"no audience":          {"aud": nil},
			"inactive, with words": {"active": false, "sub": "alice", "client_id": "shop"},
			"inactive, elsewhere":  {"active": false, "iss": "https://other.example"},
		} {
			wants(t, what, v, s.issue("changed", changes), resource.ErrInvalidToken)
		}
		if _, err := v.Verify(t.Context(), "good", "read", "admin"); !errors.Is(err, resource.ErrInsufficientScope) || kinds(err) != 1 {
			t.Errorf("a scope that was not granted: %v", err)
		}
		asked := s.times(lookupPath)
		for what, token := range map[string]string{
			"empty": "", "space": "a b", "line break": "a\nb", "comma": "a,b", "not ASCII": "ü", "padding first": "=a", "padding only": "=",
			"too long": strings.Repeat("x", 8193), "a JWT that is too long": strings.Repeat("x", 8190) + "..x", "zero byte": "a\x00", "percent": "a%20b",
		} {
			wants(t, what, v, token, resource.ErrInvalidToken)
		}
		if n := s.times(lookupPath) - asked; n != 0 {
			t.Errorf("the server was called %d times for texts that cannot be tokens", n)
		}
		wants(t, "8 KiB", v, s.issue(strings.Repeat("x", 8192)), nil)
		wants(t, "padded", v, s.issue("abc=="), nil)
	})
}

func TestAFailedLookUpDoesNotMakeATokenInvalid(t *testing.T) {
	text := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	said := func(s *authServer, changes map[string]any) http.HandlerFunc {
		return text(200, string(mustJSON(altered(s.claims(), map[string]any{"active": true, "token_type": "Bearer"}, changes))))
	}
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		token := s.issue("good")
		for what, h := range map[string]http.HandlerFunc{
			"our credentials are wrong": text(401, `{"error":"invalid_client"}`),
			"our request is wrong":      text(400, `{"error":"invalid_request"}`),
			"forbidden":                 text(403, ""),
			"not found":                 text(404, ""),
			"too many requests":         text(429, ""),
			"server error":              text(500, `{"active":false}`),
			"unavailable":               text(503, ""),
			"no content":                text(204, ""),
			"an empty answer":           text(200, ""),
			"a login page":              text(200, "<html>"),
			"cut off":                   text(200, `{"active":true,"sub":"al`),
			"active is missing":         text(200, `{}`),
			"active is a string":        text(200, `{"active":"true"}`),
			"active twice":              text(200, `{"active":false,"active":true}`),
			"active in capitals":        text(200, `{"Active":true}`),
			"a list":                    text(200, `[{"active":true}]`),
			"null":                      text(200, `null`),
			"too long":                  text(200, `{"active":false}`+strings.Repeat(" ", 64<<10)),
			"no subject":                said(s, map[string]any{"sub": nil}),
			"subject is a number":       said(s, map[string]any{"sub": 1}),
			"no client":                 said(s, map[string]any{"client_id": nil}),
			"no end":                    said(s, map[string]any{"exp": nil}),
			"the end is a string":       said(s, map[string]any{"exp": "1"}),
			"another issuer":            said(s, map[string]any{"iss": "https://other.example"}),
			"hangs":                     s.slowly(time.Hour),
			"redirects": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://auth.example.com/elsewhere", http.StatusTemporaryRedirect)
			},
		} {
			s.answerWith(lookupPath, h)
			began := time.Now()
			wants(t, what, v, token, resource.ErrUnavailable)
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("%s: took %v", what, d)
			}
		}
		if s.times("/elsewhere") != 0 {
			t.Error("a token was sent to where a redirect led")
		}
		s.answerWith(lookupPath, nil)
		wants(t, "well again", v, token, nil)

		s.answerWith(metadataPath, func(w http.ResponseWriter, _ *http.Request) {
			w.Write(mustJSON(altered(s.metadata(), map[string]any{"introspection_endpoint": nil})))
		})
		v = verifier(t, s.config())
		wants(t, "a server without introspection", v, token, resource.ErrUnavailable)
		if err := v.Ready(t.Context()); !errors.Is(err, resource.ErrUnavailable) {
			t.Errorf("a server without introspection: Ready reports %v", err)
		}
	})
}

func TestWithoutClientIDOnlyJWTsAreAccepted(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		cfg := s.config()
		cfg.ClientID, cfg.ClientSecret = "", ""
		v := verifier(t, cfg)
		wants(t, "opaque", v, s.issue("opaque"), resource.ErrInvalidToken)
		wants(t, "JWT", v, s.token(), nil)
		if s.times(lookupPath) != 0 {
			t.Error("the server was called")
		}
	})
}
