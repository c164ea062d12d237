package pages_test

import (
	"bytes"
	"maps"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/pages"
)

func styleSheet(t *testing.T) string {
	t.Helper()
	css, err := os.ReadFile("static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	return string(css)
}

// palettes returns the colours of the style sheet, light and dark.
func palettes(t *testing.T) map[string]map[string]string {
	t.Helper()
	css := styleSheet(t)
	colour := regexp.MustCompile(`--([a-z-]+):\s*#([0-9a-f]{6});`)
	root := regexp.MustCompile(`:root\s*\{([^}]*)\}`).FindAllStringSubmatch(css, -1)
	if len(root) != 2 {
		t.Fatalf("there are %d blocks of variables, and not a light and a dark one", len(root))
	}
	light := map[string]string{}
	for _, m := range colour.FindAllStringSubmatch(root[0][1], -1) {
		light[m[1]] = m[2]
	}
	dark := maps.Clone(light)
	for _, m := range colour.FindAllStringSubmatch(root[1][1], -1) {
		if light[m[1]] == "" {
			t.Errorf("--%s is dark only", m[1])
		}
		dark[m[1]] = m[2]
	}
	return map[string]map[string]string{"light": light, "dark": dark}
}

// luminance returns the relative luminance of WCAG 2.2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatalf("%q is no colour", hex)
	}
	channel := func(v uint64) float64 {
		s := float64(v&0xff) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(n>>16) + 0.7152*channel(n>>8) + 0.0722*channel(n)
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestContrastIsMeasuredAsWCAGDefinesIt(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{{"000000", "ffffff", 21}, {"ffffff", "ffffff", 1}, {"777777", "ffffff", 4.48}, {"ff0000", "ffffff", 4.0}} {
		if got := contrast(t, c.a, c.b); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s on %s: %.2f, want %.2f", c.a, c.b, got, c.want)
		}
	}
}

// WCAG 2.2 AA requires a contrast of 4.5 for text (1.4.3), and 3 for the edges and the
// focus of controls (1.4.11).
func TestColoursHaveContrastInLightAndDark(t *testing.T) {
	const forText, forControls = 4.5, 3
	for scheme, colour := range palettes(t) {
		for _, c := range []struct {
			on    string
			least float64
			what  []string
		}{
			{"surface", forText, []string{"text", "muted", "link", "accent", "danger"}},
			{"background", forText, []string{"text", "muted", "link"}},
			{"field", forText, []string{"text"}},
			{"accent", forText, []string{"on-accent"}},
			{"accent-hover", forText, []string{"on-accent"}},
			{"danger", forText, []string{"on-danger"}},
			{"danger-hover", forText, []string{"on-danger"}},
			{"alert-surface", forText, []string{"alert-text"}},
			{"done-surface", forText, []string{"done-text"}},
			{"surface", forControls, []string{"field-line", "focus", "accent", "danger"}},
			{"field", forControls, []string{"field-line"}},
		} {
			for _, name := range c.what {
				if got := contrast(t, colour[name], colour[c.on]); got < c.least {
					t.Errorf("%s: %s on %s has a contrast of %.2f, and needs %.1f", scheme, name, c.on, got, c.least)
				}
			}
		}
	}
}

// In the dark scheme, the card differs from the window by its colour, because it has no
// shadow.
func TestTheDarkCardIsLighterThanTheWindow(t *testing.T) {
	dark := palettes(t)["dark"]
	if got := contrast(t, dark["surface"], dark["background"]); got < 1.15 {
		t.Errorf("the card and the window have a contrast of %.2f", got)
	}
}

func TestStyleSheetIsSmallAndNeedsNothingFromElsewhere(t *testing.T) {
	css := styleSheet(t)
	if len(css) > 12_000 {
		t.Errorf("it has %d bytes", len(css))
	}
	for _, m := range regexp.MustCompile(`url\(([^)]*)\)`).FindAllStringSubmatch(css, -1) {
		if m[1] != "icon.svg" {
			t.Errorf("it refers to %s", m[1])
		}
	}
	for _, not := range []string{"@import", "@font-face", "http"} {
		if strings.Contains(css, not) {
			t.Errorf("it holds %s", not)
		}
	}
	used := regexp.MustCompile(`var\(--([a-z-]+)\)`).FindAllStringSubmatch(css, -1)
	if len(used) < 30 {
		t.Fatalf("%d variables are used", len(used))
	}
	for _, m := range used {
		if !strings.Contains(css, "\t--"+m[1]+":") {
			t.Errorf("--%s is not set", m[1])
		}
	}
}

func TestVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/branding.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(--[a-z-]+):`).FindAllStringSubmatch(styleSheet(t), -1) {
		if !bytes.Contains(page, []byte("`"+m[1]+"`")) {
			t.Errorf("docs/how-to/branding.md does not name %s", m[1])
		}
	}
}

func TestEveryPageReachesItsStyleSheetAndIcon(t *testing.T) {
	s := newSet(t, pages.Options{BasePath: base})
	root := render(t, s, "en", pages.SignedOut{})
	links := elements(root, "link")
	if len(links) != 2 {
		t.Fatalf("there are %d links", len(links))
	}
	for i, want := range []string{"image/svg+xml", "text/css; charset=utf-8"} {
		name, ok := strings.CutPrefix(attr(links[i], "href"), base+"/account/assets/")
		body, mediaType, found := s.Asset(name)
		if !ok || !found || len(body) == 0 || mediaType != want {
			t.Errorf("%s: found %t, %d bytes of %s", attr(links[i], "href"), found, len(body), mediaType)
		}
	}
	for _, name := range []string{"", "style.css", "brand.css", "../pages.go", "login.html", "icon.svg/"} {
		if _, _, ok := s.Asset(name); ok {
			t.Errorf("there is an asset %q", name)
		}
	}
}
