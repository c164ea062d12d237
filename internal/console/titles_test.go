package console_test

import (
	"html"
	"testing"

	"github.com/mintage/mintage/internal/operator"
)

// TestTitles: the title of a tab is the heading of its page, as people read it.
func TestTitles(t *testing.T) {
	r := open(t)
	r.shop("Tom & Jerry's <b>", "shop")
	alice := r.operator("alice", operator.Admin)
	title := func(body string) string {
		if m := onPage(body, `<title>(.*) – Console Example</title>`); len(m) == 1 {
			return html.UnescapeString(m[0])
		}
		t.Fatalf("a page without a title:\n%s", body)
		return ""
	}
	for want, body := range map[string]string{
		"Tom & Jerry's <b>":     alice.get("/clients/shop").Body.String(),
		"New user":              alice.get("/new/user").Body.String(),
		"There is nothing here": alice.get("/nothing").Body.String(),
	} {
		if got := title(body); got != want {
			t.Errorf("the title is %q, want %q", got, want)
		}
	}
}
