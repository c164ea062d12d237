package config

import (
	"os"
	"path/filepath"
)

// Locations of the documentation: in the packages, and on the web.
const (
	packagedPages  = "/usr/share/doc/mintage/docs"
	publishedPages = "https://github.com/mintage/mintage/blob/main/docs/"
)

// Page returns the location of a page of the documentation, such as "reference/errors.md":
// its file in the package or, as in the archive, beside the program. If there is no file,
// Page returns its address on the web.
func Page(name string) string {
	program, _ := os.Executable()
	return pageIn(name, packagedPages, filepath.Join(filepath.Dir(program), "docs"))
}

func pageIn(name string, dirs ...string) string {
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return publishedPages + name
}
