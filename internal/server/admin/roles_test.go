package admin_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	cases "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/server/admin"
)

// readingPosts are the POSTs that an auditor may send, because they change no setting.
var readingPosts = map[string]bool{"/admin/v1/probes": true, "/admin/v1/explain": true, "/admin/v1/checkup": true, "/admin/v1/assertions": true}

func TestTheRoleForEachRoute(t *testing.T) {
	a := newAdminAPI(t)
	api := admin.NewAPI(a.cases(), a.iss, a.logins, admin.Access{Socket: true}, slog.New(slog.DiscardHandler))
	handler := api.Handler()
	// ask returns the status for an actor who sends an invalid request.
	ask := func(rt admin.Route, role cases.Role) (int, adminapi.Problem) {
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(rt.Path, "none")
		r := httptest.NewRequest(rt.Method, path, strings.NewReader(`{"no such member":1}`))
		r = r.WithContext(admin.WithActor(t.Context(), cases.Actor{Via: cases.ViaToken, Name: "watch", Role: role}))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var p adminapi.Problem
		json.Unmarshal(w.Body.Bytes(), &p)
		return w.Code, p
	}
	before, err := a.faulty.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range api.Routes() {
		reads := rt.Method == http.MethodGet || readingPosts[rt.Path]
		if want := map[bool]cases.Role{true: cases.RoleAuditor, false: cases.RoleAdmin}[reads]; rt.Needs != want {
			t.Errorf("%s %s needs the role %q, want %q", rt.Method, rt.Path, rt.Needs, want)
		}
		if status, p := ask(rt, cases.RoleAuditor); reads == (status == http.StatusForbidden) || !reads && (p.Type != "urn:mintage:problem:role" || !strings.Contains(p.Detail, "token:watch has the role auditor")) {
			t.Errorf("%s %s: an auditor gets %d %+v", rt.Method, rt.Path, status, p)
		}
		if status, _ := ask(rt, cases.RoleAdmin); status == http.StatusForbidden {
			t.Errorf("%s %s: an admin gets %d", rt.Method, rt.Path, status)
		}
		if status, _ := ask(rt, ""); status != http.StatusForbidden {
			t.Errorf("%s %s: an actor without a role gets %d", rt.Method, rt.Path, status)
		}
	}
	if after, err := a.faulty.Changes(t.Context(), 0); err != nil || after.Version != before.Version {
		t.Errorf("something was written: version %d, was %d, %v", after.Version, before.Version, err)
	}
}

// A change honours If-Match if the description says so, and refuses it otherwise.
func TestIfMatchIsForTheChangesThatAreDescribedWithIt(t *testing.T) {
	text, err := os.ReadFile("../resource/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	a := newAdminAPI(t)
	handler := admin.NewAPI(a.cases(), a.iss, a.logins, admin.Access{Socket: true}, slog.New(slog.DiscardHandler))
	described := 0
	for _, rt := range handler.Routes() {
		if rt.Needs != cases.RoleAdmin {
			continue
		}
		var operation struct{ Parameters []struct{ Name string } }
		if err := json.Unmarshal(api.Paths[rt.Path][strings.ToLower(rt.Method)], &operation); err != nil {
			t.Fatalf("%s %s: %v", rt.Method, rt.Path, err)
		}
		looks := false
		for _, parameter := range operation.Parameters {
			looks = looks || parameter.Name == "If-Match"
		}
		if looks {
			described++
		}
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(rt.Path, "none")
		r := httptest.NewRequest(rt.Method, path, strings.NewReader(`{"no such member":1}`))
		r.Header.Set("If-Match", `"x"`)
		r = r.WithContext(admin.WithActor(t.Context(), cases.Actor{Via: cases.ViaToken, Name: "deploy", Role: cases.RoleAdmin}))
		w := httptest.NewRecorder()
		handler.Handler().ServeHTTP(w, r)
		var p adminapi.Problem
		json.Unmarshal(w.Body.Bytes(), &p)
		if refused := w.Code == http.StatusUnprocessableEntity && p.Field == "If-Match"; refused == looks {
			t.Errorf("%s %s: described with If-Match: %t; %d %+v", rt.Method, rt.Path, looks, w.Code, p)
		}
	}
	if described == 0 {
		t.Error("no change is described with If-Match")
	}
}

// A route without a role is available to nobody.
func TestNoRoleCoversNone(t *testing.T) {
	for _, r := range []cases.Role{cases.RoleAuditor, cases.RoleAdmin, "", "root"} {
		if r.Covers("") || r.Covers("root") {
			t.Errorf("%q covers no role", r)
		}
	}
}
