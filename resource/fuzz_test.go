package resource_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/resource"
)

// A header is refused, or contains exactly one token.
func FuzzAuthorization(f *testing.F) {
	for _, seed := range []string{"", "Bearer", "Bearer ", "Bearer a", "bearer  a.b.c==", "Bearer a b", "Bearer a,b", "Basic YTpi", "Bearer\ta", " Bearer a", "Bearer =", "Bearer a=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, err := resource.BearerToken(http.Header{"Authorization": {header}})
		if err != nil {
			if token != "" || kinds(err) != 1 || errors.Is(err, resource.ErrUnavailable) {
				t.Fatalf("%q: %q, %v", header, token, err)
			}
			return
		}
		scheme, rest, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "bearer") || strings.TrimLeft(rest, " ") != token || token == "" || strings.ContainsAny(token, " ,;\"\\\t\r\n\x00") {
			t.Fatalf("%q holds the token %q", header, token)
		}
		if _, err := resource.BearerToken(http.Header{"Authorization": {header, header}}); !errors.Is(err, resource.ErrInvalidRequest) {
			t.Fatalf("%q twice: %v", header, err)
		}
	})
}

// A jti has one encoding, and its fields are read as they were written.
func FuzzTokenID(f *testing.F) {
	f.Add(jti(1, time.UnixMilli(1<<40), time.UnixMilli(1)))
	f.Add(strings.Repeat("A", 43))
	f.Add(strings.Repeat("_", 43))
	f.Add("AAAA\n" + strings.Repeat("A", 38))
	f.Add(strings.Repeat("A", 72)) // of an exchanged token
	f.Fuzz(func(t *testing.T, text string) {
		grant, issued, authorized, ok := resource.ParseTokenID(text)
		if !ok {
			return
		}
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || base64.RawURLEncoding.EncodeToString(b) != text {
			t.Fatalf("%q is not the one spelling", text)
		}
		again, err := base64.RawURLEncoding.DecodeString(jti(grant[15], time.UnixMilli(issued), time.UnixMilli(authorized)))
		if err != nil {
			t.Fatal(err)
		}
		// jti itself sets the first 15 bytes of the grant, and the generation. The jti of
		// an exchanged token has more fields after these.
		if string(grant[:]) != string(b[:16]) || issued < 0 || authorized < 0 || string(again[20:]) != string(b[20:len(again)]) {
			t.Fatalf("%q: grant %x, issued %d, authorized %d", text, grant, issued, authorized)
		}
	})
}

// Only texts that the server has made are accepted as tokens.
func FuzzToken(f *testing.F) {
	s := newAuthServer()
	plain := httptest.NewServer(s)
	f.Cleanup(plain.Close)
	s.origin, s.issuer = plain.URL, plain.URL+"/oauth2/api"
	cfg := s.config()
	cfg.Issuer, cfg.HTTPClient, cfg.ClientID, cfg.ClientSecret = s.issuer, nil, "", ""
	v, err := resource.New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(v.Close)
	good := s.token(map[string]any{"exp": time.Now().Unix() + 86400})
	for _, text := range []string{good, stray(good), "", "a.b.c", "..", swapPart(good, 0, encode(`{"alg":"none"}`)), swapPart(good, 2, "")} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		switch p, err := v.Verify(t.Context(), text); {
		case text == good && (err != nil || p.Subject != "alice"):
			t.Fatalf("the good token: %v", err)
		case text != good && (!errors.Is(err, resource.ErrInvalidToken) || kinds(err) != 1):
			t.Fatalf("%q: %v, %v", text, p, err)
		}
	})
}
