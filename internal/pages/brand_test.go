package pages_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mintage/mintage/internal/pages"
)

// dir returns a brand directory with files and their texts.
func dir(files ...string) fs.FS {
	d := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		d[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return d
}

func stylePath(t *testing.T, s *pages.Set) string {
	t.Helper()
	for _, link := range elements(render(t, s, "en", pages.SignedOut{}), "link") {
		if attr(link, "rel") == "stylesheet" {
			return strings.TrimPrefix(attr(link, "href"), "/account/assets/")
		}
	}
	t.Fatal("there is no style sheet")
	return ""
}

func TestBrandReplacesTemplatesStylesAndImages(t *testing.T) {
	s := newSet(t, pages.Options{Brand: dir(
		"brand.html", `<header><img src="{{asset "logo.png"}}" alt="Example Bank"></header>`,
		"footer.html", `<footer><a href="https://bank.example/privacy">Privacy</a></footer>`,
		"signed_out.html", `<h1>{{text "signed_out.title"}}</h1><p>Bye!</p>`,
		"brand.css", "/* a comment about url(x) */\n:root { --accent: #123456; --logo: url(logo.png); }",
		"logo.png", "\x89PNG",
		"icon.svg", "<svg/>",
		"seal.webp", "w", "favicon.ico", "i",
		".hidden", "x", "..data", "x",
	)})
	root := render(t, s, "en", pages.SignedOut{})
	if img := elements(root, "img"); len(img) != 1 || attr(img[0], "src") != "/account/assets/logo.png" || attr(img[0], "alt") != "Example Bank" {
		t.Error("brand.html is not used")
	}
	if text := textOf(root); !strings.Contains(text, "You are signed out Bye! Privacy") {
		t.Errorf("the page says %q", text)
	}
	if text := textOf(render(t, s, "ja", pages.SignedOut{})); !strings.Contains(text, "ログアウトしました Bye!") {
		t.Errorf("in Japanese the page says %q", text)
	}
	css, _, ok := s.Asset(stylePath(t, s))
	if ours, own := strings.Index(string(css), "--accent: #0b6b54"), strings.Index(string(css), "--accent: #123456"); !ok || ours < 0 || own < ours {
		t.Error("brand.css does not come after the style sheet")
	}
	for name, want := range map[string]string{"logo.png": "image/png", "icon.svg": "image/svg+xml", "seal.webp": "image/webp", "favicon.ico": "image/vnd.microsoft.icon"} {
		if body, mediaType, ok := s.Asset(name); !ok || mediaType != want || len(body) == 0 {
			t.Errorf("%s: %t %s", name, ok, mediaType)
		}
	}
	if icon, _, _ := s.Asset("icon.svg"); string(icon) != "<svg/>" {
		t.Error("the icon is not replaced")
	}
	if _, _, ok := s.Asset(".hidden"); ok {
		t.Error("a hidden file is served")
	}
	if plain := newSet(t, pages.Options{}); stylePath(t, plain) == stylePath(t, s) {
		t.Error("another style sheet has the same name: browsers would keep the old one")
	}
}

// A template from an earlier release may name texts that no longer exist.
func TestTemplatesOfEarlierReleasesGoOnWorking(t *testing.T) {
	s := newSet(t, pages.Options{Brand: dir("consent.html", `<h1>{{text "consent.heading" "client" .Client}}</h1><form>
<input name="id"><input name="step"><button class="strong" name="decision">x</button></form>
{{if .Local}}<p class="note" id="local">{{text "consent.local"}}</p>{{else if .Host}}<p class="note">{{text "consent.host" "host" .Host}}</p>{{end}}`)})
	for want, view := range map[string]pages.Consent{
		"only if you know print.example": {Client: "x", Host: "print.example"}, "a program on this device": {Client: "x", Host: "127.0.0.1", Local: pages.LocalProgram},
	} {
		if text := textOf(render(t, s, "en", view)); !strings.Contains(strings.ReplaceAll(text, " .", "."), want) {
			t.Errorf("the page does not say %q: %s", want, text)
		}
	}
}

const loginForm = `<form method="post" action="{{path "oauth2/interaction"}}">
<input type="hidden" name="id" value="{{.Interaction}}"><input type="hidden" name="step" value="login">
<input name="username"><input name=password type="password"></form>`

// A server with an invalid brand directory does not start, and names the place of the
// error.
func TestAMistakeInTheBrandDirectoryNamesItsFileAndLine(t *testing.T) {
	for name, c := range map[string]struct {
		files fs.FS
		want  []string
	}{
		"syntax":              {dir("login.html", "<h1>x</h1>\n{{if .Client}}\n"), []string{"login.html:3", "unexpected EOF"}},
		"unknown function":    {dir("layout.html", "\n\n{{shout .Title}}"), []string{"layout.html:3", `"shout"`}},
		"unknown field":       {dir("login.html", "\n"+loginForm+"{{.Usrname}}"), []string{"login.html:4", "Usrname"}},
		"in one state only":   {dir("login.html", loginForm+"\n{{if .Throttled}}{{.Minutes}}{{end}}"), []string{"login.html:4", "Minutes"}},
		"unknown text":        {dir("logout.html", "\n{{text \"logout.tilte\"}}"), []string{"logout.html:2", "logout.tilte"}},
		"value forgotten":     {dir("logout.html", "{{text \"logout.lead\"}}"), []string{"logout.html:1", "{name}"}},
		"value not used":      {dir("logout.html", "{{text \"logout.title\" \"name\" .Name}}"), []string{"logout.html:1", "logout.title"}},
		"unknown image":       {dir("brand.html", "<img src='{{asset \"logo.png\"}}' alt=x>"), []string{"brand.html:1", `"logo.png"`}},
		"unknown template":    {dir("brand.html", "{{template \"head.html\"}}"), []string{"brand.html:1", "head.html"}},
		"unsafe place":        {dir("logout.html", "\n<p title={{.Name}}\n"), []string{"logout.html"}},
		"field forgotten":     {dir("consent.html", `<form><input name="id"><input name="step"></form>`), []string{"consent.html", `"decision"`}},
		"script":              {dir("footer.html", "<footer>\n<script src='/x.js'></script></footer>"), []string{"footer.html:2", "<script"}},
		"handler":             {dir("footer.html", "<footer>\n\n<p onclick=\"x()\"></p>"), []string{"footer.html:3", "onclick"}},
		"inline style":        {dir("footer.html", "<p\n style='color: red'>"), []string{"footer.html:2", "brand.css"}},
		"style element":       {dir("footer.html", "<style>p {}</style>"), []string{"footer.html:1", "<style"}},
		"image elsewhere":     {dir("footer.html", "<img alt='' src=\"https://cdn.example/x.png\">"), []string{"footer.html:1", "this directory"}},
		"sheet elsewhere":     {dir("layout.html", "{{.Content}}\n<link rel=stylesheet href='//cdn.example/x.css'>"), []string{"layout.html:2", "this directory"}},
		"not UTF-8":           {dir("footer.html", "caf\xe9"), []string{"footer.html", "UTF-8"}},
		"unknown page":        {dir("signin.html", "x"), []string{"signin.html", "login.html"}},
		"unknown kind":        {dir("logo.jpg", "x"), []string{"logo.jpg", "*.svg"}},
		"another sheet":       {dir("style.css", "x"), []string{"style.css", "brand.css"}},
		"directory":           {dir("img/logo.svg", "x"), []string{"img", "directories"}},
		"odd name":            {dir("my logo.svg", "x"), []string{"my logo.svg", "ASCII"}},
		"large":               {dir("logo.svg", strings.Repeat("x", 1<<20+1)), []string{"logo.svg", "1048576"}},
		"CSS import":          {dir("brand.css", "\n@import 'x.css';"), []string{"brand.css:2", "@import"}},
		"CSS elsewhere":       {dir("brand.css", "/* two\nlines */\nbody { background: url(https://cdn.example/x.png) }"), []string{"brand.css:3", "https://cdn.example/x.png"}},
		"CSS of data":         {dir("brand.css", "body { background: url('data:image/png;base64,xxxx') }"), []string{"brand.css:1", "data:"}},
		"CSS misspelled":      {dir("brand.css", ":root {\n--logo: url( \"lgo.svg\" );\n}", "logo.svg", "<svg/>"), []string{"brand.css:2", "lgo.svg"}},
		"directory is absent": {absent{}, []string{"does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pages.New(pages.Options{Brand: c.files})
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
	// The form itself is valid.
	newSet(t, pages.Options{Brand: dir("login.html", loginForm)})
}

type absent struct{}

func (absent) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
