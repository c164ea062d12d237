package admin_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cases "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// withAuditLog returns an admin API whose audit log has records of a realm, of another
// realm and of the deployment.
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
	api := admin.NewAPI(a.cases(), a.iss, a.logins, admin.Access{Configured: adminToken}, a.iss.Log)
	api.AuditDirectory, api.Audit = dir, log
	api.Explain = func(_ context.Context, in adminapi.ExplainRequest, realms []string) (any, error) {
		return adminapi.Explanation{Kind: "refresh", Notes: append([]string{in.Subject}, realms...)}, nil
	}
	a.api, a.handler = api, api.Handler()
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

// A server without records yet still has an audit log.
func TestTheFirstRecordIsWaitedFor(t *testing.T) {
	a := withAuditLog(t)
	log := audit.Open(audit.Options{Directory: t.TempDir(), Node: "b", Now: a.cases().Now, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { log.Close() })
	a.api.Audit = log
	a.call(t, http.StatusServiceUnavailable, "GET", "/audit/head", "")
}

// An explanation is requested with a body, and needs a server.
func TestExplanationsNeedAServer(t *testing.T) {
	a := withAuditLog(t)
	if answer, _ := a.call(t, http.StatusOK, "POST", "/explain", `{"text":"mintage_rt_x","subject":"alice"}`); answer["kind"] != "refresh" || !slices.Equal(answer["notes"].([]any), []any{"alice"}) {
		t.Errorf("the explanation: %v", answer)
	}
	a.call(t, http.StatusUnprocessableEntity, "POST", "/explain", `{"text":""}`)
	a.call(t, http.StatusMethodNotAllowed, "GET", "/explain?text=x", "")
	a.handler = admin.NewLocal(a.cases()).Handler()
	a.refused(t, http.StatusConflict, "no-server", "POST", "/explain", `{"text":"x"}`)
	a.refused(t, http.StatusConflict, "no-audit-log", "GET", "/audit", "")
	a.refused(t, http.StatusConflict, "no-audit-log", "GET", "/audit/head", "")
}

// An actor of one realm reads that realm's records, including in explanations, and none
// of the deployment.
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
	a.api.Realm.Name = testkit.Realm[1:]
	own := a.cases()
	own.Realm = "/other"
	other := admin.NewAPI(own, a.iss, a.logins, admin.Access{Configured: adminToken}, slog.New(slog.DiscardHandler))
	other.AuditDirectory, other.Realm.Name = a.api.AuditDirectory, "other"
	for _, list := range [][]*admin.API{{a.api}, {a.api, other}} {
		a.handler = admin.Realms(list)
		if body := ask("POST", "/admin/v1/explain", `{"text":"x","subject":"alice"}`); !strings.Contains(body, `["alice","`+testkit.Realm+`"]`) {
			t.Errorf("explained, of %d realms: %s", len(list), body)
		}
	}
	// The deployment's records are shown in the default realm, and not here.
	if found, _ := a.call(t, 200, "GET", "/realms/other/audit", ""); len(found.list("records")) != 1 || found.list("records")[0]["request_id"] != "elsewhere" {
		t.Errorf("the records of another realm: %v", found)
	}
}

// At most two searches run at once, each with a time limit, and further ones are refused.
// Changes do not wait for searches. A failed search is no empty result, and only the log
// has the reason.
func TestSearchesAreFewAndMayFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := withAuditLog(t)
		end := make(chan struct{})
		a.api.Explain = func(ctx context.Context, _ adminapi.ExplainRequest, _ []string) (any, error) {
			<-ctx.Done() // the search has a time limit
			<-end
			return nil, errors.New("the file is torn")
		}
		answers := make(chan *httptest.ResponseRecorder, 4)
		for range cap(answers) {
			go func() {
				r := httptest.NewRequest("POST", "/admin/v1/explain", strings.NewReader(`{"text":"x"}`))
				r.Header.Set("Authorization", "Bearer "+adminToken)
				w := httptest.NewRecorder()
				a.handler.ServeHTTP(w, r)
				answers <- w
			}()
		}
		synctest.Wait()
		began := time.Now()
		if a.call(t, 201, "POST", "/users", `{"username":"bob"}`); time.Since(began) != 0 {
			t.Errorf("a change waits for %s", time.Since(began))
		}
		for range 2 {
			if w := <-answers; w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "other searches") {
				t.Errorf("a search too many: %d %s", w.Code, w.Body)
			}
		}
		close(end)
		for range 2 {
			if w := <-answers; w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "torn") {
				t.Errorf("a search that fails: %d %s", w.Code, w.Body)
			}
		}
		torn := 0
		for line := range strings.Lines(a.log.String()) {
			if strings.Contains(line, "the file is torn") && strings.Contains(line, `"level":"ERROR"`) {
				torn++
			}
		}
		if torn != 2 {
			t.Errorf("logged %s", a.log.String())
		}
	})
	a := withAuditLog(t)
	a.api.AuditDirectory = filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(a.api.AuditDirectory, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.call(t, http.StatusInternalServerError, "GET", "/audit", "")
}

// The audit log records refused callers, each code that a program has requested, and each
// change, with the request and its address.
func TestWhatTheAdminAPIRecords(t *testing.T) {
	a := newAdminAPI(t)
	dir := t.TempDir()
	log := audit.Open(audit.Options{Directory: dir, Node: "a", Now: a.cases().Now, Log: slog.New(slog.DiscardHandler)})
	audited := a.cases()
	audited.Store = audit.NewStore(audited.Store, log)
	a.api = admin.NewAPI(audited, a.iss, a.logins, admin.Access{Configured: adminToken}, a.iss.Log)
	a.api.Realm.Name, a.api.Audit = testkit.Realm[1:], log
	a.handler = admin.Realms([]*admin.API{a.api})
	watch, desk := a.newToken(t, `{"name":"watch","role":"auditor"}`), a.newToken(t, `{"name":"desk","role":"admin","realm":"api"}`)
	cases := []struct {
		token, method, path, body string
		status                    int
		want                      audit.Entry
	}{
		{"", "GET", "/keys", "", 401, audit.Entry{Event: audit.AdminAuthFailed, Outcome: audit.Refused, Detail: "no token"}},
		{" ", "GET", "/keys", "", 401, audit.Entry{Event: audit.AdminAuthFailed, Outcome: audit.Refused, Detail: "no token"}},
		{"guess", "GET", "/keys", "", 401, audit.Entry{Event: audit.AdminAuthFailed, Outcome: audit.Refused, Detail: "unknown token"}},
		{watch, "POST", "/keys/rotate", "", 403, audit.Entry{Event: audit.AdminForbidden, Outcome: audit.Refused, Actor: "token:watch", Detail: "POST /admin/v1/keys/rotate"}},
		{desk, "GET", "/keys", "", 403, audit.Entry{Event: audit.AdminForbidden, Outcome: audit.Refused, Actor: "token:desk", Detail: "GET /admin/v1/keys, outside of the realm api"}},
		{desk, "POST", "/codes", goodCode, 201, audit.Entry{Event: audit.CodeIssued, Outcome: audit.Success, Realm: testkit.Realm, ClientID: "billing", Subject: "alice@example.com", Actor: "token:desk", Detail: "scope openid read"}},
		{desk, "POST", "/clients/billing/disable", "", 200, audit.Entry{Event: audit.Name(store.EventClientChanged), Outcome: audit.Success, Realm: testkit.Realm, ClientID: "billing", Actor: "token:desk", Detail: "disabled"}},
	}
	var ids []string
	for _, c := range cases {
		r := httptest.NewRequest(c.method, "/admin/v1"+c.path, strings.NewReader(c.body))
		r.RemoteAddr = "192.0.2.7:4711"
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(c.token))
		}
		w := httptest.NewRecorder()
		if a.handler.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
		ids = append(ids, w.Header().Get("X-Request-Id"))
	}
	if err := a.api.Audit.Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		list, _, err := audit.Last(t.Context(), dir, audit.Filter{RequestID: ids[i]}, 0, 9)
		if err != nil || len(list) != 1 {
			t.Errorf("%s %s as %.6q: %d records, %v", c.method, c.path, c.token, len(list), err)
			continue
		}
		got := list[0]
		if (got.GrantID != "") != (c.status == 201) {
			t.Errorf("%s: the grant is %q", got.Event, got.GrantID)
		}
		c.want.RequestID, c.want.RemoteIP, c.want.Node = ids[i], "192.0.2.7", "a"
		c.want.Seq, c.want.Time, c.want.GrantID, c.want.Prev, c.want.MAC = got.Seq, got.Time, got.GrantID, got.Prev, got.MAC
		if got != c.want {
			t.Errorf("recorded %+v, want %+v", got, c.want)
		}
	}
}
