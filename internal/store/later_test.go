package store

import (
	"encoding/json"
	"reflect"
	"testing"
)

// During an upgrade, a node of the previous version writes rows that have members of the
// later version. It must keep those members.
func TestMembersOfLaterVersionsStay(t *testing.T) {
	written := func(text string) map[string]any {
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		v["name"], v["later"], v["demands"] = "a & b", map[string]any{"proofs": true}, []any{"x"}
		return v
	}
	for kind, c := range map[EntryKind]struct {
		body  []byte
		again func(Entry) (Entry, error)
	}{
		EntryClient: {Client{ID: "shop", Realm: "/api"}.Entry().Body, func(e Entry) (Entry, error) {
			c, err := e.Client()
			return c.Clone().Entry(), err
		}},
		EntryAPI: {API{ID: "https://a.example", Realm: "/api"}.Entry().Body, func(e Entry) (Entry, error) {
			a, err := e.API()
			return a.Entry(), err
		}},
		EntryTrust: {Trust{ID: "t", Realm: "/api"}.Entry().Body, func(e Entry) (Entry, error) {
			tr, err := e.Trust()
			return tr.Entry(), err
		}},
	} {
		want := written(string(c.body))
		if kind == EntryTrust {
			delete(want, "name") // a trust has no member "name"
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.again(Entry{Kind: kind, Body: text})
		var got map[string]any
		if err := json.Unmarshal(e.Body, &got); err != nil {
			t.Fatal(err)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s, of %s; %v", kind, e.Body, text, err)
		}
	}
}
