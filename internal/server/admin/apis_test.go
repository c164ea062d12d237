package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

const orders = `{"name":"Orders","scopes":[{"name":"orders:read","texts":{"en":"Read","ja":"JA"}},{"name":"orders:write"}],"access_token_lifetime":null,"self_registered_clients":false}`

func (a *adminAPI) row(t *testing.T, id string) store.API {
	t.Helper()
	ch, err := a.faulty.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return ch.APIRow(id)
}

func TestTheSameAPIAppliedTwiceIsWrittenOnce(t *testing.T) {
	a := newAdminAPI(t)
	const id = "https://api.example.com/orders"
	path := "/apis/" + url.PathEscape(id)
	_, h := a.call(t, 201, "PUT", path, orders)
	etag := h.Get("ETag")
	if h.Get("Location") != "/admin/v1"+path {
		t.Errorf("it is at %s", h.Get("Location"))
	}
	first := a.row(t, id)
	if _, h := a.call(t, 200, "PUT", path, orders, "If-Match", etag); h.Get("ETag") != etag || a.row(t, id).Version != first.Version {
		t.Errorf("ETag %s, version %d", h.Get("ETag"), a.row(t, id).Version)
	}
	// The response can be sent back unchanged, under another spelling of the id.
	shown, _ := a.call(t, 200, "GET", "/apis/"+url.PathEscape("HTTPS://API.example.com/orders/"), "")
	if shown["id"] != id {
		t.Errorf("%v", shown)
	}
	a.call(t, 200, "PUT", path, `{"id":"https://api.example.com/orders/","name":"Orders","scopes":[{"name":"orders:read"}],"created_at":"2026-01-01T00:00:00Z"}`)
	a.refused(t, 412, "changed", "PUT", path, orders, "If-Match", etag)
	a.refused(t, 412, "changed", "DELETE", path, "", "If-Match", etag)
	a.refused(t, 409, "taken", "POST", "/apis", `{"id":"https://api.example.com/orders/","name":"Orders"}`)
	a.refused(t, 409, "conflict", "POST", "/apis", `{"id":"https://api.example.com/other","name":"Other","scopes":[{"name":"orders:read"}]}`)
	events, _ := a.call(t, 200, "GET", "/events?api="+url.QueryEscape(id), "")
	recorded := map[any]bool{} // events of one instant have no order
	for _, e := range events.list("events") {
		recorded[e["name"]] = e["actor"] == "token:admin.token_file"
	}
	if len(events.list("events")) != 2 || !recorded["api_created"] || !recorded["api_changed"] {
		t.Errorf("%v", events.list("events"))
	}
}

// Each change of the directory overtakes all others that have read it: a tool that registers
// ten APIs at once must not be told that somebody else has changed them.
func TestAnAPIIsRegisteredWhileOthersAre(t *testing.T) {
	a := newAdminAPI(t)
	a.faulty.Inject(storetest.CommitEntry, 30, storetest.Conflicts)
	a.call(t, 201, "PUT", "/apis/"+url.PathEscape("https://orders.example"), orders)
	a.faulty.Inject(storetest.CommitEntry, 99, storetest.Conflicts)
	a.refused(t, 409, "changed", "DELETE", "/apis/"+url.PathEscape("https://orders.example"), "")
	a.faulty.Heal()
}

// On one node, changes that would conflict wait for each other instead.
func TestChangesThatWouldConflictHaveTurns(t *testing.T) {
	a := newAdminAPI(t)
	for path, c := range map[string]struct {
		method storetest.Method
		body   string
	}{
		"/apis":         {storetest.CommitEntry, `{"id":"urn:example:%d","name":"A","scopes":[]}`},
		"/admin-tokens": {storetest.CommitDocument, `{"name":"t%d","role":"auditor"}`},
		"/operators":    {storetest.CommitDocument, `{"name":"o%d","role":"auditor"}`},
	} {
		var running, overtaken atomic.Int32
		a.faulty.Inject(c.method, 99, func(_ context.Context, do func() error) error {
			defer running.Add(-1)
			if running.Add(1) > 1 {
				overtaken.Add(1)
			}
			for range 1000 { // let the others come here, too
				runtime.Gosched()
			}
			return do()
		})
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() { a.call(t, 201, "POST", path, fmt.Sprintf(c.body, n)) })
		}
		all.Wait()
		a.faulty.Heal()
		if n := overtaken.Load(); n > 0 {
			t.Errorf("%s: %d changes were attempted beside another", path, n)
		}
	}
}

// A change can take long, such as the end of a trust with many grants. That a caller gives up
// meanwhile is no outage of the store.
func TestACallerWhoGivesUpItsTurnIsNoOutage(t *testing.T) {
	a := newAdminAPI(t)
	a.api.Outage = &store.Outage{Log: slog.New(slog.NewJSONHandler(&a.log, nil))}
	began, goOn := make(chan struct{}), make(chan struct{})
	a.faulty.Inject(storetest.CommitEntry, 1, func(_ context.Context, do func() error) error {
		close(began)
		<-goOn
		return do()
	})
	var first sync.WaitGroup
	first.Go(func() { a.call(t, 201, "POST", "/apis", `{"id":"urn:example:1","name":"A","scopes":[]}`) })
	<-began
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	r := httptest.NewRequestWithContext(ctx, "POST", "/admin/v1/apis", strings.NewReader(`{"id":"urn:example:2","name":"A","scopes":[]}`))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	w, line := a.send(t, r)
	close(goOn)
	first.Wait()
	if w.Code != 503 || line.Message != "admin request failed" {
		t.Errorf("%d %s, logged %+v", w.Code, w.Body, line)
	}
}

// A caller who goes away during an operation of the store, such as a command that is killed,
// is no outage of the store.
func TestACallerWhoGoesAwayIsNoOutage(t *testing.T) {
	a := newAdminAPI(t)
	a.api.Outage = &store.Outage{Log: slog.New(slog.NewJSONHandler(&a.log, nil))}
	for method, path := range map[storetest.Method]string{storetest.Events: "/events?subject=alice", storetest.Documents: "/users"} {
		a.faulty.Inject(method, 1, func(ctx context.Context, do func() error) error {
			return store.Unavailable(storetest.Hangs(ctx, do))
		})
		ctx, goAway := context.WithCancel(t.Context())
		goAway()
		r := httptest.NewRequestWithContext(ctx, "GET", "/admin/v1"+path, nil)
		r.Header.Set("Authorization", "Bearer "+adminToken)
		if w, line := a.send(t, r); w.Code != 503 || line.Level != "INFO" || line.Message != "admin request failed" {
			t.Errorf("%s: %d %s, logged %+v", path, w.Code, w.Body, line)
		}
	}
}

// A fault of the server stays an error, also after its caller has gone.
func TestAFaultIsAnErrorWhoeverHasGone(t *testing.T) {
	a := newAdminAPI(t)
	a.faulty.Inject(storetest.Documents, 1, func(context.Context, func() error) error { return errors.New("the row is damaged") })
	ctx, goAway := context.WithCancel(t.Context())
	goAway()
	r := httptest.NewRequestWithContext(ctx, "GET", "/admin/v1/users", nil)
	r.Header.Set("Authorization", "Bearer "+adminToken)
	if w, line := a.send(t, r); w.Code != 500 || line.Level != "ERROR" || line.Message != "admin request failed" {
		t.Errorf("%d %s, logged %+v", w.Code, w.Body, line)
	}
}

// A page that begins after a resource which was deleted meanwhile is not an error: the
// reader has that key from the page before.
func TestAPageContinuesAfterADeletedItem(t *testing.T) {
	a := newAdminAPI(t)
	for _, id := range []string{"a", "b", "c"} {
		a.call(t, 201, "POST", "/apis", `{"id":"https://`+id+`.example","name":"A","scopes":[{"name":"`+id+`"}]}`)
		a.call(t, 201, "PUT", "/clients/"+id, `{"name":"Build","grant_types":["client_credentials"],"apis":["https://`+id+`.example"]}`)
		a.call(t, 201, "POST", "/trusts", `{"issuer":"https://ci.example","kind":"workload","client_id":"`+id+`","subjects":["build"],"apis":["https://`+id+`.example"]}`)
	}
	for _, kind := range []string{"trusts", "apis", "clients"} {
		first, _ := a.call(t, 200, "GET", "/"+kind+"?limit=1", "")
		next := url.QueryEscape(first["next"].(string))
		whole, _ := a.call(t, 200, "GET", "/"+kind+"?limit=9", "")
		a.call(t, 204, "DELETE", "/"+kind+"/"+next, "")
		rest, _ := a.call(t, 200, "GET", "/"+kind+"?limit=9&after="+next, "")
		if got, want := fmt.Sprint(rest.list(kind)), fmt.Sprint(whole.list(kind)[1:]); got != want {
			t.Errorf("%s after the deleted one: %s, want %s", kind, got, want)
		}
	}
	a.call(t, 422, "GET", "/apis?after=https://none.example", "")
	a.call(t, 422, "GET", "/trusts?after=none", "")
}

func TestNumbersOfAPIsAndScopesAreNeverUsedAgain(t *testing.T) {
	a := newAdminAPI(t)
	const id = "https://api.example.com/orders"
	path := "/apis/" + url.PathEscape(id)
	a.call(t, 201, "PUT", path, orders)
	a.call(t, 201, "PUT", "/apis/"+url.PathEscape("https://two.example"), `{"name":"Two","scopes":[]}`)
	if p, _ := a.call(t, 422, "PUT", path, `{"name":"Orders"}`); p["field"] != "scopes" {
		t.Errorf("without scopes: %v", p)
	}
	a.call(t, 200, "PUT", path, `{"name":"Orders","scopes":[{"name":"orders:write"}]}`)
	a.call(t, 200, "PUT", path, orders)
	now := a.row(t, id)
	if read, _ := now.FindScope("orders:read"); read.Number != 3 || now.Number != 1 {
		t.Errorf("API %d, scope %d", now.Number, read.Number)
	}
	if write, _ := now.FindScope("orders:write"); write.Number != 2 {
		t.Errorf("a scope that stayed has number %d", write.Number)
	}
	a.call(t, 204, "DELETE", path, "")
	a.refused(t, 404, "not-found", "GET", path, "")
	a.refused(t, 412, "changed", "PUT", path, orders, "If-Match", "x")
	a.call(t, 201, "PUT", path, orders)
	again := a.row(t, id)
	if read, _ := again.FindScope("orders:read"); again.Number != 3 || read.Number != 4 || again.Deleted {
		t.Errorf("registered again: API %d, scope %d", again.Number, read.Number)
	}
}

// Keys and rows are kept for an API's longest-lived tokens, even if its tokens now live
// shorter, or it is deleted.
func TestTheLongestLifetimeOfAnAPIIsNeverForgotten(t *testing.T) {
	a := newAdminAPI(t)
	const id = "https://api.example.com/orders"
	path := "/apis/" + url.PathEscape(id)
	kept := func(when string) {
		t.Helper()
		if got := a.row(t, id).LongestLifetime.Duration(); got != 20*time.Hour {
			t.Errorf("%s: %s", when, got)
		}
	}
	put := func(status int, life string) {
		t.Helper()
		a.call(t, status, "PUT", path, `{"name":"Orders","scopes":[],"access_token_lifetime":`+life+`}`)
		kept(life)
	}
	put(201, `"20h"`)
	put(200, `"10m"`)
	put(200, `null`)
	a.call(t, 204, "DELETE", path, "")
	kept("deleted")
	put(201, `"10m"`)
}

func TestAWrongAPIIsRefusedByMember(t *testing.T) {
	a := newAdminAPI(t)
	for member, body := range map[string]string{
		"name":                  `{"id":"https://a.example","name":" "}`,
		"scopes":                `{"id":"https://a.example","name":"A","scopes":[{"name":"a b"}]}`,
		"default_scope":         `{"id":"https://a.example","name":"A","default_scope":"x"}`,
		"access_token_lifetime": `{"id":"https://a.example","name":"A","access_token_lifetime":"25h"}`,
		"id":                    `{"id":"https://a.example/?q","name":"A"}`,
	} {
		if p, _ := a.call(t, 422, "POST", "/apis", body); p["field"] != member {
			t.Errorf("%s: %v", member, p)
		}
	}
	if p, _ := a.call(t, 422, "PUT", "/clients/shop", `{"name":"Shop","redirect_uris":["https://shop.example/cb"],"scope":"read","apis":["https://nobody.example"]}`); p["field"] != "apis" {
		t.Errorf("%v", p)
	}
}

// The largest registration fits into a request, but would not fit for other resources.
func TestAnAPIWithTheMostScopesIsRegistered(t *testing.T) {
	a := newAdminAPI(t)
	api := adminapi.API{Name: "Large"}
	for i := range store.MaxAPIScopes {
		s := adminapi.APIScope{Name: fmt.Sprintf("%0100d", i), Texts: map[string]string{}}
		for _, language := range pages.Locales {
			s.Texts[language] = strings.Repeat("x", 255)
		}
		api.Scopes = append(api.Scopes, s)
	}
	body, err := json.Marshal(api)
	if err != nil {
		t.Fatal(err)
	}
	path := "/apis/" + url.PathEscape("https://large.example")
	if got, _ := a.call(t, 201, "PUT", path, string(body)); len(got.list("scopes")) != store.MaxAPIScopes {
		t.Errorf("%d scopes", len(got.list("scopes")))
	}
	a.call(t, 400, "PUT", path, `{"name":"`+strings.Repeat("x", 128<<10)+`"}`)
	a.call(t, 400, "POST", "/users", string(body))
}
