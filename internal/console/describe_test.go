package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/operator"
)

// TestFieldsAreDescribed: aria-describedby connects each hint, and the error of an invalid
// field, to its field, so that a screen reader reads them there (WCAG 2.2, 1.3.1 and
// 3.3.1).
func TestFieldsAreDescribed(t *testing.T) {
	r := open(t)
	r.shop("Shop", "shop")
	alice := r.operator("alice", operator.Admin)
	sent := func(path string, form url.Values) string {
		form.Set("once", operator.NewForm())
		w := alice.post(path, form)
		if w.Code != http.StatusUnprocessableEntity {
			t.Fatalf("%s: %d\n%s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	pages := map[string]string{
		"a client": sent("/new/client", url.Values{"kind": {"web"}, "name": {"Shop"}, "redirect_uris": {"http://shop.example/"}, "scope": {"read"}}),
		"settings": sent("/clients/shop/edit", url.Values{"name": {"Shop"}, "scope": {"read"}, "retry_window": {"abc"}}),
		"a user":   sent("/new/user", url.Values{"username": {"a b"}}),
		"an API":   sent("/new/api", url.Values{"id": {"orders"}, "name": {"Orders"}, "scopes": {"read"}}),
		"restore":  sent("/new/restore", url.Values{"backup_time": {"yesterday"}}),
	}
	for _, path := range []string{"/new/client?kind=native", "/clients/shop/edit", "/new/user", "/new/api", "/new/restore"} {
		pages[path] = alice.get(path).Body.String()
	}
	field := regexp.MustCompile(`<(?:input|textarea)[^>]*>`)
	for name, page := range pages {
		var described []string
		wrong := 0
		for _, tag := range field.FindAllString(page, -1) {
			var by []string
			if m := onPage(tag, `aria-describedby="([^"]*)"`); len(m) > 0 {
				by = strings.Fields(m[0])
			}
			for _, id := range by {
				if !strings.Contains(page, ` id="`+id+`"`) {
					t.Errorf("%s: no element has the id %s", name, id)
				}
			}
			described = append(described, by...)
			if strings.Contains(tag, "aria-invalid") {
				if wrong++; !slices.Contains(by, "error") {
					t.Errorf("%s: the error is not that of %s", name, tag)
				}
			}
		}
		if isForm := strings.HasPrefix(name, "/"); isForm == (wrong > 0) {
			t.Errorf("%s: %d fields are wrong", name, wrong)
		}
		hints := onPage(page, `<p class="hint"( id="[^"]*")?>`)
		for _, id := range hints {
			id = strings.TrimSuffix(strings.TrimPrefix(id, ` id="`), `"`)
			if !slices.Contains(described, id) {
				t.Errorf("%s: no field has the hint %q", name, id)
			}
		}
		if len(hints) == 0 {
			t.Errorf("%s has no hint", name)
		}
	}
}
