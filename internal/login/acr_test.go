package login

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// relying gives the fixture a client that requests id_tokens, and an issuer that makes
// them.
func (h *fixture) relying() {
	h.t.Helper()
	h.Issuer.IDTokenLifetime = 5 * time.Minute
	h.c = h.client(client.Registration{ID: "relying", Settings: store.Settings{Name: "Relying", Scope: "openid profile email a", IDTokenAlg: keys.ES256, FirstParty: true}})
}

func essentialACR(values string) func(*oauth.AuthorizationRequest) {
	return func(r *oauth.AuthorizationRequest) {
		r.Scope, r.Claims = "openid", `{"id_token":{"acr":{"essential":true,"values":[`+values+`]}}}`
	}
}

// payload returns the claims of an id_token.
func payload(t *testing.T, idToken string) (c map[string]any) {
	t.Helper()
	_, rest, _ := strings.Cut(idToken, ".")
	body, _, _ := strings.Cut(rest, ".")
	b, err := base64.RawURLEncoding.DecodeString(body)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		t.Fatalf("%v in %q", err, idToken)
	}
	return c
}

// The system that authenticates the user reports acr and amr. The server enforces an
// essential acr against the reported one (OpenID Connect Core section 5.5.1.1).
func TestAnotherSystemReportsACRAndAMR(t *testing.T) {
	h := newFixture(t)
	h.relying()
	const gold, silver = "https://refeds.org/profile/mfa", "urn:mace:incommon:iap:silver"
	said := func(acr string) Identity {
		who := h.identity("alice")
		who.Login = openid.Login{ReportedACR: acr, ReportedAMR: "pwd hwk"}
		return who
	}
	v := someone()
	it := h.begin(asking(h.c, essentialACR(`"`+gold+`","no acr"`)), v, StepLogin)
	if got := it.ACRValues(); !slices.Equal(got, []string{gold}) {
		t.Errorf("the portal should reach %q", got)
	}
	verifier := h.accept(it, said(gold))
	it = h.again(it, v)
	out, err := h.TakeLogin(it, verifier)
	if err != nil || out == nil {
		t.Fatalf("%v, %v", out, err)
	}
	if v.Session, err = h.SignIn(t.Context(), it, *out.Identity, v); err != nil {
		t.Fatal(err)
	}
	tokens, err := h.redeem(h.code(h.Proceed(t.Context(), it, v)))
	if err != nil {
		t.Fatal(err)
	}
	if c := payload(t, tokens.IDToken); c["acr"] != gold || !slices.Equal(c["amr"].([]any), []any{"pwd", "hwk"}) {
		t.Errorf("the id_token says %v", c)
	}
	// The session satisfies a request for its acr, and no request for another one.
	st, err := h.Authorize(t.Context(), asking(h.c, essentialACR(`"`+silver+`","`+gold+`"`)), v)
	h.code(st, err)
	it = h.begin(asking(h.c, essentialACR(`"`+silver+`"`)), v, StepLogin)
	if !it.Fresh {
		t.Error("the earlier session is accepted for another acr")
	}
	v.Session = h.session(said(gold))
	if err := h.identify(t.Context(), it, said(gold), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Proceed(t.Context(), it, v); clientErrorCode(t, err) != oauth.UnmetRequirements {
		t.Errorf("%v, although the login did not reach the acr", err)
	}
	// No system can report such an acr, so the user is not sent to log in.
	if _, err := h.Authorize(t.Context(), asking(h.c, essentialACR(`"a b"`)), someone()); clientErrorCode(t, err) != oauth.UnmetRequirements {
		t.Error(err)
	}
	// acr_values names the classes that the login should reach, with openid or without. A
	// login with another acr does not satisfy the request. A login without an acr does:
	// its system need not support any.
	for _, scope := range []oauth.Scope{"openid", "a"} {
		wish := func(r *oauth.AuthorizationRequest) { r.Scope, r.ACRValues = scope, gold+" "+silver }
		it = h.begin(asking(h.c, wish), someone(), StepLogin)
		if got := it.ACRValues(); !slices.Equal(got, []string{gold, silver}) {
			t.Errorf("%s: the portal should reach %q", scope, got)
		}
		for acr, reached := range map[string]bool{gold: true, silver: true, "": true, "bronze": false} {
			v := someone()
			v.Session = h.session(said(acr))
			st, err := h.Authorize(t.Context(), asking(h.c, wish), v)
			if err != nil || (st.URL != "") != reached {
				t.Errorf("%s, a login that says %q: %q, %v", scope, acr, st.URL, err)
			}
		}
	}
}

func TestSyntaxOfACRAndAMR(t *testing.T) {
	for acr, want := range map[string]bool{
		"0": true, "urn:mintage:1": true, strings.Repeat("a", 80): true, "": false, strings.Repeat("a", 81): false, "a b": false, `a"`: false, `a\`: false, "ä": false, "a\x7f": false,
	} {
		if openid.IsACR(acr) != want {
			t.Errorf("acr %q: %t", acr, !want)
		}
	}
	for name, c := range map[string]struct {
		list []string
		want string
		ok   bool
	}{
		"none": {nil, "", true}, "two": {[]string{"pwd", "otp"}, "pwd otp", true}, "long": {[]string{strings.Repeat("m", 65)}, "", false},
		"empty": {[]string{""}, "", false}, "space": {[]string{"a b"}, "", false}, "quote": {[]string{"pwd", `"`}, "", false}, "backslash": {[]string{`a\`, "pwd"}, "", false},
	} {
		if text, ok := openid.JoinAMR(c.list); ok != c.ok || ok && text != c.want {
			t.Errorf("%s: %q, %t", name, text, ok)
		}
	}
}
