//go:build e2e

package docs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/e2e/binary"
)

const repository = "../../.."

// runByCI are blocks that this test cannot run, because continuous integration runs them
// as commands of its own. Each must exist, so that the list stays current. The tests in
// internal/e2e/resource run the how-to pages about proxies.
var runByCI = map[string][]string{
	"README.md":                        {"make test"},
	"docs/how-to/verify-at-a-proxy.md": {askProxy + askWithoutScope},
	"docs/how-to/phantom-token.md":     {askProxy},
	"docs/how-to/spring.md":            {askAsSpring},
}

const (
	askProxy = `ask() { curl --silent --output /dev/null --write-out '%{http_code} %header{www-authenticate}\n' "$@" https://api.example.com/reports; }
ask
ask --header "Authorization: Bearer forged"
ask --header "Authorization: Bearer $token"`
	askWithoutScope = `
ask --header "Authorization: Bearer $token" --data month=5`
	askAsSpring = `curl --silent --user "$id:$secret" --data-urlencode "token=$token" https://auth.example.com/oauth2/introspect | jq -r '.active, .sub, .scope'
curl --silent --user "$id:$secret" --data-urlencode "token=forged" https://auth.example.com/oauth2/introspect`
)

// pages are the files of the documentation, by their path in the repository.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			name, _ := filepath.Rel(repository, path)
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runPage runs the blocks of a page, except elsewhere, and returns how many it has run.
func runPage(t *testing.T, text string, elsewhere []string) (int, error) {
	var sh *shell
	return follow(text, elsewhere, func() (*shell, error) {
		var err error
		if sh == nil {
			sh, err = open(t, repository, text)
		}
		return sh, err
	})
}

// follow runs the blocks of a page, except elsewhere, in a shell, which shellOf opens at
// the first block, and returns how many it has run.
func follow(text string, elsewhere []string, shellOf func() (*shell, error)) (int, error) {
	list, err := steps(text)
	if err != nil {
		return 0, err
	}
	for _, other := range elsewhere {
		if !slices.ContainsFunc(list, func(s step) bool { return strings.TrimSpace(s.text) == other }) {
			return 0, fmt.Errorf("there is no block %q any more", other)
		}
	}
	ran := 0
	for _, s := range list {
		if s.notRun || slices.Contains(elsewhere, strings.TrimSpace(s.text)) {
			continue
		}
		sh, err := shellOf()
		if err != nil {
			return ran, err
		}
		stdout, stderr, err := sh.paste(s.text)
		if err != nil {
			return ran, fmt.Errorf("line %d: %w", s.line, err)
		}
		if s.want != nil {
			if err := compare(s.want, stdout, stderr); err != nil {
				return ran, fmt.Errorf("line %d: %w", s.want.line, err)
			}
		}
		ran++
	}
	return ran, nil
}

// course are the pages that a beginner reads in this order, in one clone of the
// repository.
var course = []string{"README.md", "docs/tutorials/first-token.md", "docs/tutorials/sign-users-in.md", "docs/tutorials/protect-an-api.md"}

// TestTheTutorialsCanBeFollowedOneAfterTheOther runs them all in one shell, as a beginner
// continues in the same terminal.
func TestTheTutorialsCanBeFollowedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for _, name := range pages(t) {
		if strings.HasPrefix(name, "docs/tutorials/") && !slices.Contains(course, name) {
			t.Errorf("%s is missing in course", name)
		}
	}
	all := ""
	for _, name := range course {
		all += read(t, filepath.Join(repository, name))
	}
	sh, err := open(t, repository, all)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range course {
		text := read(t, filepath.Join(repository, name))
		if i > 0 && !strings.Contains(text, "stop the server of the page before") {
			t.Errorf("%s does not say that the reader must stop the server of the page before", name)
		}
		ran, err := follow(text, runByCI[name], func() (*shell, error) { return sh, nil })
		if err != nil {
			t.Fatalf("%s, after the pages before it: %v", name, err)
		}
		if ran == 0 {
			t.Errorf("%s: no block was run", name)
		}
	}
}

// tutorialTime limits the commands of a five-minute tutorial: the reader needs most of
// the time, and the machine is busy with other tests.
const tutorialTime = 2 * time.Minute

func TestEveryShellBlockOfTheDocumentationWorks(t *testing.T) {
	for name := range runByCI {
		if !slices.Contains(pages(t), name) {
			t.Errorf("%s does not exist any more", name)
		}
	}
	for _, name := range pages(t) {
		if name == course[0] {
			continue // a beginner starts with this page
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			ran, err := runPage(t, read(t, filepath.Join(repository, name)), runByCI[name])
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			t.Logf("%d blocks", ran)
			if took := time.Since(began); strings.HasPrefix(name, "docs/tutorials/") && took > tutorialTime {
				t.Errorf("the commands alone took %s: nobody does this tutorial in five minutes", took)
			}
		})
	}
}

// substitution matches a command substitution of the shell.
var substitution = regexp.MustCompile(`\$\([^()]*\)|"\$\([^()]*\)"`)

// TestBlocksThatAreNotRunNameRealCommands: a block that cannot run here must still be a
// valid command line of this program.
func TestBlocksThatAreNotRunNameRealCommands(t *testing.T) {
	for _, name := range pages(t) {
		list, err := steps(read(t, filepath.Join(repository, name)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, s := range list {
			if !s.notRun {
				continue
			}
			check := exec.Command("sh", "-n")
			check.Stdin = strings.NewReader(s.text)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s, line %d: no shell understands it: %s", name, s.line, out)
			}
			text := substitution.ReplaceAllString(strings.ReplaceAll(s.text, "\\\n", " "), "X")
			for line := range strings.SplitSeq(text, "\n") {
				line, _, _ = strings.Cut(line, "#")
				line, _, _ = strings.Cut(line, " | ")
				args, ours := strings.CutPrefix(strings.TrimSpace(line), "mintage ")
				if !ours {
					continue
				}
				out, err := exec.Command(binary.Path(t), append(strings.Fields(args), "--help")...).CombinedOutput()
				if err != nil || strings.Contains(string(out), "Available Commands:") {
					t.Errorf("%s, line %d: %s is not understood: %v\n%s", name, s.line, line, err, out)
				}
			}
		}
	}
}

// commandLine matches the beginning of a line that a reader would paste.
var commandLine = regexp.MustCompile(`(?m)^(\$ )?(mintage|curl|kubectl|helm|docker|systemctl|sudo|psql|openssl|npm|go|make) [a-z-]`)

// TestCommandsAreInShellBlocks: no test runs a command that a page shows as text. It must
// be in a shell block, which may carry a reason why it is not run.
func TestCommandsAreInShellBlocks(t *testing.T) {
	for _, name := range pages(t) {
		if name == "docs/reference/cli.md" {
			continue // generated from the program's help
		}
		blocks, err := parse(read(t, filepath.Join(repository, name)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, b := range blocks {
			if b.language == "text" && commandLine.MatchString(b.text) {
				t.Errorf("%s, line %d: a command is shown as text; mark the block sh", name, b.line)
			}
		}
	}
}

// checkedHere are the languages whose blocks the tests of this package run, compare or
// load. Blocks of "text" are output and drawings; mermaid blocks are diagrams.
var checkedHere = []string{"sh", "text", "json", "yaml", "mermaid"}

// TestEveryBlockIsCheckedBySomething: a block in another language is a file for another
// program. A test that names the page must run that program with it.
func TestEveryBlockIsCheckedBySomething(t *testing.T) {
	named := map[string]bool{}
	for _, dir := range []string{"bench", "internal", "resource", "cmd", "examples"} {
		err := filepath.WalkDir(filepath.Join(repository, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "node_modules" || path == filepath.Join(repository, "internal/e2e/docs")):
				return fs.SkipDir
			case strings.HasSuffix(path, "_test.go"):
				for _, m := range pageInTest.FindAllStringSubmatch(read(t, path), -1) {
					named[m[1]] = true
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	others := 0
	for _, name := range pages(t) {
		blocks, err := parse(read(t, filepath.Join(repository, name)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, b := range blocks {
			if slices.Contains(checkedHere, b.language) {
				continue
			}
			others++
			if !named[filepath.Base(name)] && !notRunMark.MatchString(b.before) {
				t.Errorf("%s, line %d: no test looks at this block of language %q; run it, have a test name the page, or mark it <!-- not run: REASON -->", name, b.line, b.language)
			}
		}
	}
	if others < 10 {
		t.Errorf("%d blocks of other languages were found", others)
	}
}

var pageInTest = regexp.MustCompile("[\"`/]([a-z0-9-]+\\.md)[\"`]")

func TestEveryYAMLBlockIsAConfigurationThatIsAccepted(t *testing.T) {
	found := 0
	for _, name := range pages(t) {
		blocks, err := parse(read(t, filepath.Join(repository, name)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, b := range blocks {
			if b.language != "yaml" {
				continue
			}
			found++
			file := filepath.Join(t.TempDir(), "mintage.yaml")
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, _, err := config.Load(file, nil, nil)
			if err == nil {
				err = cfg.Check()
			}
			if err != nil {
				t.Errorf("%s, line %d: %v", name, b.line, err)
			}
		}
	}
	if found == 0 {
		t.Error("no configuration was found")
	}
}
