package store

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/plain"
	"github.com/mintage/mintage/internal/testkit/plaintest"
)

// Each member of a client or an API is decoded like by encoding/json, alone and together
// with all others. Members of the tables are decoded without encoding/json if they are in
// the order in which they are written.
func TestPlain(t *testing.T) {
	testPlain(t, clientMembers, Entry.Client)
	testPlain(t, apiMembers, Entry.API)
}

func testPlain[T interface{ Entry() Entry }](t *testing.T, list []plain.Member[T], decode func(Entry) (T, error)) {
	plainNames := map[string]bool{}
	for _, m := range list {
		plainNames[m.Name] = true
	}
	var all, none T
	try := func(name string, c T, want bool) {
		t.Helper()
		e := c.Entry()
		var decoded T
		if err := json.Unmarshal(e.Body, &decoded); err != nil {
			t.Fatal(err)
		}
		if got, err := decode(e); err != nil || !reflect.DeepEqual(got, decoded) {
			t.Errorf("%s: %+v, %v; encoding/json has %+v", name, got, err, decoded)
		}
		if ok := plain.Decode(list, string(e.Body), new(T)); ok != want {
			t.Errorf("%s: plain %t, want %t: %s", name, ok, want, e.Body)
		}
	}
	members := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		tag := f.Tag.Get("json")
		if f.Anonymous || !f.IsExported() || tag == "-" {
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		if name == "jwks" {
			continue
		}
		var value T
		v := reflect.ValueOf(&value).Elem().FieldByIndex(f.Index)
		if name == "assertion" {
			v.Set(reflect.ValueOf(AssertionRule{Alg: "ES256", Keys: json.RawMessage(`{"keys":[]}`)}))
		} else {
			v.Set(plaintest.Filled(t, f.Type))
		}
		try(name, value, plainNames[name])
		if plainNames[name] {
			members++
			reflect.ValueOf(&all).Elem().FieldByIndex(f.Index).Set(v)
		}
	}
	if members != len(list) {
		t.Errorf("%d members of the table are members of %T, of %d", members, none, len(list))
	}
	try("all", all, true)
	try("none", none, true)
	// encoding/json escapes an ampersand.
	reflect.ValueOf(&all).Elem().FieldByName("Name").SetString("a & b")
	try("an escape", all, true)
}

// Whatever plain decodes must equal the result of encoding/json.
func FuzzPlain(f *testing.F) {
	f.Add(string(Client{ID: "a", Settings: Settings{Name: "Ä", GrantTypes: DefaultGrantTypes}, Secrets: []Secret{{ID: "s", Digest: []byte{1, 2}}}}.Entry().Body))
	f.Add(string(API{ID: "https://a.example", Number: 1, Scopes: []APIScope{{Name: "b", Number: 1, Texts: map[string]string{"en": "Read", "ja": "読む"}}}}.Entry().Body))
	for _, text := range []string{
		`{}`, `{"id":"a","id":"b"}`, `{"version":01}`, `{"version":+1}`, `{"version":-0}`, `{"version":1e3}`, `{"version":-7}`, `{"version":9223372036854775808}`,
		`{"secrets":null}`, `{"secrets":[null]}`, `{"secrets":[{"digest":""}]}`, `{"secrets":[{"digest":"AA=="}]}`, `{"secrets":[{"digest":"AB=="}]}`,
		`{"id":"\u0041"}`, "{\"id\":\"\xff\"}", "{\"id\":\"a\nb\"}", `{"ID":"a"}`, `{"id":null}`, `{"id":"a"} `, `{"id":"a",}`, `{"redirect_uris":[]}`, `{"redirect_uris":["a",]}`,
		`{"native":true,"require_pkce":true}`, `{"retry_window_ms":null}`, `{"secrets":[{"digest":"AA=\r\n="}]}`, `{"secrets":[{"digest":"A"}]}`,
		`{}x`, `{"`, `{"id":"}`, `{"id":"\`, `{"id":"\x"}`, "{\"id\":\"\x80\"}", `{"id""a"}`, `{"id":"a""name":"b"}`, `{"scopes":[{"x":]}`, `{"scopes":[{"texts":{"a":"b""c":"d"}}]}`,
		`{"version":}`, `{"version":`, `{"version":1`, `{"version":-01}`, `{"scopes":[{"name":"a","texts":{"a":"b"}}],"scopes":[{"name":"b","texts":{"c":"d"}}]}`,
		`{"number":65536}`, `{"number":-1}`, `{"scopes":[{"texts":null}]}`, `{"scopes":[{"texts":{"a":"b","a":"c"}}]}`, `{"scopes":[{"texts":{}}]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzzPlain(t, clientMembers, text)
		fuzzPlain(t, apiMembers, text)
	})
}

func fuzzPlain[T any](t *testing.T, list []plain.Member[T], text string) {
	var got, want T
	if !plain.Decode(list, text, &got) {
		return
	}
	if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q: %+v, and encoding/json has %+v, %v", text, got, want, err)
	}
}

func BenchmarkDecodeClient(b *testing.B) {
	c := Client{ID: "client-17", Realm: "/api", State: ClientEnabled, Version: 1, CreatedAt: 1795730000123, UpdatedAt: 1795730000123,
		Settings: Settings{Name: "Client", Auth: AuthEither, RedirectURIs: []string{"https://client.example/callback"}, Scope: "read write", GrantTypes: DefaultGrantTypes},
		Secrets:  []Secret{{ID: "secret", Digest: make([]byte, 32)}}}
	text := string(c.Entry().Body)
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			plain.Decode(clientMembers, text, new(Client))
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c Client
			if err := json.Unmarshal([]byte(text), &c); err != nil {
				b.Fatal(err)
			}
		}
	})
}
