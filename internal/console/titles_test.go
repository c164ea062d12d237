package console_test

import (
	"html"
	"net/http"
	"net/url"
	"testing"

	"github.com/mintage/mintage/internal/operator"
)

// TestTitles: the title of a tab is the heading of its page, as people read it. If a form is
// shown again because of an error, its title says so first, for screen readers.
func TestTitles(t *testing.T) {
	r := open(t)
	r.shop("Tom & Jerry's <b>", "shop")
	alice := r.operator("alice", operator.Admin)
	title := func(body string) string {
		if m := onPage(body, `<title>(.*) – (?:Console|コンソール) Example</title>`); len(m) == 1 {
			return html.UnescapeString(m[0])
		}
		t.Fatalf("a page without a title:\n%s", body)
		return ""
	}
	refused := func(locale string) string {
		return alice.do(http.MethodPost, "/new/user", url.Values{"once": {operator.NewForm()}, "username": {"a b"}}, func(r *http.Request) {
			r.Header.Set("Accept-Language", locale)
		}).Body.String()
	}
	for want, body := range map[string]string{
		"Tom & Jerry's <b>":     alice.get("/clients/shop").Body.String(),
		"New user":              alice.get("/new/user").Body.String(),
		"Error: New user":       refused("en"),
		"エラー： 新しいユーザー":          refused("ja"),
		"There is nothing here": alice.get("/nothing").Body.String(),
	} {
		if got := title(body); got != want {
			t.Errorf("the title is %q, want %q", got, want)
		}
	}
}
