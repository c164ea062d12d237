package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
)

func TestBothParsersReadAnAnswerEqually(t *testing.T) {
	want := answer{scope: []byte("a b"), tokenType: []byte("Bearer"), refresh: []byte("r"), access: []byte("t"), expiresIn: 300}
	for name, tt := range map[string]struct {
		body string
		fast bool
	}{
		"as Mintage writes it":  {`{"scope":"a b","expires_in":300,"token_type":"Bearer","refresh_token":"r","access_token":"t"}`, true},
		"in another order":      {`{"access_token":"t","refresh_token":"r","token_type":"Bearer","expires_in":300,"scope":"a b"}`, true},
		"with white space":      {" {\n \"scope\" : \"a b\",\t\"expires_in\" : 300 , \"token_type\":\"Bearer\",\r\n\"refresh_token\":\"r\",\"access_token\":\"t\" } \n", true},
		"with other members":    {`{"id":"7","x":"y","scope":"a b","expires_in":300,"token_type":"Bearer","refresh_token":"r","access_token":"t"}`, true},
		"with an escape":        {`{"scope":"a\u0020b","expires_in":300,"token_type":"Bearer","refresh_token":"r","access_token":"t"}`, false},
		"with a nested member":  {`{"x":{"scope":"z"},"scope":"a b","expires_in":300,"token_type":"Bearer","refresh_token":"r","access_token":"t"}`, false},
		"with a literal member": {`{"id":7,"x":null,"y":true,"z":-1.5,"scope":"a b","expires_in":300,"token_type":"Bearer","refresh_token":"r","access_token":"t"}`, false},
	} {
		var a answer
		if err := a.parse([]byte(tt.body)); err != nil || !same(a, want) {
			t.Errorf("%s: %v, %+v", name, err, a)
		}
		if fast := new(answer).scan([]byte(tt.body)); fast != tt.fast {
			t.Errorf("%s: scanned: %v, want %v", name, fast, tt.fast)
		}
	}
}

// same treats an absent text like an empty one.
func same(a, b answer) bool {
	for _, p := range []*answer{&a, &b} {
		for _, text := range []*[]byte{&p.scope, &p.tokenType, &p.refresh, &p.access, &p.errorCode} {
			if len(*text) == 0 {
				*text = nil
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

func TestWhatIsNoObjectIsNoAnswer(t *testing.T) {
	for _, body := range []string{``, `null x`, `[]`, `"x"`, `{`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":"b}`, `{"a":1}}`, `{"a":1}x`, `{"a":1,}`,
		`{"expires_in":"300"}`, `{"expires_in":1.5}`, `{"expires_in":99999999999999999999}`, `<html>`} {
		var a answer
		if err := a.parse([]byte(body)); err == nil {
			t.Errorf("%q is read as %+v", body, a)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"scope":"a b","expires_in":300,"token_type":"Bearer","refresh_token":"r","access_token":"t"}`))
	f.Add([]byte(`{"error":"invalid_grant","error_description":"grant is invalid"}`))
	f.Add([]byte(`{"":0,"\"":"\\"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var a answer
		if !a.scan(body) || !utf8.Valid(body) {
			return
		}
		var m map[string]any
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if d.Decode(&m) != nil {
			return // scan need not find every fault: what it reads is checked
		}
		for name, got := range map[string][]byte{
			"scope": a.scope, "token_type": a.tokenType, "refresh_token": a.refresh, "access_token": a.access, "error": a.errorCode,
		} {
			if want, _ := m[name].(string); string(got) != want {
				t.Errorf("%s is scanned as %q in %q", name, got, body)
			}
		}
		if n, ok := m["expires_in"].(json.Number); ok && n.String() != fmt.Sprint(a.expiresIn) {
			t.Errorf("expires_in is scanned as %d in %q", a.expiresIn, body)
		}
	})
}

// pair returns authentic tokens of the grant whose id consists of bytes g.
func pair(t testing.TB, g byte, generation uint32) (refresh, access string) {
	t.Helper()
	kek, err := keys.ParseKEK("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	if err != nil {
		t.Fatal(err)
	}
	var records []keys.Stored
	for _, p := range keys.Purposes {
		r, err := keys.New(kek, p, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	ring, err := keys.Open(kek, records)
	if err != nil {
		t.Fatal(err)
	}
	tok := keys.Token{Generation: generation, IssuedAt: 1, ExpiresAt: 2}
	for i := range tok.GrantID {
		tok.GrantID[i] = g
	}
	id := ring.Current(keys.MAC, grant.Instant(1))
	if refresh, err = ring.SealRefresh(id, "/api", tok); err != nil {
		t.Fatal(err)
	}
	if access, err = ring.SealAccess(id, "/api", tok); err != nil {
		t.Fatal(err)
	}
	return refresh, access
}

func TestEveryAnswerIsChecked(t *testing.T) {
	sent, _ := pair(t, 1, 1)
	next, access := pair(t, 1, 2) // with another key, because keys may rotate
	other, otherAccess := pair(t, 2, 2)
	good := func() (*answer, *response) {
		return &answer{scope: []byte("a b"), tokenType: []byte("Bearer"), expiresIn: 300, refresh: []byte(next), access: []byte(access)},
			&response{status: 200, json: true}
	}
	for name, tt := range map[string]struct {
		change func(*answer, *response)
		want   string
	}{
		"nothing wrong":              {func(*answer, *response) {}, ""},
		"least expires_in":           {func(a *answer, _ *response) { a.expiresIn = 1 }, ""},
		"another server's tokens":    {func(a *answer, _ *response) { a.refresh, a.access, a.scope = []byte("x"), []byte("y"), nil }, ""},
		"its token_type":             {func(a *answer, _ *response) { a.refresh, a.tokenType = []byte("x"), []byte("bearer") }, ""},
		"no token_type of its":       {func(a *answer, _ *response) { a.refresh, a.tokenType = []byte("x"), []byte("mac") }, errTokenType.kind},
		"refused":                    {func(a *answer, r *response) { r.status = 400; a.errorCode = []byte("invalid_grant") }, "status 400 invalid_grant"},
		"refused without a word":     {func(a *answer, r *response) { r.status = 502 }, "status 502"},
		"status 201":                 {func(a *answer, r *response) { r.status = 201 }, "status 201"},
		"not JSON by its type":       {func(a *answer, r *response) { r.json = false }, errContentType.kind},
		"token_type of another case": {func(a *answer, _ *response) { a.tokenType = []byte("bearer") }, errTokenType.kind},
		"expires_in 0":               {func(a *answer, _ *response) { a.expiresIn = 0 }, errExpiresIn.kind},
		"expires_in 301":             {func(a *answer, _ *response) { a.expiresIn = 301 }, errExpiresIn.kind},
		"no access token":            {func(a *answer, _ *response) { a.access = nil }, errNoAccess.kind},
		"no refresh token":           {func(a *answer, _ *response) { a.refresh = nil }, errNoRefresh.kind},
		"no scope":                   {func(a *answer, _ *response) { a.scope = nil }, errNoScope.kind},
		"the same refresh token":     {func(a *answer, _ *response) { a.refresh = []byte(sent) }, errUnchanged.kind},
		"another grant's pair": {func(a *answer, _ *response) {
			a.refresh, a.access = []byte(other), []byte(otherAccess)
		}, errOtherGrant.kind},
		"another grant's access token": {func(a *answer, _ *response) { a.access = []byte(otherAccess) }, errOtherGrant.kind},
		"a refresh token as access":    {func(a *answer, _ *response) { a.access = []byte(next) }, errOtherGrant.kind},
	} {
		a, r := good()
		tt.change(a, r)
		got := ""
		if err := a.check(r, []byte(sent), 300); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	a, r := good()
	if err := a.check(r, nil, 300); err != nil {
		t.Errorf("a code's answer: %v", err)
	}
}
