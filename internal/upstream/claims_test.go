package upstream_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/upstream"
)

// The provider's acr and amr are copied unchanged; malformed values are omitted.
func TestACRAndAMROfTheProviderAreCopied(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	u := upstream.New(p.config())
	for name, c := range map[string]struct {
		claims object
		want   openid.Login
	}{
		"nothing":    {nil, openid.Login{}},
		"both":       {object{"acr": "gold", "amr": []string{"pwd", "hwk"}}, openid.Login{ReportedACR: "gold", ReportedAMR: "pwd hwk"}},
		"a number":   {object{"acr": 1, "amr": []string{"pwd"}}, openid.Login{ReportedAMR: "pwd"}},
		"one method": {object{"acr": "0", "amr": "pwd"}, openid.Login{ReportedACR: "0"}},
		"too long":   {object{"acr": strings.Repeat("a", 81), "amr": []string{strings.Repeat("m", 65)}}, openid.Login{}},
		"spaces":     {object{"acr": "a b", "amr": []string{"a b"}}, openid.Login{}},
		"quotes":     {object{"acr": `a"`, "amr": []string{"pwd", `"`}}, openid.Login{}},
		"backslash":  {object{"acr": `a\\`, "amr": []string{`\\`}}, openid.Login{}},
	} {
		before := p.claims
		p.claims = p.claims.with(c.claims)
		got, err := p.login(u, upstream.Request{})
		p.claims = before
		if err != nil || got.Login != c.want {
			t.Errorf("%s: %+v, %v", name, got.Login, err)
		}
	}
	if begun := p.begin(u, upstream.Request{ACRValues: "gold silver"}); !strings.Contains(begun.URL, "acr_values=gold+silver") {
		t.Errorf("the wish is not passed on: %s", begun.URL)
	}
}

func TestClaimsAreMappedFromTheIDTokenAndUserInfo(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.metadata["userinfo_endpoint"] = p.url + "/userinfo"
	info := object{"sub": "248289761001", "email": "info@example.com", "email_verified": true, "locale": "ja"}
	p.answers["/userinfo"] = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+accessToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		json.NewEncoder(w).Encode(info)
	}
	for name, c := range map[string]struct {
		mapping map[string]string
		claims  object
		info    object
		asked   int64
		want    string
	}{
		"none are mapped":               {claims: object{"email": "a@example.com"}},
		"all are in the ID token":       {map[string]string{"email": "email", "given_name": "first"}, object{"email": "a@example.com", "first": "Al"}, nil, 0, `{"email":"a@example.com","given_name":"Al"}`},
		"the rest is in userinfo":       {map[string]string{"email": "email", "locale": "locale"}, object{"email": "a@example.com"}, nil, 1, `{"email":"a@example.com","locale":"ja"}`},
		"it is read once":               {map[string]string{"email": "email", "email_verified": "email_verified", "locale": "locale"}, nil, nil, 1, `{"email":"info@example.com","email_verified":true,"locale":"ja"}`},
		"a value that cannot be":        {map[string]string{"email": "email", "email_verified": "email_verified"}, object{"email": "a@example.com", "email_verified": "yes"}, nil, 0, `{"email":"a@example.com"}`},
		"nothing is known":              {map[string]string{"nickname": "nick"}, nil, nil, 1, ""},
		"what is mapped, and no more":   {map[string]string{"locale": "locale"}, object{"locale": "en", "email": "a@example.com"}, nil, 0, `{"locale":"en"}`},
		"a null in the ID token counts": {map[string]string{"email": "email"}, object{"email": json.RawMessage("null")}, nil, 0, ""},
	} {
		cfg := p.config()
		cfg.Claims = c.mapping
		before, asked := p.claims, p.asked["/userinfo"].Load()
		p.claims = p.claims.with(c.claims)
		got, err := p.login(upstream.New(cfg), upstream.Request{})
		p.claims = before
		if err != nil || got.Claims != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got.Claims, err, c.want)
		}
		if n := p.asked["/userinfo"].Load() - asked; n != c.asked {
			t.Errorf("%s: userinfo was read %d times", name, n)
		}
	}

	// Claims that a request names are returned with the provider's names and values, in
	// Said. They are not among the Claims for clients.
	before := p.claims
	p.claims = p.claims.with(object{"groups": []string{"a"}, "none": nil})
	u := upstream.New(p.config())
	for names, want := range map[string]string{"": "", "groups": `{"groups":["a"]}`, "groups locale": `{"groups":["a"],"locale":"ja"}`, "unknown": ""} {
		if got, err := p.login(u, upstream.Request{Claims: strings.Fields(names)}); err != nil || got.Said != want || got.Claims != "" {
			t.Errorf("%q: %s, %v; want %s", names, got.Said, err, want)
		}
	}
	p.claims = before

	cfg := p.config()
	cfg.Claims = map[string]string{"email": "email"}
	for name, c := range map[string]struct {
		change func()
		want   error
	}{
		"another user's":       {func() { info = object{"sub": "other", "email": "b@example.com"} }, upstream.ErrInvalid},
		"nobody's":             {func() { info = object{"email": "b@example.com"} }, upstream.ErrInvalid},
		"a sub without a text": {func() { info = object{"sub": 248289761001} }, upstream.ErrInvalid},
		"no answer":            {func() { p.answers["/userinfo"] = http.NotFound }, upstream.ErrUnavailable},
		"a signed one": {func() {
			p.answers["/userinfo"] = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("e30.e30.x")) }
		}, upstream.ErrInvalid},
	} {
		answer, before := p.answers["/userinfo"], info
		c.change()
		id, err := p.login(upstream.New(cfg), upstream.Request{})
		if !errors.Is(err, c.want) || id != (upstream.Identity{}) || !strings.Contains(err.Error(), "userinfo") {
			t.Errorf("%s: %+v, %v; want %v", name, id, err, c.want)
		}
		p.silent(err)
		p.answers["/userinfo"], info = answer, before
	}

	// Without a safe endpoint, only the ID token counts.
	p.metadata["userinfo_endpoint"] = "ftp://example.com"
	if id, err := p.login(upstream.New(cfg), upstream.Request{}); err != nil || id.Claims != "" {
		t.Errorf("%+v, %v", id, err)
	}
}
