// Package pages renders the pages of the authorization endpoint as HTML without script, in
// the languages of Locales. An operator can change the pages with a brand directory.
//
// It renders views (Login, Consent, Message, ...) to bytes. It does not depend on HTTP,
// sessions or the store.
package pages

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

//go:embed templates/*.html
var templates embed.FS

// Options set the appearance and the location of the pages.
type Options struct {
	// Brand holds the operator's files: images, brand.css, and templates that replace the
	// built-in ones of the same name. Nil: none.
	Brand fs.FS
	// Name is the name of the service, beside the logo and in titles; "" for none.
	Name string
	// BasePath is the prefix of the paths of forms and assets, such as "/auth", or "".
	BasePath string
	// Locale is used if no language of the user is supported; "" is "en".
	Locale string
	// Scopes holds the texts of scopes by scope and locale (ReadScopes).
	Scopes map[string]map[string]string
}

// A Set holds all pages in all locales. It is safe for concurrent use.
type Set struct {
	locale  string // the default
	locales map[string]*localized
	assets  map[string]asset
}

// A localized holds the pages in one locale.
type localized struct {
	locale    string
	name      string // of the service
	texts     texts
	templates func() (*template.Template, error) // parses them when first called
}

// New reads the brand directory and renders each of its pages once, so that it reports
// mistakes at once, with file and line. Built-in pages are parsed when one in their locale
// is first rendered, because a server has a Set for each realm.
func New(opt Options) (*Set, error) {
	opt.Locale = cmp.Or(opt.Locale, "en")
	if !slices.Contains(Locales, opt.Locale) {
		return nil, fmt.Errorf("the pages have no locale %q: it is one of %s", opt.Locale, strings.Join(Locales, ", "))
	}
	brand, err := readBrand(opt.Brand)
	if err != nil {
		return nil, err
	}
	if opt.Scopes, err = withOpenID(opt.Scopes); err != nil {
		return nil, err
	}
	assets, style := builtInAssets()
	if opt.Brand != nil {
		assets, style = brand.collectAssets()
	}
	all, err := builtInTexts()
	if err != nil {
		return nil, err
	}
	s := &Set{locale: opt.Locale, locales: map[string]*localized{}, assets: assets}
	for _, locale := range Locales {
		l := &localized{locale: locale, name: opt.Name, texts: all[locale]}
		l.templates = sync.OnceValues(func() (*template.Template, error) {
			return parse(brand, l.functions(opt, assets, style))
		})
		s.locales[locale] = l
	}
	if opt.Brand == nil {
		return s, nil // a test renders the built-in pages
	}
	for _, locale := range Locales {
		if _, err := s.locales[locale].templates(); err != nil {
			return nil, err
		}
	}
	return s, s.rehearse(brand)
}

// parse parses the templates of a brand, and the built-in templates that the brand does
// not replace.
func parse(brand brand, functions template.FuncMap) (*template.Template, error) {
	all := template.New("").Funcs(functions)
	for _, name := range templateNames() {
		text, err := templates.ReadFile("templates/" + name)
		if err != nil {
			return nil, err
		}
		if own, ok := brand.templates[name]; ok {
			text = own
		}
		if _, err := all.New(name).Parse(string(text)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// nameOf returns the name of a view's template, with which the keys of its texts begin:
// the name of the type in snake case, as second_factor for SecondFactor.
func nameOf(page any) string {
	name, _ := strings.CutPrefix(fmt.Sprintf("%T", page), "pages.")
	var b strings.Builder
	for i, c := range name {
		if i > 0 && unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// title returns the title of the page. If a form is shown again because of an error, its
// title begins with the error, for screen readers.
func (l *localized) title(page any) string {
	key := nameOf(page)
	switch v := page.(type) {
	case Consent:
		if v.Again() {
			key += "_again"
		}
	case DeviceDone:
		if v.Denied {
			key = "denied"
		}
	case Bounce:
		if v.Denied {
			key = "denied"
		}
	case Message:
		key = string(v.Key)
	}
	title := l.texts[key+".title"]
	if form, ok := page.(interface{ failed() bool }); ok && form.failed() {
		title = strings.ReplaceAll(l.texts["error_title"], "{title}", title)
	}
	return title
}

// Render renders the page of a view. It uses the default locale if locale is not
// supported.
func (s *Set) Render(locale string, page any) ([]byte, error) {
	l, ok := s.locales[locale]
	if !ok {
		l = s.locales[s.locale]
	}
	name := nameOf(page)
	if m, ok := page.(Message); ok && !slices.Contains(MessageKeys(), m.Key) {
		return nil, fmt.Errorf("there is no message %q", m.Key)
	}
	all, err := l.templates()
	if err != nil {
		return nil, err
	}
	if all.Lookup(name+".html") == nil {
		return nil, fmt.Errorf("there is no page for %T", page)
	}
	var content, whole bytes.Buffer
	if err := all.ExecuteTemplate(&content, name+".html", page); err != nil {
		return nil, err
	}
	err = all.ExecuteTemplate(&whole, "layout.html", struct {
		Lang, Kind, Title, Name string
		Content                 template.HTML
	}{l.locale, strings.ReplaceAll(name, "_", "-"), l.title(page), l.name, template.HTML(content.String())})
	return whole.Bytes(), err
}

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
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339), t.Format("2 Jan 2006, 15:04:05 UTC")))
}
