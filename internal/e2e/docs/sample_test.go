//go:build e2e

package docs

import (
	"path/filepath"
	"strings"
	"testing"
)

// The samples test the checks themselves: a correct page passes, and each kind of mistake
// is found.

func TestAGoodPageIsRun(t *testing.T) {
	ran, err := runPage(t, read(t, filepath.Join("testdata", "good.md")), []string{"make everything"})
	if err != nil {
		t.Fatal(err)
	}
	if ran != 10 {
		t.Errorf("%d blocks were run, want 10", ran)
	}
}

func TestAWrongPageIsFound(t *testing.T) {
	for name, want := range map[string]string{
		"command.md":    "line 7: a command failed",
		"pipeline.md":   "line 3: a command failed",
		"unset.md":      "line 3: a command failed",
		"text.md":       "line 7: the output is",
		"extra-line.md": "line 7: the output is",
		"json.md":       "line 7: the value .expires_in is 299, and the page promises 300",
		"member.md":     "the page promises map",
		"no-json.md":    "line 7: the output is not JSON",
		"mark.md":       "line 5: the line before must be <!-- not run: REASON -->",
		"language.md":   "line 3: a block marked bash is not run; mark it sh",
		"open.md":       "line 3: the block is not closed",
		"serve.md":      "line 3: a server must be the last command of its block",
		"refused.md":    "line 3: the server has ended",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := runPage(t, read(t, filepath.Join("testdata", name)), nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
	t.Run("a block that CI runs is gone", func(t *testing.T) {
		_, err := runPage(t, read(t, filepath.Join("testdata", "good.md")), []string{"make nothing"})
		if err == nil || !strings.Contains(err.Error(), `there is no block "make nothing" any more`) {
			t.Errorf("error %v", err)
		}
	})
}
