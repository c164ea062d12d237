package config

import (
	"os"
	"path/filepath"
)

// Where the pages of the documentation are: in the packages, and for everybody.
const (
	packagedPages  = "/usr/share/doc/mintage/docs"
	publishedPages = "https://github.com/mintage/mintage/blob/main/docs/"
)

// Page returns where a reader of this machine finds a page, such as
// "reference/errors.md": in the package or beside the program, as in the archive. If
// it is in neither, Page returns its address.
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
