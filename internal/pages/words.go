package pages

import (
	"cmp"
	"html"
	"regexp"
	"strings"
)

// A Word is the text of one element of a page.
type Word struct {
	Kind string // heading, text, item or button
	Text string
}

var (
	// worded matches the elements that have text. None of them contains another.
	worded = regexp.MustCompile(`(?s)<h1[ >].*?</h1>|<p[ >].*?</p>|<li[ >].*?</li>|<label[ >].*?</label>|<button[ >].*?</button>`)
	// tag matches a tag, and whole elements that screen readers skip.
	tag   = regexp.MustCompile(`(?s)<span[^>]* aria-hidden="true"[^>]*>.*?</span>|<[^>]*>`)
	kinds = map[string]string{"h1": "heading", "li": "item", "bu": "button"}
)

// Words returns the texts of a page in their order, without its fields. It renders the
// page, so that the result includes the texts of a brand's templates.
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
