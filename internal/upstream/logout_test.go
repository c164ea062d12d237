package upstream_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/upstream"
)

func TestALogoutTokenIsBelievedOnlyIfEveryCheckHolds(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	event := object{"http://schemas.openid.net/event/backchannel-logout": object{}}
	good := object{
		"iss": p.url, "aud": clientID, "sub": "248289761001", "sid": "s1", "jti": "j1", "iat": p.now.Unix(), "exp": p.now.Add(2 * time.Minute).Unix(), "events": event,
	}
	sign := func(claims object) string {
		payload, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		return p.signed(payload)
	}
	u := upstream.New(p.config())
	if got, err := u.Logout(t.Context(), sign(good)); err != nil || got != (upstream.Logout{SessionID: "s1", Subject: "248289761001", ID: "j1", IssuedAt: got.IssuedAt, ExpiresAt: got.ExpiresAt}) || !got.IssuedAt.Equal(p.now) || !got.ExpiresAt.Equal(p.now.Add(2*time.Minute)) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, changes := range map[string]object{"sid alone": {"sub": nil}, "sub alone": {"sid": nil}} {
		if _, err := u.Logout(t.Context(), sign(good.with(changes))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, changes := range map[string]object{
		"another issuer": {"iss": "https://evil.example"}, "another client": {"aud": "other"}, "expired": {"exp": p.now.Add(-time.Hour).Unix()}, "no exp": {"exp": nil},
		"valid for a day": {"exp": p.now.Add(24 * time.Hour).Unix()}, "of the future": {"iat": p.now.Add(time.Hour).Unix()}, "no iat": {"iat": nil},
		"nonce": {"nonce": "n"}, "null nonce": {"nonce": json.RawMessage("null")}, "no events": {"events": nil}, "other events": {"events": object{"x": object{}}},
		"an event that is no object": {"events": object{"http://schemas.openid.net/event/backchannel-logout": "yes"}},
		"no jti":                     {"jti": nil}, "jti is a number": {"jti": 7}, "neither sid nor sub": {"sid": nil, "sub": nil}, "sid is a number": {"sid": 1}, "a long sub": {"sub": string(make([]byte, 300))},
		"a long sid": {"sid": string(make([]byte, 300))},
	} {
		if got, err := u.Logout(t.Context(), sign(good.with(changes))); !errors.Is(err, upstream.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	payload, _ := json.Marshal(good)
	for typ, ok := range map[jose.ContentType]bool{"logout+jwt": true, "JWT": true, "application/logout+jwt": true, "at+jwt": false, "id_token+jwt": false, "x": false} {
		signer, err := jose.NewSigner(p.signing, (&jose.SignerOptions{}).WithType(typ))
		if err != nil {
			t.Fatal(err)
		}
		signature, err := signer.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := signature.CompactSerialize()
		if _, err := u.Logout(t.Context(), text); (err == nil) != ok || err != nil && !errors.Is(err, upstream.ErrInvalid) {
			t.Errorf("of type %s: %v", typ, err)
		}
	}
	for name, text := range map[string]string{"unsigned": unsigned(payload), "no JWT": "x", "empty": "", "cut": sign(good)[:40]} {
		if got, err := u.Logout(t.Context(), text); !errors.Is(err, upstream.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	p.signing.Key = jose.JSONWebKey{Key: stranger(t), KeyID: "k1"}
	if got, err := u.Logout(t.Context(), sign(good)); !errors.Is(err, upstream.ErrInvalid) {
		t.Errorf("another key: %+v, %v", got, err)
	}
	// If another claim names users, sub alone names nobody.
	cfg := p.config()
	cfg.SubjectClaim = "email"
	p.signing.Key = jose.JSONWebKey{Key: p.key, KeyID: "k1"}
	other := upstream.New(cfg)
	if got, err := other.Logout(t.Context(), sign(good)); err != nil || got.Subject != "" || got.SessionID != "s1" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := other.Logout(t.Context(), sign(good.with(object{"sid": nil}))); !errors.Is(err, upstream.ErrInvalid) {
		t.Errorf("sub alone: %+v, %v", got, err)
	}
	// A fault of the provider does not make the token invalid.
	p.answers[discoveryPath] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
	if got, err := upstream.New(p.config()).Logout(t.Context(), sign(good)); !errors.Is(err, upstream.ErrUnavailable) {
		t.Errorf("the provider is down: %+v, %v", got, err)
	}
}
