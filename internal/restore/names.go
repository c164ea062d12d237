package restore

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/mintage/mintage/internal/store/sqlite"
)

// AsideName returns an unused name in a data directory, with the time in it, under
// which its store can be kept.
func AsideName(dir string, now time.Time) (string, error) {
	name := filepath.Join(dir, sqlite.FileName+".before-"+now.UTC().Format("20060102T150405Z"))
	for n := 1; n < 100; n++ {
		aside := name
		if n > 1 {
			aside = fmt.Sprintf("%s-%d", name, n)
		}
		free := true
		for _, end := range append([]string{""}, sqlite.Logs...) {
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
