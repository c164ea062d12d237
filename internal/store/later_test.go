package store

import (
	"encoding/json"
	"reflect"
	"testing"
)

// During an upgrade, a node of the previous version writes rows that have members of the
// later version. It must keep those members, of every kind of entry.
func TestMembersOfLaterVersionsStay(t *testing.T) {
	kinds := 0
	for i := range reflect.TypeFor[Changes]().NumField() {
		row, ok := zeroOf(reflect.TypeFor[Changes]().Field(i).Type).(interface{ Entry() Entry })
		if !ok {
			continue // no entry
		}
		kinds++
		kind, want := row.Entry().Kind, map[string]any{}
		if err := json.Unmarshal(row.Entry().Body, &want); err != nil {
			t.Fatal(err)
		}
		if _, named := want["name"]; named {
			want["name"] = "a & b"
		}
		want["realm"], want["later"], want["demands"] = "/api", map[string]any{"proofs": true}, []any{"x"}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var ch Changes
		err = ch.add(kind, string(text))
		rows := reflect.ValueOf(ch).Field(i)
		if err != nil || rows.Len() != 1 {
			t.Errorf("%s: %d rows, %v", kind, rows.Len(), err)
			continue
		}
		row = rows.Index(0).Interface().(interface{ Entry() Entry })
		if c, ok := row.(Client); ok {
			row = c.Clone()
		}
		var got map[string]any
		if err := json.Unmarshal(row.Entry().Body, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s, of %s", kind, row.Entry().Body, text)
		}
	}
	if kinds < 3 {
		t.Errorf("%d kinds of entries", kinds)
	}
}

// zeroOf returns the zero value of a list's items, or nil for another type.
func zeroOf(list reflect.Type) any {
	if list.Kind() != reflect.Slice {
		return nil
	}
	return reflect.Zero(list.Elem()).Interface()
}
