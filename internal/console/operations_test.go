package console_test

import (
	"context"
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/console"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// commands maps the operations of the admin API that the console calls to the commands
// with the same effect.
var commands = map[string]string{
	"GET clients": "client list", "POST clients": "client create", "GET clients/{}": "client show", "PUT clients/{}": "client update", "DELETE clients/{}": "client delete",
	"POST clients/{}/disable": "client disable", "POST clients/{}/enable": "client enable", "POST clients/{}/secrets": "client secret add", "DELETE clients/{}/secrets/{}": "client secret revoke",
	"GET clients/{}/watch": "client watch",
	"GET clients/{}/usage": "client usage", "GET apis/{}/consent": "api consent",
	"GET apis": "api list", "POST apis": "api create", "GET apis/{}": "api show", "PUT apis/{}": "api update", "DELETE apis/{}": "api delete",
	"GET users": "user list", "POST users": "user create", "GET users/{}": "user show", "POST users/{}/password": "user password", "POST users/{}/disable": "user disable",
	"POST users/{}/enable": "user enable", "DELETE users/{}/totp": "user totp",
	"GET grants": "grant list", "GET grants/{}": "grant show", "DELETE grants/{}": "grant revoke", "POST cutoffs": "grant revoke", "GET sessions": "session list", "POST sessions/end": "session end",
	"GET keys": "keys list", "POST keys/rotate": "keys rotate", "GET audit": "audit show", "GET audit/head": "audit head", "POST explain": "explain", "GET realms": "realm list", "GET restores": "restore", "POST restores": "restore",
	"GET admin-tokens": "admin token list", "GET operators": "operator list", "GET console/sessions": "console session list", "DELETE console/sessions/{}": "console session end",
	"GET traffic": "traffic", "GET checkup": "doctor", "POST checkup": "doctor", "GET settings": "config show",
}

// A visit is a response of the console, with the operations of the admin API that were
// called for it.
type visit struct {
	status     int
	body       string
	operations []string
}

// visit sends a valid request of an admin to each route of the console: first those that
// only read, then changes, and last those that end something (see rank). id is the id of
// the client, and name the name of everything that can have one.
func (r *fixture) visit(id, name string) map[string]visit {
	r.t.Helper()
	r.watch = func() adminapi.Watch { return adminapi.Watch{Finished: true} }
	alice := r.operator("alice", operator.Admin)
	r.operator("bob", operator.Auditor)
	printable := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return -1
		}
		return c
	}, name)
	c, _, err := r.cases.Clients().Create(r.t.Context(), client.Registration{ID: id, Settings: store.Settings{Name: printable, RedirectURIs: []string{"https://shop.example/cb"}, Scope: "read", Auth: store.AuthEither}}, store.ClientEnabled)
	if err != nil {
		r.t.Fatal(err)
	}
	g := storetest.Everyday(1)
	g.Subject, g.ClientID = name, id
	if err := r.store.CreateGrant(r.t.Context(), g); err != nil {
		r.t.Fatal(err)
	}
	r.audit.Record(audit.Event{Name: audit.TokenRefused, Outcome: audit.Refused, ClientID: name, Subject: name, Actor: name, Detail: name, RequestID: "r"})
	if _, _, err := r.cases.Users().Create(r.t.Context(), account.Registration{Username: "erin", Name: printable}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.cases.APIs().Create(r.t.Context(), adminapi.API{ID: "https://orders.example", Name: printable, Scopes: []adminapi.APIScope{{Name: "a", Texts: map[string]string{"en": printable}}}}); err != nil {
		r.t.Fatal(err)
	}
	sessions, err := operator.Sessions(r.t.Context(), r.store, grant.At(r.now))
	if err != nil {
		r.t.Fatal(err)
	}
	session := sessions[slices.IndexFunc(sessions, func(s operator.Session) bool { return s.Operator == "bob" })].ID()
	var operations []string
	api := r.console.API
	r.console.API = http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		operations = append(operations, operationOf(hr.Method, strings.TrimPrefix(hr.URL.EscapedPath(), "/admin/v1/")))
		api.ServeHTTP(w, hr)
	})
	routes := r.console.Routes()
	slices.SortStableFunc(routes, func(a, b console.Route) int {
		return rank(a) - rank(b)
	})
	all := map[string]visit{}
	for _, rt := range routes {
		if rt.Public {
			continue
		}
		form := forms(operator.NewForm(), c)[rt.Path]
		if rt.Path == "/explain" {
			form = url.Values{"text": {g.ID.String()}}
		}
		path := strings.NewReplacer("{$}", "", "{user}", "erin", "{api}", "https:%2F%2Forders.example", "{client}", url.PathEscape(c.ID), "{secret}", c.Secrets[0].ID, "{grant}", g.ID.String(), "{session}", session).Replace(rt.Path)
		if rt.Method == http.MethodGet && strings.HasSuffix(path, "s/end") || path == "/grants" {
			path += "?" + url.Values{"subject": {g.Subject}, "session": {"none"}}.Encode()
		} else if path == "/audit" {
			path += "?" + url.Values{"subject": {name}}.Encode()
		}
		ctx, cancel := context.WithCancel(r.t.Context())
		w := &reader{httptest.NewRecorder(), func(string) {
			if rt.Path == "/audit/follow" {
				cancel() // otherwise the page would keep growing
			}
		}}
		hr := httptest.NewRequestWithContext(ctx, rt.Method, origin+path, strings.NewReader(form.Encode()))
		hr.AddCookie(alice.cookie)
		if rt.Method == http.MethodPost {
			hr.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			hr.Header.Set("Origin", origin)
		}
		operations = nil
		r.handler.ServeHTTP(w, hr)
		cancel()
		all[rt.Method+" "+rt.Path] = visit{w.Code, w.Body.String(), operations}
	}
	return all
}

// operationOf returns the key in commands that matches a request, or else the request's
// method and path.
func operationOf(method, path string) string {
	is := method + " " + path
	if commands[is] != "" {
		return is
	}
	parts := strings.Split(path, "/")
	for known := range commands {
		of, pattern, _ := strings.Cut(known, " ")
		want := strings.Split(pattern, "/")
		if of == method && slices.EqualFunc(want, parts, func(w, p string) bool { return w == "{}" || w == p }) {
			return known
		}
	}
	return is
}

// rank orders the routes for visit.
func rank(rt console.Route) int {
	switch {
	case rt.Method == http.MethodGet:
		return 0
	case strings.Contains(rt.Path, "/delete"), strings.Contains(rt.Path, "/revoke"):
		return 3
	case strings.Contains(rt.Path, "/end"), strings.Contains(rt.Path, "/disable"):
		return 2
	}
	return 1
}

// Everything that the console does is an operation of the admin API and has a command.
// Foreign text is escaped on its pages.
func TestEveryPage(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(command string) bool { return strings.Contains(string(reference), "\n## mintage "+command+"\n") }
	all := open(t).visit("$(reboot)/'<b>", hostile[1]+hostile[4]+hostile[5])
	if len(all) < 55 {
		t.Fatalf("only %d pages were visited: the test does not find the routes", len(all))
	}
	used := map[string]bool{}
	for page, v := range all {
		changes := false
		for _, operation := range v.operations {
			used[operation] = true
			changes = changes || !strings.HasPrefix(operation, "GET ")
			if command := commands[operation]; command == "" || !documented(command) {
				t.Errorf("%s calls %s, whose command is %q", page, operation, command)
			}
		}
		if strings.HasPrefix(page, "POST ") && !changes {
			t.Errorf("%s is answered %d, and has called %q", page, v.status, v.operations)
		}
		if v.status >= 500 || v.status == http.StatusForbidden || v.status == http.StatusUnprocessableEntity {
			t.Errorf("%s: %d\n%s", page, v.status, v.body)
		}
		checkHostile(t, page, v.body)
	}
	for operation := range maps.Keys(commands) {
		// Enabling uses the form of disabling with another value, and usage is shown for
		// self-registered clients only.
		if !used[operation] && operation != "POST clients/{}/enable" && operation != "GET clients/{}/usage" {
			t.Errorf("no page calls %s", operation)
		}
	}
}

var (
	fields = regexp.MustCompile(` value="[^"]*"|(?s)<textarea.*?</textarea>`)
	// ours matches the script of a growing page.
	ours    = regexp.MustCompile(`<script type="module" async src="/assets/grow-[0-9a-f]+\.js"></script>`)
	command = regexp.MustCompile(`<code lang="en">((?:mintage|CLIENT_ID=\S+ \w+) [^<]*)</code>`)
)

// checkHostile checks that a page shows hostile names as text only, and that a shell
// parses its commands correctly.
func checkHostile(t *testing.T, page, body string) {
	t.Helper()
	shown := fields.ReplaceAllString(ours.ReplaceAllString(body, ""), "") // form fields have their values unchanged
	for _, bad := range []string{"<script", "<img", "\u202e", "</title><h1>", "\x1b", "<b>"} {
		if strings.Contains(shown, bad) {
			t.Errorf("%s has %q", page, bad)
		}
	}
	for _, m := range command.FindAllStringSubmatch(body, -1) {
		wordsOf(t, html.UnescapeString(m[1]))
	}
}

// wordsOf returns the words into which a shell splits a command, and fails if the shell
// runs anything else.
func wordsOf(t *testing.T, text string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "mintage() { printf '%s\\0' \"$@\"; }; node() { :; }; java() { :; }; reboot() { echo REBOOTED >&2; }\n"+text).CombinedOutput()
	if err != nil || strings.Contains(string(out), "REBOOTED") {
		t.Errorf("a shell reads %s as %q, %v", text, out, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// Names with special characters for a browser, a spreadsheet, a shell, a terminal or a
// reader are text on every page and in the export. In commands they are a single word.
func TestHostileNamesAreTextOnEveryPage(t *testing.T) {
	ids := []string{`"><script>alert(1)</script>`, "=1+1", "$(reboot)`reboot`';reboot;'", "-rf\\%s"}
	names := []string{`<script>alert(1)</script>`, "=HYPERLINK(\"http://evil.example\")\x1b[31mred\x1b]0;t\x07", "$(reboot)`reboot`'; reboot '-%s\\", "safe\u202eelbat\u2066x\u200b\u00adb\U000e0041"}
	for i, name := range names {
		id := ids[i]
		r := open(t)
		shown := 0
		for page, v := range r.visit(id, name) {
			checkHostile(t, page, v.body)
			if strings.Contains(v.body, html.EscapeString(console.Shown(name))) {
				shown++
			}
			want := map[string]string{"GET /clients/{client}": id, "GET /clients/{client}/edit": id, "GET /clients/{client}/delete": id, "GET /clients/{client}/watch": id, "GET /clients/{client}/secrets/{secret}/revoke": id,
				"GET /grants": name, "GET /audit": name}[page]
			if want == "" {
				continue
			}
			m := command.FindAllStringSubmatch(v.body, -1)
			if m == nil || !slices.ContainsFunc(m, func(m []string) bool { return slices.Contains(wordsOf(t, html.UnescapeString(m[1])), want) }) {
				t.Errorf("%s: no command has the word %q: %q", page, want, m)
			}
			if page == "GET /clients/{client}/edit" && !strings.ContainsFunc(name, unicode.IsControl) && !slices.Contains(wordsOf(t, html.UnescapeString(m[0][1])), name) {
				t.Errorf("%s: no word is %q: %q", page, name, m)
			}
		}
		if shown < 3 {
			t.Errorf("%q is on %d pages only: the test does not find the names", name, shown)
		}
		export := (&browser{fixture: r, cookie: r.cookieOf("alice")}).get("/audit/export").Body.String()
		if bad := strings.IndexFunc(export, func(c rune) bool { return c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)) }); bad >= 0 {
			t.Errorf("the export has %q", export[bad:][:9])
		}
		found := false
		for line := range strings.Lines(export) {
			var e audit.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil || strings.IndexByte("=+-@\t", line[0]) >= 0 {
				t.Errorf("a line of the export: %s, %v", line, err)
			}
			found = found || e.Subject == name && e.Detail == name && e.ClientID == name && e.Actor == name
		}
		if !found {
			t.Errorf("the export has lost %q:\n%s", name, export)
		}
	}
}
