package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Later holds the members of a row that only a later version knows. They stay when a node
// of this version writes the row again: during an upgrade, both versions run. It has those
// of the row alone: add no member to what a row contains, such as a secret.
type Later struct{ unknown map[string]json.RawMessage }

// appended returns an object with the members.
func (l Later) appended(body []byte) []byte {
	for _, name := range slices.Sorted(maps.Keys(l.unknown)) {
		body = fmt.Appendf(body[:len(body)-1], ",%q:%s}", name, l.unknown[name])
	}
	return body
}

// read reads those members of an object that are none of known.
func (l *Later) read(text []byte, known map[string]bool) error {
	if err := json.Unmarshal(text, &l.unknown); err != nil {
		return err
	}
	maps.DeleteFunc(l.unknown, func(name string, _ json.RawMessage) bool { return known[name] })
	if len(l.unknown) == 0 {
		l.unknown = nil
	}
	return nil
}

// The members of rows that this version knows.
var (
	knownOfClient = sync.OnceValue(memberNames[Client])
	knownOfAPI    = sync.OnceValue(memberNames[API])
	knownOfTrust  = sync.OnceValue(memberNames[Trust])
)

func memberNames[T any]() map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = true
	}
	return names
}
