package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/plain"
)

// Later holds the members of a row that only a later version knows. They stay when a node
// of this version writes the row again: during an upgrade, both versions run. It has those
// of the row alone: add no member to what a row contains, such as a secret.
type Later struct{ unknown map[string]json.RawMessage }

// encoded returns a row in JSON, with the members.
func (l Later) encoded(row any) []byte {
	body, err := json.Marshal(row)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", row, err)) // it has no member that could fail: keys are valid JSON
	}
	for _, name := range slices.Sorted(maps.Keys(l.unknown)) {
		body = fmt.Appendf(body[:len(body)-1], ",%q:%s}", name, l.unknown[name])
	}
	return body
}

// decode decodes an object into one that is zero: a client is large. more holds the members
// that are not in known.
func decode[T any](list []plain.Member[T], text string, into *T, more *Later, known func() map[string]bool) error {
	if plain.Decode(list, text, into) {
		return nil
	}
	return decodeJSON(text, into, more, known)
}

// decodeJSON decodes an object of which into is a part, and more the members that are not
// in known. Most objects have none, and are read once: a node reads all when it starts.
func decodeJSON[T any](text string, into *T, more *Later, known func() map[string]bool) error {
	*into = *new(T)
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if dec.Decode(into) == nil {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return nil
		}
	}
	*into = *new(T)
	err := json.Unmarshal([]byte(text), into)
	if err == nil {
		err = json.Unmarshal([]byte(text), &more.unknown)
	}
	maps.DeleteFunc(more.unknown, func(name string, _ json.RawMessage) bool { return known()[name] })
	return err
}

// memberNames are the members of rows that this version knows.
func memberNames[T any]() map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = true
	}
	return names
}
