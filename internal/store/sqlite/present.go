package sqlite

import (
	"fmt"
	"io/fs"
	"os"
)

// openFiles are the files that a Store has open, by path: the main file and its log.
type openFiles map[string]fs.FileInfo

func openedFiles(path string) (openFiles, error) {
	files := openFiles{}
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		files[name] = info
	}
	return files, nil
}

// present compares device and inode of the open files with those at their paths. A
// process can write on to a file that was deleted or whose disk was detached, and
// what it acknowledges is lost with the last descriptor.
func (files openFiles) present() error {
	for name, opened := range files {
		if here, err := os.Stat(name); err != nil || !os.SameFile(here, opened) {
			return fmt.Errorf("%s is no longer the file that this server has open: it was deleted or replaced, or its disk is not mounted", name)
		}
	}
	return nil
}

// Present returns an error if the store's files are not at their paths any more.
// Until they are back, nothing is written.
func (s *Store) Present() error { return s.files.present() }
