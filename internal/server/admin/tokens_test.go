package admin_test

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/store/storetest"
)

// as sends a request with a token, and returns the status and the problem.
func (a *adminAPI) as(t *testing.T, token, method, path, body string) (int, adminapi.Problem) {
	t.Helper()
	r := httptest.NewRequest(method, "/admin/v1"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	var p adminapi.Problem
	json.Unmarshal(w.Body.Bytes(), &p)
	return w.Code, p
}

// newToken creates a token, and returns its text.
func (a *adminAPI) newToken(t *testing.T, body string) string {
	t.Helper()
	made, _ := a.call(t, 201, "POST", "/admin-tokens", body)
	text, _ := made["token"].(string)
	if !strings.HasPrefix(text, "mintage_op_") || len(text) != len("mintage_op_")+43 {
		t.Fatalf("the token is %.14s...", text)
	}
	return text
}

func TestTokensOfTheAdminAPI(t *testing.T) {
	a := newAdminAPI(t)
	operator := a.newToken(t, `{"name":"alice","role":"admin","expires_in":"30d"}`)
	auditor := a.newToken(t, `{"name":"watch","role":"auditor"}`)
	if status, p := a.as(t, auditor, "POST", "/admin-tokens", `{"name":"more","role":"admin"}`); status != 403 || p.Type != "urn:mintage:problem:role" || !strings.Contains(p.Advice, "--role admin") {
		t.Errorf("an auditor makes a token: %d %+v", status, p)
	}
	if status, p := a.as(t, auditor, "GET", "/clients", ""); status != 200 {
		t.Errorf("an auditor reads: %d %+v", status, p)
	}
	if status, p := a.as(t, operator, "POST", "/clients/billing/disable", ""); status != 200 {
		t.Errorf("an admin changes: %d %+v", status, p)
	}
	events, err := a.faulty.Events(t.Context(), "billing", 9)
	if last := events[len(events)-1]; err != nil || last.Actor != "token:alice" {
		t.Errorf("recorded %+v, %v", last, err)
	}
	listed, _ := a.call(t, 200, "GET", "/admin-tokens", "")
	for i, want := range []object{
		{"name": "alice", "role": "admin", "state": "active", "created_by": "token:admin.token_file"},
		{"name": "watch", "role": "auditor", "state": "active", "created_by": "token:admin.token_file"},
	} {
		got := listed.list("admin_tokens")[i]
		for member := range want {
			if got[member] != want[member] {
				t.Errorf("%s is %v, want %v", member, got[member], want[member])
			}
		}
		if got["last_used_at"] != a.now.UTC().Format(time.RFC3339) {
			t.Errorf("%s was last used at %v", got["name"], got["last_used_at"])
		}
	}
	r := httptest.NewRequest("GET", "/admin/v1/clients", nil)
	r.Header.Set("Authorization", "Basic "+operator)
	w := httptest.NewRecorder()
	if a.handler.ServeHTTP(w, r); w.Code != 401 {
		t.Errorf("a token by another scheme: %d", w.Code)
	}
	// The holder of a token can see its expiry.
	a.now = a.now.Add(30 * 24 * time.Hour)
	if status, p := a.as(t, operator, "GET", "/clients", ""); status != 401 || !strings.Contains(p.Detail, `"alice" expired on`) {
		t.Errorf("an expired token: %d %+v", status, p)
	}
	if listed, _ = a.call(t, 200, "GET", "/admin-tokens", ""); listed.list("admin_tokens")[0]["state"] != "expired" {
		t.Errorf("%v", listed)
	}
	a.call(t, 204, "DELETE", "/admin-tokens/watch", "")
	for name, token := range map[string]string{"revoked": auditor, "unknown": "mintage_op_" + strings.Repeat("0", 43), "not one": "x", "its name": "watch"} {
		if status, p := a.as(t, token, "GET", "/clients", ""); status != 401 || p.Detail != "the token is wrong, or was revoked" {
			t.Errorf("%s: %d %+v", name, status, p)
		}
	}
	list, err := a.faulty.Events(t.Context(), "admin tokens", 9)
	var names []string
	for _, e := range list {
		names = append(names, string(e.Name)+" "+strings.Split(e.Detail, ":")[0])
	}
	if want := []string{"admin_token_created alice", "admin_token_created watch", "admin_token_revoked watch"}; err != nil || len(names) != 3 || !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("recorded %q, %v", names, err)
	}
	for _, secret := range []string{operator, auditor} {
		if strings.Contains(a.log.String(), secret) {
			t.Error("the log holds a token")
		}
	}
}

func TestRefusedTokensOfTheAdminAPI(t *testing.T) {
	a := newAdminAPI(t)
	a.newToken(t, `{"name":"watch","role":"auditor","expires_in":"366d"}`)
	for body, field := range map[string]string{
		`{"name":"admin.token_file","role":"admin"}`:                  "name",
		`{"name":"","role":"admin"}`:                                  "name",
		`{"name":"a b","role":"admin"}`:                               "name",
		`{"name":"a","role":"root"}`:                                  "role",
		`{"name":"a"}`:                                                "role",
		`{"name":"a","role":"admin","expires_in":"367d"}`:             "expires_in",
		`{"name":"a","role":"admin","expires_in":"0s"}`:               "expires_in",
		`{"name":"` + strings.Repeat("a", 41) + `","role":"auditor"}`: "name",
	} {
		if p, _ := a.call(t, 422, "POST", "/admin-tokens", body); p["field"] != field {
			t.Errorf("%s: %v", body, p)
		}
	}
	a.refused(t, 409, "taken", "POST", "/admin-tokens", `{"name":"watch","role":"admin"}`)
	a.refused(t, 404, "not-found", "DELETE", "/admin-tokens/none", "")
	for i := range 49 {
		a.newToken(t, `{"name":"`+strings.Repeat("x", 38)+string(rune('A'+i/26))+string(rune('a'+i%26))+`","role":"auditor"}`)
	}
	if p, _ := a.call(t, 422, "POST", "/admin-tokens", `{"name":"one-more","role":"auditor"}`); p["field"] != "name" {
		t.Errorf("%v", p)
	}
}

// While the store cannot be read, no token is finally refused.
func TestATokenIsNotRefusedBecauseOfTheStore(t *testing.T) {
	a := newAdminAPI(t)
	watch := a.newToken(t, `{"name":"watch","role":"auditor"}`)
	a.faulty.Inject(storetest.Document, 1, storetest.Lost)
	if status, p := a.as(t, watch, "GET", "/keys", ""); status != 503 {
		t.Errorf("%d %+v", status, p)
	}
	if status, p := a.as(t, watch, "GET", "/keys", ""); status != 200 {
		t.Errorf("%d %+v", status, p)
	}
}

// The last use is stored once an hour, and a failure to store it is no error.
func TestTheLastUseOfATokenIsWrittenOnceAnHour(t *testing.T) {
	a := newAdminAPI(t)
	watch := a.newToken(t, `{"name":"watch","role":"auditor"}`)
	used := func() any {
		listed, _ := a.call(t, 200, "GET", "/admin-tokens", "")
		return listed.list("admin_tokens")[0]["last_used_at"]
	}
	first := a.now.UTC().Format(time.RFC3339)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, first}, {59 * time.Minute, first}, {time.Minute, a.now.Add(time.Hour).UTC().Format(time.RFC3339)}} {
		a.now = a.now.Add(step.after)
		if status, p := a.as(t, watch, "GET", "/keys", ""); status != 200 {
			t.Fatalf("%d %+v", status, p)
		}
		if got := used(); got != step.want {
			t.Errorf("after %s: %v, want %s", step.after, got, step.want)
		}
	}
	a.now = a.now.Add(time.Hour)
	a.faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
	if status, p := a.as(t, watch, "GET", "/keys", ""); status != 200 {
		t.Errorf("the use cannot be written: %d %+v", status, p)
	}
}

// Operators can be invited if there is a console, and only in an existing realm.
func TestOperatorsAndInvitations(t *testing.T) {
	a := newAdminAPI(t)
	if p, _ := a.call(t, 422, "POST", "/operators", `{"name":"bob","role":"auditor","realm":"unknown"}`); p["field"] != "realm" {
		t.Errorf("%v", p)
	}
	a.call(t, 201, "POST", "/operators", `{"name":"bob","role":"auditor","realm":"api"}`)
	a.refused(t, 409, "taken", "POST", "/operators", `{"name":"bob","role":"auditor"}`)
	a.refused(t, 409, "no-console", "POST", "/console/invitations", `{"operator":"bob"}`)
	a.api.ConsoleURL = "https://console.example/"
	made, _ := a.call(t, 201, "POST", "/console/invitations", `{"operator":"bob"}`)
	if link, _ := made["url"].(string); !strings.HasPrefix(link, "https://console.example/invitation/") || len(link) < 60 || strings.Contains(a.log.String(), link) {
		t.Errorf("%v", made)
	}
	a.refused(t, 404, "not-found", "POST", "/console/invitations", `{"operator":"carol"}`)
	listed, _ := a.call(t, 200, "GET", "/operators", "")
	if list := listed.list("operators"); len(list) != 1 || list[0]["name"] != "bob" || list[0]["realm"] != "api" {
		t.Errorf("%v", listed)
	}
	a.call(t, 204, "DELETE", "/operators/bob", "")
	a.refused(t, 404, "not-found", "DELETE", "/operators/bob", "")
	a.refused(t, 404, "not-found", "DELETE", "/console/sessions/none", "")
}
