package pages

import (
	"cmp"
	"html"
	"regexp"
	"strings"
)

// A Word is one element of a page as people read it.
type Word struct {
	Kind string // heading, text, item or button
	Text string
}

var (
	// worded are the elements that have text. None of them is within another.
	worded = regexp.MustCompile(`(?s)<h1[ >].*?</h1>|<p[ >].*?</p>|<li[ >].*?</li>|<label[ >].*?</label>|<button[ >].*?</button>`)
	// tag matches a tag, and all of an element that readers do not hear.
	tag   = regexp.MustCompile(`(?s)<span[^>]* aria-hidden="true"[^>]*>.*?</span>|<[^>]*>`)
	kinds = map[string]string{"h1": "heading", "li": "item", "bu": "button"}
)

// Words returns what a page says, in its order, and nothing that does anything. It is the
// page of Render, so that a brand's own template says its own words.
func (s *Set) Words(locale string, page any) (list []Word, err error) {
	whole, err := s.Render(locale, page)
	main := string(whole)
	if _, rest, found := strings.Cut(main, "<main>"); found {
		main, _, _ = strings.Cut(rest, "</main>")
	}
	for _, element := range worded.FindAllString(main, -1) {
		text := strings.Join(strings.Fields(html.UnescapeString(tag.ReplaceAllString(element, ""))), " ")
		if text != "" {
			list = append(list, Word{cmp.Or(kinds[element[1:3]], "text"), text})
		}
	}
	return list, err
}
