package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/operator"
)

// The overview lists problems, the worst first, and charts the responses. An auditor may
// run a check-up.
func TestOverview(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	body := bob.get("/?period=hour").Body.String()
	for _, text := range []string{
		"it has expired", "renew it", "&lt;b&gt;one&lt;/b&gt; ends soon", "Last checked 7 min ago", "mintage traffic --period hour",
		`<svg viewBox="0 0 12 100"`, `d="M1 0h1v100h-1zM11 97h1v3h-1z"`, `<strong>201</strong>`, `<code lang="en">invalid_grant</code>`, "At most 200 in one step.", ">tokens of the admin API</a>",
	} {
		if !strings.Contains(body, text) {
			t.Errorf("the overview lacks %s\n%s", text, body)
		}
	}
	if strings.Index(body, "it has expired") > strings.Index(body, "ends soon") {
		t.Error("a warning is before a fault")
	}
	for _, text := range []string{"all is well", "invalid_scope"} {
		if strings.Contains(body, text) {
			t.Errorf("the overview has %s", text)
		}
	}
	if body := bob.get("/checkup").Body.String(); !strings.Contains(body, "all is well") {
		t.Error("the page of findings lacks the passed checks")
	}
	if w := bob.post("/checkup", nil); w.Code != http.StatusSeeOther || r.checkups != 1 {
		t.Errorf("check now: %d, %d", w.Code, r.checkups)
	}
	for period, width := range map[string]string{"week": "168", "day": "288", "year": "288"} {
		if body := bob.get("/?period=" + period).Body.String(); !strings.Contains(body, `viewBox="0 0 `+width+` 100"`) {
			t.Errorf("%s has another number of steps", period)
		}
	}
}

// The settings show their sources, and what a reload of the configuration would change.
func TestSettings(t *testing.T) {
	body := open(t).operator("bob", operator.Auditor).get("/settings").Body.String()
	for _, text := range []string{"/var/lib/&lt;mintage&gt;", "--data", "a reload changes it", "mintage config show --running"} {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %s\n%s", text, body)
		}
	}
	if strings.Count(body, ">Files</summary>") != 1 {
		t.Error("a group is there twice")
	}
	if n := strings.Count(body, "a reload changes it"); n != 2 || !strings.Contains(body, "<code>realms.staff.login.mode</code>") {
		t.Errorf("%d settings are marked\n%s", n, body)
	}
}
