package config

import (
	"os"
	"path/filepath"
	"testing"
)

// A page is named by its local path only if it exists there.
func TestAPageIsNamedWhereItIs(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	const absent = "https://github.com/mintage/mintage/blob/main/docs/errors.md"
	if got := pageIn("errors.md", first, second); got != absent {
		t.Errorf("without the page: %s", got)
	}
	for _, dir := range []string{second, first} {
		path := filepath.Join(dir, "errors.md")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := pageIn("errors.md", first, second); got != path {
			t.Errorf("%s, want %s", got, path)
		}
	}
	if _, err := os.Stat(packagedPages); err != nil && Page("errors.md") != absent {
		t.Errorf("%s", Page("errors.md"))
	}
}
