package console_test

import (
	"context"
	"fmt"
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

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/console"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// commands are the commands that do what the operations of the admin API do that the
// console calls.
var commands = map[string]string{
	"GET clients": "client list", "POST clients": "client create", "GET clients/{}": "client show", "PUT clients/{}": "client update", "DELETE clients/{}": "client delete",
	"POST clients/{}/disable": "client disable", "POST clients/{}/enable": "client enable", "POST clients/{}/secrets": "client secret add", "DELETE clients/{}/secrets/{}": "client secret revoke",
	"GET clients/{}/watch": "client watch",
	"GET apis":             "api list", "POST apis": "api create", "GET apis/{}": "api show", "PUT apis/{}": "api update", "DELETE apis/{}": "api delete",
	"GET users": "user list", "POST users": "user create", "GET users/{}": "user show", "POST users/{}/password": "user password", "POST users/{}/disable": "user disable",
	"POST users/{}/enable": "user enable", "DELETE users/{}/totp": "user totp",
	"GET grants": "grant list", "GET grants/{}": "grant show", "DELETE grants/{}": "grant revoke", "POST cutoffs": "grant revoke", "GET sessions": "session list", "POST sessions/end": "session end",
	"GET keys": "keys list", "GET audit": "audit show", "GET audit/head": "audit head", "POST explain": "explain", "GET realms": "realm list", "GET restores": "restore", "POST restores": "restore",
	"GET admin-tokens": "admin token list", "GET operators": "operator list", "GET console/sessions": "console session list", "DELETE console/sessions/{}": "console session end",
	"GET traffic": "traffic", "GET checkup": "doctor", "POST checkup": "doctor", "GET settings": "config show",
}

// A visit is an answer of the console, and the operations of the admin API that it took.
type visit struct {
	status     int
	body       string
	operations []string
}

// visit sends each route of the console a valid request of an admin, changes after all
// that only reads, and what ends something last. The names of all things are hostile.
func (r *room) visit() map[string]visit {
	r.t.Helper()
	r.watch = func() adminapi.Watch { return adminapi.Watch{Finished: true} }
	alice := r.operator("alice", operator.Admin)
	r.operator("bob", operator.Auditor)
	name := hostile[1] + hostile[4] + hostile[5]
	c, _, err := r.cases.Clients().Create(r.t.Context(), client.Registration{ID: "$(reboot)/'<b>", Settings: store.Settings{Name: name, RedirectURIs: []string{"https://shop.example/cb"}, Scope: "read", Auth: store.AuthEither}}, store.ClientEnabled)
	if err != nil {
		r.t.Fatal(err)
	}
	g := testkit.PutGrants(r.t, r.store, 1)[0]
	if _, _, err := r.cases.Users().Create(r.t.Context(), account.Registration{Username: "erin", Name: hostile[0]}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.cases.APIs().Create(r.t.Context(), adminapi.API{ID: "https://orders.example", Name: hostile[1], Scopes: []adminapi.APIScope{{Name: "a", Texts: map[string]string{"en": hostile[5]}}}}); err != nil {
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
		}
		ctx, cancel := context.WithCancel(r.t.Context())
		w := &reader{httptest.NewRecorder(), func(string) {
			if rt.Path == "/audit/follow" {
				cancel() // it would go on
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

// operationOf returns the entry of commands that a request is of, or what the request is.
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

// rank orders what is visited.
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

// All that the console does is an operation of the admin API and a command, and what it
// shows of others is text.
func TestEveryPage(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(command string) bool { return strings.Contains(string(reference), "\n## mintage "+command+"\n") }
	all := open(t).visit()
	if len(all) < 55 {
		t.Fatalf("%d pages were visited: this test looks in the wrong place", len(all))
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
		if !used[operation] && operation != "POST clients/{}/enable" { // it is the form of disable, with another value
			t.Errorf("no page calls %s", operation)
		}
	}
}

var (
	fields  = regexp.MustCompile(` value="[^"]*"|(?s)<textarea.*?</textarea>`)
	command = regexp.MustCompile(`<code lang="en">((?:mintage|CLIENT_ID=\S+ \w+) [^<]*)</code>`)
)

// checkHostile checks that a page has nothing of hostile names but text, and that a shell
// reads its commands as commands.
func checkHostile(t *testing.T, page, body string) {
	t.Helper()
	shown := fields.ReplaceAllString(body, "") // what can be edited is as it is
	for _, bad := range []string{"<script", "<img", "\u202e", "</title><h1>", "\x1b", "<b>"} {
		if strings.Contains(shown, bad) {
			t.Errorf("%s has %q", page, bad)
		}
	}
	for _, m := range command.FindAllStringSubmatch(body, -1) {
		text := html.UnescapeString(m[1])
		out, err := exec.Command("sh", "-c", "mintage() { printf '%s\\n' \"$@\"; }; node() { :; }; java() { :; }; reboot() { echo REBOOTED; }\n"+text).CombinedOutput()
		if err != nil || strings.Contains(string(out), "REBOOTED") {
			t.Errorf("%s: a shell reads %s as %q, %v", page, text, out, fmt.Sprint(err))
		}
	}
}
