package pages_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/mintage/mintage/internal/pages"
)

// hostile are texts for a client's name, a hint, or a scope.
var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' autofocus onfocus='alert(1)`,
	`</title><script>alert(1)</script>`,
	`</bdi></main><form action=https://evil.example>`,
	`<!--`,
	`javascript:alert(1)`,
	`{{.Interaction}}{client}`,
	"a\x00b\r\nc\u2028d",
	`&lt;script&gt;`,
}

// structure returns a page without its text and attribute values.
func structure(root *html.Node) string {
	var b strings.Builder
	for _, n := range elements(root, "") {
		b.WriteString(n.Data)
		for _, a := range n.Attr {
			b.WriteString(" " + a.Key)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// fill writes text into every string of v, recursively. It skips a message's key, which
// is no input, and Bounce.URL and Message.Back, which are registered.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Slice:
		copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(copied, v)
		v.Set(copied)
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && f.Name != "URL" && f.Name != "Back" && f.Name != "Key" && f.Type.PkgPath() != "time" {
				fill(v.Field(i), text)
			}
		}
	}
}

func filled(page any, text string) any {
	v := reflect.New(reflect.TypeOf(page)).Elem()
	v.Set(reflect.ValueOf(page))
	fill(v, text)
	return v.Interface()
}

// UI-07: any input is only text. With a harmful name, in any field of any page, a page
// has the same elements and attributes as with a harmless one.
func TestHostileTextChangesNothingButText(t *testing.T) {
	s := newSet(t, pages.Options{BasePath: base})
	shown := 0
	for _, sample := range pages.Samples() {
		for _, locale := range pages.Locales {
			want := structure(render(t, s, locale, filled(sample.Page, "harmless")))
			for _, text := range hostile {
				root := render(t, s, locale, filled(sample.Page, text))
				if got := structure(root); got != want {
					t.Errorf("%s/%s: %q changes the page:\n%s", locale, sample.Name, text, got)
				}
				if strings.Contains(textOf(root), strings.Join(strings.Fields(text), " ")) {
					shown++
				}
			}
		}
	}
	if shown < 300 {
		t.Errorf("the texts occur only %d times: the pages may omit them", shown)
	}
}

func TestNamesCannotRearrangeTheWordsAroundThem(t *testing.T) {
	s := newSet(t, pages.Options{})
	const override = "evil\u202eelpmaxe\u2066\u200f\x07name"
	root := render(t, s, "en", filled(pages.Consent{Scopes: []pages.Scope{{}}, Known: []pages.Scope{{}}}, override))
	if text := textOf(root); strings.ContainsAny(text, "\u202e\u2066\u200f\x07") || !strings.Contains(text, "evilelpmaxename") {
		t.Errorf("direction marks remain: %q", text)
	}
	// Each name is isolated, so that its text direction ends with it.
	for _, n := range elements(root, "") {
		own := ""
		for c := range n.ChildNodes() {
			if c.Type == html.TextNode {
				own += c.Data
			}
		}
		if strings.Contains(own, "evilelpmaxename") && !slices.Contains([]string{"bdi", "li", "code"}, n.Data) {
			t.Errorf("a name stands in %s, without isolation", n.Data)
		}
	}
}

// A truncated host could look like another one.
func TestHostsAreShownWhole(t *testing.T) {
	s := newSet(t, pages.Options{})
	host := strings.Repeat("bank.example.", 18) + "evil.example"
	if len(host) > 253 || len(host) < 240 {
		t.Fatalf("a name in the DNS has at most 253 characters, and this one %d", len(host))
	}
	for _, page := range []any{pages.Login{Client: "x", Host: host}, pages.Consent{Client: "x", Host: host}, pages.Bounce{Host: host, URL: "https://x.example/"}} {
		if text := textOf(render(t, s, "en", page)); !strings.Contains(text, host) {
			t.Errorf("%T cuts the host", page)
		}
	}
}

func TestLongNamesEndWhereAnEllipsisSaysSo(t *testing.T) {
	s := newSet(t, pages.Options{})
	text := textOf(render(t, s, "en", pages.Logout{Name: strings.Repeat("長", 5000)}))
	if n := strings.Count(text, "長"); n < 100 || n > 300 || !strings.Contains(text, "長…") {
		t.Errorf("%d characters of a name are shown", n)
	}
	for _, sample := range pages.Samples() {
		page, err := s.Render("en", filled(sample.Page, strings.Repeat("x", 100)))
		if err != nil || len(page) > 20_000 {
			t.Error(fmt.Sprintf("%s has %d bytes", sample.Name, len(page)), err)
		}
	}
}
