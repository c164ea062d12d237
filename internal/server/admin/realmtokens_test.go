package admin_test

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	cases "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/testkit"
)

// ofOneRealm are the first path elements of the resources that an actor of one realm may
// use there. All others are refused, including new ones until they are added here.
var ofOneRealm = []string{"clients", "apis", "users", "imports", "grants", "sessions", "cutoffs", "events", "codes", "logins", "realms", "trusts", "assertions", "explain", "audit"}

// For every route, an actor of one realm can use that realm's resources, and nothing of
// another realm or of the deployment.
func TestAnActorOfOneRealmStaysInIt(t *testing.T) {
	a := newAdminAPI(t)
	var list []*admin.API
	for _, realm := range []string{"/api", "/staff"} {
		own := a.cases()
		own.Realm = realm
		api := admin.NewAPI(own, a.iss, a.logins, admin.Access{Socket: true}, slog.New(slog.DiscardHandler))
		api.Realm = adminapi.Realm{Name: realm[1:]}
		list = append(list, api)
	}
	handler := admin.Realms(list)
	ask := func(rt admin.Route, of, at string, role cases.Role) (int, adminapi.Problem) {
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(rt.Path, "none")
		if at != "" {
			path = strings.Replace(path, "/admin/v1/", "/admin/v1/realms/"+at+"/", 1)
		}
		r := httptest.NewRequest(rt.Method, path, strings.NewReader(`{"no such member":1}`))
		r = r.WithContext(admin.WithActor(t.Context(), cases.Actor{Via: cases.ViaToken, Name: "desk", Role: role, Realm: of}))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var p adminapi.Problem
		json.Unmarshal(w.Body.Bytes(), &p)
		return w.Code, p
	}
	for _, rt := range list[0].Routes() {
		first, _, _ := strings.Cut(strings.TrimPrefix(rt.Path, "/admin/v1/"), "/")
		inside := slices.Contains(ofOneRealm, first) && rt.Path != "/admin/v1/audit/head"
		for _, c := range []struct {
			of, at string
			may    bool
		}{
			{"/staff", "staff", inside}, {"/api", "", inside}, {"/api", "api", inside},
			{"/staff", "", false}, {"/staff", "api", false}, {"/api", "staff", false}, {"/gone", "", false}, {"/gone", "staff", false},
		} {
			status, p := ask(rt, c.of, c.at, cases.RoleAdmin)
			if refused := status == http.StatusForbidden && p.Type == "urn:mintage:problem:realm"; refused == c.may {
				t.Errorf("%s %s at %q: an admin of %s gets %d %+v", rt.Method, rt.Path, c.at, c.of, status, p)
			}
			deployments := !inside || "/"+cmp.Or(c.at, "api") == c.of
			if !c.may && (strings.Contains(p.Detail, "belongs to the deployment") != deployments || strings.Contains(p.Advice, "name the realm") == deployments) {
				t.Errorf("%s %s at %q: an admin of %s reads %+v", rt.Method, rt.Path, c.at, c.of, p)
			}
			if status, _ := ask(rt, c.of, c.at, cases.RoleAuditor); rt.Needs == cases.RoleAdmin && status != http.StatusForbidden {
				t.Errorf("%s %s at %q: an auditor of %s gets %d", rt.Method, rt.Path, c.at, c.of, status)
			}
		}
	}
	for path, c := range map[string]struct {
		of    string
		names []string
	}{"/realms/staff/realms": {"/staff", []string{"staff"}}, "/realms": {"", []string{"api", "staff"}}} {
		r := httptest.NewRequest("GET", "/admin/v1"+path, nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(admin.WithActor(t.Context(), cases.Actor{Via: cases.ViaToken, Name: "desk", Role: cases.RoleAuditor, Realm: c.of})))
		var seen adminapi.Realms
		if err := json.Unmarshal(w.Body.Bytes(), &seen); err != nil || !slices.EqualFunc(seen.Realms, c.names, func(r adminapi.Realm, name string) bool { return r.Name == name }) {
			t.Errorf("the realms that an actor of %q sees: %s", c.of, w.Body)
		}
	}
	// Console operators are users of the default realm, and operate the whole realm.
	for _, api := range list {
		api.ConsoleURL = "https://console.example"
	}
	for _, rt := range list[0].Routes() {
		users := strings.HasPrefix(rt.Path, "/admin/v1/users") || strings.HasPrefix(rt.Path, "/admin/v1/imports")
		if status, p := ask(rt, "/api", "", cases.RoleAdmin); users && rt.Needs == cases.RoleAdmin && (status != http.StatusForbidden || !strings.Contains(p.Detail, "belongs to the deployment")) {
			t.Errorf("%s %s beside a console: an admin of the default realm gets %d %+v", rt.Method, rt.Path, status, p)
		}
		if status, p := ask(rt, "/api", "", cases.RoleAdmin); !users && strings.HasPrefix(rt.Path, "/admin/v1/clients") && status == http.StatusForbidden {
			t.Errorf("%s %s beside a console: an admin of the default realm gets %d %+v", rt.Method, rt.Path, status, p)
		}
		if status, p := ask(rt, "/api", "", cases.RoleAuditor); users && rt.Needs == cases.RoleAuditor && status == http.StatusForbidden {
			t.Errorf("%s %s beside a console: an auditor of the default realm gets %d %+v", rt.Method, rt.Path, status, p)
		}
		if status, p := ask(rt, "/staff", "staff", cases.RoleAdmin); users && p.Type != "" && status == http.StatusForbidden {
			t.Errorf("%s %s beside a console: an admin of another realm gets %d %+v", rt.Method, rt.Path, status, p)
		}
	}
}

func TestATokenOfOneRealm(t *testing.T) {
	a := newAdminAPI(t)
	if status, p := a.as(t, adminToken, "POST", "/admin-tokens", `{"name":"desk","role":"admin","realm":"unknown"}`); status != 422 || p.Field != "realm" {
		t.Errorf("a token of a realm that is not there: %d %+v", status, p)
	}
	made, _ := a.call(t, 201, "POST", "/admin-tokens", `{"name":"desk","role":"admin","realm":"`+testkit.Realm[1:]+`"}`)
	text, _ := made["token"].(string)
	if made["realm"] != testkit.Realm[1:] {
		t.Errorf("the answer has the realm %v", made["realm"])
	}
	if status, p := a.as(t, text, "GET", "/clients", ""); status != 200 {
		t.Errorf("the clients of its realm: %d %+v", status, p)
	}
	for method, path := range map[string]string{"GET": "/keys", "POST": "/admin-tokens"} {
		if status, p := a.as(t, text, method, path, `{"name":"more","role":"admin"}`); status != 403 || p.Type != "urn:mintage:problem:realm" {
			t.Errorf("%s %s: %d %+v", method, path, status, p)
		}
	}
	listed, _ := a.call(t, 200, "GET", "/admin-tokens", "")
	if got := listed.list("admin_tokens")[0]["realm"]; got != testkit.Realm[1:] {
		t.Errorf("the list has the realm %v", got)
	}
	for who, n := range map[string]int{adminToken: 1, text: 0} {
		if got, _ := a.call(t, 200, "GET", "/events?client_id=admin%20tokens", "", "Authorization", "Bearer "+who); len(got.list("events")) != n {
			t.Errorf("events of admin tokens: %v, want %d", got, n)
		}
	}
	events, err := a.faulty.Events(t.Context(), "admin tokens", 9)
	if err != nil || len(events) != 1 || !strings.Contains(events[0].Detail, "admin of the realm "+testkit.Realm[1:]) {
		t.Errorf("recorded %+v, %v", events, err)
	}
}

// The Location of a created resource is in the request's realm. A caller that follows it
// would otherwise change the resource with the same id in the default realm (RFC 9110
// section 10.2.2).
func TestTheLocationOfWhatIsCreatedIsInItsRealm(t *testing.T) {
	a := newAdminAPI(t)
	var list []*admin.API
	for _, realm := range []string{"/api", "/staff"} {
		own := a.cases()
		if own.Realm = realm; list == nil {
			own.OperatorRealm = realm
		}
		api := admin.NewAPI(own, a.iss, a.logins, admin.Access{Socket: true}, slog.New(slog.DiscardHandler))
		api.Realm = adminapi.Realm{Name: realm[1:]}
		list = append(list, api)
	}
	handler := admin.Realms(list)
	for _, c := range []struct{ path, body, at string }{
		{"/clients", `{"id":"shop","name":"Shop","redirect_uris":["https://shop.example/cb"],"scope":"read"}`, "/clients/shop"},
		{"/apis", `{"id":"https://a.example","name":"A","scopes":[]}`, "/apis/https:%2F%2Fa.example"},
		{"/users", `{"username":"bob"}`, "/users/bob"},
	} {
		for _, base := range []string{"/admin/v1", "/admin/v1/realms/staff"} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("POST", base+c.path, strings.NewReader(c.body)))
			if got := w.Header().Get("Location"); w.Code != http.StatusCreated || got != base+c.at {
				t.Errorf("POST %s%s: %d, at %q", base, c.path, w.Code, got)
			}
		}
	}
	for _, base := range []string{"/admin/v1", "/admin/v1/realms/staff"} { // operators are users of the default realm
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", base+"/operators", strings.NewReader(`{"name":"nobody","role":"admin"}`)))
		if w.Code < 400 || !strings.Contains(w.Body.String(), "nobody") {
			t.Errorf("an operator who is no user, at %s: %d %s", base, w.Code, w.Body)
		}
	}
	for path, want := range map[string]string{"/realms/none/clients": `there is no realm \"none\"`, "/realms/staff/nothing": "no such resource", "/realms/none": "no such realm"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/admin/v1"+path, nil))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), want) {
			t.Errorf("GET %s: %d %s, want %s", path, w.Code, w.Body, want)
		}
	}
}
