package admin_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	cases "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/testkit"
)

// withAuditLog returns an admin API whose audit log has records of a realm, of another
// one and of the deployment.
func withAuditLog(t *testing.T) *adminAPI {
	t.Helper()
	a := newAdminAPI(t)
	dir := t.TempDir()
	log := audit.Open(audit.Options{Directory: dir, Node: "a", Now: a.cases().Now, Log: slog.New(slog.DiscardHandler)})
	log.Record(audit.Event{Name: audit.ServerStarted})
	for i := range 5 {
		log.Record(audit.Event{Name: audit.CodeRedeemed, Realm: testkit.Realm, ClientID: "billing", Subject: "alice", RequestID: "r" + strconv.Itoa(i)})
	}
	log.Record(audit.Event{Name: audit.TokenRefused, Realm: "/other", ClientID: "billing", RequestID: "elsewhere"})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	api := admin.NewAPI(a.cases(), a.iss, a.logins, admin.Access{Configured: adminToken}, slog.New(slog.DiscardHandler))
	api.AuditDirectory, api.Audit = dir, log
	api.Explain = func(_ context.Context, in adminapi.ExplainRequest, realms []string) (any, error) {
		return adminapi.Explanation{Kind: "refresh", Notes: append([]string{in.Subject}, realms...)}, nil
	}
	a.handler = api.Handler()
	return a
}

func TestTheAuditLogIsSearched(t *testing.T) {
	a := withAuditLog(t)
	requests := func(query string) (list []string, next string) {
		answer, _ := a.call(t, http.StatusOK, "GET", "/audit?"+query, "")
		for _, e := range answer.list("records") {
			id, _ := e["request_id"].(string)
			list = append(list, id)
		}
		if n, ok := answer["next"].(float64); ok {
			next = strconv.FormatFloat(n, 'f', 0, 64)
		}
		return list, next
	}
	all, next := requests("client_id=billing")
	if want := []string{"r4", "r3", "r2", "r1", "r0"}; !slices.Equal(all, want) || next != "" {
		t.Errorf("of a client: %q, %q; those of another realm belong to nobody here", all, next)
	}
	var paged []string
	for before := "0"; before != ""; {
		var page []string
		page, before = requests("event=code_redeemed&limit=2&before=" + before)
		paged = append(paged, page...)
	}
	if !slices.Equal(paged, all) {
		t.Errorf("in pages: %q", paged)
	}
	if started, _ := requests("event=server_started"); len(started) != 1 {
		t.Errorf("of the deployment: %q", started)
	}
	if none, _ := requests("since=2200-01-01T00:00:00Z"); len(none) != 0 {
		t.Errorf("of the future: %q", none)
	}
	for _, query := range []string{"event=nothing", "since=yesterday", "until=1", "before=x", "limit=0", "other=1"} {
		a.call(t, http.StatusUnprocessableEntity, "GET", "/audit?"+query, "")
	}
	head, _ := a.call(t, http.StatusOK, "GET", "/audit/head", "")
	if hash, _ := head["hash"].(string); len(hash) != 64 || head["seq"].(float64) < 7 {
		t.Errorf("the last record: %v", head)
	}
}

// An explanation is asked for in a body, and needs a server.
func TestExplanationsNeedAServer(t *testing.T) {
	a := withAuditLog(t)
	if answer, _ := a.call(t, http.StatusOK, "POST", "/explain", `{"text":"mintage_rt_x","subject":"alice"}`); answer["kind"] != "refresh" || answer["notes"].([]any)[0] != "alice" {
		t.Errorf("the explanation: %v", answer)
	}
	a.call(t, http.StatusUnprocessableEntity, "POST", "/explain", `{"text":""}`)
	a.call(t, http.StatusMethodNotAllowed, "GET", "/explain?text=x", "")
	a.handler = admin.NewLocal(a.cases()).Handler()
	a.refused(t, http.StatusConflict, "no-server", "POST", "/explain", `{"text":"x"}`)
	a.refused(t, http.StatusConflict, "no-audit-log", "GET", "/audit", "")
	a.refused(t, http.StatusConflict, "no-audit-log", "GET", "/audit/head", "")
}

// Whoever is of one realm sees its records, also in explanations, and none of the
// deployment.
func TestRecordsOfOneRealm(t *testing.T) {
	a := withAuditLog(t)
	ask := func(method, path, body string) string {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r = r.WithContext(admin.WithActor(t.Context(), cases.Actor{Via: cases.ViaToken, Name: "desk", Role: cases.RoleAuditor, Realm: testkit.Realm}))
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r)
		return w.Body.String()
	}
	if body := ask("GET", "/admin/v1/audit", ""); strings.Count(body, `"event"`) != 5 || strings.Contains(body, "server_started") {
		t.Errorf("the records: %s", body)
	}
	if body := ask("POST", "/admin/v1/explain", `{"text":"x","subject":"alice"}`); !strings.Contains(body, `["alice","`+testkit.Realm+`"]`) {
		t.Errorf("explained: %s", body)
	}
}
