package claims

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

func text(t *testing.T, c Claims) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFormsOfClaims(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ object, want string }{
		{`{}`, `{}`},
		{`{"email":"a@example.com","email_verified":true}`, `{"email":"a@example.com","email_verified":true}`},
		{` { "name" : "山田 太郎" , "nickname": null, "gender": "" , "address": {} } `, `{"name":"山田 太郎"}`},
		{`{"address":{"street_address":"1 Road\nHouse","country":"JP","region":""}}`, `{"address":{"country":"JP","street_address":"1 Road\nHouse"}}`},
		{`{"birthdate":"0000-02-28"}`, `{"birthdate":"0000-02-28"}`},
		{`{"birthdate":"1970"}`, `{"birthdate":"1970"}`},
		{`{"updated_at":1700000000,"phone_number":"+81 3 1234"}`, `{"phone_number":"+81 3 1234","updated_at":1700000000}`},
		{`{"picture":"https://example.com/a.png?x=1"}`, `{"picture":"https://example.com/a.png?x=1"}`},
		{`{"website":"http://example.com","updated_at":0}`, `{"updated_at":0,"website":"http://example.com"}`},
		{`{"name":"A","name":"B"}`, `{"name":"B"}`},
		{`[]`, ""}, {`"x"`, ""}, {`{"email":1}`, ""}, {`{"email":"a"}`, ""}, {`{"email":"@b"}`, ""}, {`{"email":"a@"}`, ""}, {`{"email":"a b@c"}`, ""},
		{`{"email_verified":"true"}`, ""}, {`{"picture":"javascript:alert(1)"}`, ""}, {`{"website":"//example.com"}`, ""}, {`{"website":"ftp://example.com"}`, ""}, {`{"website":"https://a/%"}`, ""}, {`{"email":"` + strings.Repeat("x", 252) + `@a."}`, ""}, {`{"profile":"https://a/ b"}`, ""},
		{`{"birthdate":"1970-13-01"}`, ""}, {`{"birthdate":"70"}`, ""}, {`{"updated_at":"1"}`, ""}, {`{"updated_at":-1}`, ""}, {`{"updated_at":1.5}`, ""},
		{`{"name":"a\u0007"}`, ""}, {`{"name":"` + strings.Repeat("x", 256) + `"}`, ""}, {`{"address":"Tokyo"}`, ""}, {`{"address":{"planet":"Earth"}}`, ""},
		{`{"address":{"country":1}}`, ""}, {`{"address":{"formatted":"a\u0000"}}`, ""}, {`{"tenant":"t"}`, ""}, {`{"Email":"a@example.com"}`, ""},
	} {
		got, err := Parse([]byte(c.object))
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%s: accepted", c.object)
		case c.want != "" && err != nil:
			t.Errorf("%s: %v", c.object, err)
		case c.want != "" && text(t, got) != c.want:
			t.Errorf("%s: %s, want %s", c.object, text(t, got), c.want)
		}
	}
}

func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	patch := Claims{}
	for _, name := range []string{"name", "family_name", "given_name", "middle_name", "nickname", "gender", "zoneinfo", "locale", "preferred_username"} {
		patch[name] = json.RawMessage(`"` + strings.Repeat("x", 250) + `"`)
	}
	if _, err := (Claims)(nil).Merge(patch); err == nil {
		t.Error("more bytes than are allowed are accepted")
	}
}

// The email_verified of one address does not apply to the next one.
func TestAChangedAddressIsNotVerified(t *testing.T) {
	t.Parallel()
	start, err := Parse([]byte(`{"email":"a@example.com","email_verified":true,"phone_number":"+1","phone_number_verified":true,"name":"A","address":{"country":"JP","region":"Tokyo"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ about, patch, want string }{
		{"nothing", `{}`, text(t, start)},
		{"the same address", `{"email":"a@example.com"}`, text(t, start)},
		{"another address", `{"email":"b@example.com"}`, `{"address":{"country":"JP","region":"Tokyo"},"email":"b@example.com","name":"A","phone_number":"+1","phone_number_verified":true}`},
		{"another verified address", `{"email_verified":true,"email":"b@example.com","phone_number":null}`, `{"address":{"country":"JP","region":"Tokyo"},"email":"b@example.com","email_verified":true,"name":"A"}`},
		{"no address", `{"email":"","phone_number":"","name":null,"address":null}`, `{}`},
		{"members of an address", `{"address":{"region":null,"locality":"Kyoto"},"email":null,"name":null,"phone_number":null}`, `{"address":{"country":"JP","locality":"Kyoto"}}`},
		{"all members of an address", `{"address":{"region":"","country":""},"email":null,"name":null,"phone_number":null}`, `{}`},
	} {
		var patch Claims
		if err := json.Unmarshal([]byte(c.patch), &patch); err != nil {
			t.Fatal(err)
		}
		before := text(t, start)
		got, err := start.Merge(patch)
		if err != nil || text(t, got) != c.want {
			t.Errorf("%s: %s, %v, want %s", c.about, text(t, got), err, c.want)
		}
		if text(t, start) != before {
			t.Fatalf("%s: the receiver was changed", c.about)
		}
	}
}

func TestAScopeSelectsItsClaimsOnly(t *testing.T) {
	t.Parallel()
	all := Claims{}
	for _, name := range Names() {
		all[name] = json.RawMessage(`1`)
	}
	for scope, want := range map[oauth.Scope][]string{
		"openid": nil, "": nil, "profiles": nil,
		"openid profile": {"birthdate", "family_name", "gender", "given_name", "locale", "middle_name", "name", "nickname", "picture", "preferred_username", "profile", "updated_at", "website", "zoneinfo"},
		"openid email":   {"email", "email_verified"},
		"phone":          {"phone_number", "phone_number_verified"},
		"address openid": {"address"},
		"email phone":    {"email", "email_verified", "phone_number", "phone_number_verified"},
	} {
		if got := slices.Sorted(maps.Keys(all.Select(Of(scope)))); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", scope, got, want)
		}
		if Of(scope) != SetOf(want) {
			t.Errorf("%q: the set is %b", scope, Of(scope))
		}
	}
}

// Codes and rows hold the positions.
func TestPositionsOfClaimsStay(t *testing.T) {
	t.Parallel()
	for i, name := range []string{
		"name", "family_name", "given_name", "middle_name", "nickname", "preferred_username", "profile", "picture", "website", "gender", "birthdate",
		"zoneinfo", "locale", "updated_at", "email", "email_verified", "address", "phone_number", "phone_number_verified",
	} {
		if set := SetOf([]string{"sub", name, "x"}); set != 1<<i || !slices.Equal(set.Names(), []string{name}) {
			t.Errorf("%s is the set %b, named %v", name, set, set.Names())
		}
	}
	if all := SetOf(Names()); len(all.Names()) != len(Names()) || len(Names()) > 32 {
		t.Errorf("%d claims, and a set holds 32", len(Names()))
	}
}

func TestTypedClaims(t *testing.T) {
	t.Parallel()
	patch := Claims{}
	for _, typed := range []string{"email=a@example.com", "email_verified=true", "address.country=JP", "address.region=", "nickname=", "name=a=b", "gender=true"} {
		if err := patch.Assign(typed); err != nil {
			t.Errorf("%s: %v", typed, err)
		}
	}
	const want = `{"address":{"country":"JP","region":""},"email":"a@example.com","email_verified":true,"gender":"true","name":"a=b","nickname":""}`
	if got := text(t, patch); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, typed := range []string{"email", "address=Tokyo"} {
		if err := (Claims{}).Assign(typed); err == nil {
			t.Errorf("%s: accepted", typed)
		}
	}
	for _, typed := range []string{"email_verified=yes", "updated_at=1", "tenant=t", "address.planet=Earth"} {
		patch := Claims{}
		if err := patch.Assign(typed); err != nil {
			t.Errorf("%s: %v", typed, err)
		}
		if _, err := (Claims)(nil).Merge(patch); err == nil {
			t.Errorf("%s: accepted", typed)
		}
	}
	gone := Claims{"address": json.RawMessage(`{"country":"JP"}`)}
	if err := gone.Assign("address="); err != nil || string(gone["address"]) != "null" {
		t.Errorf("%s, %v", gone["address"], err)
	}
}

func TestMappings(t *testing.T) {
	t.Parallel()
	m, err := ParseMapping([]string{"email", "given_name=first name", "family_name=http://x/y=z"})
	if err != nil || !maps.Equal(m, map[string]string{"email": "email", "given_name": "first name", "family_name": "http://x/y=z"}) {
		t.Errorf("%v, %v", m, err)
	}
	for _, list := range [][]string{{"tenant"}, {"email="}, {"=x"}, {""}, {"email", "email=mail"}} {
		if m, err := ParseMapping(list); err == nil {
			t.Errorf("%q: %v", list, m)
		}
	}
}
