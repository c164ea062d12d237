package pages_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// contrasts are the pairs of colours that docs/explanation/design.md lists.
var contrasts = [][2]string{
	{"text", "surface"}, {"text", "background"}, {"muted", "surface"}, {"muted", "background"}, {"link", "surface"}, {"link", "background"},
	{"on-accent", "accent"}, {"on-accent", "accent-hover"}, {"on-danger", "danger"}, {"on-danger", "danger-hover"},
	{"alert-text", "alert-surface"}, {"done-text", "done-surface"}, {"field-line", "surface"}, {"focus", "surface"},
}

// The design page contains the figures of the style sheet.
func TestDesignPageHasTheContrastOfTheStyleSheet(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/design.md")
	if err != nil {
		t.Fatal(err)
	}
	colours := palettes(t)
	var want strings.Builder
	for _, c := range contrasts {
		fmt.Fprintf(&want, "| `%s` | `%s` | %.1f | %.1f |\n", c[0], c[1], contrast(t, colours["light"][c[0]], colours["light"][c[1]]), contrast(t, colours["dark"][c[0]], colours["dark"][c[1]]))
	}
	if !strings.Contains(string(page), "| colour | on | light | dark |\n|---|---|---|---|\n"+want.String()+"\n") {
		t.Errorf("docs/explanation/design.md does not have this table of contrasts:\n%s", &want)
	}
}

// The font sizes of the style sheet are those of the design page.
func TestStyleSheetUsesTheSizesOfTheDesign(t *testing.T) {
	scale := map[string]bool{"1": true, ".9375": true, ".875": true, ".8125": true, ".75": true, "1.125": true,
		// The name of the service beside the logo, and a plus sign.
		"1.0625": true, "1.25": true}
	sizes := regexp.MustCompile(`font-size: ([0-9.]+)rem`).FindAllStringSubmatch(styleSheet(t), -1)
	if len(sizes) < 10 {
		t.Fatalf("%d sizes were found", len(sizes))
	}
	for _, m := range sizes {
		if !scale[m[1]] {
			t.Errorf("font-size %srem is not in docs/explanation/design.md", m[1])
		}
	}
}
