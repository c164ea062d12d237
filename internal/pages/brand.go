package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:embed static/*
var static embed.FS

// assetPath is the path of the assets, below the base path.
const assetPath = "/account/assets/"

// maxBrandFile bounds a file of the brand directory, in bytes.
const maxBrandFile = 1 << 20

// An asset is a file that pages refer to.
type asset struct {
	body      []byte
	mediaType string
}

// imageTypes maps the extensions of images that a brand directory may contain to media
// types.
var imageTypes = map[string]string{
	".svg": "image/svg+xml", ".png": "image/png", ".webp": "image/webp", ".ico": "image/vnd.microsoft.icon",
}

// A brand is the content of an operator's brand directory.
type brand struct {
	templates map[string][]byte
	css       []byte
	images    map[string]asset
}

const fileName = `^[A-Za-z0-9][A-Za-z0-9._-]*$`

// readBrand reads a brand directory. It rejects every file that would have no effect, such
// as a misspelled name. It ignores hidden files, because a mounted Kubernetes ConfigMap
// has some.
func readBrand(dir fs.FS) (brand, error) {
	b := brand{templates: map[string][]byte{}, images: map[string]asset{}}
	if dir == nil {
		return b, nil
	}
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return b, err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if err := b.read(dir, entry.Name()); err != nil {
			return b, err
		}
	}
	return b, nil
}

func (b *brand) read(dir fs.FS, name string) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is not a file: there are no directories below this one", name))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBrandFile+1))
	if err != nil {
		return err
	}
	extension := path.Ext(name)
	mediaType := imageTypes[extension]
	switch {
	case !regexp.MustCompile(fileName).MatchString(name):
		return fmt.Errorf("%s: a file's name may hold ASCII letters, digits, '.', '_' and '-'", name)
	case len(text) > maxBrandFile:
		return fmt.Errorf("%s is larger than %d bytes", name, maxBrandFile)
	case mediaType != "":
		b.images[name] = asset{text, mediaType}
	case name == "brand.css":
		b.css = text
	case extension == ".html":
		if _, err := fs.Stat(templates, "templates/"+name); err != nil {
			return fmt.Errorf("%s: there is no page of this name: the names are %s", name, strings.Join(templateNames(), ", "))
		}
		b.templates[name] = text
	default:
		return fmt.Errorf("%s: only *.html, brand.css, *.svg, *.png, *.webp and *.ico are used", name)
	}
	return nil
}

func templateNames() (names []string) {
	entries, err := fs.ReadDir(templates, "templates")
	if err != nil {
		panic(err) // it is part of the program
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// builtInAssets returns the assets that all sets without a brand share.
var builtInAssets = sync.OnceValues(brand{}.collectAssets)

// collectAssets overlays the built-in files with the operator's. The name of the
// style sheet depends on its content, so that browsers may cache it.
func (b brand) collectAssets() (assets map[string]asset, style string) {
	assets = map[string]asset{"icon.svg": {mustRead("static/icon.svg"), imageTypes[".svg"]}}
	maps.Copy(assets, b.images)
	css := mustRead("static/style.css")
	if len(b.css) > 0 {
		css = append(append(css, "\n/* brand.css */\n"...), b.css...)
	}
	sum := sha256.Sum256(css)
	style = "style-" + hex.EncodeToString(sum[:8]) + ".css"
	assets[style] = asset{css, "text/css; charset=utf-8"}
	return assets, style
}

func mustRead(name string) []byte {
	text, err := static.ReadFile(name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return text
}

// Asset returns a file that pages refer to, below BasePath + "/account/assets/". Only a
// name that begins with "style-" changes with its content.
func (s *Set) Asset(name string) (body []byte, mediaType string, ok bool) {
	a, ok := s.assets[name]
	return a.body, a.mediaType, ok
}

// forbidden matches content that the Content-Security-Policy of the pages blocks, which
// browsers report only in their console. check compiles the expressions, because commands
// need none.
var forbidden = []struct {
	found, why string
}{
	{`(?i)<script\b`, "the pages run no script"},
	{`(?i)<(style|iframe|frame|object|embed|base|audio|video)\b`, "browsers are told to refuse this element"},
	{`(?i)\son[a-z]+\s*=\s*["']`, "the pages run no script"},
	{`(?i)\sstyle\s*=`, "styles belong into brand.css"},
	{`(?i)\s(src|srcset)\s*=\s*["']?\s*([a-z]+:|//)`, "images come from this directory: {{asset \"NAME\"}}"},
	{`(?i)<link\b[^>]*\shref\s*=\s*["']?\s*([a-z]+:|//)`, "files come from this directory: {{asset \"NAME\"}}"},
}

const (
	cssComment = `(?s)/\*.*?\*/`
	cssImport  = `(?i)@import\b`
	cssURL     = `(?i)\burl\(\s*["']?([^"')\s]*)`
)

// check returns an error for the first content that browsers would block.
func (b brand) check(assets map[string]asset) error {
	for name, text := range b.templates {
		if !utf8.Valid(text) {
			return fmt.Errorf("%s is not UTF-8", name)
		}
		for _, f := range forbidden {
			if at := regexp.MustCompile(f.found).FindIndex(text); at != nil {
				return fmt.Errorf("%s:%d: %s: %s", name, line(text, at[1]), strings.TrimSpace(string(text[at[0]:at[1]])), f.why)
			}
		}
	}
	css := regexp.MustCompile(cssComment).ReplaceAllFunc(b.css, func(c []byte) []byte { return bytes.Repeat([]byte("\n"), bytes.Count(c, []byte("\n"))) })
	if at := regexp.MustCompile(cssImport).FindIndex(css); at != nil {
		return fmt.Errorf("brand.css:%d: @import: put the rules here", line(css, at[0]))
	}
	for _, at := range regexp.MustCompile(cssURL).FindAllSubmatchIndex(css, -1) {
		if name := string(css[at[2]:at[3]]); assets[name].body == nil {
			return fmt.Errorf("brand.css:%d: url(%s): it must be the name of an image in this directory", line(css, at[0]), name)
		}
	}
	return nil
}

// rehearse renders every sample in every locale, and checks that the forms of the
// operator's pages have all their fields.
func (s *Set) rehearse(b brand) error {
	if err := b.check(s.assets); err != nil {
		return err
	}
	for _, locale := range slices.Sorted(maps.Keys(s.locales)) {
		for _, sample := range Samples() {
			page, err := s.Render(locale, sample.Page)
			if err != nil {
				return fmt.Errorf("page %s (%s): %w", sample.Name, locale, err)
			}
			name := nameOf(sample.Page)
			for _, field := range fields[name] {
				if !regexp.MustCompile(`\sname=["']?` + field + `\b`).Match(page) {
					return fmt.Errorf("%s.html: its form has no field named %q", name, field)
				}
			}
		}
	}
	return nil
}

// line returns the number of the line that contains text[at].
func line(text []byte, at int) int { return 1 + bytes.Count(text[:at], []byte("\n")) }
