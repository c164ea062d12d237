package cli

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// internal/e2e/docs runs the command blocks; this test compares the commands that
// sentences mention with the existing ones.
func TestCommandsThatTheDocumentationAdvisesExist(t *testing.T) {
	t.Parallel()
	advised, flag := regexp.MustCompile("`mintage ([a-z][^`]*)`"), regexp.MustCompile(`--[a-z][a-z-]*`)
	found := 0
	err := fs.WalkDir(os.DirFS("../../docs"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile("../../docs/" + path)
		if err != nil {
			return err
		}
		for _, m := range advised.FindAllStringSubmatch(string(text), -1) {
			words, _, _ := strings.Cut(m[1], "--")
			cmd, rest, err := Root("test").Find(strings.Fields(words))
			if err != nil || cmd.HasSubCommands() && len(rest) > 0 {
				t.Errorf("%s: there is no command %q", path, m[0])
				continue
			}
			for _, name := range flag.FindAllString(m[1], -1) {
				found++
				if name = name[2:]; name != "help" && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
					t.Errorf("%s: %s has no flag --%s", path, cmd.CommandPath(), name)
				}
			}
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Fatalf("%d flags are compared, %v", found, err)
	}
}
