package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// finished tells what to do if a restore has left neither store whole, or nil.
func finished(path string) error {
	switch _, err := os.Lstat(filepath.Join(filepath.Dir(path), unfinishedName)); {
	case err == nil:
		return errors.New("a restore was interrupted: give the same mintage restore command again")
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// AsideName is a name in a data directory under which its store can be kept,
// with the time in it, that nothing has.
func AsideName(dir string, now time.Time) (string, error) {
	name := filepath.Join(dir, FileName+".before-"+now.UTC().Format("20060102T150405Z"))
	for n := 1; n < 100; n++ {
		aside := name
		if n > 1 {
			aside = fmt.Sprintf("%s-%d", name, n)
		}
		free := true
		for _, end := range append([]string{""}, logs...) {
			exists, err := isThere(aside + end)
			if err != nil {
				return "", err
			}
			free = free && !exists
		}
		if free {
			return aside, nil
		}
	}
	return "", fmt.Errorf("%s and a hundred like it exist", name)
}
