package issuer_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

// newProvider returns a service whose client may request openid. Its id_tokens are signed
// by ES256, because generating RSA keys is slow.
func newProvider(t *testing.T, change ...func(*issuer.Issuer)) *service {
	t.Helper()
	s := newService(t, append([]func(*issuer.Issuer){func(iss *issuer.Issuer) {
		iss.ID, iss.IDTokenLifetime, iss.HintAge = issuerID, 5*time.Minute, 40*24*time.Hour
	}}, change...)...)
	s.Administer(clientID, func(c *store.Client) { c.Scope, c.IDTokenAlg = "openid read write", keys.ES256 })
	return s
}

// session is the session of the logins.
var session = [16]byte{1, 2, 3}

func authentication(scope string) issuer.Authorization {
	a := testkit.Authorization()
	a.Scope, a.AuthTime, a.Nonce, a.Session, a.Login = scope, testkit.Started.Time().Add(-time.Hour), "n-1", session, openid.Password
	return a
}

func (s *service) authenticates(a issuer.Authorization) issuer.Tokens {
	s.T.Helper()
	code, err := s.Codes().Issue(s.T.Context(), a)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.Must(s.Redeem(code.Code))
}

func TestACodeWithOpenIDGivesAnIDToken(t *testing.T) {
	s := newProvider(t)
	tokens := s.authenticates(authentication("openid read"))
	typ, c := s.claims(tokens.IDToken)
	sum := sha256.Sum256([]byte(tokens.AccessToken))
	at := float64(testkit.Started / 1000)
	want := map[string]any{
		"iss": issuerID, "sub": subject, "aud": clientID, "exp": at + 300, "iat": at, "auth_time": at - 3600, "nonce": "n-1",
		"at_hash": base64.RawURLEncoding.EncodeToString(sum[:16]), "sid": openid.SessionID(session, clientID), "acr": "urn:mintage:1", "amr": []any{"pwd"},
	}
	if got, wanted := text(t, c), text(t, want); typ != "JWT" || got != wanted {
		t.Errorf("typ %s, %s\nwant %s", typ, got, wanted)
	}
	g := s.Row(tokens.GrantID)
	if g.Session != session || g.ACR != 1 || strings.Contains(g.Facts.Text(), "n-1") {
		t.Errorf("the row holds %+v: session and acr, and no nonce, are expected", g.Facts)
	}
}

// text returns v as JSON.
func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Requests without openid cost as much as without OpenID Connect: one write each, no read,
// and the same allocations.
func TestOpenIDConnectCostsOtherRequestsNothing(t *testing.T) {
	none := func(iss *issuer.Issuer) { iss.IDTokenLifetime = 0 }
	// once measures one round. Allocations of other goroutines count too, so of takes the
	// least of a few rounds.
	once := func(s *service, a issuer.Authorization) (exchanging, refreshing float64) {
		const runs = 20
		codes := make([]string, 0, runs+1)
		for range cap(codes) {
			code, err := s.Codes().Issue(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code.Code)
		}
		var tokens issuer.Tokens
		s.Faulty.Calls()
		exchanging = testing.AllocsPerRun(runs, func() {
			tokens = s.Must(s.Redeem(codes[0]))
			codes = codes[1:]
		})
		refreshing = testing.AllocsPerRun(runs, func() { tokens = s.Must(s.Renew(tokens.RefreshToken)) })
		calls := s.Faulty.Calls()
		delete(calls, storetest.Changes)
		if calls[storetest.CreateGrant] != runs+1 || calls[storetest.UpdateGrant] != runs+1 || len(calls) != 2 {
			t.Errorf("%d exchanges and %d refreshes cost %v", runs+1, runs+1, calls)
		}
		return exchanging, refreshing
	}
	of := func(s *service, a issuer.Authorization) (exchanging, refreshing float64) {
		exchanging, refreshing = once(s, a)
		for range 4 {
			e, r := once(s, a)
			exchanging, refreshing = min(exchanging, e), min(refreshing, r)
		}
		return exchanging, refreshing
	}
	plain := testkit.Authorization()
	plain.Scope = "read"
	e0, r0 := of(newProvider(t, none), plain)
	e1, r1 := of(newProvider(t), authentication("read"))
	if e1 > e0*1.05 || r1 > r0*1.05 {
		t.Errorf("%v and %v allocations for an exchange and a refresh, and %v and %v without OpenID Connect", e1, r1, e0, r0)
	}
	// This measurement must notice the allocations of an id_token.
	if e2, r2 := of(newProvider(t), authentication("openid read")); e2 < e0*1.2 || r2 < r0*1.2 {
		t.Errorf("%v and %v allocations with an id_token, and %v and %v without: the measurement does not notice id_tokens", e2, r2, e0, r0)
	}
}

// Without the scope openid, codes, rows and answers contain nothing of OpenID Connect,
// whatever the login.
func TestWithoutOpenIDNothingIsAdded(t *testing.T) {
	s := newProvider(t)
	with, err := s.Codes().Issue(s.T.Context(), authentication("read"))
	if err != nil {
		t.Fatal(err)
	}
	plain := authentication("read")
	plain.Nonce, plain.Session, plain.Login = "", [16]byte{}, openid.Login{}
	without, err := s.Codes().Issue(s.T.Context(), plain)
	if err != nil || len(with.Code) != len(without.Code) {
		t.Errorf("codes of %d and %d characters, %v", len(with.Code), len(without.Code), err)
	}
	tokens := s.Must(s.Redeem(with.Code))
	if g := s.Row(tokens.GrantID); tokens.IDToken != "" || g.Facts != (grant.Facts{}) {
		t.Errorf("an id_token of %d characters, facts %+v", len(tokens.IDToken), g.Facts)
	}
	if again := s.Must(s.Renew(tokens.RefreshToken)); again.IDToken != "" {
		t.Error("a refresh without openid returns an id_token")
	}
	// With login off, openid is a scope like others.
	off := newProvider(t, func(iss *issuer.Issuer) { iss.IDTokenLifetime = 0 })
	if tokens := off.authenticates(authentication("openid read")); tokens.IDToken != "" || tokens.Scope != "openid read" {
		t.Errorf("an id_token of %d characters with login.mode off, scope %q", len(tokens.IDToken), tokens.Scope)
	}
}

// An answer whose scope has openid has an id_token. At a refresh it has no nonce, its iat
// is the instant of the rotation, and the rest is as at the login (OpenID Connect Core
// section 12.2).
func TestARefreshReturnsAnIDToken(t *testing.T) {
	s := newProvider(t)
	first := s.authenticates(authentication("openid read"))
	s.Clock.Advance(time.Hour)
	second := s.Must(s.Renew(first.RefreshToken))
	_, was := s.claims(first.IDToken)
	_, is := s.claims(second.IDToken)
	for _, same := range []string{"iss", "sub", "aud", "auth_time", "sid", "acr"} {
		if was[same] != is[same] || is[same] == nil {
			t.Errorf("%s was %v and is %v", same, was[same], is[same])
		}
	}
	if text(t, was["amr"]) != text(t, is["amr"]) || is["amr"] == nil {
		t.Errorf("amr was %v and is %v", was["amr"], is["amr"])
	}
	_, hasNonce := is["nonce"]
	if hasNonce || is["iat"] != was["iat"].(float64)+3600 || is["at_hash"] == was["at_hash"] {
		t.Errorf("a refresh returned %v", is)
	}
	narrowed := s.Must(s.RenewScope(second.RefreshToken, "read"))
	if narrowed.IDToken != "" {
		t.Error("an answer whose scope is narrowed to read has an id_token")
	}
	s.Administer(clientID, func(c *store.Client) { c.NoRefreshIDToken = true })
	if third := s.Must(s.Renew(narrowed.RefreshToken)); third.IDToken != "" {
		t.Error("a client registered with --no-refresh-id-token gets one for a refresh")
	}
	if again := s.authenticates(authentication("openid")); again.IDToken == "" {
		t.Error("a client registered with --no-refresh-id-token gets none for a code")
	}
}

// A repeated answer has the same id_token, even if another key signs new ones by then.
func TestARepeatedAnswerHasTheSameIDToken(t *testing.T) {
	s := newProvider(t)
	for _, alg := range []keys.Purpose{keys.ES256, keys.EdDSA} {
		s.Administer(clientID, func(c *store.Client) { c.IDTokenAlg = alg })
		first := s.authenticates(authentication("openid read"))
		s.Clock.Advance(time.Second)
		lost := s.Must(s.Renew(first.RefreshToken))
		key, err := keys.New(s.KEK, alg, s.At(), s.At()+1)
		if err != nil {
			t.Fatal(err)
		}
		s.AddKey(key)
		s.Poll()
		s.Clock.Advance(30 * time.Second)
		again := s.Must(s.Renew(first.RefreshToken))
		if !again.Repeated || again.IDToken != lost.IDToken || again.IDToken == "" {
			t.Errorf("%s: repeated %t, the same id_token %t", alg, again.Repeated, again.IDToken == lost.IDToken)
		}
	}
}

func TestIDTokensFollowTheRegistration(t *testing.T) {
	s := newProvider(t)
	day := store.Milliseconds(24 * time.Hour / time.Millisecond)
	for _, c := range []struct {
		alg  keys.Purpose
		life *store.Milliseconds
		want float64
	}{{keys.ES256, nil, 300}, {keys.EdDSA, &day, 86400}} {
		s.Administer(clientID, func(to *store.Client) { to.IDTokenAlg, to.IDTokenLifetime = c.alg, c.life })
		tokens := s.authenticates(authentication("openid"))
		header, _ := base64.RawURLEncoding.DecodeString(strings.Split(tokens.IDToken, ".")[0])
		_, claims := s.claims(tokens.IDToken)
		if !strings.HasPrefix(string(header), `{"alg":"`+string(c.alg)+`"`) || claims["exp"].(float64)-claims["iat"].(float64) != c.want {
			t.Errorf("header %s, claims %v", header, claims)
		}
	}
	if alg := issuer.IDTokenAlg(&store.Client{}); alg != keys.RS256 {
		t.Errorf("%s signs by default, want RS256", alg)
	}
}

func TestAKeyIsPublishedForTheLongestLifetimeOfWhatItSigns(t *testing.T) {
	s := newProvider(t)
	day := store.Milliseconds(24 * time.Hour / time.Millisecond)
	s.Administer(clientID, func(to *store.Client) { to.IDTokenLifetime = &day })
	// The key stays published, although the lifetime is shortened at once: id_tokens that
	// live for a day have been issued.
	c, err := s.Store.Client(t.Context(), clientID)
	if err != nil {
		t.Fatal(err)
	}
	r := client.Registered(c)
	r.IDTokenLifetime = nil
	if c, err = r.Change(c, s.Policy); err != nil {
		t.Fatal(err)
	}
	s.Administer(clientID, func(to *store.Client) { to.IDTokenLifetime, to.LongestIDToken = c.IDTokenLifetime, c.LongestIDToken })
	old := s.View().Ring.Current(keys.ES256, s.At())
	key, err := keys.New(s.KEK, keys.ES256, s.At(), s.At()+1)
	if err != nil {
		t.Fatal(err)
	}
	s.AddKey(key)
	s.Poll()
	published := func() bool {
		_, found, err := s.Signer().PublicPEM(old.String())
		list, err2 := s.Signer().PublicKeys()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		inSet := false
		for _, k := range list {
			inSet = inSet || k.KeyID == old.String()
		}
		if inSet != found {
			t.Errorf("in the set %t, as a file %t", inSet, found)
		}
		return found
	}
	s.Clock.Advance(24 * time.Hour)
	if !published() {
		t.Error("an id_token of a day outlives its key's publication")
	}
	s.Clock.Advance(2 * time.Hour)
	if published() {
		t.Error("a key is published for ever")
	}
}

func TestSubjectsThatCannotBeInAnIDToken(t *testing.T) {
	s := newProvider(t)
	a := authentication("openid")
	a.Subject = "ålice"
	var invalid *oauth.Invalid
	if _, err := s.Codes().Issue(t.Context(), a); !errors.As(err, &invalid) || invalid.Field != "subject" {
		t.Errorf("openid: %v", err)
	}
	a.Scope = "read"
	if _, err := s.Codes().Issue(t.Context(), a); err != nil {
		t.Errorf("without openid: %v", err)
	}
	a = authentication("openid")
	a.Nonce = strings.Repeat("n", 256)
	if _, err := s.Codes().Issue(t.Context(), a); !errors.As(err, &invalid) || invalid.Field != "nonce" {
		t.Errorf("a nonce of 256 bytes: %v", err)
	}
}

// An id_token is never accepted as an access token.
func TestAnIDTokenIsNoAccessToken(t *testing.T) {
	s := newProvider(t)
	tokens := s.authenticates(authentication("openid read"))
	s.Dead(grant.TokenUnknown)(s.inspect(tokens.IDToken))
}

// Id_tokens of this server are valid hints, even expired ones and those whose key is no
// longer published.
func TestHints(t *testing.T) {
	s := newProvider(t)
	s.Register(client.Registration{ID: "other", Settings: store.Settings{Name: "Other", RedirectURIs: []string{redirectURI}, Scope: "openid", Auth: store.AuthEither, NoPKCE: true, IDTokenAlg: keys.EdDSA}})
	s.Administer(clientID, func(c *store.Client) { c.TokenFormat, c.JWTType = store.TokenJWT, "JWT" })
	tokens := s.authenticates(authentication("openid read"))
	parts := strings.Split(tokens.IDToken, ".")
	header, _ := base64.RawURLEncoding.DecodeString(parts[0])
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	segment := base64.RawURLEncoding.EncodeToString
	ring := s.View().Ring
	kid := ring.Current(keys.ES256, s.At()).String()
	otherKid := ring.Current(keys.EdDSA, s.At()).String()
	with := func(old, new string) string {
		if !strings.Contains(string(payload), old) {
			t.Fatalf("%s has no %s", payload, old)
		}
		return segment([]byte(strings.ReplaceAll(string(payload), old, new)))
	}
	public, _, err := s.Signer().PublicPEM(kid)
	if err != nil {
		t.Fatal(err)
	}
	hs256 := segment([]byte(`{"alg":"HS256","kid":"`+kid+`","typ":"JWT"}`)) + "." + parts[1]
	mac := hmac.New(sha256.New, public)
	mac.Write([]byte(hs256))
	signed := func(typ, claims string) string {
		t.Helper()
		jwt, err := ring.Sign(keys.ES256, typ, []byte(claims), s.At())
		if err != nil {
			t.Fatal(err)
		}
		return jwt
	}
	for name, forged := range map[string]string{
		"alg none":                   segment([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + ".",
		"alg none with our header":   segment([]byte(`{"alg":"none","kid":"`+kid+`","typ":"JWT"}`)) + "." + parts[1] + ".",
		"HS256 with the public key":  hs256 + "." + segment(mac.Sum(nil)),
		"swapped kid":                segment([]byte(strings.Replace(string(header), kid, otherKid, 1))) + "." + parts[1] + "." + parts[2],
		"other audience":             parts[0] + "." + with(`"aud":"`+clientID+`"`, `"aud":"other"`) + "." + parts[2],
		"wrong nonce":                parts[0] + "." + with(`"nonce":"n-1"`, `"nonce":"n-2"`) + "." + parts[2],
		"other subject":              parts[0] + "." + with(`"sub":"alice"`, `"sub":"bob"`) + "." + parts[2],
		"no signature":               parts[0] + "." + parts[1] + ".",
		"access token of type JWT":   tokens.AccessToken,
		"refresh token":              tokens.RefreshToken,
		"logout token":               signed("logout+jwt", string(payload)),
		"another issuer":             signed("JWT", strings.Replace(string(payload), issuerID, "https://other.example", 1)),
		"by this server, with scope": signed("JWT", strings.Replace(string(payload), `{`, `{"scope":"read",`, 1)),
		"empty":                      "",
	} {
		if h, err := s.Hint(forged); !errors.Is(err, openid.ErrHint) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	good := func(when string) {
		t.Helper()
		h, err := s.Hint(tokens.IDToken)
		h.ExpiresAt, h.AuthTime, h.ACR, h.AMR, h.Authorized = 0, 0, "", "", 0
		if want := (openid.Hint{Subject: subject, ClientID: clientID, SessionID: openid.SessionID(session, clientID), IssuedAt: testkit.Started / 1000 * 1000}); err != nil || h != want {
			t.Errorf("%s: %+v, %v", when, h, err)
		}
	}
	good("fresh")
	s.Clock.Advance(24 * time.Hour)
	good("expired")

	// The next key is in use. A new signature by the old key is forged. An id_token that
	// the old key signed before is a hint until no session or grant can be that old.
	key, err := keys.New(s.KEK, keys.ES256, s.At(), s.At()+1)
	if err != nil {
		t.Fatal(err)
	}
	s.AddKey(key)
	s.Poll()
	s.Clock.Advance(30 * 24 * time.Hour)
	good("by a key that is gone")
	late := strings.Replace(string(payload), `"iat":`, `"iat":`+text(t, s.At()/1000)+`,"was":`, 1)
	late = strings.Replace(late, `"exp":`, `"exp":`+text(t, s.At()/1000+60)+`,"will":`, 1)
	forged, err := ring.Sign(keys.ES256, "JWT", []byte(late), testkit.Started)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := s.Hint(forged); !errors.Is(err, openid.ErrHint) {
		t.Errorf("a retired key's id_token of today is a hint: %+v, %v", h, err)
	}
	s.Clock.Advance(15 * 24 * time.Hour)
	if h, err := s.Hint(tokens.IDToken); !errors.Is(err, openid.ErrHint) {
		t.Errorf("a hint counts for ever: %+v, %v", h, err)
	}
}
