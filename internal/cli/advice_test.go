package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The commands of tutorials name the tutorial's server: on a machine with the package
// installed, they would otherwise change the package's deployment.
func TestTutorialsNameTheDataDirectory(t *testing.T) {
	pages, err := filepath.Glob("../../docs/tutorials/*.md")
	if err != nil || len(pages) < 3 {
		t.Fatal(pages, err)
	}
	commands := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
			if m := commandLine.FindStringSubmatch(line); m != nil && !strings.HasPrefix(strings.TrimSpace(line), "*") {
				if cmd, _, err := Root("test").Find(strings.Fields(m[1])); err == nil && cmd.HasParent() && !cmd.HasSubCommands() && cmd.Name() != "serve" {
					if commands++; !strings.Contains(line, "--data mintage-data") && !strings.Contains(line, "`mintage") {
						t.Errorf("%s: %s: add --data mintage-data", page, line)
					}
				}
			}
		}
	}
	if commands < 8 {
		t.Errorf("only %d commands were looked at", commands)
	}
}

// A how-to page whose commands name no deployment says which one they use.
func TestHowToPagesSayWhichDeploymentTheyUse(t *testing.T) {
	pages, err := filepath.Glob("../../docs/how-to/*.md")
	if err != nil || len(pages) < 30 {
		t.Fatal(pages, err)
	}
	root, found := Root("test"), 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
			args, isCommand := strings.CutPrefix(line, "mintage ")
			if !isCommand {
				continue
			}
			cmd, _, err := root.Find(strings.Fields(args))
			if err != nil || !cmd.HasParent() || slices.Contains([]string{"serve", "backup", "schema", "check"}, cmd.Name()) || strings.Contains(line, "--data ") || strings.Contains(line, "--config ") || strings.Contains(line, "--from ") || strings.Contains(line, "--store ") {
				continue
			}
			found++
			if !strings.Contains(string(text), "install.md#which-deployment-a-command-uses") {
				t.Errorf("%s: %s: say at the top which deployment that is", page, line)
				break
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d commands were found", found)
	}
}

// commandLine matches a command line in a text, up to the first character that cannot be
// part of it.
var commandLine = regexp.MustCompile("mintage ((?:[a-z]+ )+)[^\n`;,()|]*")

// replaces lists advice that intentionally replaces a whole list, with the reason.
var replaces = map[string]string{
	"docs/how-to/verify-at-a-proxy.md --audience": "HAProxy compares aud with one text, so there must be no second audience",
}

// Advice in messages and pages names existing commands and flags. It adds to a list and
// never replaces the list, which would remove what others use.
func TestAdviceNamesFlagsThatExistAndAdd(t *testing.T) {
	root := Root("test")
	looked, excused := 0, map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = strings.TrimPrefix(filepath.ToSlash(path), "../../")
		switch {
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || path == "internal/e2e" || path == "bench" || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return filepath.SkipDir
		case d.IsDir(), !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".md"), strings.HasSuffix(path, "_test.go"), path == "docs/reference/cli.md", path == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			return err
		}
		for _, m := range commandLine.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			cmd, rest, err := root.Find(strings.Fields(m[1]))
			if err != nil || cmd == root || cmd.HasSubCommands() {
				continue // a sentence about the program
			}
			looked++
			update := cmd.Name() == "update" && !strings.Contains(m[0], "--replace")
			for _, word := range append(rest, strings.Fields(m[0])...) {
				name, isFlag := strings.CutPrefix(word, "--")
				name, _, _ = strings.Cut(strings.Trim(name, `".:'`), "=")
				switch {
				case !isFlag || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") != "" || name == "help":
				case cmd.Flag(name) == nil:
					t.Errorf("%s: %q: %s has no flag --%s", path, m[0], cmd.CommandPath(), name)
				case update && cmd.Flag("add-"+name) != nil && replaces[path+" --"+name] == "":
					t.Errorf("%s: %q: --%s removes what is there: advise --add-%s or --remove-%s", path, m[0], name, name, name)
				case update && cmd.Flag("add-"+name) != nil:
					excused[path+" --"+name] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 200 {
		t.Errorf("only %d command lines were looked at", looked)
	}
	for place := range replaces {
		if !excused[place] {
			t.Errorf("%s is listed as an exception, but needs none", place)
		}
	}
}
