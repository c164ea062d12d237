// Command apidoc generates the JSON that the server serves, and a page for people, from
// docs/reference/openapi.yaml, which is written by hand. Run it at the root.
package main

import (
	"fmt"
	"os"
	"path/filepath"
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

// generate returns the text of each generated file by its name.
func generate(root string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		return nil, err
	}
	api, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return map[string][]byte{document: []byte(api.json(0) + "\n"), page: []byte(write(api))}, nil
}
