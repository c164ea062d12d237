// Package plaintest compares the results of package plain with those of encoding/json.
package plaintest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/plain"
)

// Filled returns a value of a type, other than the zero value.
func Filled(t *testing.T, of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.String:
		v.SetString("größer")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1795730000123)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(7)
	case reflect.Uint64:
		v.SetUint(1 << 63)
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
		v.Elem().Set(Filled(t, of.Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(of))
		v.SetMapIndex(Filled(t, of.Key()), Filled(t, of.Elem()))
	case reflect.Slice:
		v = reflect.Append(v, Filled(t, of.Elem()), Filled(t, of.Elem()))
	case reflect.Struct:
		for i := range of.NumField() {
			if of.Field(i).IsExported() && of.Field(i).Tag.Get("json") != "-" {
				v.Field(i).Set(Filled(t, of.Field(i).Type))
			}
		}
	default:
		t.Fatalf("there is no value for %s", of)
	}
	return v
}

// Members decodes each member of T alone, and all members of the list together. Members of
// the list must be decoded like by encoding/json. The names of all other members are in
// others.
func Members[T any](t *testing.T, list []plain.Member[T], others ...string) {
	t.Helper()
	var all, none T
	try := func(name string, value T, want bool) {
		t.Helper()
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var got, unmarshalled, wanted T
		if err := json.Unmarshal(text, &wanted); err != nil {
			t.Fatal(err)
		}
		if ok := plain.Decode(list, string(text), &got); ok != want || ok && !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: %t, %+v; encoding/json reads %+v of %s", name, ok, got, wanted, text)
		}
		if err := plain.Unmarshal(list, text, &unmarshalled); err != nil || !reflect.DeepEqual(unmarshalled, wanted) {
			t.Errorf("%s: %+v, %v; encoding/json reads %+v of %s", name, unmarshalled, err, wanted, text)
		}
	}
	members := map[string]bool{}
	for _, m := range list {
		members[m.Name] = true
	}
	for _, name := range others {
		members[name] = false
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		tag := f.Tag.Get("json")
		if f.Anonymous || !f.IsExported() || tag == "-" {
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		want, known := members[name]
		if !known {
			t.Errorf("%s is neither in list nor in others", name)
			continue
		}
		delete(members, name)
		var value T
		if of := f.Type; want {
			reflect.ValueOf(&value).Elem().FieldByIndex(f.Index).Set(Filled(t, of))
			reflect.ValueOf(&all).Elem().FieldByIndex(f.Index).Set(Filled(t, of))
			try(name, value, true)
		}
	}
	if len(members) > 0 {
		t.Errorf("%T has no %v", none, members)
	}
	try("all", all, true)
	try("none", none, true)
}
