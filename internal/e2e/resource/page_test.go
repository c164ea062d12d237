//go:build e2e

package resource

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	howTo = "../../../docs/how-to"
	// proxies is the page with the configurations of all proxies.
	proxies = "verify-at-a-proxy.md"
	actors  = "act-for-a-user.md"
	company = "let-a-company-idp-in.md"
	proofs  = "bind-tokens.md"
	logins  = "step-up.md"
)

// A block is a fenced block of a how-to page.
type block struct {
	language, text string
}

func blocks(t *testing.T, page string) (list []block) {
	t.Helper()
	var current *block
	for line := range strings.SplitSeq(string(readFile(t, filepath.Join(howTo, page))), "\n") {
		language, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && current == nil:
			current = &block{language: language}
		case isFence:
			list = append(list, *current)
			current = nil
		case current != nil:
			current.text += line + "\n"
		}
	}
	if current != nil {
		t.Fatalf("%s: a block is not closed", page)
	}
	return list
}

// shown returns the block of a page whose first line contains a file's name.
func shown(t *testing.T, page, name string) string {
	t.Helper()
	for _, b := range blocks(t, page) {
		if first, _, _ := strings.Cut(b.text, "\n"); strings.HasSuffix(first, " "+name) {
			return b.text
		}
	}
	t.Fatalf("%s: there is no block that begins with the name %s", page, name)
	return ""
}

// here adapts a page's file to this machine: it replaces addresses and paths, given in
// pairs, and nothing else. Each must occur.
func here(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the page's file does not have %q any more", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// runChecks runs the page's commands that check an installation, unchanged, and compares
// their output with that of the page. connect maps host names of the commands' URLs to
// addresses on this machine.
func runChecks(t *testing.T, w *world, page string, token string, connect map[string]string) {
	t.Helper()
	home := t.TempDir()
	rc := fmt.Sprintf("cacert = %q\n", w.ca.file)
	for name, address := range connect {
		rc += fmt.Sprintf("connect-to = \"%s:443:%s\"\n", name, address)
	}
	write(t, filepath.Join(home, ".curlrc"), rc)
	list, ran := blocks(t, page), 0
	for i, b := range list {
		if b.language != "sh" || !strings.Contains(b.text, "curl ") || i+1 == len(list) || list[i+1].language != "text" {
			continue
		}
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", b.text)
		cmd.Dir, cmd.Stderr = home, &stderr
		cmd.Env = append(os.Environ(), "HOME="+home, "CURL_HOME="+home, "token="+token, "id="+w.api.ID, "secret="+w.api.Secret)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s\n%s", page, err, b.text, &stderr)
		}
		if strings.TrimSpace(string(out)) != strings.TrimSpace(list[i+1].text) {
			t.Errorf("%s: the commands\n%s\nprint\n%s\nand the page promises\n%s", page, b.text, out, list[i+1].text)
		}
		ran++
	}
	if ran == 0 {
		t.Errorf("%s: no command was run", page)
	}
}

// checksTokens matches a page that checks access tokens; mustShow is what such a page
// must then show.
var (
	checksTokens = regexp.MustCompile(`oauth2/verify|oauth2/introspect|jwk-set-uri|resource\.New\(|jwtVerify\(|jwt_verify\(|validateJwtAccessToken\(`)
	mustShow     = map[string]*regexp.Regexp{
		"an audience":                        regexp.MustCompile(`(?i)\baud(ience)?\b`),
		"where the metadata are (RFC 9728)":  regexp.MustCompile(`oauth-protected-resource|MetadataPath\(\)|protectedResourceMetadata`),
		"a challenge that names them, in it": regexp.MustCompile(`resource_metadata=`),
	}
)

// TestEveryPageThatChecksTokensShowsTheAudienceAndTheMetadata: a client knows where to
// get tokens for an API only if the API's metadata say so.
func TestEveryPageThatChecksTokensShowsTheAudienceAndTheMetadata(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(howTo, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	tutorials, err := filepath.Glob(filepath.Join(howTo, "../tutorials/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range append(pages, tutorials...) {
		parts := []string{string(readFile(t, file))}
		switch filepath.Base(file) {
		case proofs, logins: // these pages show one detail of an API, and link to the rest
			if !strings.Contains(parts[0], "](go-api.md)") {
				t.Errorf("%s does not name the page of APIs", filepath.Base(file))
			}
			continue
		case actors, company: // these pages show one response, and link to the proxies' configuration
			if !strings.Contains(parts[0], "]("+proxies+")") {
				t.Errorf("%s does not name the page of proxies", filepath.Base(file))
			}
			continue
		case proxies:
			parts = strings.Split(parts[0], "\n## ") // check each proxy's part separately
		}
		for _, part := range parts {
			if !checksTokens.MatchString(part) {
				continue
			}
			found++
			title, _, _ := strings.Cut(part, "\n")
			for what, pattern := range mustShow {
				if !pattern.MatchString(part) {
					t.Errorf("%s, %s: does not show %s", filepath.Base(file), title, what)
				}
			}
		}
	}
	if want := 5 + 6; found != want { // the proxies; Go, Node, MCP, Spring, phantom tokens, the tutorial
		t.Errorf("%d pages and proxies check tokens, want %d", found, want)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
