package config

import (
	"reflect"
	"strings"
	"testing"
)

// eachSetting calls f for the field of every setting.
func eachSetting(t reflect.Type, f func(reflect.StructField)) {
	for i := range t.NumField() {
		switch field := t.Field(i); {
		case field.Tag.Get("yaml") == "-":
		case field.Type.Kind() == reflect.Struct:
			eachSetting(field.Type, f)
		default:
			f(field)
		}
	}
}

func TestEverySettingSaysWhetherAReloadTakesItOver(t *testing.T) {
	n := 0
	eachSetting(reflect.TypeFor[Config](), func(f reflect.StructField) {
		n++
		if r := f.Tag.Get("reload"); r != "yes" && r != "no" {
			t.Errorf(`%s: the tag says reload:%q; say reload:"yes" if node.answer takes a new value over, and else "no"`, f.Name, r)
		}
	})
	if n != len(Keys()) {
		t.Errorf("%d fields and %d settings", n, len(Keys()))
	}
}

// reflect silently ignores a malformed tag.
func TestTagsOfSettingsAreWellFormed(t *testing.T) {
	known := map[string]bool{"yaml": true, "group": true, "realm": true, "reload": true, "enum": true, "secret": true, "credential": true, "doc": true}
	eachSetting(reflect.TypeFor[Config](), func(f reflect.StructField) {
		rest := string(f.Tag)
		for name := range known {
			if value, given := f.Tag.Lookup(name); given {
				if value == "" {
					t.Errorf("%s: the tag %s is empty", f.Name, name)
				}
				rest = strings.Replace(rest, name+`:"`+strings.ReplaceAll(value, `"`, `\"`)+`"`, "", 1)
			}
		}
		if strings.TrimSpace(rest) != "" {
			t.Errorf("%s: %q in the tag is not understood", f.Name, rest)
		}
	})
}
