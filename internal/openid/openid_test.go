package openid

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
)

const issuerID = "https://auth.example/oauth2/api"

func fullToken() Token {
	return Token{
		Issuer: issuerID, Subject: "alice", ClientID: "billing", IssuedAt: 1_700_000_000_500, ExpiresAt: 1_700_000_300_500, AuthTime: 1_699_999_000_999,
		Nonce: "n-0S6_WzA2Mj", AccessToken: "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y",
		Facts: grant.Facts{Claims: `{"tenant":"t1"}`, Session: [16]byte{1}, ACR: PasswordAndOTP.ACR, AMR: PasswordAndOTP.AMR},
	}
}

// The at_hash is that of OpenID Connect Core appendix A.3, for its access token.
func TestClaimsOfAnIDToken(t *testing.T) {
	got, err := fullToken().Claims("RS256")
	want := `{"iss":"` + issuerID + `","sub":"alice","aud":"billing","exp":1700000300,"iat":1700000000,"auth_time":1699999000,` +
		`"nonce":"n-0S6_WzA2Mj","at_hash":"77QmUPtjPfzWtF2AnpK9RQ","sid":"` + SessionID([16]byte{1}, "billing") +
		`","acr":"urn:mintage:2","amr":["pwd","otp","mfa"]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	moved := fullToken()
	if moved.AuthorizedAt = moved.IssuedAt; text(t, moved) != want {
		t.Error("an authorization that is not later than iat changes the id_token")
	}
	if moved.AuthorizedAt++; text(t, moved) != want[:len(want)-1]+`,"authorized_at":1700000000501}` {
		t.Error(text(t, moved))
	}
	again, _ := fullToken().Claims("RS256")
	if string(again) != want {
		t.Error("equal tokens differ")
	}
}

func text(t *testing.T, of Token) string {
	t.Helper()
	got, err := of.Claims("RS256")
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// Unknown values have no member.
func TestClaimsOfAnIDTokenWithoutALogin(t *testing.T) {
	tok := fullToken()
	tok.AuthTime, tok.Nonce, tok.Facts = 0, "", grant.Facts{ACR: 200, AMR: 0}
	got, err := tok.Claims("ES256")
	var members map[string]any
	if err != nil || json.Unmarshal(got, &members) != nil {
		t.Fatal(string(got), err)
	}
	want := []string{"at_hash", "aud", "exp", "iat", "iss", "sub"}
	if names := slices.Sorted(maps.Keys(members)); !slices.Equal(names, want) {
		t.Errorf("members %v, want %v", names, want)
	}
}

func TestAccessHashOfEdDSAIsSHA512(t *testing.T) {
	if b, err := base64.RawURLEncoding.DecodeString(accessHash("EdDSA", "x")); err != nil || len(b) != 32 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if b, err := base64.RawURLEncoding.DecodeString(accessHash("ES256", "x")); err != nil || len(b) != 16 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestSessionIDDiffersByClientAndSession(t *testing.T) {
	a := SessionID([16]byte{1}, "a")
	if b, err := base64.RawURLEncoding.DecodeString(a); err != nil || len(b) != 16 {
		t.Errorf("%q: %d bytes, %v", a, len(b), err)
	}
	if a == SessionID([16]byte{1}, "b") || a == SessionID([16]byte{2}, "a") || a != SessionID([16]byte{1}, "a") {
		t.Error("a sid does not name one session of one client")
	}
}

func TestSubjectsOfIDTokens(t *testing.T) {
	for _, s := range []string{"a", "a b~", strings.Repeat("x", 255), `"\`} {
		if !IsSubject(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{"", strings.Repeat("x", 256), "ä", "a\x7f", "a\nb", "\u00a0"} {
		if IsSubject(s) {
			t.Errorf("%q is accepted", s)
		}
	}
}

// A hint is an id_token, expired or not, without claims of access tokens or logout
// tokens.
func TestReadHint(t *testing.T) {
	payload, err := fullToken().Claims("RS256")
	if err != nil {
		t.Fatal(err)
	}
	want := Hint{Subject: "alice", ClientID: "billing", SessionID: SessionID([16]byte{1}, "billing"), IssuedAt: 1_700_000_000_000, ExpiresAt: 1_700_000_300_000,
		AuthTime: 1_699_999_000_000, ACR: "urn:mintage:2", AMR: "pwd otp mfa", Authorized: 1_700_000_000_000}
	if got, err := ReadHint("JWT", payload, issuerID); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	tokenID := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for name, more := range map[string]string{
		"client_id": `"client_id":"billing"`, "client_id null": `"client_id":null`, "scope": `"scope":""`, "jti of an access token": `"jti":"` + tokenID + `"`,
		"events": `"events":{}`, "other issuer": `"iss":"https://other.example"`, "two audiences": `"aud":["billing","other"]`, "list of one": `"aud":["billing"]`,
		"no subject": `"sub":""`, "no audience": `"aud":""`, "no iat": `"iat":0`, "exp before iat": `"exp":1`, "iat as text": `"iat":"1700000000"`,
		"subject is a number": `"sub":1`,
	} {
		altered := strings.TrimSuffix(string(payload), "}") + "," + more + "}" // the last duplicate would count
		if got, err := ReadHint("JWT", []byte(altered), issuerID); !errors.Is(err, ErrHint) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, typ := range []string{"at+jwt", "logout+jwt", "token-introspection+jwt", "jwt", "", "revocations+jwt"} {
		if _, err := ReadHint(typ, payload, issuerID); !errors.Is(err, ErrHint) {
			t.Errorf("typ %q is accepted", typ)
		}
	}
	for _, text := range []string{"", "null", "[]", "{}", string(payload[:len(payload)-1])} {
		if _, err := ReadHint("JWT", []byte(text), issuerID); !errors.Is(err, ErrHint) {
			t.Errorf("%q is accepted", text)
		}
	}
	if _, err := ReadHint("JWT", []byte(strings.TrimSuffix(string(payload), "}")+`,"jti":"short"}`), issuerID); err != nil {
		t.Errorf("a jti that is no token's: %v", err)
	}
}
