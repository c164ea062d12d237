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

// Later holds the members of a row that this version does not know. A node writes them back
// with the row, because nodes of a later version may run during an upgrade. Later keeps only
// members of the row itself: never add a member to an object within a row, such as Secret.
type Later struct{ unknown map[string]json.RawMessage }

// encoded returns a row in JSON, with the unknown members.
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

// decode decodes an object into *into, which is zero: to clear a client here would cost time,
// because it is large. It stores the members that are not in known in more.
func decode[T any](list []plain.Member[T], text string, into *T, more *Later, known func() map[string]bool) error {
	if plain.Decode(list, text, into) {
		return nil
	}
	return decodeJSON(text, into, more, known)
}

// decodeJSON decodes an object into *into, and stores the members that are not in known in
// more. It reads an object without such members only once, because a node decodes all
// objects when it starts.
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

// memberNames returns the names of the members of a row that this version knows.
func memberNames[T any]() map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = true
	}
	return names
}
