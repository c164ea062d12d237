package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every program and configuration of a how-to page that verifies access tokens checks
// their audience, or introspects as a client that gets only its own audience's tokens.
func TestHowToPagesCheckTheAudience(t *testing.T) {
	pages, err := filepath.Glob("../docs/how-to/*.md")
	if err != nil {
		t.Fatal(err)
	}
	verifies := regexp.MustCompile(`jwtVerify\(|validateJwtAccessToken\(|resource\.New\(|oauth2/verify|jwt_verify\(|issuer-uri|jwk-set-uri`)
	introspects := regexp.MustCompile(`oauth2/introspect|opaquetoken|introspection-uri`)
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?ms)^```(?:go|js|nginx|caddy|haproxy|yml|yaml|java)\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			block := m[1]
			switch {
			case verifies.MatchString(block):
				if checked++; !regexp.MustCompile(`(?i)audience|aud=|\$\.aud`).MatchString(block) {
					t.Errorf("%s: this does not check the audience:\n%s", page, block)
				}
			case introspects.MatchString(block):
				if checked++; !strings.Contains(string(text), "--introspect-audience") {
					t.Errorf("%s: this learns about tokens of every audience:\n%s", page, block)
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d programs and configurations were checked", checked)
	}
}

// No page promises a release, because none exists yet. Remove this test with the first
// one.
func TestPagesPromiseNoRelease(t *testing.T) {
	promised := regexp.MustCompile(`mintage_[0-9]+\.[0-9]+\.[0-9]+|VERSION=v[0-9]|(?:pull|image:) \S*mintage:v?[0-9]|published module`)
	pages, err := filepath.Glob("../docs/*/*.md")
	if err != nil || len(pages) < 50 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if m := promised.Find(text); m != nil {
			t.Errorf("%s: %s", page, m)
		}
	}
}

// The program names pages only by config.Page, which knows their place on a machine, and
// each of them exists.
func TestPagesThatTheProgramNamesExist(t *testing.T) {
	called, bare := regexp.MustCompile(`config\.Page\(([^)]*)\)`), regexp.MustCompile(`"[^"\n]*\bdocs/[a-z-]+/[a-z-]+\.md`)
	code, _ := goFiles(t)
	named := 0
	for _, f := range code {
		if f.in(notProduct...) {
			continue
		}
		if m := bare.Find(f.text); m != nil {
			t.Errorf("%s names a page that may not be on the machine: %s", f.name, m)
		}
		for _, m := range called.FindAllSubmatch(f.text, -1) {
			named++
			if _, err := os.Stat("../docs/" + strings.Trim(string(m[1]), `"`)); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
		}
	}
	if named < 5 {
		t.Errorf("%d pages are named", named)
	}
}

// The architecture page lists every package of the product and no other, and each arrow
// is an import.
func TestArchPage(t *testing.T) {
	text, err := os.ReadFile("../docs/explanation/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Packages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([a-z/]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
				listed[m[1]] = true
			}
		}
	}
	code, _ := goFiles(t)
	imports := map[string][]string{}
	for _, f := range code {
		if !f.in(notProduct...) {
			name := strings.TrimPrefix(f.dir(), "internal/")
			imports[name] = append(imports[name], f.imports...)
		}
	}
	delete(imports, "cmd/mintage")
	for name := range imports {
		if !listed[name] {
			t.Errorf("the table does not list %s", name)
		}
	}
	for name := range listed {
		if imports[name] == nil {
			t.Errorf("the table lists %s, which does not exist", name)
		}
	}

	arrows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "    ") {
			continue
		}
		parts := regexp.MustCompile(`-+>`).Split(line, -1)
		for i, right := range parts[1:] {
			left := strings.TrimRight(parts[i], " ")
			if strings.HasSuffix(left, "|") || strings.HasSuffix(left, "+") {
				continue // the arrow belongs to another line
			}
			for _, from := range packageNames(left) {
				for _, to := range packageNames(right) {
					arrows++
					if !reaches(imports, from, to) {
						t.Errorf("the page has an arrow from %s to %s, and no import is there", from, to)
					}
				}
			}
		}
	}
	if arrows < 10 {
		t.Errorf("found %d arrows: this test looks in the wrong place", arrows)
	}
}

func packageNames(text string) []string {
	return regexp.MustCompile(`[a-z]+(/[a-z]+)?`).FindAllString(text, -1)
}

// reaches reports whether a package imports another one, directly or indirectly.
func reaches(imports map[string][]string, from, to string) bool {
	seen, queue := map[string]bool{}, []string{from}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		for _, p := range imports[next] {
			name, ours := strings.CutPrefix(p, "internal/")
			if name == to {
				return true
			}
			if ours && !seen[name] {
				seen[name] = true
				queue = append(queue, name)
			}
		}
	}
	return false
}
