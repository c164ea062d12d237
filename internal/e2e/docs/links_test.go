//go:build e2e

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const index = "docs/README.md"

var (
	// Text may hold one pair of brackets, as an image in a link does.
	markdownLink = regexp.MustCompile(`\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()<>\s]+)>?(?:\s+"[^"]*")?\s*\)`)
	codeSpan     = regexp.MustCompile("`[^`]*`")
	heading      = regexp.MustCompile(`^#{1,6}[ \t]+(.*?)[ \t#]*$`)
	linkedText   = regexp.MustCompile(`\[([^\[\]]*)\]\([^()]*\)`)
	htmlAnchor   = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// prose returns the lines of a page without its fenced blocks.
func prose(page string) (lines []string) {
	var marker string
	for line := range strings.SplitSeq(page, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case marker == "" && m != nil:
			marker = m[2]
		case marker == "":
			lines = append(lines, line)
		case m != nil && m[3] == "" && strings.HasPrefix(m[2], marker):
			marker = ""
		}
	}
	return lines
}

// links returns the targets of a page's links into the repository.
func links(page string) (targets []string) {
	text := codeSpan.ReplaceAllString(strings.Join(prose(page), "\n"), "")
	for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
			targets = append(targets, m[1])
		}
	}
	return targets
}

// anchors returns the fragments that a link to a page may contain: those that GitHub
// derives from its headings, and its explicit anchors.
func anchors(page string) (list []string) {
	seen := map[string]int{}
	for _, line := range prose(page) {
		for _, m := range htmlAnchor.FindAllStringSubmatch(line, -1) {
			list = append(list, m[1])
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := slug(linkedText.ReplaceAllString(m[1], "$1"))
		if n := seen[name]; n > 0 {
			list = append(list, name+"-"+strconv.Itoa(n))
		} else {
			list = append(list, name)
		}
		seen[name]++
	}
	return list
}

func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, title)
}

// markdown returns every page of the repository: the documentation, and the pages at the
// root and beside the examples and the packaging.
func markdown(t *testing.T) []string {
	t.Helper()
	list := pages(t)
	for _, pattern := range []string{"*.md", "examples/*.md", "examples/*/*.md", "packaging/*.md", "packaging/*/*.md", "packaging/*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			name, err := filepath.Rel(repository, path)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// deadLinks returns the links of a page whose targets do not exist. name is its path
// below root.
func deadLinks(root, name, page string) (dead []string) {
	for _, target := range links(page) {
		path, anchor, _ := strings.Cut(target, "#")
		file, text := name, page
		if path != "" {
			file = filepath.Join(filepath.Dir(name), path)
			info, err := os.Stat(filepath.Join(root, file))
			if err != nil || strings.HasPrefix(file, "..") {
				dead = append(dead, target)
				continue
			}
			if info.IsDir() || anchor == "" {
				continue
			}
			b, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				dead = append(dead, target)
				continue
			}
			text = string(b)
		}
		if anchor != "" && (filepath.Ext(file) != ".md" || !slices.Contains(anchors(text), anchor)) {
			dead = append(dead, target)
		}
	}
	return dead
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	found := 0
	for _, name := range markdown(t) {
		page := read(t, filepath.Join(repository, name))
		found += len(links(page))
		for _, target := range deadLinks(repository, name, page) {
			t.Errorf("%s: the link to %s leads nowhere", name, target)
		}
	}
	if found < 100 {
		t.Errorf("only %d links were found: the test may be broken", found)
	}
}

// moved matches a page that only links to the new address of its content. Links
// from outside of the repository may still lead to it; the index need not.
var moved = regexp.MustCompile(`\A# [^\n]+\n\nThis page has moved: \[[^\n]+\]\([^\n]+\)\.\n\z`)

// TestEveryPageIsReachableFromTheIndex: nobody finds a page to which the index does not
// link.
func TestEveryPageIsReachableFromTheIndex(t *testing.T) {
	reached := map[string]bool{index: true}
	for queue := []string{index}; len(queue) > 0; queue = queue[1:] {
		for _, target := range links(read(t, filepath.Join(repository, queue[0]))) {
			path, _, _ := strings.Cut(target, "#")
			file := filepath.Join(filepath.Dir(queue[0]), path)
			_, err := os.Stat(filepath.Join(repository, file))
			if path != "" && filepath.Ext(file) == ".md" && err == nil && !reached[file] {
				reached[file] = true
				queue = append(queue, file)
			}
		}
	}
	direct := map[string]bool{}
	for _, target := range links(read(t, filepath.Join(repository, index))) {
		path, _, _ := strings.Cut(target, "#")
		direct[filepath.Join("docs", path)] = true
	}
	for _, name := range pages(t) {
		if moved.MatchString(read(t, filepath.Join(repository, name))) {
			continue
		}
		switch {
		case !reached[name] && name != "README.md":
			t.Errorf("%s does not lead to %s", index, name)
		case name != "README.md" && name != index && !strings.HasPrefix(name, "docs/decisions/") && !direct[name]:
			t.Errorf("%s does not name %s", index, name)
		}
	}
	if !slices.Contains(links(read(t, filepath.Join(repository, "README.md"))), index) {
		t.Errorf("README.md does not lead to %s", index)
	}
}

func TestADeadLinkIsFound(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("other.md", "# Another page\n\n## What `it` is, in short\n\n## Twice\n\n## Twice\n\n```sh\n# No heading\n```\n")
	page := `# One page
[a](other.md) [b](other.md#another-page) [c](other.md#what-it-is-in-short) [d](other.md#twice-1) [e](#one-page) [f](https://example.com/none)
[g](none.md) [h](other.md#no-heading) [i](other.md#twice-2) [j](#two-pages) [k](../outside.md)
` + "`[l](code.md)`\n"
	want := []string{"none.md", "other.md#no-heading", "other.md#twice-2", "#two-pages", "../outside.md"}
	if got := deadLinks(dir, "page.md", page); !slices.Equal(got, want) {
		t.Errorf("dead links %q, want %q", got, want)
	}
}
