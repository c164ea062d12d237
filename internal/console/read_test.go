package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/testkit"
)

// TestAllGrantsOfASubjectAreSeen: the pages show each grant once. The question before
// ending a grant names the grant, and the page after it lists its subject's grants.
func TestAllGrantsOfASubjectAreSeen(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	list := testkit.PutGrants(t, r.store, 60)
	var want, seen []string
	for _, g := range list {
		if g.Subject == list[0].Subject {
			want = append(want, g.ID.String())
		}
	}
	at := "/grants?" + url.Values{"subject": {list[0].Subject}}.Encode()
	for pages := 1; at != ""; pages++ {
		body := alice.get(at).Body.String()
		seen, at = append(seen, onPage(body, `href="/grants/([0-9a-f]{32})"`)...), ""
		if next := onPage(body, `href="(/grants\?[^"]*after=[^"]*)"`); len(next) > 0 {
			at = html.UnescapeString(next[0])
		}
		if pages > 3 {
			t.Fatal("the list does not end")
		}
	}
	slices.Sort(want)
	if slices.Sort(seen); len(want) <= 50 || !slices.Equal(seen, want) {
		t.Errorf("%d of %d grants are on the pages", len(seen), len(want))
	}
	g := list[0]
	question := alice.get("/grants/" + g.ID.String() + "/end").Body.String()
	for _, text := range []string{g.ID.String(), g.ClientID, g.Subject, string(g.Scope), "mintage grant revoke " + g.ID.String()} {
		if !strings.Contains(question, html.EscapeString(text)) {
			t.Errorf("the question lacks %q:\n%s", text, question)
		}
	}
	w := alice.post("/grants/"+g.ID.String()+"/end", nil)
	if to := w.Header().Get("Location"); to != "/grants?"+(url.Values{"done": {"grant"}, "subject": {g.Subject}}).Encode() {
		t.Errorf("the end leads to %s", to)
	}
	if w := alice.get("/nowhere"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "There is nothing here") {
		t.Errorf("an unknown address: %d\n%s", w.Code, w.Body)
	}
}

// onPage returns what a pattern captures on a page.
func onPage(body, pattern string) (list []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(body, -1) {
		list = append(list, m[1])
	}
	return list
}
