package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	operator "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const adminToken = "0123456789abcdef0123456789abcdef"

// An adminAPI is the admin API of an issuer with one client, and its log.
type adminAPI struct {
	api     *admin.API
	handler http.Handler
	iss     *issuer.Issuer
	logins  *login.Authorizer
	now     time.Time
	faulty  *storetest.Faulty
	log     bytes.Buffer
}

func newAdminAPI(t *testing.T) *adminAPI {
	t.Helper()
	a := &adminAPI{now: time.Now().Truncate(time.Second)}
	log := slog.New(slog.NewJSONHandler(&a.log, nil))
	kit := testkit.New(t, func(s *testkit.Setup) {
		s.Now, s.Log, s.Schedule = func() time.Time { return a.now }, log, keys.Schedule{}
		s.Clock.Set(a.now)
	})
	kit.Register(client.Registration{ID: "billing", Settings: store.Settings{Name: "Billing", RedirectURIs: []string{"https://client.example/cb"}, Scope: "openid read", Auth: store.AuthEither, NoPKCE: true}})
	a.iss, a.faulty = kit.Issuer, kit.Faulty
	a.logins = login.New(a.iss, login.Documents{Realm: testkit.Realm, Store: a.iss.Store, Directory: a.iss.Directory, Now: a.iss.Now})
	a.logins.Interactions.Lifetime, a.logins.ContinueURL = 10*time.Minute, "https://auth.example.com/oauth2/interaction?id="
	a.logins.Sessions.Lifetime, a.logins.Idle = time.Hour, time.Hour
	api := admin.NewAPI(a.cases(), a.iss, a.logins, admin.Access{Configured: adminToken}, log)
	api.Service = "auth.example.com"
	a.api = api
	api.Realm.Name = testkit.Realm[1:]
	a.handler = admin.Realms([]*admin.API{api})
	return a
}

// cases returns the operator's use cases on the issuer's store.
func (a *adminAPI) cases() operator.Admin {
	policy := a.iss.Policy
	policy.CodeLifetime = a.iss.CodeLifetime
	return operator.Admin{
		Store: a.iss.Store, Realm: testkit.Realm, Policy: policy, Policies: map[string]grant.Policy{testkit.Realm: policy, "/other": {AccessLifetime: time.Hour, CodeLifetime: time.Second}}, Schedule: a.iss.Directory.Schedule, Now: a.iss.Now,
		KEK: a.iss.Directory.KEK,
		Ring: func(context.Context) (*keys.Ring, error) {
			view, err := a.iss.Directory.View()
			if err != nil {
				return nil, store.Unavailable(err)
			}
			return view.Ring, nil
		},
		Changed: func(ctx context.Context) { _ = a.iss.Directory.Poll(ctx) },
		Settle:  a.iss.Directory.Settle,
	}
}

// A logLine contains the members of a log line that these tests read.
type logLine struct {
	Level     string `json:"level"`
	Message   string `json:"msg"`
	RequestID string `json:"request_id"`
	RemoteIP  string `json:"remote_ip"`
	Status    int    `json:"status"`
	GrantID   string `json:"grant_id"`
	Field     string `json:"field"`
	Path      string `json:"path"`
}

// send returns the response and the one log line about the request.
func (a *adminAPI) send(t *testing.T, r *http.Request) (*httptest.ResponseRecorder, logLine) {
	t.Helper()
	a.log.Reset()
	r.RemoteAddr = "192.0.2.7:4711"
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	var line logLine
	if err := json.Unmarshal(a.log.Bytes(), &line); err != nil {
		t.Fatalf("logged %q: %v", a.log.String(), err)
	}
	return w, line
}

const goodCode = `{"client_id":"billing","redirect_uri":"https://client.example/cb","subject":"alice@example.com"}`

func TestEveryAnswerOfTheAdminAPIHasAnIDThatIsInTheLog(t *testing.T) {
	a := newAdminAPI(t)
	for name, c := range map[string]struct {
		method, path, token, body string
		status                    int
		level                     string
		header                    [2]string
	}{
		"a code":          {"POST", "/admin/v1/codes", adminToken, goodCode, 201, "INFO", [2]string{"Content-Type", "application/json"}},
		"no token":        {"POST", "/admin/v1/codes", "", goodCode, 401, "WARN", [2]string{"Www-Authenticate", "Bearer"}},
		"another token":   {"POST", "/admin/v1/codes", adminToken + "0", goodCode, 401, "WARN", [2]string{"Www-Authenticate", "Bearer"}},
		"a secret path":   {"GET", "/admin/v1/logins/alice", "", "", 401, "WARN", [2]string{}},
		"a stranger":      {"GET", "/", "", "", 401, "WARN", [2]string{"Www-Authenticate", "Bearer"}},
		"no JSON":         {"POST", "/admin/v1/codes", adminToken, "client_id=billing", 400, "INFO", [2]string{"Content-Type", "application/problem+json"}},
		"two values":      {"POST", "/admin/v1/codes", adminToken, goodCode + goodCode, 400, "INFO", [2]string{"Content-Type", "application/problem+json"}},
		"too much":        {"POST", "/admin/v1/codes", adminToken, `{"subject":"` + strings.Repeat("alice@", 4<<10) + `"}`, 400, "INFO", [2]string{}},
		"another member":  {"POST", "/admin/v1/codes", adminToken, `{"user":"alice@example.com"}`, 400, "INFO", [2]string{}},
		"another client":  {"POST", "/admin/v1/codes", adminToken, strings.Replace(goodCode, "billing", "mail", 1), 422, "INFO", [2]string{}},
		"another method":  {"GET", "/admin/v1/codes", adminToken, "", 405, "INFO", [2]string{"Allow", "POST"}},
		"another path":    {"POST", "/admin/v1/nothing", adminToken, goodCode, 404, "INFO", [2]string{}},
		"a path to clean": {"POST", "/admin//v1/codes", adminToken, goodCode, 404, "INFO", [2]string{}},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w, line := a.send(t, r)
		if w.Code != c.status || c.header[0] != "" && w.Header().Get(c.header[0]) != c.header[1] {
			t.Errorf("%s: %d %v, want %d", name, w.Code, w.Header(), c.status)
		}
		if id := w.Header().Get("X-Request-Id"); len(id) != 16 || line.RequestID != id {
			t.Errorf("%s: id %q, logged as %q", name, id, line.RequestID)
		}
		if line.Level != c.level || line.RemoteIP != "192.0.2.7" || c.status >= 400 && line.Status != c.status {
			t.Errorf("%s: logged as %+v", name, line)
		}
		if c.status == 201 && (line.Message != "code issued" || line.GrantID == "") || c.status == 422 && line.Field != "client_id" {
			t.Errorf("%s: logged as %+v", name, line)
		}
		want := "(unknown)"
		switch {
		case strings.HasPrefix(c.path, "/admin/v1/logins"):
			want = "/admin/v1/logins/{challenge}"
		case c.path == "/admin/v1/codes" && c.status != 401:
			want = c.path
		}
		if c.status != 201 && line.Path != want {
			t.Errorf("%s: the path is logged as %q, want %q", name, line.Path, want)
		}
		// The subject identifies a person, and the code and the token are secrets.
		var answer adminapi.CodeAnswer
		json.Unmarshal(w.Body.Bytes(), &answer)
		for _, text := range []string{"alice", adminToken, answer.Code} {
			if text != "" && strings.Contains(a.log.String(), text) {
				t.Errorf("%s: the log holds %.5s...", name, text)
			}
		}
	}
}

func TestAFaultOfTheStoreIsInTheLogOfTheAdminAPI(t *testing.T) {
	a := newAdminAPI(t)
	a.faulty.Inject(storetest.Changes, 1, storetest.Lost)
	r := httptest.NewRequest("POST", "/admin/v1/codes", strings.NewReader(strings.Replace(goodCode, "billing", "mail", 1)))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	w, line := a.send(t, r)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v, want 503", w.Code, w.Header())
	}
	if line.Level != "ERROR" || line.RequestID != w.Header().Get("X-Request-Id") || !strings.Contains(a.log.String(), storetest.ErrInjected.Error()) {
		t.Errorf("logged %q", a.log.String())
	}
	// Nothing was stored: the same request may succeed later.
	a.faulty.Inject(storetest.CommitDocument, 1, storetest.Full)
	a.call(t, 503, "PUT", "/clients/shop", invoices)
}

// A list that cannot be read is not reported as empty.
func TestNoAnswerHidesAFaultOfTheStore(t *testing.T) {
	a := newAdminAPI(t)
	id, query := a.makeGrant(t, 1, "alice"), map[string]string{"/sessions": "?subject=alice", "/events": "?subject=alice"}
	// These paths need a server or an audit log, or read only the memory of this process.
	without := regexp.MustCompile("^/(clients/billing/watch|audit.*|traffic|checkup|settings|realms|logins/.*|probes/.*)$")
	for _, rt := range a.api.Routes() {
		path := strings.TrimPrefix(rt.Path, "/admin/v1")
		for name, value := range map[string]string{"{grant}": id, "{client}": "billing"} {
			path = strings.ReplaceAll(path, name, value)
		}
		if rt.Method != http.MethodGet || without.MatchString(path) {
			continue
		}
		for _, m := range storetest.Methods {
			a.faulty.Inject(m, 9, storetest.Lost)
		}
		if status, p := a.as(t, adminToken, "GET", path+query[path], ""); status < 500 {
			t.Errorf("%s: %d %+v", path, status, p)
		}
		a.faulty.Heal()
	}
}

// Changes run one at a time, because each may hash a password. If too many wait, a change
// is refused and not made.
func TestChangesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdminAPI(t)
		let := make(chan struct{})
		a.faulty.Inject(storetest.CommitDocument, 4, storetest.Blocks(let))
		create := func(ctx context.Context, name string) int {
			r := httptest.NewRequestWithContext(ctx, "POST", "/admin/v1/users", strings.NewReader(`{"username":"`+name+`"}`))
			r.Header.Set("Authorization", "Bearer "+adminToken)
			w := httptest.NewRecorder()
			a.handler.ServeHTTP(w, r)
			return w.Code
		}
		made := make(chan int, 4)
		for i := range cap(made) {
			go func() { made <- create(t.Context(), "user-"+strconv.Itoa(i)) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if status := create(ctx, "fifth"); status != http.StatusServiceUnavailable {
			t.Errorf("a fifth change: %d", status)
		}
		a.call(t, 200, "GET", "/users", "") // reading does not wait
		close(let)
		for range cap(made) {
			if status := <-made; status != http.StatusCreated {
				t.Errorf("a change: %d", status)
			}
		}
		if all, _ := a.call(t, 200, "GET", "/users", ""); len(all.list("users")) != 4 {
			t.Errorf("%d users", len(all.list("users")))
		}
	})
}

// A patient recorder records that the write deadline was removed.
type patient struct {
	*httptest.ResponseRecorder
	lifted bool
}

func (p *patient) SetWriteDeadline(at time.Time) error {
	p.lifted = at.IsZero()
	return nil
}

// Responses that depend on all grants may take longer than others.
func TestAnswersThatMayTakeTime(t *testing.T) {
	a := newAdminAPI(t)
	for request, lifted := range map[[3]string]bool{
		{"GET", "/grants", ""}:                                          true,
		{"POST", "/cutoffs", `{"subject":"alice"}`}:                     true,
		{"POST", "/sessions/end", `{"subject":"alice"}`}:                true,
		{"POST", "/keys/withdraw", `{"purposes":["mac"]}`}:              true,
		{"POST", "/restores", `{"backup_time":"2026-01-01T00:00:00Z"}`}: true,
		{"GET", "/users", ""}:                                           false, {"POST", "/users", `{"username":"bob"}`}: false,
	} {
		r := httptest.NewRequest(request[0], "/admin/v1"+request[1], strings.NewReader(request[2]))
		r.Header.Set("Authorization", "Bearer "+adminToken)
		w := &patient{ResponseRecorder: httptest.NewRecorder()}
		if a.handler.ServeHTTP(w, r); w.Code >= 300 || w.lifted != lifted {
			t.Errorf("%s: %d %s, lifted: %t", request[:2], w.Code, w.Body, w.lifted)
		}
	}
}
