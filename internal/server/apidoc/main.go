// Command apidoc generates the JSON that the server serves, and a page for people, from
// docs/reference/openapi.yaml. That is written by hand, but for the settings of a client,
// which apidoc takes from their table. Run it at the root.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mintage/mintage/internal/client"
)

const (
	source   = "docs/reference/openapi.yaml"
	document = "internal/server/resource/openapi.json"
	page     = "docs/reference/http-api.md"
)

func main() {
	files, err := generate(".")
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(name, text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

// These lines of the source enclose the settings of a client.
const (
	settingsBegin = "        # The settings of a client, from the table in internal/client: make docs\n"
	settingsEnd   = "        # The end of the settings.\n"
)

// describeSettings returns the source with the settings of a client as their table has them.
func describeSettings(text []byte) ([]byte, error) {
	before, rest, begins := bytes.Cut(text, []byte(settingsBegin))
	_, after, ends := bytes.Cut(rest, []byte(settingsEnd))
	if !begins || !ends {
		return nil, errors.New("no place for the settings of a client")
	}
	var settings bytes.Buffer
	for _, s := range client.Settings {
		schema := s.Schema
		switch s.Field(new(client.Registration)).(type) {
		case *string:
			schema = cmp.Or(schema, "{type: string}")
		case *bool:
			schema = cmp.Or(schema, "{type: boolean}")
		case *[]string:
			schema = cmp.Or(schema, "{type: array, items: {type: string}}")
		}
		if schema == "" {
			return nil, fmt.Errorf("%s has no schema", s.Member)
		}
		fmt.Fprintf(&settings, "        %s: %s\n", s.Member, schema)
	}
	return bytes.Join([][]byte{before, []byte(settingsBegin), settings.Bytes(), []byte(settingsEnd), after}, nil), nil
}

// generate returns the text of each generated file by its name.
func generate(root string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		return nil, err
	}
	if text, err = describeSettings(text); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	api, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return map[string][]byte{source: text, document: []byte(api.json(0) + "\n"), page: []byte(write(api))}, nil
}
