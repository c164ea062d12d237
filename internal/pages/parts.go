package pages

import (
	"fmt"
	"html/template"
	"time"
)

// StyleSheet returns the built-in style sheet, without that of a brand, for pages of
// other packages that follow the same design (docs/explanation/design.md).
func StyleSheet() []byte { return mustRead("static/style.css") }

// Icon returns the built-in icon (SVG), to which the style sheet refers as icon.svg.
func Icon() []byte { return mustRead("static/icon.svg") }

// Time returns an instant as pages show it: in UTC, for people and for programs. The
// zero time is a dash.
func Time(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339), t.Format("2 Jan 2006, 15:04:05")))
}
