package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

var (
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
)

const intKind = reflect.Int

// durationPattern is how durations are written. It is stricter than
// ParseDuration, for people.
const durationPattern = `^([0-9]{1,6}d|([0-9]+(\.[0-9]+)?(ms|s|m|h))+|0)$`

const sizePattern = `^([0-9]+(KiB|MiB|GiB|TiB)|0)$`

// A schema is a node of a JSON Schema (draft 2020-12).
type schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"`
	Enum        []any              `json:"enum,omitempty"`
	Default     any                `json:"default,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Minimum     *int               `json:"minimum,omitempty"`
	Maximum     *int               `json:"maximum,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Additional  *bool              `json:"additionalProperties,omitempty"`
}

// Schema is the JSON Schema of the file, for editors: the names of the settings,
// what they mean, and the form of their values.
func Schema() []byte {
	top := section()
	top.Dialect, top.Title, top.Type = "https://json-schema.org/draft/2020-12/schema", "Configuration of Mintage", "object"
	for _, k := range Keys() {
		in, name := top, k.Name
		for {
			first, rest, nested := strings.Cut(name, ".")
			if !nested {
				break
			}
			if in.Properties[first] == nil {
				in.Properties[first] = section()
			}
			in, name = in.Properties[first], rest
		}
		in.Properties[name] = k.schema()
	}
	text, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		panic(err) // it holds nothing that JSON cannot
	}
	return append(text, '\n')
}

// section is an object with settings, or null if all of them are commented out.
func section() *schema {
	no := false
	return &schema{Type: []string{"object", "null"}, Properties: map[string]*schema{}, Additional: &no}
}

func (k Key) schema() *schema {
	s := &schema{Description: k.Doc, Type: "string"}
	if k.Default != "" {
		s.Default = k.Default
	}
	zero := 0
	switch {
	case k.kind == durationType:
		// 0 needs no unit, and is then a number.
		s.Type, s.Pattern, s.Minimum, s.Maximum = []string{"string", "integer"}, durationPattern, &zero, &zero
	case k.kind == sizeType:
		s.Type, s.Pattern, s.Minimum, s.Maximum = []string{"string", "integer"}, sizePattern, &zero, &zero
	case k.isList:
		// One item needs no list.
		s.Type, s.Items = []string{"array", "string"}, &schema{Type: "string"}
	case k.IsBool:
		s.Type, s.Default = "boolean", k.Default == "true"
	case k.kind.Kind() == intKind:
		s.Type, s.Minimum = "integer", &zero
		s.Default = number(k.Default)
	}
	for _, choice := range k.Choices {
		if s.Type == "integer" {
			s.Enum = append(s.Enum, number(choice))
		} else {
			s.Enum = append(s.Enum, choice)
		}
	}
	return s
}

// number is the number in a tag or a default.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
