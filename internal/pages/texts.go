package pages

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

//go:embed texts/*.yaml
var textFiles embed.FS

// texts are the texts of the pages in one locale, by key.
type texts map[string]string

// builtInTexts reads the texts by locale once, for all sets of pages. Their files have the
// form of those of scopes.
var builtInTexts = sync.OnceValues(func() (map[string]texts, error) {
	files, err := textFiles.ReadDir("texts")
	if err != nil {
		return nil, err
	}
	all := map[string]texts{}
	for _, locale := range Locales {
		all[locale] = texts{}
	}
	for _, f := range files {
		file, err := textFiles.ReadFile("texts/" + f.Name())
		if err != nil {
			return nil, err
		}
		byKey, err := ReadScopes(bytes.NewReader(file))
		if err != nil {
			return nil, fmt.Errorf("texts/%s: %w", f.Name(), err)
		}
		for key, byLocale := range byKey {
			for locale, text := range byLocale {
				all[locale][key] = text
			}
		}
	}
	return all, nil
})

// replacedTexts maps the keys of former built-in texts to the texts that replace them. Templates
// of operators may still refer to the former keys.
var replacedTexts = map[string]string{"consent.host": "consent.trust", "consent.local": "consent.goes_program"}

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([a-z]+)\}`) })

// fill returns a text as HTML, with its values, given as name, value, name, value. It
// isolates each value (bdi), so that right-to-left text or direction marks in it cannot
// reorder the words around it. A detail is in English, in every language.
func (t texts) fill(key string, values ...any) (template.HTML, error) {
	text, ok := t[cmp.Or(replacedTexts[key], key)]
	if !ok {
		return "", fmt.Errorf("there is no text %q", key)
	}
	byName := map[string]string{}
	for i := 0; i+1 < len(values); i += 2 {
		byName[fmt.Sprint(values[i])] = shown(fmt.Sprint(values[i+1]))
	}
	var b strings.Builder
	end, used := 0, 0
	for _, at := range placeholder().FindAllStringSubmatchIndex(text, -1) {
		value, ok := byName[text[at[2]:at[3]]]
		if !ok {
			return "", fmt.Errorf("text %q needs a value for %s", key, text[at[0]:at[1]])
		}
		used++
		b.WriteString(template.HTMLEscapeString(text[end:at[0]]))
		isolate := "<bdi>"
		if text[at[2]:at[3]] == "detail" {
			isolate = `<bdi lang="en">`
		}
		b.WriteString(isolate + template.HTMLEscapeString(value) + "</bdi>")
		end = at[1]
	}
	if used < len(byName) || len(values)%2 != 0 {
		return "", fmt.Errorf("text %q does not use all the values that it is given", key)
	}
	b.WriteString(template.HTMLEscapeString(text[end:]))
	return template.HTML(b.String()), nil
}

// maxShown bounds, in characters, an untrusted value on a page. It exceeds the length of
// any host name, whose end must stay visible.
const maxShown = 255

// shown makes a value readable in one line: it removes control characters and
// direction marks, and limits the length.
func shown(s string) string {
	n := 0
	cut := false
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar {
			return -1
		}
		if n++; n > maxShown {
			cut = true
			return -1
		}
		return r
	}, s)
	if cut {
		s += "…"
	}
	return s
}

// functions returns the functions that templates may call, in addition to those of
// html/template.
func (l *localized) functions(opt Options, assets map[string]asset, style string) template.FuncMap {
	return template.FuncMap{
		"text":  l.texts.fill,
		"shown": shown,
		"message": func(key MessageKey, part string) (template.HTML, error) {
			return l.texts.fill(string(key) + "." + part)
		},
		"wait": func(prefix string, minutes int) (template.HTML, error) {
			switch {
			case minutes <= 0:
				return l.texts.fill(prefix + ".later")
			case minutes == 1:
				return l.texts.fill(prefix + ".one")
			}
			return l.texts.fill(prefix+".many", "minutes", strconv.Itoa(minutes))
		},
		"meaning": func(s Scope) template.HTML {
			text, in := meaning(l.locale, opt.Locale, map[string]string{l.locale: s.Text}, s.Texts, opt.Scopes[s.Name])
			if text = template.HTMLEscapeString(shown(text)); text != "" && in != l.locale {
				text = `<span lang="` + in + `">` + text + `</span>`
			}
			return template.HTML(text)
		},
		"person": func(name, username string) string {
			switch {
			case name == "" || name == username:
				return username
			case username == "":
				return name
			}
			return name + " (" + username + ")"
		},
		"initials": initials,
		"date": func(t time.Time) template.HTML {
			return template.HTML(`<time datetime="` + t.UTC().Format(time.DateOnly) + `">` + l.date(t.UTC()) + `</time>`)
		},
		"path":  func(p string) string { return opt.BasePath + "/" + p },
		"link":  link,
		"send":  func() template.HTML { return "<script>" + Script + "</script>" },
		"style": func() string { return opt.BasePath + assetPath + style },
		"asset": func(name string) (string, error) {
			if _, ok := assets[name]; !ok {
				return "", fmt.Errorf("there is no file %q", name)
			}
			return opt.BasePath + assetPath + name, nil
		},
	}
}

// initials returns the first letters of the first and the last word of a name, but only
// the first letter of an East Asian name. It returns "" for a name without letters.
func initials(name, username string) string {
	name, _, _ = strings.Cut(cmp.Or(name, username), "@")
	var letters []rune
	for word := range strings.FieldsSeq(shown(name)) {
		if i := strings.IndexFunc(word, unicode.IsLetter); i >= 0 {
			first, _ := utf8.DecodeRuneInString(word[i:])
			letters = append(letters, unicode.ToUpper(first))
		}
	}
	switch {
	case len(letters) == 0:
		return ""
	case len(letters) == 1 || unicode.In(letters[0], unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return string(letters[0])
	}
	return string([]rune{letters[0], letters[len(letters)-1]})
}

// dateForms maps a locale to its layout of a date. In languages other than those of
// package time, %s stands for the name of the month.
var dateForms = map[string]string{
	"en": "2 January 2006", "de": "2. %s 2006", "es": "2 de %s de 2006", "fr": "2 %s 2006", "ja": "2006年1月2日",
}

var months = map[string][]string{
	"de": {"Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember"},
	"es": {"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre"},
	"fr": {"janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre"},
}

// date returns a date as the locale writes it.
func (l *localized) date(t time.Time) string {
	text := t.Format(dateForms[l.locale])
	if names := months[l.locale]; names != nil {
		text = fmt.Sprintf(text, names[t.Month()-1])
	}
	if l.locale == "fr" && t.Day() == 1 {
		text = strings.Replace(text, "1 ", "1er ", 1)
	}
	return text
}

// link returns the address of a client, which html/template rejects if it has a
// private-use scheme (RFC 8252 section 7.1). link returns "" for schemes that run script
// or contain a document; a client cannot register such a redirect URI either.
func link(address string) template.URL {
	u, err := url.Parse(address)
	if err != nil || slices.Contains([]string{"", "javascript", "vbscript", "data", "blob", "about", "file", "filesystem", "view-source"}, u.Scheme) {
		return ""
	}
	return template.URL(address)
}
